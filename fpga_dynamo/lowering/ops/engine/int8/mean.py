"""Means over whole int8 images on the hardware engine: a row of ones by the image, whose pixels are the sum's depth.

So an image may have more pixels than a kernel has positions. Take a count with an odd factor: a mean may lie exactly
half way between two integers, and a product with the rounded inverse is then slightly off. Such a mean is computed
twice, with the inverse rounded down and up. The two differ by one exactly in this case. Half of their sum is rounded to
even, as the mean is in eager mode.

Tests: tests/lowering/test_engine_mean.py, test_engine_bits.py.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.command import MacCommand, WeightKind
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import Map, MapImages, RefusedError, images_of
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.codegen.engine.vector import VectorCommand
from fpga_dynamo.codegen.requantize import FRACTION, LARGEST_MANTISSA, NIBBLE, SHIFTS, channels, factor
from fpga_dynamo.ir.blocked import PIXEL
from fpga_dynamo.ir.graph import shape
from fpga_dynamo.ir.quantised import Scale
from fpga_dynamo.ir.view import View, align, ceil_div
from fpga_dynamo.lowering.ops.engine.int8.vector_side import scale_of_elements
from fpga_dynamo.lowering.ops.quantised.packing import PARAMETERS
from fpga_dynamo.torch_internals.dispatch import without_modes


def mean_of_images(
    root: Node,
    x: MapImages,
    source: Scale,
    result: Scale,
    emitter: EngineEmitter,
    *,
    halves: bool,
    features: bool = False,
) -> View:
    """The mean over all pixels of each image and channel. halves: whether it may lie between two integers.

    The value of `root` has images and channels, and may have a height and width of 1; of rows of `features`, it may
    have a row between the two. Raises RefusedError, or RequantizeError for scales that no command holds.
    """
    rank = len(shape(root))
    out = emitter.result(root, None if rank == 4 else (x.images, x.channels, 1, 1))
    y = images_of(out, "result")
    ones = _ones(x, emitter)
    parameters = {way: mean_parameters(x.pixels, source, result, way) for way in ((-1, 1) if halves else (0,))}
    if not halves:
        _product(ones, x, y, result, (x.channels, *parameters[0]), root, emitter)
    else:
        below, above = (_like(y, emitter, f"{root.name} rounded {way}") for way in ("down", "up"))
        for way, to in ((-1, below), (1, above)):
            _product(ones, x, to, result, (x.channels, *parameters[way]), root, emitter)
        _halved(below, above, y, result, emitter)
    strides = (out.strides[0], PIXEL, out.strides[1]) if features and rank == 3 else out.strides[:rank]
    return View(out.buffer, tuple(shape(root)), strides, out.offset)


def _like(y: MapImages, emitter: EngineEmitter, name: str) -> MapImages:
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
    root: Node,
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
    words = PARAMETERS * align(x.channels, CHANNELS)

    def params(cut: MacCommand, first: int) -> int:
        return emitter.put(emitter.pack(pack_mean, parameters, [], words, f"{root.name} parameters")) + cut.params

    emitter.mac(command, ones, y, params, second=x)


def _halved(below: MapImages, above: MapImages, y: MapImages, result: Scale, emitter: EngineEmitter) -> None:
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


def mean_parameters(pixels: int, source: Scale, result: Scale, way: int) -> tuple[int, int]:
    """Offset and scale of a mean's channels. way: -1 and 1 round the scale's mantissa down and up.

    Raises RefusedError where the bits of the mean are defined and the mantissa is too short for them.
    """
    scale = source.scale / (result.scale * pixels)
    with without_modes():
        made = channels(torch.tensor([scale]).double(), 0.0, float(pixels * source.farthest), -pixels * source.zero)
        offset, shift = int(made.offset), int(made.scale) & (SHIFTS - 1)
    exact = math.ldexp(scale, FRACTION + NIBBLE * shift)
    if math.ceil(exact) > LARGEST_MANTISSA:  # one shift less has room
        shift, exact = shift - 1, math.ldexp(exact, -NIBBLE)
    if math.frexp(source.scale / result.scale)[0] == 0.5:  # a power of two: the bits of the mean are well defined
        # How near a mean may come to what lies between two integers, and what a mantissa off by one changes at most.
        apart = min(1.0, 2 * source.scale / result.scale) / (2 * pixels)
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
