"""Pass (part of normalise): tables of integers become floating-point values behind the embedding, not in front of it.

So a table lies on the card in bytes, and only the rows that are read are dequantised. A table with a scale for each row
gives rows with scales of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.ir.dtypes import BYTES
from fpga_dynamo.ir.graph import arguments, aten, shape, value
from fpga_dynamo.ir.quantised import DEQUANTIZE, DEQUANTIZE_CHANNELS, DEQUANTIZE_DYNAMIC, dequantized
from fpga_dynamo.ir.sizes.tensor import dense_like, of_dtype


def gather_integers(module: GraphModule) -> None:
    """Rewrites the graph in place."""
    for node in list(module.graph.nodes):
        if node.target is not aten.embedding.default or not isinstance(table := node.args[0], Node):
            continue
        if dequantized(table) is not None:
            _by_one_scale(module, node, table)
        elif _has_scales_of_rows(table):
            _by_scales_of_rows(module, node, table)
        else:
            continue
        module.graph.erase_node(node)
        if not table.users:
            module.graph.erase_node(table)


def _by_one_scale(module: GraphModule, node: Node, table: Node) -> None:
    with module.graph.inserting_before(node):
        rows = _rows_of(module, node, table.all_input_nodes[0], shape(node))
        made = make_node(module, node, DEQUANTIZE, (rows, *table.args[1:]), value(node), table.kwargs)
    node.replace_all_uses_with(made)


def _has_scales_of_rows(table: Node) -> bool:
    """Whether a table was dequantised to float32 along its first dimension."""
    if table.target is not DEQUANTIZE_CHANNELS or len(table.args) < 7 or table.args[3] != 0:
        return False
    integers, scales, zeros = arguments(table)[:3]
    return (
        all(isinstance(part, Node) for part in (integers, scales, zeros))
        and value(integers).dtype in BYTES
        and value(scales).dtype is torch.float32
        and value(table).dtype is torch.float32
    )


def _by_scales_of_rows(module: GraphModule, node: Node, table: Node) -> None:
    integers, scales, zeros = table.all_input_nodes
    _, low, high, dtype = table.args[3:7]
    size = (*shape(node)[:-1], 1)
    with module.graph.inserting_before(node):
        rows = _rows_of(module, node, integers, shape(node))
        scale = _rows_of(module, node, _column(module, node, scales, torch.float32), size)
        zero = _rows_of(module, node, _column(module, node, zeros, torch.int32), size)
        arguments = (rows, scale, zero, low, high, dtype, torch.float32)
        made = make_node(module, node, DEQUANTIZE_DYNAMIC[1], arguments, value(node))
    node.replace_all_uses_with(made)


def _rows_of(module: GraphModule, node: Node, table: Node, size: Sequence[int]) -> Node:
    """The embedding `node` of another table."""
    fake = dense_like(value(node), size, value(table).dtype)
    return make_node(module, node, node.target, (table, *node.args[1:]), fake)


def _column(module: GraphModule, node: Node, numbers: Node, dtype: torch.dtype) -> Node:
    """A number for each row, as a table of one column of `dtype`."""
    size = (shape(numbers)[0], 1)
    fake = dense_like(value(numbers), size, value(numbers).dtype)
    column = make_node(module, node, aten.reshape.default, (numbers, list(size)), fake)
    if value(column).dtype is dtype:
        return column
    return make_node(module, node, aten._to_copy.default, (column,), of_dtype(fake, dtype), {"dtype": dtype})


def make_node(module: GraphModule, like: Node, target: Any, args: Any, fake: Any, kwargs: Any = None) -> Node:
    """A node with the origin of `like`, for whose value `fake` stands."""
    made = module.graph.call_function(target, args, dict(kwargs or {}))
    made.meta = {**like.meta, "val": fake}
    return made
