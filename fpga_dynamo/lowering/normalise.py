"""Pass: small rewrites after which later passes need no special cases."""

from __future__ import annotations

import operator

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.lowering.graph import aten, is_view, value


def normalise(module: GraphModule) -> None:
    """Rewrites the graph in place."""
    for node in list(module.graph.nodes):
        if _is_empty_item(node):
            _replace_by_empty(module, node)
        elif _is_uninitialised_int64(node):
            _replace_by_zeros(module, node)


def _is_empty_item(node: Node) -> bool:
    """An item without elements: what an inference batch norm saves for its backward. One of a view shows its input."""
    fake = value(node)
    return (
        node.target is operator.getitem
        and isinstance(fake, torch.Tensor)
        and all(isinstance(size, int) for size in fake.shape)
        and fake.numel() == 0
        and not is_view(node.all_input_nodes[0])
        and value(node.all_input_nodes[0])[0].numel() != 0
    )


def _replace_by_empty(module: GraphModule, node: Node) -> None:
    """An empty tensor depends on nothing, so it must not keep the node from being fused."""
    fake = value(node)
    with module.graph.inserting_before(node):
        empty = module.graph.call_function(
            aten.empty.memory_format, (list(fake.shape),), {"dtype": fake.dtype, "device": fake.device}
        )
    empty.meta = dict(node.meta)
    node.replace_all_uses_with(empty)
    module.graph.erase_node(node)


def _is_uninitialised_int64(node: Node) -> bool:
    """Memory that the graph writes to before it is read; what lies there may be numbers that int32 cannot hold."""
    fake = value(node)
    return (
        node.target in (aten.empty.memory_format, aten.new_empty.default)
        and fake.dtype is torch.int64
        and all(isinstance(size, int) for size in fake.shape)
        and fake.is_contiguous()
        and any(user.op != "output" for user in node.users)
    )


def _replace_by_zeros(module: GraphModule, node: Node) -> None:
    fake = value(node)
    with module.graph.inserting_before(node):
        zeros = module.graph.call_function(
            aten.full.default, (list(fake.shape), 0), {"dtype": fake.dtype, "device": fake.device}
        )
    zeros.meta = dict(node.meta)
    node.replace_all_uses_with(zeros)
    module.graph.erase_node(node)
