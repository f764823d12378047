"""The cores that the emitter itself uses: `move` changes layouts, `convert` element types.

Cores: hls_kernels/cores/move.
"""

from __future__ import annotations

from fpga_dynamo.codegen.core import CORES, Core, Fields
from fpga_dynamo.ir.elements import WORD_BYTES
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, ceil_div, numel


def _move_cycles(f: Fields, target: Target) -> float:
    """A vector a cycle if both sides are contiguous, else an element."""
    wide = f["out_stride"][-1] == 1 and (f.get("input") is None or f["in_stride"][-1] in (0, 1))
    return ceil_div(numel(f["dims"]), VEC if wide else 1)


def _move_words(f: Fields, target: Target) -> int:
    return 2 * numel(f["dims"]) * target.element(f.get("format", 0)).bytes // WORD_BYTES


MOVE = CORES.add(Core("move", _move_cycles, moved=_move_words, redirects=True))


def _convert_words(f: Fields, target: Target) -> int:
    """Words on one side, several elements of a word on the other."""
    packing = WORD_BYTES // target.element(f["format"]).bytes
    return f["count"] + f["count"] // packing


CONVERT = CORES.add(
    Core(
        "convert",
        cycles=lambda f, target: ceil_div(f["count"], VEC),
        moved=_convert_words,
        parts=lambda f, target: ceil_div(f["count"], VEC),
        redirects=True,
    )
)
