"""Regions of memory with their content, and int8 feature maps in the order of hls_kernels/engine/layout.hpp."""

from __future__ import annotations

import torch
from torch import Tensor

from fpga_dynamo.codegen.engine import layout
from fpga_dynamo.codegen.engine.sizes import CHANNELS, LINE_BYTES
from fpga_dynamo.ir.view import ceil_div


class Region(layout.LineRegion):
    """Lines and their content."""

    def __init__(self) -> None:
        super().__init__()
        self._written: list[tuple[int, Tensor]] = []

    def put(self, data: Tensor) -> int:
        """Reserves lines for uint8 data and has them filled; answers the first."""
        at = self.reserve(ceil_div(data.numel(), LINE_BYTES))
        self._written.append((at, data))
        return at

    def bytes(self) -> Tensor:
        """All of the region; what nobody has filled is 0xA5."""
        region = torch.full((self.lines * LINE_BYTES,), 0xA5, dtype=torch.uint8)
        for at, data in self._written:
            region[at * LINE_BYTES : at * LINE_BYTES + data.numel()] = data
        return region


def map_lines(pixels: int, channels: int) -> int:
    """Lines of a feature map."""
    return ceil_div(pixels * CHANNELS, LINE_BYTES) * ceil_div(channels, CHANNELS)


def blocked(values: Tensor) -> Tensor:
    """int8 values (channels, pixels) as the bytes of a feature map (uint8, one dimension)."""
    channels, pixels = values.shape
    padded = torch.zeros(ceil_div(channels, CHANNELS) * CHANNELS, ceil_div(pixels, 4) * 4, dtype=torch.int8)
    padded[:channels, :pixels] = values
    return padded.view(-1, CHANNELS, padded.shape[1]).transpose(1, 2).contiguous().view(-1).view(torch.uint8)


def unblocked(region: Tensor, at: int, channels: int, pixels: int) -> Tensor:
    """int8 values (channels, pixels) of a feature map that begins in line `at` of a region."""
    lines = map_lines(pixels, channels)
    data = region[at * LINE_BYTES : (at + lines) * LINE_BYTES].view(torch.int8)
    planes = data.view(ceil_div(channels, CHANNELS), -1, CHANNELS).transpose(1, 2).reshape(-1, ceil_div(pixels, 4) * 4)
    return planes[:channels, :pixels]


def folded(values: Tensor, pixel_channels: int) -> Tensor:
    """int8 values (channels, pixels) with so many channels side by side, as the first layer reads them."""
    channels, pixels = values.shape
    result = torch.zeros(pixels, pixel_channels, dtype=torch.int8)
    result[:, :channels] = values.t()
    return result.view(-1).view(torch.uint8)
