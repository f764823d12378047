"""The sizes of an engine, as a recipe gives them and `hls_kernels/engine/config.hpp` has them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

CHANNELS = 16
"""Channels of a block of a map, and lanes of a word."""
LINE_BYTES = 64
"""Unit of all addresses, and a beat of every port."""
SEGMENT = 64
"""Lines of a burst where the blocks of a tile take turns."""

FUNCTION_EXPONENTS, FUNCTION_MANTISSAS = 16, 128
"""Of the table of a function of bfloat16 results: neighbouring powers of two, and numbers of each with either sign."""
FUNCTION_ENTRIES = 2 * FUNCTION_EXPONENTS * FUNCTION_MANTISSAS
FUNCTION_LINES = 1 + FUNCTION_ENTRIES * 2 // LINE_BYTES
"""Lines of a function in memory: its tails and its entries."""
FUNCTION_WORDS = FUNCTION_ENTRIES // 4
"""Cycles that the epilogue takes to fill its tables with a function, four entries at a time."""


@dataclass(frozen=True)
class EngineSizes:
    """`pixels` x `out_channels` x `in_channels` products a cycle, and what the memories around the array hold.

    lanes: elements that pass the epilogue in a cycle.
    window_rows: words of a bank of the window, which has two sets of `pixels` banks.
    weight_steps: steps of the array whose weights one of two memories holds.
    set_tiles: tiles whose parameters a memory holds.
    taps: positions of a kernel.
    element_bytes: 1 (int8), 2 (bfloat16) or 4 (float32).
    port_bytes: of a beat of the ports of input and weights.
    vector_lanes: channels that pass the vector side in a cycle, 0 without one.
    vector_depth: words of the memories of the vector side.
    vector_blocks: blocks of channels whose layer norm parameters the vector side holds.
    row_sums: whether a map as second operand may have a zero point.
    partial_sums: whether a layer can be split into commands that pass on sums.
    activations: whether a bfloat16 engine applies functions by table; older xclbins do not, and lack the field.
    gather: whether the vector side moves words of maps in any order; older xclbins do not, and lack the field.
    casts: whether the vector side quantizes float32 and scales int8; older xclbins do not, and lack the field.
    intervals: initiation intervals above 1 that synthesis achieved, by the field of `Cycles` that they lengthen.
    """

    pixels: int
    out_channels: int
    in_channels: int = 16
    lanes: int = 64
    window_rows: int = 2048
    weight_steps: int = 2048
    set_tiles: int = 64
    taps: int = 128
    element_bytes: int = 1
    port_bytes: int = 64
    vector_lanes: int = 16
    vector_depth: int = 2048
    vector_blocks: int = 64
    row_sums: bool = True
    partial_sums: bool = True
    activations: bool = False
    gather: bool = False
    casts: bool = False
    intervals: tuple[tuple[str, int], ...] = ()

    @property
    def blocks(self) -> int:
        """Blocks of output channels that the array makes at once."""
        return self.out_channels // CHANNELS

    @property
    def parts(self) -> int:
        """Steps that a word of 16 channels takes."""
        return CHANNELS // self.in_channels

    @property
    def is_float(self) -> bool:
        """Whether elements are bfloat16 or float32."""
        return self.element_bytes > 1

    @property
    def has_functions(self) -> bool:
        """Whether rounded bfloat16 results go through a function (hls_kernels/engine/function.hpp)."""
        return self.element_bytes == 2 and self.activations

    @property
    def has_vector_side(self) -> bool:
        # Older xclbins say 16 of floats, which then was said of all engines and had none.
        return 0 < self.vector_lanes <= (8 if self.is_float else 16)

    @property
    def has_wide_rows(self) -> bool:
        """Whether a product of a bfloat16 engine may leave float32, of which its vector side makes a softmax."""
        return self.element_bytes == 2 and self.has_vector_side

    @property
    def interleaves(self) -> bool:
        """Whether the vector side puts words of two maps in turn, and works element by element."""
        return self.element_bytes == 1 and self.has_vector_side

    @cached_property
    def line_elements(self) -> int:
        return LINE_BYTES // self.element_bytes

    @cached_property
    def beat(self) -> int:
        """Pixels of a block in a line."""
        return self.line_elements // CHANNELS

    @property
    def words(self) -> int:
        """Words that pass the epilogue in a cycle."""
        return self.lanes // CHANNELS

    @cached_property
    def interleave(self) -> int:
        """Groups of pixels that the array works on in turn: floating-point sums return to an adder late."""
        return 1 if self.element_bytes == 1 else 8

    @cached_property
    def fill(self) -> int:
        """Words that reach the window in a cycle, to as many banks."""
        banks = 4 if self.pixels >= 4 else 2 if self.pixels >= 2 else 1
        return min(self.port_words, banks)

    @property
    def line_beats(self) -> int:
        """Beats that a line of the input or of weights takes."""
        return LINE_BYTES // self.port_bytes

    @cached_property
    def port_words(self) -> int:
        """Pixels of a block that the port of the input moves in a beat."""
        return self.port_bytes // (CHANNELS * self.element_bytes)

    @property
    def weight_lines(self) -> int:
        """Lines of the weights of 16 output channels for a step."""
        return self.in_channels * self.element_bytes // 4

    @property
    def vector_parts(self) -> int:
        """Cycles that a word takes on the vector side."""
        return CHANNELS // self.vector_lanes

    @property
    def macs(self) -> int:
        """Products a cycle."""
        return self.pixels * self.out_channels * self.in_channels
