"""What Vitis HLS refuses, or believes against the source: recursion, arrays that several processes of a dataflow region
use, and pragmas that deny a dependence which the indices of a loop prove.

Each rule reads tokens and finds plain cases only, so that a finding is never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .hls.pragma import parse
from .hls.source import functions_in, opening_of
from .hls.tokens import Token, closing

_NUMBERS = {"bool", "char", "short", "int", "long", "float", "double", "unsigned", "signed", "half", "size_t"}
_NUMBER = re.compile(r"(ap_u?(int|fixed)|u?int\d+_t)$")
_NO_CALLS = {".", "->", "::", "~", "new"}


@dataclass(frozen=True)
class Mistake:
    """file: the key of the tokens that it is in."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class _Function:
    """A function's tokens: `begin` and `end` are the places of its braces."""

    name: str
    file: str
    items: Sequence[Token]
    begin: int
    end: int


def mistakes(files: Mapping[str, list[Token]]) -> Iterator[Mistake]:
    """Of the sources of a design, by their names."""
    functions = [_Function(name, file, items, begin, end) for file, items in files.items()
                 for name, begin, end in functions_in(items)]  # fmt: skip
    yield from _recursion(functions)
    for function in functions:
        yield from _shared_arrays(function)
        yield from _denied(function)


def _recursion(functions: Sequence[_Function]) -> Iterator[Mistake]:
    """Functions of numbers that reach themselves. What has a class among its parameters may call an overload of its
    name, and what is constant or a template may be evaluated by the compiler."""
    names = [function.name for function in functions]
    arity = {f.name: n for f in functions if names.count(f.name) == 1 and (n := _of_numbers(f)) is not None}
    known = {f.name: f for f in functions if f.name in arity}
    calls = {name: _calls(function, arity) for name, function in known.items()}
    for name, own in calls.items():
        for callee, line in own.items():
            way = _way(calls, callee, name)
            if way is not None:
                through = f" through '{way[0]}'" if way else ""
                text = f"function '{name}' calls itself{through}, and Vitis HLS has no recursion; write a loop."
                yield Mistake(known[name].file, line, text)
                break


def _of_numbers(function: _Function) -> int | None:
    """How many parameters a function has, if all are numbers or arrays of them and it is no template or constant."""
    items, end = list(function.items), function.begin - 1
    while end > 0 and items[end].text != ")":
        end -= 1
    begin = opening_of(items, end)
    at = begin - 1
    while at >= 0 and items[at].text not in (";", "{", "}"):
        if items[at].text in ("template", "constexpr", "consteval"):
            return None
        at -= 1
    parameters = _parted(items[begin + 1 : end])
    for words in parameters:
        kinds = [word for word in words[:-1] if word not in ("const", "volatile", "*", "&", "[", "]", "restrict")]
        if not any(map(_is_number, kinds)):
            return None
    return len(parameters)


def _parted(items: Sequence[Token]) -> list[list[str]]:
    """The words between the commas that lie in no brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for item in items:
        depth += (item.text in ("(", "[", "{", "<")) - (item.text in (")", "]", "}", ">"))
        if item.text == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(item.text)
    return parts if parts != [[]] else []


def _calls(function: _Function, arity: Mapping[str, int]) -> dict[str, int]:
    """The known functions that a body calls with as many arguments, and the line of the first call of each."""
    found: dict[str, int] = {}
    items = list(function.items)
    for at in range(function.begin + 1, function.end - 1):
        before, item = items[at - 1], items[at]
        if item.kind != "word" or items[at + 1].text != "(" or item.text not in arity or before.text in _NO_CALLS:
            continue
        if before.kind == "word" and before.text not in ("return", "else"):
            continue  # a declaration
        if len(_parted(items[at + 2 : closing(items, at + 1)])) == arity[item.text]:
            found.setdefault(item.text, item.line)
    return found


def _way(calls: Mapping[str, Mapping[str, int]], start: str, goal: str) -> list[str] | None:
    """The functions between a call of `start` and `goal`; [] if that is `start` itself, None if there is no way."""
    if start == goal:
        return []
    ways, seen = [[start]], {start}
    while ways:
        way = ways.pop(0)
        for callee in calls.get(way[-1], {}):
            if callee == goal:
                return way
            if callee not in seen:
                seen.add(callee)
                ways.append([*way, callee])
    return None


def _shared_arrays(function: _Function) -> Iterator[Mistake]:
    """Arrays of numbers in a dataflow region that more than two of its calls are given as a whole."""
    direct = list(_direct(function.items, function.begin + 1, function.end))
    pragmas = [parse(function.items[at].text, function.file, 0) for at in direct if function.items[at].kind == "hls"]
    if not any(pragma and pragma.kind == "dataflow" for pragma in pragmas):
        return
    stable = {pragma.options.get("variable") for pragma in pragmas if pragma and pragma.kind == "stable"}
    arrays: dict[str, list[str]] = {}
    for statement in _statements(function.items, direct):
        words = [function.items[at].text for at in statement]
        if _is_number(words[0]) and "=" not in words and "(" not in words:
            arrays |= {a: [] for a, b in pairwise(words) if b == "[" and a != "]" and a not in stable}
            continue
        if len(words) < 2 or words[1] != "(":
            continue
        opening = statement[1]
        inside = function.items[opening : closing(list(function.items), opening)]
        for name in {a.text for a, b in zip(inside, [*inside[1:], inside[0]], strict=True) if b.text != "["}:
            if name in arrays:
                arrays[name].append(words[0])
                if len(arrays[name]) == 3:
                    text = (
                        f"array '{name}' of a dataflow region is used by {', '.join(arrays[name])}: Vitis HLS accepts "
                        "one process that writes it and one that reads it; copy the array, or write to two."
                    )
                    yield Mistake(function.file, function.items[opening].line, text)


def _is_number(word: str) -> bool:
    return word in _NUMBERS or _NUMBER.match(word) is not None


def _direct(items: Sequence[Token], begin: int, end: int) -> Iterator[int]:
    """Places that do not lie in a block of their own."""
    at = begin
    while at < end:
        if items[at].text == "{" and items[at].kind == "sign":
            at = closing(list(items), at)
        else:
            yield at
        at += 1


def _statements(items: Sequence[Token], places: Sequence[int]) -> Iterator[list[int]]:
    """The statements that these places are, without pragmas."""
    own: list[int] = []
    for at in places:
        if items[at].kind == "hls":
            continue
        if items[at].text == ";":
            if own:
                yield own
            own = []
        else:
            own.append(at)


def _denied(function: _Function) -> Iterator[Mistake]:
    """`dependence ... inter false` of an array of which each iteration writes [i] and reads [i - N]."""
    items = function.items
    for at in range(function.begin, function.end):
        pragma = parse(items[at].text, function.file, 0) if items[at].kind == "hls" else None
        if pragma is None or pragma.kind != "dependence" or "variable" not in pragma.options:
            continue
        said = pragma.words | {value.lower() for value in pragma.options.values()}
        if "intra" in said or "false" not in said or "war" in said or "waw" in said:
            continue
        loop = _loop_around(items, function.begin, at)
        if loop is None:
            continue
        counter, trips, brace = loop
        name, end = pragma.options["variable"], closing(list(items), brace)
        places = list(_direct(items, brace + 1, end))
        text = "\0".join(items[p].text for p in places if items[p].kind != "hls")
        if "\0for\0" in f"\0{text}\0" or "\0if\0" in f"\0{text}\0" or "\0?\0" in text:
            continue
        index = rf"(?:^|\0){re.escape(name)}\0\[\0{re.escape(counter)}"
        read = re.search(rf"{index}\0-\0(\d+)\0\]", text)
        if read and re.search(rf"{index}\0\]\0=\0(?!=)", text) and int(read[1]) < trips:
            before = "the iteration before" if int(read[1]) == 1 else f"the iteration {read[1]} before"
            yield Mistake(
                function.file,
                items[at].line,
                f"the pragma denies a dependence through '{name}', but {name}[{counter} - {read[1]}] is what {before} "
                f"has written; write distance={read[1]} dependent=true, or leave it out.",
            )


def _loop_around(items: Sequence[Token], begin: int, at: int) -> tuple[str, int, int] | None:
    """Of `for (int i = A; i < B; i++) {` directly around a place: the counter, least iterations, the brace."""
    depth, brace = 0, at
    while brace > begin:
        brace -= 1
        depth += (items[brace].text == "}") - (items[brace].text == "{")
        if depth < 0:
            break
    head = brace - 1
    while head > begin and items[head].text != "for":
        if items[head].text in ("{", "}"):
            return None
        head -= 1
    words = [item.text for item in items[head:brace] if item.kind != "hls"]
    text = " ".join(words)
    match = re.fullmatch(r"for \( (?:\w+ )*(\w+) = (\w+) ; \1 < (=? ?)(\w+) ; (?:\1 \+ \+|\+ \+ \1|\1 \+ = 1) \)", text)
    if not match:
        return None
    first, last = match[2], match[4]
    trips = int(last) - int(first) + bool(match[3].strip()) if first.isdigit() and last.isdigit() else 2
    return match[1], trips, brace
