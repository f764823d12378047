"""Operators of executorch's edge dialect as those of ATen, which the compiler lowers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from fpga_dynamo.deployment.capture import ModelGraph, capture_program
from fpga_dynamo.deployment.errors import ExportError
from fpga_dynamo.torch_internals.dispatch import OpOverload

_ORDERS = {"_to_dim_order_copy": "_to_copy", "_clone_dim_order": "clone", "_empty_dim_order": "empty"}
"""Operators with a dimension order, and those of ATen with a memory format in its place."""
_EDGE_NODE = "fpga_dynamo_edge_node"


def captured(program: ExportedProgram, name: str) -> ModelGraph:
    """The graph of an edge program, for lowering; each node knows the edge node behind it (:func:`edge_node`).

    Raises ExportError as `capture_program`.
    """
    return capture_program(program, name, part=True, prepare=to_aten)


def edge_node(node: Node) -> str | None:
    """The name of the edge node that `node` of a captured graph was traced from; None if a rewrite made it."""
    return (node.meta.get("custom") or {}).get(_EDGE_NODE)


def to_aten(graph: Graph) -> None:
    """Replaces all edge operators of a graph by operators of ATen; copies of views become views.

    Raises ExportError for an operator with a dimension order that no memory format has.
    """
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        node.meta["custom"] = {**(node.meta.get("custom") or {}), _EDGE_NODE: node.name}
        operator = getattr(node.target, "_op", node.target)
        if not isinstance(operator, OpOverload):
            continue
        if operator.namespace == "dim_order_ops":
            node.target, node.kwargs = _with_memory_format(operator, node)
        else:
            node.target = _without_copy(operator)


def is_copied_view(operator: OpOverload) -> bool:
    """Whether the operator is a view of the dialect, which copies: ``aten.view_copy.default``."""
    name = _packet_name(operator)
    return name.endswith("_copy") and not name.startswith("_")


def _packet_name(operator: OpOverload) -> str:
    return operator.overloadpacket.__name__


def _without_copy(operator: Any) -> Any:
    """``aten.view_copy.default`` as ``aten.view.default``; any other operator as it is."""
    view = getattr(torch.ops.aten, _packet_name(operator).removesuffix("_copy"), None)
    if not is_copied_view(operator) or view is None:
        return operator
    return getattr(view, operator.name().partition(".")[2] or "default", operator)


def _with_memory_format(operator: Any, node: Node) -> tuple[Callable[..., Any], dict[str, Any]]:
    packet = getattr(torch.ops.aten, _ORDERS[_packet_name(operator)])
    kwargs = dict(node.kwargs)
    order: Any = kwargs.pop("dim_order", None)
    if order is not None:
        kwargs["memory_format"] = _memory_format(list(order), node)
    return packet.memory_format if packet is torch.ops.aten.empty else packet.default, kwargs


def _memory_format(order: list[int], node: Node) -> torch.memory_format:
    rank = len(order)
    if order == list(range(rank)):
        return torch.contiguous_format
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if rank in formats and order == [0, *range(2, rank), 1]:
        return formats[rank]
    raise ExportError(f"{node.name} has dimension order {order}, which no memory format of PyTorch has")
