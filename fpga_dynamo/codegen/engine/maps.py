"""Values as maps of an engine: where they lie, and views of them as images or rows, as commands read them.

A value's place is a :class:`View` of a map, whose strides count channels, pixels and images: an element lies at
``image * IMAGE + pixel * PIXEL + channel``. So a permutation, a head of an attention or a part of a concatenation is
arithmetic on strides here as well, and what no command could read is what no such strides can say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from fpga_dynamo.ir.blocked import CHANNEL, CHANNELS, CHANNELS_FIRST, IMAGE, PIXEL, Blocked
from fpga_dynamo.ir.graph import value
from fpga_dynamo.ir.view import Buffer, View, ceil_div

from .sizes import LINE_BYTES, EngineSizes


class RefusedError(Exception):
    """Why an engine does not take something, as a sentence about it."""


class Map(Buffer):
    """`images` images of `pixels` pixels of so many channels each, blocked, or `pixel_channels` side by side.

    at: its first line, assigned at first use.
    launch: the list for which `at` was assigned.
    writer: the last command that writes to it, as its list and position.
    channels_first: whether the host writes it for a value of three dimensions (images, channels, pixels).
    patch: rows and columns that the host writes as channels of a pixel.
    run: of a map whose channels come in runs that each begin a block, the channels of a run; else 0.
    wide: whether it is float32 on an engine of fewer bits, a line for each pixel of a block.
    """

    def __init__(
        self,
        images: int,
        pixels: int,
        channels: int,
        sizes: EngineSizes,
        name: str,
        pixel_channels: int = CHANNELS,
        *,
        channels_first: bool = False,
        patch: tuple[int, int] = (1, 1),
        wide: bool = False,
    ) -> None:
        self.images, self.pixels, self.channels, self.pixel_channels = images, pixels, channels, pixel_channels
        self.channels_first, self.patch, self.wide = channels_first, patch, wide
        blocks = ceil_div(channels, CHANNELS) if pixel_channels == CHANNELS else 1
        self.plane = ceil_div(pixels * pixel_channels, sizes.line_elements) * (sizes.beat if wide else 1)
        self.image_lines = blocks * self.plane
        self.at: int | None = None
        self.launch = 0
        self.run = 0
        self.writer: tuple[int, int] | None = None
        super().__init__(images * self.image_lines * LINE_BYTES, name=name)

    def cast(self, sizes: EngineSizes, name: str, *, wide: bool) -> Map:
        """A map whose elements lie as this one's do, in float32 or those of the engine."""
        return Map(
            self.images, self.pixels, self.channels, sizes, name, self.pixel_channels,
            channels_first=self.channels_first, patch=self.patch, wide=wide,
        )  # fmt: skip

    def lies_as(self, other: Map) -> bool:
        """Whether elements of both lie alike."""
        own, others = (
            (of.images, of.pixels, of.channels, of.pixel_channels, of.channels_first, of.patch, of.wide)
            for of in (self, other)
        )
        return own == others

    def blocked(self, dtype: torch.dtype, filling: int = 0, view: View | None = None) -> Blocked:
        """How the host lays it out, or reads `view` of it."""
        written = CHANNELS_FIRST if self.channels_first else ()
        strides, offset = (written, 0) if view is None else (tuple(view.strides), int(view.offset))
        sizes = (self.images, self.pixels, self.channels, self.plane)
        return Blocked(*sizes, dtype, self.pixel_channels, filling, strides, offset, self.patch)

    @property
    def lines(self) -> int:
        return self.images * self.image_lines

    @property
    def blocks(self) -> int:
        return self.image_lines // self.plane


def ends_with_blocks(view: View, channels: int) -> bool:
    """Whether runs of so many channels of a view are followed by nothing but what fills up a block."""
    of = view.buffer
    assert isinstance(of, Map)
    if channels % CHANNELS == 0 or of.run == channels:
        return True
    steps = (stride % PIXEL for size, stride in zip(view.shape, view.strides, strict=True) if size > 1)
    return not any(step > CHANNEL for step in steps) and view.offset % PIXEL + channels == of.channels


@dataclass(frozen=True)
class MapImages:
    """A view as commands take it: `images` images of height x width pixels, of `channels` from a block on.

    first, last: pixels of the map before and behind those of an image; 0 unless they are a run of rows of a matrix.
    """

    map: Map
    images: int
    channels: int
    height: int
    width: int
    block: int = 0
    image: int = 0
    first: int = 0

    @property
    def line(self) -> int:
        """The first, from the map's."""
        return self.image * self.map.image_lines + self.block * self.map.plane

    @property
    def blocks(self) -> int:
        return ceil_div(self.channels, CHANNELS)

    @property
    def pixels(self) -> int:
        return self.height * self.width

    @property
    def whole(self) -> bool:
        """Whether an image is all pixels of the map."""
        return self.first == 0 and self.pixels == self.map.pixels


def as_map(size: Sequence[int]) -> tuple[int, int, int]:
    """Images, pixels and channels of a value: an image if it has four dimensions, else rows of features."""
    if len(size) == 4:
        return size[0], size[2] * size[3], size[1]
    rows = 1
    for n in size[:-1]:
        rows *= n
    return 1, rows, size[-1] if size else 1


def dense_view(of: Map, size: Sequence[int]) -> View:
    """All of a map as the value that :func:`as_map` made it for."""
    if len(size) == 4:
        return View(of, tuple(size), (IMAGE, CHANNEL, size[3] * PIXEL, PIXEL))
    strides, step = [CHANNEL], PIXEL
    for n in reversed(size[1:-1] if len(size) > 1 else ()):
        strides.insert(0, step)
        step *= n
    if len(size) > 1:
        strides.insert(0, step)
    return View(of, tuple(size), tuple(strides[: len(size)]))


def images_of(view: View, what: str) -> MapImages:
    """A view of four dimensions as images. Raises RefusedError, about `what`."""
    n, channels, height, width = view.shape
    of, image, first, block = _origin(view, what)
    wanted = (IMAGE, CHANNEL, width * PIXEL, PIXEL)
    if any(size != 1 and stride != want for size, stride, want in zip(view.shape, view.strides, wanted, strict=True)):
        raise RefusedError(f"{what} has a memory layout that the engine does not support")
    found = MapImages(of, n, channels, height, width, block, image, first)
    if not found.whole:
        raise RefusedError(f"{what} is a slice of an image, which is not supported")
    return found


def rows_of(view: View, what: str) -> MapImages:
    """A view whose last dimension are features, as rows: images of a row or many. Raises RefusedError, about `what`."""
    channels = view.shape[-1] if view.shape else 1
    of, image, first, block = _origin(view, what)
    if channels != 1 and view.strides[-1] != CHANNEL:
        raise RefusedError(f"{what} has a memory layout that the engine does not support")
    runs = _runs(view.shape[:-1], view.strides[:-1])
    images = 1
    if runs and runs[0][1] == IMAGE:
        images = runs.pop(0)[0]
    pixels = 1
    if runs and runs[0][1] == PIXEL:
        pixels = runs.pop(0)[0]
    if runs:
        raise RefusedError(f"{what} has a memory layout that the engine does not support")
    return MapImages(of, images, channels, 1, pixels, block, image, first)


def _origin(view: View, what: str) -> tuple[Map, int, int, int]:
    """Map, image, pixel and block that a view begins with."""
    of = view.buffer
    assert isinstance(of, Map)
    image, rest = divmod(view.offset, IMAGE)
    pixel, channel = divmod(rest, PIXEL)
    if channel % CHANNELS:
        raise RefusedError(f"{what} begins at channel {channel}; multiples of {CHANNELS} are supported")
    return of, image, pixel, channel // CHANNELS


def _runs(sizes: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Dimensions as dense runs (elements, stride), outermost first."""
    runs: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == stride * size:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return runs


DTYPES = {1: torch.int8, 2: torch.bfloat16, 4: torch.float32}
"""What an engine's elements are, by their bytes."""


def of_engine(node: Node, what: str, sizes: EngineSizes) -> None:
    """Raises RefusedError if a value is not of the engine's elements."""
    dtype, own = value(node).dtype, DTYPES[sizes.element_bytes]
    if dtype is not own:
        given, wanted = (str(of).removeprefix("torch.") for of in (dtype, own))
        raise RefusedError(f"{what} is {given}, and the engine's feature maps are {wanted}")
