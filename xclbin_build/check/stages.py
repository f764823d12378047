"""In which cycle of an iteration, or of straight code, streams are read, written and asked for their state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..hls import clang, ir

_WAYS = {"__hls_fifo_pop": "R", "__hls_fifo_push": "W", "__hls_fifo_empty": "Q", "__hls_fifo_full": "Q",
         "__hls_fifo_full_for": "Q"}  # fmt: skip
_OWN = tuple(str(Path(folder).resolve()) for folder in clang.HEADERS)


@dataclass(frozen=True)
class Stage:
    """An access to a stream from a line of the source. way: R reads, W writes, Q asks. offset: in cycles."""

    line: int
    way: str
    offset: int


def of(module: ir.Module, code: Sequence[ir.Instruction], starts: Mapping[int, float]) -> tuple[Stage, ...]:
    """The accesses of `code`. starts: in cycles, by the instruction's place in it."""
    accesses = [(index, i, way) for index, i in enumerate(code) if (way := _way(i)) is not None]
    if not accesses:
        return ()
    values = _values(code, starts)
    found: dict[tuple[int, str], int] = {}
    for index, i, way in accesses:
        at = starts.get(index, 0.0)
        if way == "W" and i.name:
            at = max(at, values.get(i.name, 0.0))
        line = _line(module, i)
        key = (line, way)
        offset = math.floor(at + 1e-6)
        found[key] = min(found.get(key, offset), offset)
    return tuple(Stage(line, way, offset) for (line, way), offset in sorted(found.items()))


def _way(i: ir.Instruction) -> str | None:
    return _WAYS.get(i.callee or "") if i.opcode in ("call", "invoke") else None


def _values(code: Sequence[ir.Instruction], starts: Mapping[int, float]) -> dict[str, float]:
    """When the value is there, by the place that a write was given. Of a structure, the last field counts."""
    stored: dict[str, float] = {}
    for index, i in enumerate(code):
        if i.opcode == "store" and i.pointer:
            stored[i.pointer] = max(stored.get(i.pointer, 0.0), starts.get(index, 0.0))
    values = dict(stored)
    for i in code:
        if i.opcode in ("getelementptr", "bitcast") and i.name in stored and i.operands:
            values[i.operands[0]] = max(values.get(i.operands[0], 0.0), stored[i.name])
    return values


def _line(module: ir.Module, i: ir.Instruction) -> int:
    """The line from which a method of a stream is called: the first that is not in a header of the checker."""
    for file, line in module.places_of(i.debug):
        if line and not file.startswith(_OWN):
            return line
    return 0
