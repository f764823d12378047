"""The tokens of a C++ source by position, the brackets among them, and edits of its text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_OPENING, _CLOSING = "([{", ")]}"


class Token(NamedTuple):
    text: str
    begin: int
    end: int
    is_directive: bool


@dataclass
class Edits:
    """Insertions and replacements, by position in the text."""

    found: list[tuple[int, int, str]] = field(default_factory=list)

    def insert(self, at: int, text: str) -> None:
        self.found.append((at, at, text))

    def replace(self, begin: int, end: int, text: str) -> None:
        self.found.append((begin, end, text))

    def applied(self, text: str) -> str:
        pieces, at = [], 0
        for begin, end, new in sorted(self.found, key=lambda edit: edit[:2]):
            pieces += [text[at:begin], new]
            at = end
        return "".join([*pieces, text[at:]])


def behind(tokens: Sequence[Token], begin: int) -> int:
    """Position behind the bracket that closes the one at `begin`."""
    depth = 0
    for i in range(begin, len(tokens)):
        if not tokens[i].is_directive and len(tokens[i].text) == 1:
            depth += (tokens[i].text in _OPENING) - (tokens[i].text in _CLOSING)
        if not depth:
            return i + 1
    return len(tokens)


def direct(tokens: Sequence[Token], begin: int, end: int) -> Iterator[int]:
    """Positions in a body that do not lie in brackets of their own."""
    i = begin
    while i < end:
        yield i
        i = behind(tokens, i) if tokens[i].text in ("{", "(", "[") and not tokens[i].is_directive else i + 1


def is_shift(tokens: Sequence[Token], at: int) -> bool:
    """Whether `<<` begins here; `>>` ends two templates."""
    pair = tokens[max(at, 0) : at + 2]
    return len(pair) == 2 and pair[0].text == pair[1].text == "<" and pair[0].end == pair[1].begin


def behind_template(tokens: Sequence[Token], begin: int, end: int) -> int:
    """Position behind the arguments of a template that begin with the `<` at `begin`."""
    depth, i = 0, begin
    while i < end:
        if is_shift(tokens, i):
            i += 2
            continue
        text = tokens[i].text
        depth += (text == "<") - (text == ">")
        i = behind(tokens, i) if text in ("(", "[", "{") else i + 1
        if not depth:
            break
    return i
