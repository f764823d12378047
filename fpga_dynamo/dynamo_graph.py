"""What is changed in Dynamo's graph before AOTAutograd traces it."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

_DROPOUTS: tuple[Any, ...] = (torch.dropout, torch.nn.functional.dropout)


def drop_idle_dropouts(module: GraphModule) -> None:
    """Replaces a dropout that drops nothing, in evaluation or with p = 0, by its operand: eager gives that very tensor.

    AOTAutograd makes a copy of it, so that what is written to one would not show in the other.
    """
    for part in module.modules():
        if isinstance(part, GraphModule):
            idle = [node for node in part.graph.nodes if node.target in _DROPOUTS and _is_idle(node)]
            for node in idle:
                node.replace_all_uses_with(_argument(node, 0, "input"))
                part.graph.erase_node(node)
            if idle:
                part.recompile()


def _is_idle(node: Node) -> bool:
    p = _argument(node, 1, "p", default=0.5)
    training = _argument(node, 2, "training", "train", default=True)
    return isinstance(p, (int, float)) and 0 <= p <= 1 and (training is False or p == 0)


def _argument(node: Node, position: int, *names: str, default: Any = None) -> Any:
    if position < len(node.args):
        return node.args[position]
    return next((node.kwargs[name] for name in names if name in node.kwargs), default)
