"""Maps of a hardware engine as the host sees them: how a tensor is laid out in blocks of 16 channels, and read again.

The order is that of hls_kernels/engine/layout.hpp: a plane of pixels for each block of 16 channels, an image behind the
other; or, of few channels, all of a pixel's side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fpga_dynamo.ir.elements import BEAT_BYTES

CHANNELS = 16
"""Channels of a block."""

CHANNEL, PIXEL, IMAGE = 1, 1 << 24, 1 << 48
"""Strides of a view of a map: to the next channel, pixel and image."""
CHANNELS_FIRST = (IMAGE, CHANNEL, PIXEL)
"""Those of images of one row, as values of three dimensions."""


@dataclass(frozen=True)
class Blocked:
    """A map of `images` of `pixels` pixels of `channels` each, whose planes take `plane` beats.

    pixel_channels: adjacent channels of a pixel; CHANNELS for a map in blocks.
    filling: the value that the host writes to the channels that fill up a block.
    strides, offset: of a result, the layout of its elements, in terms of CHANNEL, PIXEL and IMAGE. Of a value that the
        host writes: CHANNELS_FIRST, or empty.
    patch: rows and columns of an image that the host writes as channels of one pixel, channel by channel. The
        remainder at the right and bottom is dropped.
    """

    images: int
    pixels: int
    channels: int
    plane: int
    dtype: torch.dtype
    pixel_channels: int = CHANNELS
    filling: int = 0
    strides: tuple[int, ...] = ()
    offset: int = 0
    patch: tuple[int, int] = (1, 1)

    @property
    def blocks(self) -> int:
        return -(-self.channels // CHANNELS) if self.pixel_channels == CHANNELS else 1

    @property
    def nbytes(self) -> int:
        return self.images * self.blocks * self.plane * BEAT_BYTES

    @property
    def _pixels_of_a_plane(self) -> int:
        return self.plane * BEAT_BYTES // (CHANNELS * self.dtype.itemsize)

    def laid_out(self, value: Tensor) -> Tensor:
        """The map's content, of one dimension, for an image (n, channels, height, width) or rows of features."""
        if self.strides == CHANNELS_FIRST:
            value = value.unsqueeze(2)
        if self.patch != (1, 1):
            parts = value.unfold(2, self.patch[0], self.patch[0]).unfold(3, self.patch[1], self.patch[1])
            value = parts.permute(0, 1, 4, 5, 2, 3).flatten(1, 3)
        if value.dim() == 4 and value.shape[0] == self.images and value.shape[1] == self.channels:
            rows = value.permute(0, 2, 3, 1).reshape(self.images, self.pixels, self.channels)
        else:
            rows = value.reshape(self.images, self.pixels, self.channels)
        if self.pixel_channels < CHANNELS:
            side_by_side = F.pad(rows, (0, self.pixel_channels - self.channels)).reshape(self.images, -1)
            room = self.plane * BEAT_BYTES // self.dtype.itemsize
            return F.pad(side_by_side, (0, room - side_by_side.shape[1])).contiguous().flatten()
        missing = (0, self.blocks * CHANNELS - self.channels, 0, self._pixels_of_a_plane - self.pixels)
        padded = F.pad(rows, missing, value=self.filling)
        blocks = padded.view(self.images, self._pixels_of_a_plane, self.blocks, CHANNELS).transpose(1, 2)
        return blocks.contiguous().flatten()

    def seen(self, content: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The value of `shape` that lies in a map's content; a tensor of its own."""
        planes = content.view(self.images, self.blocks, -1, CHANNELS).transpose(1, 2)
        rows = planes.reshape(self.images, planes.shape[1], self.blocks * CHANNELS)
        rows = rows.clone(memory_format=torch.contiguous_format)  # or it would be a view of the content
        steps = rows.stride()

        def step(stride: int) -> int:
            image, rest = divmod(stride, IMAGE)
            pixel, channel = divmod(rest, PIXEL)
            return image * steps[0] + pixel * steps[1] + channel

        strides = [0 if size == 1 else step(stride) for size, stride in zip(shape, self.strides, strict=True)]
        return rows.as_strided(shape, strides, step(self.offset))

    def empty(self) -> Tensor:
        """Memory for the content."""
        return torch.empty(self.nbytes // self.dtype.itemsize, dtype=self.dtype)
