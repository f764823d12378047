"""How many multiply-accumulates an op has: half the FLOPs of torch.utils.flop_counter, and what that leaves out."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node
from torch.utils.flop_counter import flop_registry

from fpga_dynamo.ir.graph import value
from fpga_dynamo.ir.sizes.size import value as hinted


def macs(node: Node) -> int:
    """Multiply-accumulates of a node, by the hints of sizes that change."""
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), value)
    return multiply_accumulates(node.target, args, kwargs, value(node))


def multiply_accumulates(op: Any, args: Any, kwargs: Any, out: Any) -> int:
    """Multiply-accumulates of `op` on tensors, fake or not, with the result `out`; 0 for what has no formula."""
    try:
        if op is torch.ops.aten.mkldnn_rnn_layer.default:
            return int(hinted(_recurrent_layer(*args)))
        if op is torch.ops.aten._int_mm.default:
            return int(hinted(out.numel() * args[0].shape[-1]))
        formula = flop_registry.get(getattr(op, "overloadpacket", None))
        return 0 if formula is None else int(hinted(formula(*args, **kwargs, out_val=out))) // 2
    except (TypeError, ValueError, RuntimeError):
        return 0


def _recurrent_layer(x: Any, input_weight: Any, state_weight: Any, *_: Any) -> Any:
    """Each row of each step is multiplied with both weights."""
    rows = x.shape[0] * x.shape[1]
    return rows * (math.prod(input_weight.shape) + math.prod(state_weight.shape))
