"""Weights, and parameters of int8 engines, in the order of hls_kernels/engine/layout.hpp."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fpga_dynamo.codegen.requantize import Channels
from fpga_dynamo.ir.view import ceil_div

from .command import CommandGeometry, MacCommand, WeightKind
from .parts import CommandPart
from .sizes import CHANNELS, LINE_BYTES, EngineSizes


class LineRegion:
    """Lines of 64 bytes that are given out one behind the other; the first one is the status record's."""

    def __init__(self) -> None:
        self.lines = 1

    def reserve(self, lines: int) -> int:
        """The first of so many lines, at a multiple of 4 KiB, as long bursts like it."""
        at = ceil_div(self.lines, 64) * 64
        self.lines = at + lines
        return at


# Weights


def weight_bytes(command: MacCommand, sizes: EngineSizes) -> int:
    """Of the command's packed or diagonal weights."""
    g = CommandGeometry(command, sizes)
    if command.weight_kind is WeightKind.DIAGONAL:
        return g.tiles * ceil_div(g.taps, sizes.beat) * LINE_BYTES
    return g.tiles * g.steps * command.tile_blocks * sizes.weight_lines * LINE_BYTES


def pack_weight(params: tuple[Any, ...], weight: Tensor) -> Tensor:
    """Weights (out channels, channels of a group, rows, columns) as a command reads them; params: command, sizes."""
    c, sizes = params
    g = CommandGeometry(c, sizes)
    assert weight.element_size() == sizes.element_bytes, f"weights of {weight.dtype} for {sizes}"
    outputs, inputs, rows, columns = weight.shape
    if c.weight_kind is WeightKind.DIAGONAL:
        taps = ceil_div(g.taps, sizes.beat) * sizes.beat
        words = torch.zeros(g.tiles, taps, CHANNELS, dtype=weight.dtype)
        all_taps = torch.zeros(g.tiles * CHANNELS, rows * columns, dtype=weight.dtype)
        all_taps[:outputs] = weight.reshape(outputs, -1)
        words[:, : rows * columns] = all_taps.view(g.tiles, CHANNELS, -1).transpose(1, 2)
        return words.view(-1)
    tile = c.tile_blocks * CHANNELS
    if c.folded:
        fold = CHANNELS // c.pixel_channels
        words = torch.zeros(g.tiles * tile, rows, g.columns * fold, c.pixel_channels, dtype=weight.dtype)
        words[:outputs, :, :columns, :inputs] = weight.permute(0, 2, 3, 1)
        words = words.view(g.tiles * tile, rows * g.columns, 1, CHANNELS)
    else:
        words = torch.zeros(g.tiles * tile, rows * columns, c.tile_depth * CHANNELS, dtype=weight.dtype)
        taps_last = weight.permute(0, 2, 3, 1).reshape(outputs, rows * columns, inputs)
        for begin, end, at in _runs(c, outputs, inputs):
            words[begin:end, :, at : at + inputs] = taps_last[begin:end]
        words = words.view(g.tiles * tile, rows * columns, c.tile_depth, CHANNELS)
    # [tile][block][16 outputs][tap][depth][part][line][inputs of a line] to
    # [tile][tap][depth][part][block][line][16 outputs][inputs of a line]
    of_line = 4 // sizes.element_bytes
    parts = (sizes.parts, sizes.in_channels // of_line, of_line)
    shape = (g.tiles, c.tile_blocks, CHANNELS, words.shape[1], words.shape[2], *parts)
    return words.view(shape).permute(0, 3, 4, 5, 1, 6, 2, 7).contiguous().view(-1)


def of_part(weight: Tensor, part: CommandPart) -> Tensor:
    """Of weights (out channels, channels of a group, rows, columns) those that a part of a command has."""
    first = part.block * CHANNELS
    own = slice(first, first + part.command.out_blocks * CHANNELS)
    if part.transposed is not None and part.transposed.group == 0:
        weight, own = _transposed(weight[own], 1), slice(None)
    elif part.transposed is not None:
        weight = _transposed(weight, part.transposed.group)
    if part.rows is not None:
        weight = weight[:, :, part.rows[0] : part.rows[1]]
    if part.channels is not None:
        weight = weight[:, part.channels[0] : part.channels[1]]
    return weight[own]


def _transposed(weight: Tensor, group: int) -> Tensor:
    """Columns as rows; rows, if there are several, as channels of one, in whole blocks of all groups' inputs each."""
    outputs, inputs, rows, columns = weight.shape
    if rows == 1:
        return weight.transpose(2, 3)
    groups = ceil_div(outputs, group)
    dense = weight.new_zeros(outputs, rows, ceil_div(groups * inputs, CHANNELS) * CHANNELS, columns)
    for g in range(groups):
        of = slice(g * group, (g + 1) * group)
        dense[of, :, g * inputs : (g + 1) * inputs] = weight[of].transpose(1, 2)
    return dense.flatten(1, 2).unsqueeze(3)


def _runs(c: MacCommand, outputs: int, inputs: int) -> list[tuple[int, int, int]]:
    """Output channels begin … end whose inputs begin at channel `at` of what their tile takes."""
    if c.tile_depth >= c.in_blocks and c.group_in >= inputs and outputs <= c.group_out:
        return [(0, outputs, 0)]
    runs, begin, tile = [], 0, c.tile_blocks * CHANNELS
    while begin < outputs:
        end = min(outputs, (begin // c.group_out + 1) * c.group_out, (begin // tile + 1) * tile)
        channel = begin // tile * tile // c.group_out * c.group_in  # where the tile's first group begins
        first = min(channel // CHANNELS, c.in_blocks - c.tile_depth)
        runs.append((begin, end, begin // c.group_out * c.group_in - first * CHANNELS))
        begin = end
    return runs


def packed_params(channels: Channels) -> Tensor:
    """Offset, scale and bias of each output channel, as bytes."""
    blocks = ceil_div(len(channels.offset), CHANNELS)
    lines = torch.zeros(blocks, 3, CHANNELS, dtype=torch.int32)
    for row, values in enumerate((channels.offset, channels.scale, channels.bias)):
        padded = torch.zeros(blocks * CHANNELS, dtype=torch.int32)
        padded[: len(values)] = values
        lines[:, row] = padded.view(blocks, CHANNELS)
    return lines.view(-1).view(torch.uint8)
