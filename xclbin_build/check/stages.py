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
    values: dict[str, float] = {}  # by the place that a write was given: when its value is there
    for index, i in enumerate(code):
        if i.opcode == "store" and i.pointer:
            values[i.pointer] = max(values.get(i.pointer, 0.0), starts.get(index, 0.0))
        elif i.opcode in ("getelementptr", "bitcast") and i.name and i.operands:
            _join(values, code, index, starts)
    found: dict[tuple[int, str], int] = {}
    for index, i in enumerate(code):
        way = _WAYS.get(i.callee or "") if i.opcode in ("call", "invoke") else None
        if way is None:
            continue
        at = starts.get(index, 0.0)
        if way == "W" and i.name:
            at = max(at, values.get(i.name, 0.0))
        line = _line(module, i)
        key = (line, way)
        offset = math.floor(at + 1e-6)
        found[key] = min(found.get(key, offset), offset)
    return tuple(Stage(line, way, offset) for (line, way), offset in sorted(found.items()))


def _join(values: dict[str, float], code: Sequence[ir.Instruction], index: int, starts: Mapping[int, float]) -> None:
    """Of a structure that is written field by field, the last field counts."""
    made = code[index]
    assert made.name is not None
    last = max((starts.get(n, 0.0) for n, i in enumerate(code) if i.opcode == "store" and i.pointer == made.name),
               default=None)  # fmt: skip
    if last is not None:
        base = made.operands[0]
        values[base] = max(values.get(base, 0.0), last)


def _line(module: ir.Module, i: ir.Instruction) -> int:
    """The line from which a method of a stream is called: the first that is not in a header of the checker."""
    for file, line in module.places_of(i.debug):
        if line and not file.startswith(_OWN):
            return line
    return 0
