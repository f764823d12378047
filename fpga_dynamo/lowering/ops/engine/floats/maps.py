"""Pooling, sums, limits and concatenations of maps of bfloat16 and float32 on engines, which have no vector side then.

They are commands of the array: maxima tap by tap in front of it, all else a sum by ones over windows, of which a sum of
two maps has a single element. Tests: tests/lowering/test_engine_floats.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.command import MacCommand, Operation, WeightKind
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import Map, MapImages, RefusedError, images_of, of_engine, rows_of
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, normalise_dims, operand, shape
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.engine_patterns import engine_only
from fpga_dynamo.lowering.ops.batch_norm import BATCH_NORM
from fpga_dynamo.lowering.ops.engine.common.concatenations import Concatenation
from fpga_dynamo.lowering.ops.engine.common.images import ones, uniform_windows, window_command, windows
from fpga_dynamo.lowering.ops.engine.floats.epilogue import (
    FloatEpilogue,
    channel_parameters,
    fields,
    float_bits,
    float_epilogue,
    is_limit,
    limited,
    parameters,
    residual,
)
from fpga_dynamo.lowering.ops.engine.floats.functions import behind, function_of
from fpga_dynamo.lowering.ops.epilogue import ACTIVATION_TARGETS, Activation, activation, residual_of
from fpga_dynamo.lowering.ops.pooling import PoolWindow, window_of
from fpga_dynamo.lowering.ops.unary_functions import FUNCTIONS, WITH_NUMBER, is_unary_function
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone, anchor_and_first_item

_ONE = PoolWindow(False, (1, 1), (1, 1), (0, 0), (1, 1))


# --- pooling ----------------------------------------------------------------------------------------------------------


def engine_maxima(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    node = match.nodes[0]
    end = FloatEpilogue((), match.root)
    # bfloat16 is the upper half of a float32.
    least = float_bits(-math.inf) >> (16 if emitter.sizes.element_bytes == 2 else 0)
    own = {"operation": Operation.MAXIMUM, "pad": least & (0xFFFF if emitter.sizes.element_bytes == 2 else 0xFFFF_FFFF)}
    x = _image(operand(node, 0), emitter)
    params = channel_parameters(x.channels, 1.0, emitter)
    return [windows(match.root, x, window_of(node, 2), {**fields(end, emitter), **own}, params, emitter)]


def engine_average(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    node = match.nodes[0]
    x = _image(operand(node, 0), emitter)
    size, out = (x.height, x.width), _size_of(node)
    window = uniform_windows(_window(node, size), size, out)
    ends = [
        (n - 1) * step + taps - padding
        for n, step, taps, padding in zip(out, window.stride, window.kernel, window.padding, strict=True)
    ]
    inside = not any(window.padding) and all(end <= n for end, n in zip(ends, size, strict=True))
    padded = all(end <= n + p for end, n, p in zip(ends, size, window.padding, strict=True))
    if not (inside or window.divisor or (window.count_include_pad and padded)):
        raise RefusedError("windows of different pixel counts (ceil_mode, count_include_pad) are not supported")
    divisor = float(window.divisor or window.kernel[0] * window.kernel[1])
    own = {"weight_kind": WeightKind.DIAGONAL, **fields(FloatEpilogue((), match.root), emitter)}
    rows, columns = window.kernel
    if inside and 1 not in window.kernel and rows * columns > emitter.sizes.taps:
        x = _averages_of_rows(node, x, window, out[1], own, emitter)
        window = replace(window, kernel=(rows, 1), stride=(window.stride[0], 1))
        divisor /= columns
    params = channel_parameters(x.channels, 1.0 / divisor, emitter)
    return [windows(match.root, x, window, own, params, emitter)]


def _averages_of_rows(
    node: Node, x: MapImages, window: PoolWindow, width: int, own: dict[str, Any], emitter: EngineEmitter
) -> MapImages:
    """What windows average along each row, of which those of more positions than the engine's table has are made.

    That is rounded once more; a kernel of so many positions would take a command for each block and row.
    """
    made = Map(x.images, x.height * width, x.channels, emitter.sizes, f"{node.name} of rows")
    y = MapImages(made, x.images, x.channels, x.height, width)
    columns, step = window.kernel[1], window.stride[1] if width > 1 else window.kernel[1]
    command = window_command(x, y, replace(_ONE, kernel=(1, columns), stride=(1, step)), own)
    emitter.mac(command, x, y, channel_parameters(x.channels, 1.0 / columns, emitter), ones(emitter))
    return y


def _window(node: Node, size: tuple[int, int]) -> PoolWindow:
    if node.target is not aten.mean.dim:
        return window_of(node, 2)
    rank = len(shape(operand(node, 0)))
    if argument(node, "dtype", 3) is not None or normalise_dims(argument(node, "dim", 1), rank) != (rank - 2, rank - 1):
        raise RefusedError("a mean is supported over an image's height and width only")
    return PoolWindow(False, size, (1, 1), (0, 0), (1, 1))


def _size_of(node: Node) -> tuple[int, int]:
    size = shape(node)
    return (1, 1) if node.target is aten.mean.dim else (size[-2], size[-1])


def _image(node: Node, emitter: EngineEmitter) -> MapImages:
    of_engine(node, "input", emitter.sizes)
    if len(shape(node)) != 4:
        raise RefusedError("an image without a batch dimension is not supported")
    return images_of(emitter.view(node), "input")


# --- element by element -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ElementWiseParts:
    """The operand that the array multiplies by 1, and what follows."""

    epilogue: FloatEpilogue
    input: Node


def match_sum(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[ElementWiseParts] | None:
    """A sum of two values of one shape, and limits behind it: a product by 1 whose epilogue that is."""
    left = node.args[0]
    if not isinstance(left, Node) or (right := residual_of(left, node)) is None or right is left:
        return None
    if any(graph.is_static(arg) for arg in (left, right)):
        return None
    end = replace(limited(node, graph), residual=right)
    return Match(pattern, (node, *end.nodes), (end.last,), ElementWiseParts(end, left))


def match_limit(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[ElementWiseParts] | None:
    """Limits that no product stands in front of."""
    if not is_limit(node) or graph.is_static(operand(node, 0)):
        return None
    end = FloatEpilogue((), node, limits=activation(node) or Activation())
    return Match(pattern, (node,), (node,), ElementWiseParts(end, operand(node, 0)))


def match_function(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[ElementWiseParts] | None:
    """Functions that no product stands in front of."""
    if "functions" not in graph.engine_features or not is_unary_function(node, torch.bfloat16):
        return None
    source = node.all_input_nodes[0]
    if graph.is_static(source):
        return None
    more, _ = behind(node, graph)
    nodes = (node, *more)
    whole = function_of(nodes)
    if whole.refusal:
        nodes, whole = (node,), function_of([node])
    end = FloatEpilogue(nodes[1:], nodes[-1], function=whole)
    return Match(pattern, nodes, (nodes[-1],), ElementWiseParts(end, source))


def match_norm(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[ElementWiseParts] | None:
    """A batch norm that no convolution stands in front of, a sum and limits behind it."""
    source = operand(node, 0)
    if len(source.users) != 1:
        return None
    end = float_epilogue(source, graph)
    return None if end.norm is not node else Match(pattern, end.nodes, (end.last,), ElementWiseParts(end, source))


def engine_element_wise(match: Match[ElementWiseParts], emitter: EngineEmitter) -> Sequence[View]:
    end = match.bound.epilogue
    source = match.bound.input
    of_engine(source, "operand", emitter.sizes)
    own = {"weight_kind": WeightKind.DIAGONAL, **fields(end, emitter)}
    if len(shape(match.root)) == 4:
        x = _image(source, emitter)
        other = residual(end, emitter, lambda view: view, images_of)
        return [windows(match.root, x, _ONE, own, parameters(end, None, x.channels, emitter), emitter, other)]
    x = rows_of(emitter.view(source), "operand")
    if x.images > 1 or not x.whole:
        raise RefusedError("the operand is a slice of a feature map's rows")
    return [_of_rows(match.root, x, own, end, emitter)]


def _of_rows(root: Node, x: MapImages, own: dict[str, Any], end: FloatEpilogue, emitter: EngineEmitter) -> View:

    out = emitter.result(root)
    y = rows_of(out, "result")
    command = MacCommand(in_blocks=x.blocks, in_width=x.width, out_blocks=x.blocks, out_width=y.width, **own)
    other = residual(end, emitter, lambda view: view, rows_of)
    emitter.mac(command, x, y, parameters(end, None, x.channels, emitter), ones(emitter), residual=other)
    return out


# --- concatenation ----------------------------------------------------------------------------------------------------


def match_concatenation(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[Concatenation] | None:
    parts = node.args[0]
    assert isinstance(parts, (tuple, list))
    given = [part for part in parts if isinstance(part, Node)]
    return Match(pattern, (node,), (node,), Concatenation(given)) if given else None


def engine_concatenation(match: Match[Concatenation], emitter: EngineEmitter) -> Sequence[View]:
    """Parts that were not written to their place are copied there, images by the array."""
    node = match.root
    of_engine(node, "result", emitter.sizes)
    if len(shape(node)) != 4 or argument(node, "dim", 1, 0) % 4 != 1:
        raise RefusedError("concatenation is supported along channels only: the engine moves no pixels")
    out, first = emitter.result(node), 0
    for part in match.bound.parts:
        count = shape(part)[1]
        place = out.narrow(1, first, count)
        first += count
        if emitter.view(part) == place:
            continue
        if place.offset % CHANNELS:
            raise RefusedError(f"a part has {count} channels, which is not a multiple of {CHANNELS}")
        x = images_of(emitter.view(part), "a part")
        emitter.placements[part] = place
        own = {"weight_kind": WeightKind.DIAGONAL, **fields(FloatEpilogue((), part), emitter)}
        windows(part, x, _ONE, own, channel_parameters(count, 1.0, emitter), emitter)
        del emitter.placements[part]
    return [out]


_AVERAGES = (aten.avg_pool2d.default, aten._adaptive_avg_pool2d.default, aten.mean.dim)


PATTERNS = (
    engine_only("maxima", (aten.max_pool2d_with_indices.default,), anchor_and_first_item, engine_maxima),
    engine_only("average", _AVERAGES, anchor_alone, engine_average),
    engine_only("sum", (aten.add.Tensor,), match_sum, engine_element_wise),
    engine_only("limits", ACTIVATION_TARGETS, match_limit, engine_element_wise),
    engine_only("function", tuple({*FUNCTIONS, *WITH_NUMBER}), match_function, engine_element_wise),
    engine_only("batch_norm", (BATCH_NORM,), match_norm, engine_element_wise),
    engine_only("cat", (aten.cat.default,), match_concatenation, engine_concatenation),
)
