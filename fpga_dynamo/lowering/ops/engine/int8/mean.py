"""Means and sums of int8 feature maps on the engine: a row of ones by an image, whose pixels are the sum's depth.

Other dimensions than the pixels of an image are copied to an image's pixels. An image may have more pixels than a
kernel has positions. If the count has an odd factor, a mean may lie exactly half way between two integers, and a
product with the rounded inverse is then slightly off. Such a mean is computed twice, with the inverse rounded down and
up. The two differ by one exactly in this case. Half of their sum is rounded to even, as the mean is in eager mode.

Tests: tests/lowering/test_engine_mean.py, test_engine_dimensions.py, test_engine_bits.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.command import MacCommand, WeightKind
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import Map, MapImages, RefusedError, images_of
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.codegen.engine.vector import VectorCommand
from fpga_dynamo.codegen.requantize import FRACTION, LARGEST_MANTISSA, NIBBLE, SHIFTS, channels, factor
from fpga_dynamo.ir.blocked import CHANNEL, IMAGE, PIXEL
from fpga_dynamo.ir.graph import shape
from fpga_dynamo.ir.quantised import Scale
from fpga_dynamo.ir.view import View, align, ceil_div, dense, numel
from fpga_dynamo.lowering.ops.engine.common.images import Line
from fpga_dynamo.lowering.ops.engine.int8.vector_side import scale_of_elements
from fpga_dynamo.lowering.ops.quantised.packing import PARAMETERS
from fpga_dynamo.lowering.ops.quantised.pooling import may_be_halves
from fpga_dynamo.torch_internals.dispatch import without_modes


@dataclass(frozen=True)
class Mean:
    """Of integers of `source`, rounded to `result`. divisor: of the sum, the number of terms for a mean."""

    source: Scale
    result: Scale
    divisor: int

    @property
    def halves(self) -> bool:
        """Whether it may lie between two integers where a product with the inverse of the divisor is off."""
        return may_be_halves(self.source.scale / self.result.scale, self.divisor)


def mean_of_images(root: Node, x: MapImages, of: Mean, emitter: EngineEmitter, *, features: bool = False) -> View:
    """The mean over all pixels of each image and channel.

    The value of `root` has images and channels, and may have a height and width of 1; of rows of `features`, it may
    have a row between the two. Raises RefusedError, or RequantizeError for scales that no command holds.
    """
    rank = len(shape(root))
    out = emitter.result(root, None if rank == 4 else (x.images, x.channels, 1, 1))
    _mean(root.name, x, images_of(out, "result"), of, emitter)
    strides = (out.strides[0], PIXEL, out.strides[1]) if features and rank == 3 else out.strides[:rank]
    return View(out.buffer, tuple(shape(root)), strides, out.offset)


def mean_over(root: Node, view: View, dims: Sequence[int], of: Mean, emitter: EngineEmitter, *, keepdim: bool) -> View:
    """The mean over dimensions of a view, which become pixels. Raises as :func:`mean_of_images` does."""
    kept = [d for d in range(len(view.shape)) if d not in dims]
    channels = _channels(view, kept)
    images = [d for d in kept if d != channels]
    counts = [numel([view.shape[d] for d in own]) for own in (images, dims)]
    width = 1 if channels is None else view.shape[channels]
    strides = [0] * len(view.shape)
    for own, unit in ((images, IMAGE), (dims, PIXEL)):
        for d, step in zip(own, dense([view.shape[d] for d in own]), strict=True):
            strides[d] = step * unit
    if channels is not None:
        strides[channels] = CHANNEL
    matrices = Map(counts[0], counts[1], width, emitter.sizes, view.buffer.name)
    target = View(matrices, view.shape, tuple(strides), 0, view.dtype)
    emitter.copy(view, target, "the input", filling=of.source.zero)
    made = Map(counts[0], 1, width, emitter.sizes, root.name)
    x = MapImages(matrices, counts[0], width, 1, counts[1])
    _mean(root.name, x, MapImages(made, counts[0], width, 1, 1), of, emitter)
    left = [0 if d in dims else strides[d] for d in range(len(strides)) if keepdim or d not in dims]
    out = View(made, tuple(shape(root)), tuple(left), 0, view.dtype)
    placed = emitter.placements.get(root)
    return out if placed is None else emitter.copied(out, placed, "result")


def _channels(view: View, kept: Sequence[int]) -> int | None:
    """The dimension that becomes channels: the one that is, or the longest."""
    if not kept:
        return None
    return max(kept, key=lambda d: (view.strides[d] == CHANNEL and view.shape[d] > 1, view.shape[d]))


def _mean(name: str, x: MapImages, y: MapImages, of: Mean, emitter: EngineEmitter) -> None:
    ways = (-1, 1) if of.halves else (0,)
    parameters = {way: mean_parameters(x.pixels, of.source, of.result, way, of.divisor) for way in ways}
    ones = _ones(x, emitter)
    if not of.halves:
        _product(ones, x, y, of.result, (x.channels, *parameters[0]), name, emitter)
        return
    below, above = (map_like(y, emitter, f"{name} rounded {way}") for way in ("down", "up"))
    for way, to in ((-1, below), (1, above)):
        _product(ones, x, to, of.result, (x.channels, *parameters[way]), name, emitter)
    halved(below, above, y, of.result, emitter)


def map_like(y: MapImages, emitter: EngineEmitter, name: str) -> MapImages:
    """All of a map of its own of the size of `y`."""
    return MapImages(Map(y.images, y.pixels, y.channels, emitter.sizes, name), y.images, y.channels, y.height, y.width)


def _ones(x: MapImages, emitter: EngineEmitter) -> MapImages:
    """A row of as many ones as there are pixels; what fills its last block are zeros.

    Made of any numbers, here the image's: each is more than -129, and 15 times a difference of at least 1 is limited.
    A line of the row's map is a block of its features, so whole blocks are written as pixels of 16 channels.
    """
    row = Map(1, 1, x.pixels, emitter.sizes, f"{x.pixels} ones")
    whole, rest = divmod(x.pixels, CHANNELS)
    command = VectorCommand(input_scale=scale_of_elements(15.0), input_zero=-129, low=0, high=1)
    if whole:
        pixels = whole * emitter.sizes.beat
        emitter.vector(replace(command, channels=CHANNELS, pixels=pixels), x, MapImages(row, 1, x.pixels, 1, 1))
    if rest:
        emitter.vector(replace(command, channels=rest), x, MapImages(row, 1, rest, 1, 1, block=whole))
    return MapImages(row, 1, x.pixels, 1, 1)


def _product(
    ones: MapImages,
    x: MapImages,
    y: MapImages,
    result: Scale,
    parameters: tuple[int, int, int],
    name: str,
    emitter: EngineEmitter,
) -> None:
    blocks = ceil_div(x.channels, CHANNELS)
    command = MacCommand(
        weight_kind=WeightKind.TRANSPOSED,
        weight_plane=x.map.plane,
        in_blocks=ceil_div(x.pixels, CHANNELS),
        out_blocks=blocks,
        group_in=x.pixels,
        group_out=blocks * CHANNELS,
        heads=(1, x.images),
        weight_head=(0, x.map.image_lines),
        output_head=(0, y.map.image_lines),
        zero=result.zero,
        low=result.low,
        high=result.high,
    )
    emitter.mac(command, ones, y, mean_line(parameters, name, emitter), second=x)


def mean_line(parameters: tuple[int, int, int], name: str, emitter: EngineEmitter) -> Line:
    """What answers the line of a command's parameters. parameters: channels, and :func:`mean_parameters` of them."""
    words = PARAMETERS * align(parameters[0], CHANNELS)

    def params(cut: MacCommand, first: int) -> int:
        return emitter.put(emitter.pack(pack_mean, parameters, [], words, f"{name} parameters")) + cut.params

    return params


def halved(below: MapImages, above: MapImages, y: MapImages, result: Scale, emitter: EngineEmitter) -> None:
    """Half of a sum, to the nearest even integer."""
    command = VectorCommand(
        input_scale=scale_of_elements(0.5),
        other_factor=factor(0.5),
        input_zero=result.zero,
        other_zero=result.zero,
        zero=result.zero,
        low=result.low,
        high=result.high,
        channels=y.channels,
        pixels=y.pixels,
        heads=(1, y.images),
        input_head=(0, below.map.image_lines),
        other_head=(0, above.map.image_lines),
        output_head=(0, y.map.image_lines),
    )
    emitter.vector(command, below, y, 0, above)


def mean_parameters(pixels: int, source: Scale, result: Scale, way: int, divisor: int | None = None) -> tuple[int, int]:
    """Offset and scale of a mean's channels. way: -1 and 1 round the scale's mantissa down and up.

    divisor: the number of pixels if left out.

    Raises RefusedError where the bits of the mean are defined and the mantissa is too short for them.
    """
    divisor = pixels if divisor is None else divisor
    scale = source.scale / (result.scale * divisor)
    with without_modes():
        made = channels(torch.tensor([scale]).double(), 0.0, float(pixels * source.farthest), -pixels * source.zero)
        offset, shift = int(made.offset), int(made.scale) & (SHIFTS - 1)
    exact = math.ldexp(scale, FRACTION + NIBBLE * shift)
    if math.ceil(exact) > LARGEST_MANTISSA:  # one shift less has room
        shift, exact = shift - 1, math.ldexp(exact, -NIBBLE)
    if math.frexp(source.scale / result.scale)[0] == 0.5:  # a power of two: the bits of the mean are well defined
        # How near a mean may come to what lies between two integers, and what a mantissa off by one changes at most.
        apart = min(1.0, 2 * source.scale / result.scale) / (2 * divisor)
        error = math.ldexp(min(pixels * source.farthest, 256 / scale), -FRACTION - NIBBLE * shift)
        if error >= apart:
            raise RefusedError(f"a mean over {pixels} pixels is not supported: the inverse is not exact enough")
    rounded = (round(exact), math.ceil(exact), math.floor(exact))[way]
    return offset, rounded << 5 | shift


def pack_mean(params: tuple[Any, ...]) -> torch.Tensor:
    """int32 [block][offset, scale, bias][16], the same of `count` channels."""
    count, offset, scale = params
    rows = torch.tensor([offset, scale, 0], dtype=torch.int32).view(1, PARAMETERS, 1)
    return rows.expand(ceil_div(count, CHANNELS), PARAMETERS, CHANNELS).flatten()
