"""Pass (part of normalise): tensors without dimensions whose dtype no core reads are converted in eager mode, alone.

The element-wise operator that reads such a number then runs on the card. Eager mode's own kernels convert the number
too, since a tensor without dimensions does not change the dtype of a result:

- float64 beside smaller real types becomes float32, in which both the kernels and the cores compute;
- the number that `masked_fill` writes gets the dtype of its result, by a `masked_fill` of one element, which raises the
  error of eager mode for a number that does not fit.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.ir.dtypes import FLOATS
from fpga_dynamo.ir.graph import aten, value
from fpga_dynamo.ir.sizes.tensor import dense_like
from fpga_dynamo.lowering.passes.rewrite.embeddings import make_node
from fpga_dynamo.lowering.passes.select.legality import number_may_not_fit, refuse_illegal
from fpga_dynamo.torch_internals.dispatch import OpOverload


def convert_scalar_operands(module: GraphModule) -> None:
    """Rewrites the graph in place."""
    for node in list(module.graph.nodes):
        if node.target is aten.masked_fill.Tensor:
            if value(node).dim() and number_may_not_fit(node):
                _convert_fill_value(module, node)
        elif not isinstance(node.target, OpOverload) or torch.Tag.pointwise not in node.target.tags:
            continue
        elif (numbers := _double_numbers(node)) and refuse_illegal([node], {}) is None:
            for number in numbers:
                node.replace_input_with(number, _as_float32(module, node, number))


def _double_numbers(node: Node) -> list[Node]:
    """The float64 numbers among operands of smaller real types that alone decide the dtype of the result."""
    operands = {given: value(given) for given in node.all_input_nodes}
    if not all(isinstance(fake, torch.Tensor) for fake in operands.values()):
        return []
    numbers = [given for given, fake in operands.items() if fake.dtype is torch.float64 and not fake.dim()]
    others = [fake.dtype for fake in operands.values() if fake.dim()]
    # A mask, such as that of `where`, is no operand of the arithmetic.
    others = [dtype for dtype in others if dtype is not torch.bool]
    return numbers if others and all(dtype in FLOATS for dtype in others) else []


def _as_float32(module: GraphModule, node: Node, number: Node) -> Node:
    with module.graph.inserting_before(node):
        fake = dense_like(value(number), (), torch.float32)
        return make_node(module, node, aten._to_copy.default, (number,), fake, {"dtype": torch.float32})


def _convert_fill_value(module: GraphModule, node: Node) -> None:
    _, _, number = node.args
    assert isinstance(number, Node)
    dtype, device = value(node).dtype, value(node).device
    with module.graph.inserting_before(node):
        zero, true = (
            make_node(
                module, node, aten.full.default, ((), content), dense_like(value(number), (), kind),
                {"dtype": kind, "device": device},
            )
            for content, kind in ((0, dtype), (True, torch.bool))
        )  # fmt: skip
        fake = dense_like(value(number), (), dtype)
        converted = make_node(module, node, aten.masked_fill.Tensor, (zero, true, number), fake)
    node.replace_input_with(number, converted)
