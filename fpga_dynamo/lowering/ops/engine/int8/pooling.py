"""Maxima and averages of int8 values on the hardware engine; see ops/quantised/pooling.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.command import MacCommand, Operation, WeightKind
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import MapImages, RefusedError, images_of, of_engine
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.graph import argument, aten, normalise_dims, operand, pair, shape
from fpga_dynamo.ir.quantised import dequantized, quantizes
from fpga_dynamo.ir.view import View, align
from fpga_dynamo.lowering.engine_patterns import EnginePattern
from fpga_dynamo.lowering.ops.engine.common.images import as_image, uniform_windows, windows
from fpga_dynamo.lowering.ops.engine.int8.mean import mean_of_images
from fpga_dynamo.lowering.ops.pooling import PoolWindow, window_of
from fpga_dynamo.lowering.ops.quantised.packing import UniformParameters, pack_one_scale
from fpga_dynamo.lowering.ops.quantised.pooling import (
    AVERAGE,
    MAXIMA,
    divisor_scales,
    may_be_halves,
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

    def whole(x: MapImages, *, features: bool = False) -> Sequence[View]:
        halves = may_be_halves(ratio, x.pixels)
        return [mean_of_images(last, x, given, scale, emitter, halves=halves, features=features)]

    ratio = given.scale / scale.scale
    if _is_of_pixels_last(node):
        of_engine(integers, "input", emitter.sizes)
        return whole(emitter.images(emitter.view(integers).permute((0, 3, 1, 2)), "input"))
    axis = _axis_of_rows(node)
    if axis is not None:
        of_engine(integers, "input", emitter.sizes)
        x = emitter.view(integers)
        return whole(images_of(as_image(x if axis == 2 else x.permute((0, 2, 1))), "input"), features=axis == 1)
    window = window_of_average(node)
    if isinstance(window, str):
        raise RefusedError(window)
    size, out = shape(integers)[-2:], result_size(node)
    pixels = size[0] * size[1]
    is_whole = node.target is aten.mean.dim or (window.adaptive and tuple(out) == (1, 1))
    if is_whole and (pixels > emitter.sizes.taps or may_be_halves(ratio, pixels)):
        return whole(_engine_input(integers, emitter))
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
    window: PoolWindow,
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


def _axis_of_rows(node: Node) -> int | None:
    """Of a mean over one of three dimensions that one: 2 where channels are the second, 1 where they are the last."""
    if node.target is not aten.mean.dim or argument(node, "dtype", 3) is not None:
        return None
    if len(shape(operand(node, 0))) != 3:
        return None
    dims = normalise_dims(argument(node, "dim", 1), 3)
    return dims[0] if dims in ((1,), (2,)) else None


def _is_of_pixels_last(node: Node) -> bool:
    """Whether it is a mean over height and width of images whose channels are the last of four dimensions."""
    if node.target is not aten.mean.dim or argument(node, "dtype", 3) is not None or len(shape(node)) != 2:
        return False
    return len(shape(operand(node, 0))) == 4 and normalise_dims(argument(node, "dim", 1), 4) == (1, 2)


def _engine_input(source: Node, emitter: EngineEmitter) -> MapImages:
    of_engine(source, "input", emitter.sizes)
    if len(shape(source)) != 4:
        raise RefusedError("an image without a batch dimension is not supported")
    return emitter.images(emitter.view(source), "input")


PATTERNS = (EnginePattern(AVERAGE, engine_average), EnginePattern(MAXIMA, engine_maxima))
