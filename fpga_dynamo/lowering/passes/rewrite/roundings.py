"""Pass (part of normalise): arithmetic that rounds to 8-bit integers becomes the operator that says so.

torchao's dynamic quantisation spells it out: clamp(round(x * (1 / scale)) + 0, low, high) as int8, with a scale for
each row. As ``quantize_per_token`` it is one command, and its result lies on the card in bytes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.ir.dtypes import BYTES
from fpga_dynamo.ir.graph import argument, aten, is_view, shape, value
from fpga_dynamo.ir.quantised import is_zero
from fpga_dynamo.ir.sizes.tensor import of_dtype
from fpga_dynamo.torch_internals.quantized import decomposed


def name_roundings(module: GraphModule) -> None:
    """Rewrites the graph in place."""
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target is aten._to_copy.default and value(node).dtype in BYTES:
            _name(module, node)


def _name(module: GraphModule, cast: Node) -> None:
    views, limited = _behind_views(cast.all_input_nodes[0])
    limits = [argument(limited, name, i) for i, name in ((1, "min"), (2, "max"))]
    if limited.target is not aten.clamp.default or not all(isinstance(limit, (int, float)) for limit in limits):
        return
    total = limited.all_input_nodes[0]
    rounded = _plus_zero(total)
    if rounded is None or rounded.target is not aten.round.default:
        return
    scaled = rounded.args[0]
    if not isinstance(scaled, Node) or scaled.target is not aten.mul.Tensor or value(scaled).dtype is not torch.float32:
        return
    x, inverse = scaled.args
    scale = _inverse_of(inverse)
    if (
        not isinstance(x, Node)
        or scale is None
        or shape(scale) != (*shape(scaled)[:-1], 1)
        or shape(x) != shape(scaled)
    ):
        return
    dtype, graph = value(cast).dtype, module.graph
    zero = total.args[1] if total is not rounded else None
    with graph.inserting_before(cast):
        if not isinstance(zero, Node):
            zero = graph.call_function(aten.full.default, (list(shape(scale)), 0), {"dtype": torch.int32})
            zero.meta = {**cast.meta, "val": of_dtype(value(scale), torch.int32)}
        made = graph.call_function(
            decomposed.quantize_per_token.default, (x, scale, zero, int(limits[0]), int(limits[1]), dtype)
        )
        made.meta = {**cast.meta, "val": of_dtype(value(limited), dtype)}
        for view in reversed(views):
            source = made
            made = graph.create_node(view.op, view.target, (source, *view.args[1:]), view.kwargs)
            made.meta = {**view.meta, "val": of_dtype(value(view), dtype)}
    cast.replace_all_uses_with(made)
    _erase(module, cast)


def _behind_views(node: Node) -> tuple[list[Node], Node]:
    """The views that `node` is of something, from the last one on, and what that is."""
    views = []
    while is_view(node) and len(node.all_input_nodes) == 1 and isinstance(value(node.all_input_nodes[0]), torch.Tensor):
        views.append(node)
        node = node.all_input_nodes[0]
    return views, node


def _plus_zero(node: Node) -> Node | None:
    """What a tensor of zeros is added to, or what it is itself."""
    if node.target is not aten.add.Tensor:
        return node
    left, right = node.args[:2]
    return left if isinstance(left, Node) and isinstance(right, Node) and is_zero(right) and not node.kwargs else None


def _inverse_of(node: Any) -> Node | None:
    """The scale that `node` is the reciprocal of, times 1."""
    if isinstance(node, Node) and node.target is aten.mul.Tensor and node.args[1] == 1.0:
        node = node.args[0]
    return node.all_input_nodes[0] if isinstance(node, Node) and node.target is aten.reciprocal.default else None


def _erase(module: GraphModule, node: Node) -> None:
    """Takes a node out of the graph, and what nobody needs without it."""
    waiting = [node]
    while waiting:
        dead = waiting.pop()
        if not dead.users and dead.op == "call_function":
            waiting += dead.all_input_nodes
            module.graph.erase_node(dead)
