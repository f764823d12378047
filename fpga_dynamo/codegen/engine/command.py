"""The engine's command, field by field as `mac_command` in hls_kernels/engine/record.hpp, and its geometry."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from enum import IntEnum, IntFlag
from functools import cached_property
from typing import TYPE_CHECKING

from fpga_dynamo.ir.view import ceil_div

from .sizes import CHANNELS, EngineSizes

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

NO_OPERAND = 0xFFFF_FFFF
MAC, IDLE = 48, 50
COMMAND_BYTES = 256


class WeightKind(IntEnum):
    """How the second operand lies in memory."""

    PACKED = 0
    DIAGONAL = 1
    MAP = 2
    TRANSPOSED = 3


class Operation(IntEnum):
    MULTIPLY = 0
    MAXIMUM = 1


class Flags(IntFlag):
    NONE = 0
    RAW = 1
    MIDDLE = 2
    TABLE = 4
    MIDDLE_TABLE = 8
    WIDE = 16


class Peers(IntFlag):
    """Operands of which other compute units have made a part (hls_kernels/engine/peers.hpp)."""

    NONE = 0
    INPUT = 1
    RESIDUAL = 2
    WEIGHT = 4


class Order(IntEnum):
    """The outer loop: windows of the input, or sets of weights."""

    WINDOWS = 0
    SETS = 1


def record_bytes(command: DataclassInstance) -> bytes:
    """The fields of a command's object as its record, padded: floats and integers of 32 bits, little-endian."""
    data = b""
    for field in fields(command):
        value = getattr(command, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            bits = struct.pack("<f", item) if isinstance(item, float) else struct.pack("<I", int(item) & 0xFFFF_FFFF)
            data += bits
    return data.ljust(COMMAND_BYTES, b"\0")


@dataclass(frozen=True)
class MacCommand:
    """Addresses, planes and strides of images count lines of 64 bytes; pairs are (rows, columns) or (outer, inner)."""

    opcode: int = MAC
    slices: int = 1
    operation: Operation = Operation.MULTIPLY
    weight_kind: WeightKind = WeightKind.PACKED
    input: int = 0
    weight: int = 0
    params: int = 0
    residual: int = NO_OPERAND
    sums: int = NO_OPERAND
    output: int = 0
    input_after: int = 0
    residual_after: int = 0
    weight_after: int = 0
    pixel_channels: int = CHANNELS
    in_blocks: int = 1
    in_height: int = 1
    in_width: int = 1
    out_blocks: int = 1
    out_height: int = 1
    out_width: int = 1
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    group_in: int = CHANNELS
    group_out: int = CHANNELS
    tile_blocks: int = 1
    tile_depth: int = 1
    weight_plane: int = 0
    heads: tuple[int, int] = (1, 1)
    images: int = 1
    input_head: tuple[int, int] = (0, 0)
    input_image: int = 0
    weight_head: tuple[int, int] = (0, 0)
    residual_head: tuple[int, int] = (0, 0)
    residual_image: int = 0
    output_head: tuple[int, int] = (0, 0)
    output_image: int = 0
    pad: int = 0
    weight_zero: int = 0
    flags: Flags = Flags.NONE
    zero: int = 0
    low: int = -128
    high: int = 127
    residual_factor: int = 0
    residual_zero: int = 0
    middle_factor: int = 0
    middle_zero: int = 0
    band_rows: int = 1
    set_tiles: int = 1
    order: Order = Order.WINDOWS
    peers: Peers = Peers.NONE
    out_plane: int = 0
    table: int = 0

    def words(self) -> bytes:
        """The record: 64 little-endian words."""
        return record_bytes(self)

    @property
    def folded(self) -> bool:
        """Several pixels of few channels lie side by side in a word."""
        return self.pixel_channels < CHANNELS

    @property
    def has_weights(self) -> bool:
        return self.operation is Operation.MULTIPLY

    @property
    def second_operand_is_map(self) -> bool:
        return self.weight_kind in (WeightKind.MAP, WeightKind.TRANSPOSED)

    @cached_property
    def one_to_one(self) -> bool:
        """Channel by channel: depthwise, and maxima."""
        return self.operation is Operation.MAXIMUM or self.weight_kind is WeightKind.DIAGONAL

    @property
    def raw(self) -> bool:
        return Flags.RAW in self.flags

    @property
    def wide(self) -> bool:
        """The result of an engine of bfloat16 is left in float32, for a softmax."""
        return Flags.WIDE in self.flags

    @cached_property
    def stores_32_bits(self) -> bool:
        """Each pixel of a block is a line."""
        return self.raw or self.wide

    @property
    def has_residual(self) -> bool:
        return self.residual != NO_OPERAND

    @property
    def has_sums(self) -> bool:
        return self.sums != NO_OPERAND


@dataclass(frozen=True)
class IdleCommand:
    """Nothing: a unit's place in the list where only others compute."""

    opcode: int = IDLE
    slices: int = 1

    def words(self) -> bytes:
        """The record: 64 little-endian words."""
        return record_bytes(self)


@dataclass(frozen=True)
class Band:
    """Rows of the output that a window is for: how many, groups of positions, and rows of the input first … last."""

    begin: int
    rows: int
    groups: int
    first: int
    last: int


class CommandGeometry:
    """Loop counts of a command on an engine: of `plan_of` in hls_kernels/engine/plan.hpp what hosts need."""

    def __init__(self, command: MacCommand, sizes: EngineSizes) -> None:
        c = command
        self.command, self.sizes = command, sizes
        self.heads = c.heads[0] * c.heads[1]
        self.bands = ceil_div(c.out_height, c.band_rows)
        self.windows = c.images * self.bands
        self.tiles = ceil_div(c.out_blocks, c.tile_blocks)
        self.sets = ceil_div(self.tiles, c.set_tiles)
        self.sets_outside = self.sets == 1 or (self.windows > 1 and c.order is Order.SETS)
        self.window_loads = self.sets * self.windows if self.sets_outside else self.windows
        self.set_loads = self.sets if self.sets_outside else self.sets * self.windows
        fold = CHANNELS // c.pixel_channels
        self.columns = ceil_div(c.kernel[1], fold) if c.folded else c.kernel[1]
        self.taps = c.kernel[0] * self.columns
        self.steps = self.taps * c.tile_depth * sizes.parts
        planes_y = 1 if c.kernel[0] == 1 else c.stride[0]
        planes_x = 1 if c.folded or c.kernel[1] == 1 else c.stride[1]
        if c.folded:
            ends = ceil_div(max(0, c.in_width + c.padding[1] - fold), c.stride[1]) + 1
            self.pitch = max(c.out_width + (self.columns - 1) * (fold // c.stride[1]), ends)
        else:
            self.pitch = max(ceil_div(c.in_width, c.stride[1]), c.out_width)
        self.input_rows = (min(c.band_rows, c.out_height) - 1) * c.stride[0] + (c.kernel[0] - 1) * c.dilation[0] + 1
        self.plane = ceil_div(self.input_rows, c.stride[0]) * self.pitch
        if planes_x > 1:  # two phases of a row are written at once, to different banks
            self.plane += (3 - self.plane) % sizes.pixels
        self.block_rows = ceil_div(planes_y * planes_x * self.plane, sizes.pixels)
        self.row_elements = c.in_width * c.pixel_channels
        self.in_plane = ceil_div(c.in_height * self.row_elements, sizes.line_elements)
        self.out_plane = ceil_div(c.out_height * c.out_width, sizes.beat)
        self.stored_plane = c.out_height * c.out_width if c.stores_32_bits else self.out_plane

    @property
    def straight(self) -> bool:
        """Lines of the input go to the window as they are, several words a cycle."""
        c = self.command
        return c.stride == (1, 1) and self.pitch == c.in_width and not c.folded

    def band(self, index: int) -> Band:
        c, p = self.command, self.sizes.pixels * self.sizes.interleave
        begin = index * c.band_rows
        rows = min(c.out_height - begin, c.band_rows)
        groups = ceil_div((rows - 1) * self.pitch + c.out_width, p) * self.sizes.interleave
        top = begin * c.stride[0] - c.padding[0]
        return Band(begin, rows, groups, max(top, 0), min(top + self.input_rows, c.in_height) - 1)

    def input_lines(self, band: Band) -> int:
        """Lines of a block that a band needs."""
        if band.last < band.first:
            return 0
        size = self.sizes.line_elements
        return ceil_div((band.last + 1) * self.row_elements, size) - band.first * self.row_elements // size

    def output_lines(self, band: Band) -> int:
        """Lines of a block that a band writes."""
        begin = band.begin * self.command.out_width
        end = begin + band.rows * self.command.out_width
        if self.command.stores_32_bits:
            return end - begin
        return ceil_div(end, self.sizes.beat) - begin // self.sizes.beat

    @cached_property
    def all_bands(self) -> tuple[Band, ...]:
        return tuple(self.band(i) for i in range(self.bands))

    def refusal(self) -> str | None:
        """Why an engine of these sizes cannot run the command, as the end of a sentence; None if it can."""
        c, s = self.command, self.sizes
        if (c.raw or c.has_sums) and not s.partial_sums:
            return "needs partial sums, which this engine does not support: weights or rows exceed its memories"
        if c.wide and not s.has_wide_rows:
            return "has a float32 result, which needs the vector side of a bfloat16 engine"
        if c.second_operand_is_map and c.weight_zero and not s.row_sums:
            return "has a feature map with a zero point as second operand, for which this engine has no row sums"
        if self.taps > s.taps:
            return f"has a kernel of {self.taps} positions, more than the {s.taps} of the engine's table"
        if c.set_tiles > s.set_tiles:
            return f"has {c.set_tiles} tiles in a set, more than the {s.set_tiles} whose parameters the engine holds"
        if c.has_weights and self.steps * c.set_tiles > s.weight_steps:
            return f"has {self.steps * c.set_tiles} steps of weights in a set, more than the engine's {s.weight_steps}"
        if self.block_rows * c.in_blocks > s.window_rows:
            return f"has bands whose input takes {self.block_rows * c.in_blocks} rows of the window's {s.window_rows}"
        return None
