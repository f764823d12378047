"""Makes the loops of a source, and the calls of its top function, known to the co-simulation.

    for (init; test; step) body     switch (loop l(__LINE__, __FILE__); 0) default:
                                        for (init; l.test() && (test) && l.iterate(); step) body

A `switch` with an initialization holds the loop's object without a bracket behind the loop, so what follows the loop
stays as it is. The text is that of dataflow.py, whose regions are processes already; no line gets another number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..cpp_lexer import is_word, lex
from ..cpp_tokens import Edits, Token, behind, direct
from ..escape import cpp_string

_LOOP = "::sim::cosim::loop"


def instrumented(text: str, top: str) -> str:
    """The text with its loops, and calls of `top`, known to the co-simulation."""
    tokens = [Token(m[0], m.start(), m.end(), kind == "directive") for kind, m in lex(text)]
    edits = Edits()
    constant = _constant_functions(tokens)
    for number, token in enumerate(tokens):
        if token.is_directive or any(begin <= number < end for begin, end in constant):
            continue
        if token.text == "for":
            _for(tokens, edits, number)
        elif token.text == "while" and not _closes_do(tokens, number):
            _while(tokens, edits, number)
        elif token.text == "do":
            _do(tokens, edits, number)
        elif token.text in ("run", "task"):
            _name_arguments(tokens, edits, number)
    for brace in _bodies(tokens, top):
        edits.insert(tokens[brace].end, f" ::sim::cosim::top_call fpga_top({cpp_string(top)});")
    return edits.applied(text)


def _name_arguments(tokens: Sequence[Token], edits: Edits, number: int) -> None:
    """Adds what a process names to the text of its call: the ends of streams that it has not used so far."""
    before = tokens[max(0, number - 2) : number]
    if len(before) < 2 or not before[0].text.startswith("fpga_region_") or before[1].text != ".":
        return
    callee = tokens[number + 2]
    words = sorted({t.text for t in tokens[number + 3 : behind(tokens, number + 1)] if is_word(t.text)})
    edits.insert(callee.end - 1, f"({' '.join(words)})")


def _name(token: Token) -> str:
    return f"fpga_loop_{token.begin}"


def _declare(tokens: Sequence[Token], edits: Edits, number: int) -> str:
    """Declares the object of a loop in front of it, and returns its name."""
    name = _name(tokens[number])
    edits.insert(tokens[number].begin, f"switch ({_LOOP} {name}(__LINE__, __FILE__); 0) default: ")
    return name


def _for(tokens: Sequence[Token], edits: Edits, number: int) -> None:
    if number + 1 >= len(tokens) or tokens[number + 1].text != "(":
        return
    end = behind(tokens, number + 1)
    parts = [i for i in direct(tokens, number + 2, end - 1) if tokens[i].text == ";"]
    if len(parts) != 2:  # over a range
        body = _first(tokens, end)
        if body < len(tokens) and tokens[body].text == "{":
            name = _declare(tokens, edits, number)
            edits.insert(tokens[body].end, f" {name}.begin();")
        return
    name = _declare(tokens, edits, number)
    first, second = parts
    if second == first + 1:
        edits.insert(tokens[second].begin, f" {name}.begin()")
        return
    edits.insert(tokens[first].end, f" {name}.test() && (")
    edits.insert(tokens[second].begin, f") && {name}.iterate()")


def _while(tokens: Sequence[Token], edits: Edits, number: int) -> None:
    if number + 1 >= len(tokens) or tokens[number + 1].text != "(":
        return
    end = behind(tokens, number + 1)
    if any(tokens[i].text == "=" and is_word(tokens[i - 2].text) and is_word(tokens[i - 1].text)
           for i in direct(tokens, number + 2, end - 1) if i > number + 3):  # fmt: skip
        return  # a declaration
    name = _declare(tokens, edits, number)
    edits.insert(tokens[number + 1].end, f"{name}.test() && (")
    edits.insert(tokens[end - 1].begin, f") && {name}.iterate()")


def _do(tokens: Sequence[Token], edits: Edits, number: int) -> None:
    body = _first(tokens, number + 1)
    if body >= len(tokens) or tokens[body].text != "{":
        return
    name = _declare(tokens, edits, number)
    edits.insert(tokens[body].end, f" {name}.begin();")


def _first(tokens: Sequence[Token], at: int) -> int:
    """The first token from a position on that is no directive."""
    while at < len(tokens) and tokens[at].is_directive:
        at += 1
    return at


def _closes_do(tokens: Sequence[Token], number: int) -> bool:
    """Whether a `while` is the end of a `do`."""
    if number + 1 >= len(tokens) or tokens[number + 1].text != "(":
        return False
    end = behind(tokens, number + 1)
    if end >= len(tokens) or tokens[end].text != ";" or not number or tokens[number - 1].text != "}":
        return False
    depth = 0
    for i in range(number - 1, -1, -1):
        if tokens[i].is_directive:
            continue
        depth += (tokens[i].text == "}") - (tokens[i].text == "{")
        if not depth:
            return i > 0 and tokens[i - 1].text == "do"
    return False


def _constant_functions(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Bodies of `constexpr` functions, which cannot hold such objects."""
    found = []
    for number, token in enumerate(tokens):
        if token.text == "{" and not token.is_directive and _says_constant(tokens, number):
            found.append((number, behind(tokens, number)))
    return found


def _says_constant(tokens: Sequence[Token], brace: int) -> bool:
    for i in range(brace - 1, max(-1, brace - 60), -1):
        if tokens[i].is_directive:
            continue
        if tokens[i].text in (";", "{", "}"):
            return False
        if tokens[i].text in ("constexpr", "consteval"):
            return tokens[i - 1].text != "if"
    return False


def _bodies(tokens: Sequence[Token], top: str) -> Iterator[int]:
    """The braces that open a body of `top`."""
    for number, token in enumerate(tokens):
        if token.text != top or token.is_directive or number + 1 >= len(tokens) or tokens[number + 1].text != "(":
            continue
        end = _first(tokens, behind(tokens, number + 1))
        if end < len(tokens) and tokens[end].text == "{" and not tokens[end].is_directive:
            yield end
