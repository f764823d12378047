"""Maxima and averages of int8 values on the hardware engine; see ops/quantised/pooling.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.command import MacCommand, Operation, WeightKind
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import Images, RefusedError, images_of, of_engine
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.graph import aten, operand, pair, shape
from fpga_dynamo.ir.quantised import Scale, dequantized, quantizes
from fpga_dynamo.ir.view import View, align, numel
from fpga_dynamo.lowering.engine_patterns import EnginePattern
from fpga_dynamo.lowering.ops.engine.common.images import as_image, uniform_windows, windows
from fpga_dynamo.lowering.ops.engine.int8.mean import Mean, mean_of_images, mean_over
from fpga_dynamo.lowering.ops.pooling import Window, window_of
from fpga_dynamo.lowering.ops.quantised.packing import UniformParameters, pack_one_scale
from fpga_dynamo.lowering.ops.quantised.pooling import (
    AVERAGE,
    MAXIMA,
    REDUCTIONS,
    divisor_scales,
    reduced_dims,
    result_size,
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
    scales = divisor_scales(window, size, out, given, scale)
    if isinstance(scales, str):
        raise RefusedError(scales)
    if len(scales) > 1:
        raise RefusedError("windows of different pixel counts (ceil_mode, count_include_pad) are not supported")
    window = uniform_windows(window, pair(size), out)
    (divisor,) = scales
    taps = window.kernel[0] * window.kernel[1]
    fields = {
        "weight_kind": WeightKind.DIAGONAL,
        "pad": given.zero,
        "zero": scale.zero,
        "low": scale.low,
        "high": scale.high,
    }
    constants = UniformParameters(
        width=CHANNELS,
        count=shape(integers)[-3],
        scale=given.scale / divisor,
        greatest=float(taps * given.farthest),
        result_scale=scale.scale,
        offset=-taps * given.zero,
    )
    return [_on_engine(last, integers, window, fields, constants, emitter)]


def _on_engine(
    root: Node,
    source: Node,
    window: Window,
    fields: dict[str, Any],
    constants: UniformParameters,
    emitter: EngineEmitter,
) -> View:
    """The command and its result."""
    x = _engine_input(source, emitter)
    words = 3 * align(x.channels, CHANNELS)

    def params(cut: MacCommand, first: int) -> int:
        return emitter.put(emitter.pack(pack_one_scale, constants, [], words, f"{root.name} parameters")) + cut.params

    return windows(root, x, window, fields, params, emitter)


def _height_and_width(node: Node) -> tuple[int, ...]:
    rank = len(shape(operand(node, 0)))
    return (rank - 2, rank - 1) if rank == 4 else ()


def _of_dims(
    node: Node, last: Node, integers: Node, source: Scale, result: Scale, emitter: EngineEmitter
) -> View:
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


def _as_pixels(view: View, dims: tuple[int, ...], *, keepdim: bool) -> Images | None:
    """The images whose pixels are these dimensions, where no copy is needed for that."""
    try:
        if len(view.shape) == 4 and dims == (1, 2) and not keepdim:  # channels are the last of four dimensions
            return images_of(view.permute((0, 3, 1, 2)), "input")
        if len(view.shape) == 3 and dims in ((1,), (2,)):
            return images_of(as_image(view if dims == (2,) else view.permute((0, 2, 1))), "input")
    except RefusedError:
        pass
    return None


def _engine_input(source: Node, emitter: EngineEmitter) -> Images:
    of_engine(source, "input", emitter.sizes)
    if len(shape(source)) != 4:
        raise RefusedError("an image without a batch dimension is not supported")
    return emitter.images(emitter.view(source), "input")


PATTERNS = (EnginePattern(AVERAGE, engine_average), EnginePattern(MAXIMA, engine_maxima))
