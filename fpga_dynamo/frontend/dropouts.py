"""What is seen to in Dynamo's graph before AOTAutograd traces it."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.frontend.frames import recurrence
from fpga_dynamo.ir.graph import arguments, hints
from fpga_dynamo.lowering.tracing.recurrent import MOST_STEPS
from fpga_dynamo.torch_internals.dispatch import autocast_active, enters_autocast

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


_RECURRENT: dict[Any, str] = {torch.lstm: "LSTM", torch.gru: "GRU", torch.rnn_tanh: "RNN", torch.rnn_relu: "RNN"}

MOST_LENGTHS = 4
"""For so many lengths of sequences code is compiled with its layers unrolled: a graph is for one of them."""


def refuse_recurrence(module: GraphModule) -> None:
    """Has a frame converted again without its recurrent layers, where a graph of their steps would not pay.

    AOTAutograd takes the layers apart, into operators for each step; but for float32 LSTMs without a projection, which
    stay one operator until lowering decides.
    """
    frame = recurrence()
    layers = [node for node in module.graph.nodes if node.target in _RECURRENT]
    if frame is None or not layers:
        return
    frame.left = next(filter(None, (_why_not_unrolled(layer, frame.graphs) for layer in layers)), "")
    if frame.left:
        raise FpgaError(frame.left)
    frame.graphs += not all(map(_stays_one_op, layers))


def _why_not_unrolled(node: Node, graphs: int) -> str:
    kind = _RECURRENT[node.target]
    x = arguments(node)[0].meta["example_value"]
    if isinstance(node.args[1 if node.target is torch.lstm else 2], Node):
        return f"{kind} with packed sequences is not supported: their lengths are data-dependent"
    if x.dtype is not torch.float32 or autocast_active():
        return f"{kind} is supported in float32 only, not in another dtype"
    if enters_autocast(node.graph) and not _stays_one_op(node):
        return f"{kind} within autocast is supported as one operator only: without gradients of its input"
    if _stays_one_op(node):
        return ""
    given = hints(x.shape)
    steps = None if given is None else given[1 if node.args[8] and len(given) == 3 else 0]
    if steps is None or steps > MOST_STEPS:
        return f"{kind} of {steps or 'unknown'} steps: its graph would grow with them, at most to {MOST_STEPS}"
    if graphs >= MOST_LENGTHS:
        return f"{kind} in a frame that was compiled for {graphs} other numbers of steps: a graph has a fixed number"
    return ""


def _stays_one_op(node: Node) -> bool:
    if node.target is not torch.lstm or not torch.backends.mkldnn.is_available():
        return False
    if arguments(node)[0].meta["example_value"].requires_grad:
        return False
    hidden, cell = (state.meta["example_value"] for state in arguments(node)[1])
    return bool(hidden.shape[-1] == cell.shape[-1])
