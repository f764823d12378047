"""Maxima and averages of int8 values on the hardware engine; see ops/quantised/pooling.py."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.command import MacCommand, Operation, WeightKind
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.gather import EngineGather, GatherRun, GatherSource, filled
from fpga_dynamo.codegen.engine.maps import Map, MapImages, RefusedError, images_of, of_engine
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.graph import aten, operand, pair, shape
from fpga_dynamo.ir.quantised import Scale, dequantized, quantizes
from fpga_dynamo.ir.view import View, align, numel
from fpga_dynamo.lowering.engine_patterns import EnginePattern
from fpga_dynamo.lowering.ops.engine.common.images import (
    Line,
    as_image,
    ones,
    uniform_windows,
    window_command,
    windows,
)
from fpga_dynamo.lowering.ops.engine.int8.mean import (
    Mean,
    halved,
    map_like,
    mean_line,
    mean_of_images,
    mean_over,
    mean_parameters,
)
from fpga_dynamo.lowering.ops.pooling import PoolWindow, window_of
from fpga_dynamo.lowering.ops.quantised.packing import PARAMETERS, UniformParameters, pack_one_scale
from fpga_dynamo.lowering.ops.quantised.pooling import (
    AVERAGE,
    MAXIMA,
    REDUCTIONS,
    divisor_scales,
    reduced_dims,
    result_size,
    window_divisors,
    window_of_average,
)
from fpga_dynamo.lowering.patterns import Match


def engine_maxima(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    """Tap by tap in front of the array, which then multiplies by 1."""
    node = match.nodes[0]
    window = window_of(node, 2)
    fields = {"operation": Operation.MAXIMUM, "pad": torch.iinfo(torch.int8).min}
    constants = UniformParameters(
        width=CHANNELS, count=shape(match.root)[-3], scale=1.0, greatest=128.0, result_scale=1.0, offset=0
    )
    return [_on_engine(match.root, operand(node, 0), window, fields, constants, emitter)]


def engine_average(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    """A depthwise convolution by ones; of whole images a product by a row of ones, where that one has no way."""
    source, node, last = match.nodes
    found, scale = dequantized(source), quantizes(last)
    assert found is not None and scale is not None
    integers, given = found
    if node.target in REDUCTIONS and reduced_dims(node) != _height_and_width(node):
        return [_of_dims(node, last, integers, given, scale, emitter)]
    window = window_of_average(node)
    if isinstance(window, str):
        raise RefusedError(window)
    size, out = shape(integers)[-2:], result_size(node)
    pixels = size[0] * size[1]
    mean = Mean(given, scale, window.divisor or pixels)
    is_whole = node.target in REDUCTIONS or (window.adaptive and tuple(out) == (1, 1))
    if is_whole and (pixels > emitter.sizes.taps or mean.halves):
        return [mean_of_images(last, _engine_input(integers, emitter), mean, emitter)]
    scales = divisor_scales(window, size, out, given, scale, with_halves=True)
    if isinstance(scales, str):
        raise RefusedError(scales)
    window, counts = uniform_windows(window, pair(size), out), window_divisors(window, size, out)
    fields = {
        "weight_kind": WeightKind.DIAGONAL,
        "pad": given.zero,
        "zero": scale.zero,
        "low": scale.low,
        "high": scale.high,
    }
    means = {divisor: replace(mean, divisor=divisor) for divisor in scales}
    if len(means) > 1:
        return [_by_divisor(last, integers, window, fields, means, counts, emitter)]
    (only,) = means.values()
    if not only.halves:
        return [_on_engine(last, integers, window, fields, _constants(window, only, shape(integers)[-3]), emitter)]
    result = emitter.result(last)
    _average(last, _engine_input(integers, emitter), images_of(result, "result"), window, fields, only, emitter)
    return [result]


def _constants(window: PoolWindow, mean: Mean, channels: int) -> UniformParameters:
    taps = window.kernel[0] * window.kernel[1]
    return UniformParameters(
        width=CHANNELS,
        count=channels,
        scale=mean.source.scale / mean.divisor,
        greatest=float(taps * mean.source.farthest),
        result_scale=mean.result.scale,
        offset=-taps * mean.source.zero,
    )


def _average(
    root: Node,
    x: MapImages,
    y: MapImages,
    window: PoolWindow,
    fields: dict[str, Any],
    mean: Mean,
    emitter: EngineEmitter,
) -> None:
    """The average over windows of `x` as `y`: by one command, or by two and half of their sum, as mean.py explains."""
    if not mean.halves:
        params = uniform_params(root, x, _constants(window, mean, x.channels), emitter)
        emitter.mac(window_command(x, y, window, fields), x, y, params, ones(emitter))
        return
    taps, name = window.kernel[0] * window.kernel[1], f"{root.name} by {mean.divisor}"
    below, above = (map_like(y, emitter, f"{name} rounded {way}") for way in ("down", "up"))
    for way, to in ((-1, below), (1, above)):
        parameters = mean_parameters(taps, mean.source, mean.result, way, mean.divisor)
        line = mean_line((x.channels, *parameters), name, emitter)
        emitter.mac(window_command(x, to, window, fields), x, to, line, ones(emitter))
    halved(below, above, y, mean.result, emitter)


def _by_divisor(
    root: Node,
    source: Node,
    window: PoolWindow,
    fields: dict[str, Any],
    means: dict[int, Mean],
    counts: list[list[int]],
    emitter: EngineEmitter,
) -> View:
    """An average for each divisor of its sums, and of these the pixels of which each is right."""
    if not emitter.sizes.gather:
        raise RefusedError("windows of different pixel counts (ceil_mode, count_include_pad) are not supported")
    x, out = _engine_input(source, emitter), emitter.result(root)
    y, beat, number = images_of(out, "result"), emitter.sizes.beat, {divisor: n for n, divisor in enumerate(means)}
    averages = Map(y.images * len(number), y.pixels, y.channels, emitter.sizes, f"{root.name} by divisors")
    for divisor, n in number.items():
        of_one = MapImages(averages, y.images, y.channels, y.height, y.width, image=n * y.images)
        _average(root, x, of_one, window, fields, means[divisor], emitter)
    image = averages.image_lines * beat
    runs: list[GatherRun] = []
    for pixel, divisor in enumerate(itertools.chain.from_iterable(counts)):
        word = number[divisor] * y.images * image + pixel
        if runs and word == runs[-1].first + runs[-1].words:
            runs[-1] = replace(runs[-1], words=runs[-1].words + 1)
        else:
            runs.append(GatherRun(GatherSource.INPUT, word, 1))
    chosen = EngineGather(
        filled(runs, y.pixels, emitter.sizes),
        y.pixels,
        0,
        y.line,
        (y.images, y.blocks),
        (image, averages.plane * beat),
        (y.map.image_lines, y.map.plane),
    )
    emitter.gather(chosen, averages, y.map)
    return out


def _on_engine(
    root: Node,
    source: Node,
    window: PoolWindow,
    fields: dict[str, Any],
    constants: UniformParameters,
    emitter: EngineEmitter,
) -> View:
    """The command and its result."""
    x = _engine_input(source, emitter)
    return windows(root, x, window, fields, uniform_params(root, x, constants, emitter), emitter)


def uniform_params(root: Node, x: MapImages, constants: UniformParameters, emitter: EngineEmitter) -> Line:
    """The parameters of a command whose channels all have the same ones."""
    words = PARAMETERS * align(x.channels, CHANNELS)

    def line(cut: MacCommand, first: int) -> int:
        name = f"{root.name} parameters of scale {constants.scale}"
        return emitter.put(emitter.pack(pack_one_scale, constants, [], words, name)) + cut.params

    return line


def _height_and_width(node: Node) -> tuple[int, ...]:
    rank = len(shape(operand(node, 0)))
    return (rank - 2, rank - 1) if rank == 4 else ()


def _of_dims(node: Node, last: Node, integers: Node, source: Scale, result: Scale, emitter: EngineEmitter) -> View:
    """A mean or sum over other dimensions than height and width of images."""
    of_engine(integers, "input", emitter.sizes)
    dims, size = reduced_dims(node), shape(integers)
    if dims is None:
        raise RefusedError("a mean or sum in another type is not supported")
    view = emitter.view(integers)
    count = numel([size[d] for d in dims])
    mean = Mean(source, result, count if node.target is aten.mean.dim else 1)
    keepdim = len(shape(last)) == len(size)
    if (seen := _as_pixels(view, dims, keepdim=keepdim)) is not None:
        return mean_of_images(last, seen, mean, emitter, features=dims == (1,))
    if not emitter.sizes.gather:
        raise RefusedError("means and sums are supported over an image's height and width only")
    return mean_over(last, view, dims, mean, emitter, keepdim=keepdim)


def _as_pixels(view: View, dims: tuple[int, ...], *, keepdim: bool) -> MapImages | None:
    """The images whose pixels are these dimensions, where no copy is needed for that."""
    try:
        if len(view.shape) == 4 and dims == (1, 2) and not keepdim:  # channels are the last of four dimensions
            return images_of(view.permute((0, 3, 1, 2)), "input")
        if len(view.shape) == 3 and dims in ((1,), (2,)):
            return images_of(as_image(view if dims == (2,) else view.permute((0, 2, 1))), "input")
    except RefusedError:
        pass
    return None


def _engine_input(source: Node, emitter: EngineEmitter) -> MapImages:
    of_engine(source, "input", emitter.sizes)
    if len(shape(source)) != 4:
        raise RefusedError("an image without a batch dimension is not supported")
    return emitter.images(emitter.view(source), "input")


PATTERNS = (EnginePattern(AVERAGE, engine_average), EnginePattern(MAXIMA, engine_maxima))
