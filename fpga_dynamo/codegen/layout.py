"""The cores that the emitter itself uses: `move` changes layouts, `convert` element types.

Cores: hls_kernels/cores/move.
"""

from __future__ import annotations

from fpga_dynamo.codegen.core import CORES, Core
from fpga_dynamo.ir.elements import WORD_BYTES
from fpga_dynamo.ir.records import Convert, Move
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, ceil_div, numel


def _move_cycles(c: Move, target: Target) -> float:
    """A vector a cycle if both sides are contiguous, else an element."""
    wide = c.out_stride[-1] == 1 and (c.input is None or c.in_stride[-1] in (0, 1))
    return ceil_div(numel(c.dims), VEC if wide else 1)


def _move_words(c: Move, target: Target) -> int:
    return 2 * numel(c.dims) * target.element(c.format).bytes // WORD_BYTES


MOVE = CORES.add(Core[Move](Move.opcode, _move_cycles, moved=_move_words, zero_copy=True))


def _convert_words(c: Convert, target: Target) -> int:
    """Words on one side, several elements of a word on the other."""
    packing = WORD_BYTES // target.element(c.format).bytes
    return c.count + c.count // packing


CONVERT = CORES.add(
    Core[Convert](
        Convert.opcode,
        cycles=lambda c, target: ceil_div(c.count, VEC),
        moved=_convert_words,
        parts=lambda c, target: ceil_div(c.count, VEC),
        zero_copy=True,
    )
)
