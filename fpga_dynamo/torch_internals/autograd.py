"""Autograd's graph: the node of a compiled function, what it leads to, and whether a backward pass keeps the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd.graph import Node, get_gradient_edge

_keeps: Callable[[], bool] | None = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)

_MOST_STEPS = 4
"""Between a result and the node: at most a view, what writes it to its base, and what copies it to an input."""


def keeps_graph() -> bool:
    """Whether the backward pass that this thread runs keeps saved tensors for another one."""
    return _keeps is None or _keeps()


def base_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor that autograd has `tensor` as a view of."""
    return tensor._base


def compiled_node(tensors: Iterable[Any]) -> Node | None:
    """The node of the function of AOTAutograd's whose call has just made or changed `tensors`; None without one."""
    level = [tensor.grad_fn for tensor in tensors if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None]
    for _ in range(_MOST_STEPS):
        if found := [node for node in level if _is_compiled(node)]:
            return max(found, key=lambda node: node._sequence_nr())  # that of the last call
        level = [node for before in level for node, _ in before.next_functions if node is not None]
    return None


def _is_compiled(node: Any) -> bool:
    return hasattr(getattr(node, "_forward_cls", None), "_aot_id")


def inputs_of(node: Node, tensors: Iterable[tuple[int, torch.Tensor]]) -> list[int | None] | None:
    """The number of the tensor that each edge out of `node` leads to, None for an edge to nowhere.

    Returns None if there is an edge to none of the tensors.
    """
    edges = [(number, get_gradient_edge(tensor)) for number, tensor in tensors if tensor.requires_grad]
    found: list[int | None] = []
    for target, place in node.next_functions:
        if target is None:
            found.append(None)
            continue
        match = next((edge for edge in edges if edge[1].node is target and edge[1].output_nr == place), None)
        if match is None:
            return None
        edges.remove(match)
        found.append(match[0])
    return found
