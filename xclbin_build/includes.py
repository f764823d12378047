"""The files that a C++ source is made of, by its `#include` lines: what a step depends on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(?:[<\"]([^>\"\n]+)[>\"]|(\w+))", re.MULTILINE)
_CODE = (".h", ".hh", ".hpp", ".inc", ".c", ".cc", ".cpp", ".cxx")
_HEADERS = ("*.h", "*.hh", "*.hpp", "*.inc")


def files_of(sources: Iterable[Path], folders: Sequence[Path]) -> list[Path]:
    """The sources and all headers that they reach, sorted; headers that lie in none of the folders are the tools' own.

    Where a source includes what a macro names, all headers of the folders count. Files that are no code, and may not
    exist yet, are returned as they are.
    """
    found: dict[Path, None] = {}
    waiting = list(sources)
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = None
        if path.suffix not in _CODE or not path.is_file():
            continue
        for name, macro in _INCLUDE.findall(path.read_text(errors="replace")):
            places = [folder / name for folder in (path.parent, *folders)] if name else []
            waiting += [next((place for place in places if place.is_file()), path)] if places else []
            if macro:
                waiting += [header for folder in folders for kind in _HEADERS for header in folder.glob(kind)]
    return sorted(found)
