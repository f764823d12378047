"""Functions of one number, element by element: what tables of integers, and of bfloat16 on engines, are made of."""

from __future__ import annotations

import torch
from torch.fx import Node

from fpga_dynamo.ir.graph import aten, is_effectful, shape, value
from fpga_dynamo.lowering.ops.epilogue import ACTIVATION_TARGETS

FUNCTIONS = frozenset(
    {
        *ACTIVATION_TARGETS,
        aten.abs.default,
        aten.add.Scalar,
        aten.clamp_max.default,
        aten.clamp_min.default,
        aten.exp.default,
        aten.mish.default,
        aten.mul.Scalar,
        aten.neg.default,
        aten.softplus.default,
        aten.sqrt.default,
        aten.square.default,
        aten.sub.Scalar,
    }
)
WITH_NUMBER = frozenset({aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.pow.Tensor_Scalar})


def is_unary_function(node: Node, dtype: torch.dtype = torch.float32) -> bool:
    """Whether each element of a node's value is a function of that element of one tensor alone, both of a type."""
    if node.op != "call_function" or is_effectful(node) or len(node.all_input_nodes) != 1:
        return False
    source = node.all_input_nodes[0]
    if not all(isinstance(value(n), torch.Tensor) for n in (node, source)):
        return False  # such as the first of the results of a layer norm
    if value(node).dtype is not dtype or value(source).dtype is not dtype or shape(node) != shape(source):
        return False
    if node.target in WITH_NUMBER:
        return isinstance(node.args[1], (int, float)) or node.args[0] is node.args[1]
    return node.target in FUNCTIONS
