"""The vector side's command as an object, `vector_command` in hls_kernels/engine/vector/record.hpp.

Its cycles are in vector_timing.py.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from fpga_dynamo.ir.view import ceil_div

from .command import NO_OPERAND, Peers, record_bytes
from .sizes import CHANNELS, EngineSizes

VECTOR = 49
EXPONENT_BITS = 24
"""Fractional bits of softmax's exponentials."""
FLOAT_EXPONENTIAL_BITS = 27
"""Fractional bits of the exponentials that those of floats are made from, of steps of 1/256."""
_ROWS = 256
"""Rows of a group, at most."""
_MOST_CHANNELS = 4095
"""Of a normalised row."""
GAMMA_FRACTION, BETA_FRACTION = 17, 22
"""Fractional bits of layer norm's parameters."""
LINE_RUNS = 4
"""Runs of a line of gather's table."""
_GATHER_BITS = 20
"""Of the numbers of words and runs of a block that words are moved to."""


class VectorOperation(IntEnum):
    SOFTMAX = 0
    NORM = 1
    ADD = 2
    MULTIPLY = 3
    INTERLEAVE = 4
    GATHER = 5
    CONSTANT = 6
    TRANSPOSE = 7
    QUANTIZE = 8
    DEQUANTIZE = 9


class VectorFlags(IntFlag):
    NONE = 0
    TABLE = 1
    SHARED = 2
    WIDE = 4
    CAUSAL = 8
    UNCENTERED = 16


@dataclass(frozen=True)
class VectorCommand:
    """Addresses and strides between heads count lines of 64 bytes, those of gather's input words of 16 channels.

    record.hpp says what each operation computes.
    """

    opcode: int = VECTOR
    slices: int = 1
    operation: VectorOperation = VectorOperation.ADD
    flags: VectorFlags = VectorFlags.NONE
    input: int = 0
    other: int = NO_OPERAND
    params: int = 0
    output: int = 0
    input_after: int = 0
    other_after: int = 0
    channels: int = 1
    pixels: int = 1
    heads: tuple[int, int] = (1, 1)
    input_head: tuple[int, int] = (0, 0)
    other_head: tuple[int, int] = (0, 0)
    output_head: tuple[int, int] = (0, 0)
    group_lines: int = 1
    epsilon: float = 1.0
    row_scale: float = 1.0
    input_scale: int = 0
    other_factor: int = 0
    input_zero: int = 0
    other_zero: int = 0
    zero: int = 0
    low: int = -128
    high: int = 127
    peers: Peers = Peers.NONE
    plane: int = 0
    turns: tuple[int, int] = (0, 0)
    row: int = 0
    taken: tuple[int, int] = (0, 0)
    runs: int = 0

    def words(self) -> bytes:
        """The record: 64 little-endian words."""
        return record_bytes(self)

    @property
    def blocks(self) -> int:
        """Blocks of channels."""
        return ceil_div(self.channels, CHANNELS)

    @property
    def has_other(self) -> bool:
        return self.other != NO_OPERAND

    @property
    def shares_other(self) -> bool:
        """All rows of a head have the same second operand."""
        return VectorFlags.SHARED in self.flags

    @property
    def reduces(self) -> bool:
        """Each row needs sums over all of it before its first result."""
        return self.operation in (VectorOperation.SOFTMAX, VectorOperation.NORM)

    @property
    def params_lines(self) -> int:
        """Lines of exponentials, of gamma and beta or of runs, and of the table."""
        if self.gathers:
            return ceil_div(self.runs, LINE_RUNS)
        if self.operation is VectorOperation.CONSTANT:
            return self.constant_lines
        own = {VectorOperation.SOFTMAX: 16, VectorOperation.NORM: 2 * self.blocks}.get(self.operation, 0)
        return own + (4 if VectorFlags.TABLE in self.flags else 0)

    @property
    def interleaves(self) -> bool:
        return self.operation is VectorOperation.INTERLEAVE

    @property
    def gathers(self) -> bool:
        return self.operation in (VectorOperation.GATHER, VectorOperation.TRANSPOSE)

    @property
    def transposes(self) -> bool:
        return self.operation is VectorOperation.TRANSPOSE

    @property
    def constant_lines(self) -> int:
        """Of a constant: lines of all blocks, which lie in int8."""
        return self.heads[0] * self.heads[1] * ceil_div(self.pixels, 4)

    @property
    def casts(self) -> bool:
        """Float32 becomes int8, or the other way."""
        return self.operation in (VectorOperation.QUANTIZE, VectorOperation.DEQUANTIZE)

    @property
    def moves_words(self) -> bool:
        """Words pass by the lanes, and a head is one block."""
        return self.interleaves or self.gathers or self.operation is VectorOperation.CONSTANT or self.casts

    @property
    def wide(self) -> bool:
        """The input is float32, a line for each pixel, on an engine of bfloat16."""
        return VectorFlags.WIDE in self.flags

    @property
    def whole(self) -> bool:
        """All rows of a head are one command's."""
        return self.flags & (VectorFlags.WIDE | VectorFlags.CAUSAL) != 0

    def planes(self, sizes: EngineSizes) -> tuple[int, int, int]:
        """Lines of a block of the input, of the second operand, and of the result."""
        own = ceil_div(self.pixels, sizes.beat)
        if self.operation is VectorOperation.CONSTANT:
            return 0, 0, own
        if self.moves_words:
            return ceil_div(self.taken[0], sizes.beat), ceil_div(self.taken[1], sizes.beat), own
        first = own * sizes.beat if self.wide else own
        return first, (0 if not self.has_other else 1 if self.shares_other else own), own

    def lines(self, sizes: EngineSizes) -> int:
        """Lines of the input. Of words that are gathered a run begins and ends within a line."""
        if self.gathers:
            own = ceil_div(self.pixels, sizes.beat)
            return self.heads[0] * self.heads[1] * (own + self.runs)
        return self.heads[0] * self.heads[1] * self.blocks * self.planes(sizes)[0]

    def moved_lines(self, sizes: EngineSizes) -> int:
        """Lines that pass the ports."""
        if self.gathers:
            heads = self.heads[0] * self.heads[1]
            return self.lines(sizes) + heads * (ceil_div(self.pixels, sizes.beat) + self.params_lines)
        return self.heads[0] * self.heads[1] * self.blocks * sum(self.planes(sizes)) + self.params_lines

    def refusal(self, sizes: EngineSizes) -> str | None:
        """Why an engine of these sizes cannot run the command, as the end of a sentence; None if it can."""
        lines = min(self.group_lines, ceil_div(self.pixels, sizes.beat))
        if not sizes.has_vector_side:
            return "needs the vector side, which this engine does not have"
        if self.casts and not sizes.casts:
            return "quantizes or scales, which this engine cannot do"
        if self.casts and max(self.pixels, *self.taken) >> (_GATHER_BITS + 1):
            return f"casts more words at a time than the {2 << _GATHER_BITS} that are counted"
        if self.interleaves and max(self.pixels, self.turns[1]) >> (_GATHER_BITS + 2):
            return f"interleaves more words of a block than the {4 << _GATHER_BITS} that are counted"
        moves = self.moves_words and not (self.interleaves or self.casts)
        if moves and not sizes.gather:
            return "gathers words or copies constants, which this engine cannot do"
        if moves and max(self.pixels, *self.taken, self.runs) >> _GATHER_BITS:
            return f"moves more words of a block than the {1 << _GATHER_BITS} that are counted"
        of_floats = VectorFlags.WIDE | VectorFlags.CAUSAL
        if sizes.is_float and (not self.reduces or self.flags & ~of_floats or self.has_other):
            return "is not supported by a bfloat16 engine, which supports softmax and layer norm of a feature map"
        if VectorFlags.UNCENTERED in self.flags and self.operation is not VectorOperation.NORM:
            return "has a flag that a norm alone may have"
        if self.flags & of_floats and self.operation is not VectorOperation.SOFTMAX:
            return "has flags that a softmax alone may have"
        if self.operation is VectorOperation.NORM and self.channels > _MOST_CHANNELS and not sizes.is_float:
            return f"normalizes {self.channels} channels, more than {_MOST_CHANNELS}"
        if self.operation is VectorOperation.NORM and self.other != NO_OPERAND:
            return "has a second operand besides the normalized one"
        if lines * sizes.beat > _ROWS:
            return f"has groups of {lines * sizes.beat} rows, and the engine holds the sums of {_ROWS}"
        words = lines * self.blocks * sizes.beat
        if words > sizes.vector_depth:
            return f"has groups of {words} words, more than the engine's {sizes.vector_depth}"
        if self.operation is VectorOperation.NORM and self.blocks > sizes.vector_blocks:
            most = sizes.vector_blocks * CHANNELS
            return f"has {self.channels} channels, more than the engine's {most} of gamma and beta"
        return None


def float32(x: float) -> float:
    """The nearest float32, as a field has it. Not by a tensor, whose number is not known while a graph is traced."""
    return ctypes.c_float(x).value


def interleaved(input_pixels: int, other_pixels: int, turns: tuple[int, int], rows: int = 1) -> VectorCommand:
    """The command that interleaves words of two maps, without addresses and heads. rows: of the output."""
    pixels = input_pixels + other_pixels
    return VectorCommand(
        operation=VectorOperation.INTERLEAVE,
        channels=CHANNELS,
        pixels=pixels,
        turns=turns,
        row=pixels // rows,
        taken=(input_pixels, other_pixels),
    )
