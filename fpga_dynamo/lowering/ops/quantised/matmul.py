"""Matrix products of dequantised values, with their epilogue in one command: mm, addmm and bmm.

Patterns; legality and commands: product.py, tests: tests/lowering/test_quantised.py, test_quantised_tensor_scales.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from torch.fx import Node

from fpga_dynamo.ir.graph import GraphInfo, argument, aten, operand, shape
from fpga_dynamo.ir.quantised import DynamicScale, dequantized, dequantized_by_tensor
from fpga_dynamo.lowering.ops.epilogue import bias_of
from fpga_dynamo.lowering.ops.matmul.batches import repeated_matrix
from fpga_dynamo.lowering.ops.matmul.matmul import bias_step
from fpga_dynamo.lowering.ops.quantised import product
from fpga_dynamo.lowering.ops.quantised.epilogue import QuantizedEpilogue, quantized_epilogue
from fpga_dynamo.lowering.ops.quantised.packing import weights_of
from fpga_dynamo.lowering.ops.quantised.product import IntegerProduct
from fpga_dynamo.lowering.patterns import Match, Pattern, follow


def match_matmul(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[IntegerProduct] | None:
    """A product of dequantised values, or of one by weights, and its epilogue; a view that splits the batch, too."""
    with_bias = node.target is aten.addmm.default
    left, right = operand(node, int(with_bias)), operand(node, 1 + int(with_bias))
    found: Any = dequantized(left) or dequantized_by_tensor(left)
    if found is None:
        return None
    integers, scale = found
    matrix = repeated_matrix(right)
    bias, after = operand(node, 0) if with_bias else None, cast("Sequence[Node]", ())
    if graph.is_static(matrix) and len(shape(matrix)) == 2:
        if bias is None:
            bias, after = _bias_behind(node, graph)
        end = _epilogue_of(after[-1] if after else node, scale, graph)
        made = IntegerProduct(node, integers, scale, matrix, weights_of(matrix, graph), None, bias, end)
        return product.match_of(pattern, made, (left,), after, graph)
    other = dequantized(right)
    if other is None or isinstance(scale, DynamicScale):
        return None
    made = IntegerProduct(node, integers, scale, other[0], None, other[1], bias, _epilogue_of(node, scale, graph))
    return product.match_of(pattern, made, tuple(dict.fromkeys((left, right))), (), graph)


def _epilogue_of(last: Node, scale: object, graph: GraphInfo) -> QuantizedEpilogue:
    """That of floating-point values where a scale is known as it runs only."""
    return quantized_epilogue(last, graph, rows=True, in_floats=isinstance(scale, DynamicScale))


def _bias_behind(node: Node, graph: GraphInfo) -> tuple[Node | None, Sequence[Node]]:
    """A static row that is added to a product, and the nodes up to there."""
    nodes, _, links = follow(node, [bias_step(node, graph)], graph, views=True)
    if (add := links.get("bias")) is None:
        return None, ()
    before = next(arg for arg in add.all_input_nodes if arg is node or arg in nodes)
    return bias_of(before, add), nodes


def check_matmul(match: Match[IntegerProduct], graph: GraphInfo) -> str | None:
    node = match.bound.node
    if argument(node, "beta", 3, 1) != 1 or argument(node, "alpha", 4, 1) != 1:
        return "scaling by alpha or beta is not supported"
    return product.check(match, graph)


MATMUL = Pattern(
    name="matmul_int8",
    anchors=(aten.mm.default, aten.addmm.default, aten.bmm.default),
    match=match_matmul,
    check=check_matmul,
    lower=product.lower,
    opcodes=frozenset({"gemm_int8", "move"}),
    macs=product.macs,
)

PATTERNS = (MATMUL,)
