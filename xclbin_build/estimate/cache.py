"""Caches the resources of an engine's processes for the user, because reading their IR takes half a minute.

The key is made of the sources, of the code and tables that count them, and of the clock. The recipe's name stands in
the sources' comments and does not count, so that platforms whose engines are alike share what was found.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hls_kernels import STAND_INS

from .. import atomic_file, cache
from ..design import Design
from ..hls import clang
from ..hls.operators import Operators
from ..hls.resources import Component, Resources

_PACKAGE = Path(__file__).parents[1]
_CODE = [_PACKAGE / "estimate", _PACKAGE / "hls", STAND_INS]

_FOLDER = "estimate"


def load(sources: Mapping[str, str], design: Design, operators: Operators) -> list[Component] | None:
    """The parts that were saved, or None."""
    try:
        return [_part(found) for found in json.loads(_path(sources, design, operators).read_text())]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(parts: list[Component], sources: Mapping[str, str], design: Design, operators: Operators) -> None:
    """Saves components; a cache that cannot be written is ignored."""
    path = _path(sources, design, operators)
    with contextlib.suppress(OSError):
        atomic_file.write(cache.folder(_FOLDER) / path.name, json.dumps([_words(part) for part in parts]))


def _path(sources: Mapping[str, str], design: Design, operators: Operators) -> Path:
    code = sorted(p for folder in _CODE for p in folder.rglob("*") if p.suffix in (".py", ".toml", ".h", ".hpp"))
    code.append(_PACKAGE / "cpp_lexer.py")
    quoted = f"'{design.recipe.name}'"
    texts = [part for name in sorted(sources) for part in (name, sources[name].replace(quoted, ""))]
    key = cache.digest([str(clang.VERSION), str(operators.clock_ns), *texts, *(p.read_bytes() for p in code)])
    return cache.place(_FOLDER) / f"{key}.json"


def _words(part: Component) -> dict[str, Any]:
    inner = [_words(child) for child in part.parts]
    return {"kind": part.kind, "name": part.name, "own": part.own.values(), "basis": part.basis, "parts": inner}


def _part(words: dict[str, Any]) -> Component:
    inner = [_part(child) for child in words["parts"]]
    return Component(words["kind"], words["name"], Resources(*words["own"]), words["basis"], parts=inner)
