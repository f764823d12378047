"""Preprocessed C and C++ as tokens with their places: as much of it as finding loops, labels and pragmas takes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..cpp_lexer import lex

_DIRECTIVE = re.compile(
    r"""
    \#\s*pragma\s+HLS\b(?P<hls>.*)
  | \#\s*(?:line\s+)?(?P<marker>\d+[ \t]+"[^"\n]*".*)
  | \#\s*define\s+(?P<define>\w+(?![\w(]).*)
  | \#\s*undef\s+(?P<undef>\w+).*
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True)
class Token:
    """kind: word, number, quoted, sign or hls (a whole `#pragma HLS`, whose text is what stands behind it).

    start, end: places in the text. file, line: as the line markers say. system: in a header of the compiler's.
    """

    kind: str
    text: str
    start: int
    end: int
    file: str
    line: int
    system: bool


def tokens(text: str) -> list[Token]:
    """Tokens of preprocessed text (`clang -E -dD`), with macros in pragmas expanded."""
    result: list[Token] = []
    macros: dict[str, str] = {}
    file, system, line = "", False, 1
    at_line = 0  # where the line `line` begins counting
    for kind, match in lex(text):
        start = match.start()
        directive = _DIRECTIVE.match(match[0]) if kind == "directive" else None
        if directive:
            kind = directive.lastgroup or ""
        if directive and kind == "marker":
            number, _, rest = directive["marker"].partition(" ")
            name, _, flags = rest.strip().removeprefix('"').partition('"')
            file, system = name, "3" in flags.split()
            at_line, line = text.find("\n", match.end()) + 1, int(number)
        elif directive and kind == "define":
            name, _, body = directive["define"].replace("\t", " ").partition(" ")
            macros[name] = body.strip()
        elif directive and kind == "undef":
            macros.pop(directive["undef"], None)
        elif kind != "directive":
            here = line + text.count("\n", at_line, start)
            # Count on from here, so that a long file is not counted through again and again.
            line, at_line = here, start
            words = _expand_macros(directive["hls"], macros) if directive else match[0]
            result.append(Token(kind, words, start, match.end(), file, here, system))
    return result


def _expand_macros(text: str, macros: dict[str, str], depth: int = 0) -> str:
    """Vitis expands macros in its pragmas, the preprocessor does not."""

    def body(match: re.Match[str]) -> str:
        name = match[0]
        if name not in macros or depth > 16 or not macros[name] or re.match(r"\s*=(?!=)", text[match.end() :]):
            return name  # the name of an option is not a macro
        return _expand_macros(macros[name], {k: v for k, v in macros.items() if k != name}, depth + 1)

    return re.sub(r"[A-Za-z_]\w*", body, text)


def closing(items: list[Token], start: int) -> int:
    """Index of the bracket that closes the one at `start`; the last index if none does."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    opening, end = items[start].text, pairs[items[start].text]
    depth = 0
    for index in range(start, len(items)):
        text = items[index].text
        if items[index].kind != "sign":
            continue
        depth += (text == opening) - (text == end)
        if depth == 0:
            return index
    return len(items) - 1


def statement_end(items: list[Token], start: int) -> int:
    """Index of the last token of the statement that begins at `start`."""
    last = len(items) - 1
    while start < last and items[start].kind == "hls":
        start += 1
    if start >= last:
        return last
    text = items[start].text
    if text == "{":
        return closing(items, start)
    if text in ("for", "while", "if", "switch") and items[start].kind == "word":
        head = start + 1
        while head < last and items[head].text != "(":
            head += 1
        end = statement_end(items, closing(items, head) + 1)
        if text == "if" and end < last and items[end + 1].text == "else":
            return statement_end(items, end + 2)
        return end
    if text == "do":
        end = statement_end(items, start + 1)
        while end < last and items[end].text != ";":
            end += 1
        return end
    if items[start].kind == "word" and items[start + 1].text == ":" and text != "default":
        return statement_end(items, start + 2)
    index = start
    while index < last and items[index].text != ";":
        index = closing(items, index) if items[index].text in ("(", "{", "[") else index
        index += 1
    return index
