"""Products of int8 matrices whose sums are made floating-point values by scales of rows and of columns:
``aten._int_mm``.

That is what torchao's dynamic quantisation (``Int8DynamicActivationInt8WeightConfig``) leaves. Legality and commands:
product.py, tests: tests/lowering/test_quantised_tensor_scales.py.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.fx import Node

from fpga_dynamo.ir.graph import GraphInfo, aten, operand, shape, value
from fpga_dynamo.ir.quantised import DynamicScale, Scale
from fpga_dynamo.lowering.ops.epilogue import bias_of
from fpga_dynamo.lowering.ops.quantised import product
from fpga_dynamo.lowering.ops.quantised.epilogue import QuantizedEpilogue, Walk, quantized_epilogue
from fpga_dynamo.lowering.ops.quantised.packing import Weights, untransposed
from fpga_dynamo.lowering.ops.quantised.product import IntegerProduct
from fpga_dynamo.lowering.patterns import Match, Pattern

_PLAIN = Scale(1.0, 0, -128, 127, torch.int8)
"""Of integers that stand for themselves."""


def match_int_mm(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[IntegerProduct] | None:
    """The sums; or these in float32, [times a column], [times a static row], [plus a static row], and its epilogue."""
    walk = Walk(graph, rows=True)
    views, cast = walk.next(node)
    left, right = operand(node, 0), operand(node, 1)
    static = graph.is_static(right)
    if cast is None or cast.target is not aten._to_copy.default or value(cast).dtype is not torch.float32:
        plain, other = (Weights(untransposed(right), 1.0, 0, None), None) if static else (None, _PLAIN)
        end = QuantizedEpilogue((), node, None)
        made = IntegerProduct(node, left, _PLAIN, right, plain, other, None, end, sums=True)
        return product.match_of(pattern, made, (), (), graph)
    last, after = cast, [*views, cast]

    def step(target: object, accept: Callable[[Node, Node], Node | None]) -> Node | None:
        """What `last` is multiplied by or added to, if it is; goes on to the result."""
        nonlocal last, after
        passed, user = walk.next(last)
        if user is None or user.target is not target or len(user.args) != 2 or user.kwargs:
            return None
        other = accept(passed[-1] if passed else last, user)
        if other is not None:
            last, after = user, [*after, *passed, user]
        return other

    def column(before: Node, mul: Node) -> Node | None:
        other = _other(before, mul)
        return other if other is not None and shape(other) == (*shape(before)[:-1], 1) else None

    def row(before: Node, mul: Node) -> Node | None:
        other = _other(before, mul)
        return other if other is not None and shape(other) == shape(before)[-1:] and graph.is_static(other) else None

    def bias(before: Node, add: Node) -> Node | None:
        other = bias_of(before, add)
        return other if other is not None and graph.is_static(other) else None

    of_rows = step(aten.mul.Tensor, column) if static else None
    of_columns = step(aten.mul.Tensor, row) if static else None
    added = step(aten.add.Tensor, bias) if static else None
    scale = _PLAIN if of_rows is None else DynamicScale(of_rows, None, -128, 127, torch.int8, by_row=True)
    column_scales = (1.0, 0, None) if of_columns is None else (of_columns, 0, 1)
    weights = Weights(untransposed(right), *column_scales)
    end = quantized_epilogue(last, graph, rows=True, in_floats=True)
    made = IntegerProduct(node, left, scale, right, weights if static else None, None if static else _PLAIN, added, end)
    return product.match_of(pattern, made, (), after, graph)


def _other(before: Node, node: Node) -> Node | None:
    """The float32 tensor that `before` is multiplied by."""
    other = node.args[1] if node.args[0] is before else node.args[0]
    if not isinstance(other, Node) or not isinstance(value(other), torch.Tensor):
        return None
    return other if value(other).dtype is torch.float32 else None


PATTERNS = (
    Pattern(
        name="int_mm_int8",
        anchors=(aten._int_mm.default,),
        match=match_int_mm,
        check=product.check,
        lower=product.lower,
        opcodes=frozenset({"gemm_int8", "move"}),
        macs=product.macs,
    ),
)
