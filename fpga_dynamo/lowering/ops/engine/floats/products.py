"""Products of bfloat16 and float32 on the hardware engine: convolutions, matrices by weights, and two maps by heads.

The nodes behind them are their epilogue (epilogue.py). An engine sums in float32, each tap's channels in pairs,
then tap by tap, so sums are rounded in another order than eager mode's. Tests: tests/lowering/test_engine_floats.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from torch.fx import Node

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import RefusedError, images_of, of_engine, rows_of
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, operand, shape, value
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.engine_patterns import engine_only
from fpga_dynamo.lowering.ops.convolution.convolution import macs_of
from fpga_dynamo.lowering.ops.engine.common.head_products import seen_as
from fpga_dynamo.lowering.ops.engine.common.images import (
    WeightLine,
    as_image,
    convolution_command,
    convolution_input,
    convolution_weights,
    image_result,
    refuse_convolution,
)
from fpga_dynamo.lowering.ops.engine.common.rows import linear, matrix_weights
from fpga_dynamo.lowering.ops.engine.floats.depth import emit
from fpga_dynamo.lowering.ops.engine.floats.epilogue import FloatEpilogue, fields, float_epilogue, residual
from fpga_dynamo.lowering.ops.engine.floats.map_products import product_of_maps
from fpga_dynamo.lowering.ops.matmul.batches import repeated_matrix
from fpga_dynamo.lowering.ops.matmul.matmul import operands_of
from fpga_dynamo.lowering.patterns import Match, Pattern

Matcher = Callable[[Pattern, Node, GraphInfo], Match[FloatEpilogue] | None]


# --- convolutions -----------------------------------------------------------------------------------------------------


def _convolution(*, alone: bool) -> Matcher:
    def match(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[FloatEpilogue] | None:
        if not graph.from_inputs(operand(node, 1)):
            return None
        end = float_epilogue(node, graph, alone=alone)
        return Match(pattern, (node, *end.nodes), (end.last,), end)

    return match


def engine_convolution(match: Match[FloatEpilogue], emitter: EngineEmitter) -> Sequence[View]:
    node = match.nodes[0]
    end = match.bound
    weight = operand(node, 1)
    refuse_convolution(node, emitter)
    of_engine(weight, "weight", emitter.sizes)
    command = convolution_command(node, **fields(end, emitter))
    x, command = convolution_input(operand(node, 0), command, emitter)
    out = image_result(match.root, emitter)
    y = images_of(as_image(out), "result")
    bias = node.args[2] if isinstance(node.args[2], Node) else None
    given, other = emitter.expression(weight), residual(end, emitter, as_image, images_of)

    def weights(first: int, behind: int) -> WeightLine:
        return convolution_weights(
            given, weight.name, emitter, None if x.channels == behind - first else (first, behind)
        )

    emit(command, x, y, end, bias, weights, other, macs_of(node), emitter)
    return [out]


# --- matrices ---------------------------------------------------------------------------------------------------------


def _matmul(*, alone: bool) -> Matcher:
    def match(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[FloatEpilogue] | None:
        addend, _, right = operands_of(node)
        biased = addend is not None and argument(node, "beta", 3, 1) != 0
        # A product of two maps has no residual: its streams carry the second operand.
        alone_ = alone or not graph.is_static(repeated_matrix(right))
        end = float_epilogue(node, graph, rows=True, alone=alone_, biased=biased)
        return Match(pattern, (node, *end.nodes), (end.last,), end)

    return match


def engine_matmul(match: Match[FloatEpilogue], emitter: EngineEmitter) -> Sequence[View]:
    node = match.nodes[0]
    addend, left, right = operands_of(node)
    of_engine(left, "left operand", emitter.sizes)
    of_engine(right, "right operand", emitter.sizes)
    beta, alpha = argument(node, "beta", 3, 1), argument(node, "alpha", 4, 1)
    if beta == 0:  # as attention's scores have it
        addend = None
    if not isinstance(alpha, (int, float)) or (addend is not None and (beta, alpha) != (1, 1)):
        raise RefusedError("scaling by alpha or beta is not supported")
    end = replace(match.bound, scale=match.bound.scale * alpha)
    right = repeated_matrix(right)
    if not emitter.graph.is_static(right):
        return _heads(match, end, addend, left, right, emitter)
    if len(shape(right)) > 2:
        raise RefusedError("a batch of constant matrices as right operand is not supported")
    return _linear(match, end, addend, left, right, emitter)


def _linear(
    match: Match[FloatEpilogue],
    end: FloatEpilogue,
    addend: Node | None,
    left: Node,
    right: Node,
    emitter: EngineEmitter,
) -> Sequence[View]:
    node = match.nodes[0]
    depth, columns = shape(right)
    if addend is not None and not (emitter.graph.is_static(addend) and shape(addend) in ((columns,), (1, columns))):
        raise RefusedError("the addend is not a constant bias vector")
    if addend is not None and end.row is not None:
        raise RefusedError("a second bias vector is not supported")
    of = linear(left, node, match.root, columns, emitter, **fields(end, emitter))
    given, other = emitter.expression(right), residual(end, emitter, lambda view: view, rows_of)

    def weights(first: int, behind: int) -> WeightLine:
        some = None if of.x.channels == behind - first else (first, behind)
        return matrix_weights(given, right.name, of, emitter, transposed=False, channels=some)

    emit(of.command, of.x, of.y, end, addend, weights, other, value(node).numel() * depth, emitter)
    return [seen_as(of.out, match.root)]


def _heads(
    match: Match[FloatEpilogue],
    end: FloatEpilogue,
    addend: Node | None,
    left: Node,
    right: Node,
    emitter: EngineEmitter,
) -> Sequence[View]:
    node = match.nodes[0]
    if addend is not None:
        raise RefusedError("a product of two feature maps with an addend is not supported")
    return [seen_as(product_of_maps(node, emitter.view(left), emitter.view(right), end, emitter), match.root)]


_PRODUCTS = (aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default)


PATTERNS = (
    engine_only("convolution", (aten.convolution.default,), _convolution(alone=False), engine_convolution),
    engine_only("convolution_alone", (aten.convolution.default,), _convolution(alone=True), engine_convolution),
    engine_only("matmul", _PRODUCTS, _matmul(alone=False), engine_matmul),
    engine_only("matmul_alone", _PRODUCTS, _matmul(alone=True), engine_matmul),
)
