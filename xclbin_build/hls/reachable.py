"""The part of a module that one function needs: functions and metadata that it refers to, directly or not.

An engine is one translation unit of megabytes, and each of its processes reaches about a tenth of it. What is analysed
should cost what is reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from .ir import NAME

_PIECE = re.compile(
    rf"^define\b[^\n]*?@(?P<function>{NAME})\([^\n]*\{{\n.*?^\}}\n?|^!(?P<metadata>\d+) = [^\n]*\n?", re.M | re.S
)
_FUNCTION = re.compile(rf"@({NAME})")
_METADATA = re.compile(r"!(\d+)\b")


class Reachable:
    """The definitions of a module, and what each of them refers to. text: LLVM's IR."""

    def __init__(self, text: str) -> None:
        self._pieces = list(_pieces(text))
        self._by_name = {name: piece for name, piece in self._pieces if name}

    def of(self, symbol: str) -> str:
        """The module without the functions and the metadata that neither `symbol` nor a global refers to."""
        kept = _closure([*self._outside(), symbol], self._by_name)
        return "".join(piece for name, piece in self._pieces if not name or name in kept)

    def _outside(self) -> Iterator[str]:
        """What globals, aliases and named metadata refer to."""
        for name, piece in self._pieces:
            if not name:
                yield from _references(piece)


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """The text in order: functions by name, metadata by `!number`, what stands between them without a name."""
    at = 0
    for match in _PIECE.finditer(text):
        if match.start() > at:
            yield "", text[at : match.start()]
        yield match["function"].strip('"') if match["function"] else f"!{match['metadata']}", match[0]
        at = match.end()
    yield "", text[at:]


def _closure(wanted: Iterable[str], pieces: Mapping[str, str]) -> set[str]:
    """All that some pieces refer to, directly or not."""
    kept: set[str] = set()
    queue = list(wanted)
    while queue:
        name = queue.pop()
        if name in pieces and name not in kept:
            kept.add(name)
            queue += _references(pieces[name])
    return kept


def _references(piece: str) -> list[str]:
    """Names of functions, and numbers of metadata with their exclamation mark."""
    functions = [name.strip('"') for name in _FUNCTION.findall(piece)]
    return functions + [f"!{number}" for number in _METADATA.findall(piece)]
