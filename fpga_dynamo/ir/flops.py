"""How many multiply-accumulates an op has: half the FLOPs of torch.utils.flop_counter, and what that leaves out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node
from torch.utils.flop_counter import flop_registry, shape_wrapper

from fpga_dynamo.ir.graph import value
from fpga_dynamo.ir.sizes.size import value as hinted


def macs(node: Node) -> int:
    """Multiply-accumulates of a node, by the hints of sizes that change."""
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), value)
    return multiply_accumulates(node.target, args, kwargs, value(node))


def multiply_accumulates(op: Any, args: Any, kwargs: Any, out: Any) -> int:
    """Multiply-accumulates of `op` on tensors, fake or not, with the result `out`; 0 for what has no formula."""
    try:
        packet = getattr(op, "overloadpacket", None)
        own = FORMULAS.get(packet)
        formula = flop_registry.get(packet) if own is None else shape_wrapper(own)
        return 0 if formula is None else int(hinted(formula(*args, **kwargs, out_val=out))) // 2
    except (TypeError, ValueError, RuntimeError):
        return 0


def _recurrent_layer(x: Any, input_weight: Any, state_weight: Any, *_: Any, **__: Any) -> Any:
    """Each row of each step is multiplied with both weights."""
    return 2 * x[0] * x[1] * (math.prod(input_weight) + math.prod(state_weight))


def _product_of_integers(left: Any, _: Any, *, out_shape: Any) -> Any:
    return 2 * math.prod(out_shape) * left[-1]


def _packed_linear(x: Any, _: Any, *__: Any, out_shape: Any, **___: Any) -> Any:
    """Of ``torch.ao.quantization``: a layer with packed weights, from as many features as its operand has."""
    return 2 * math.prod(out_shape) * x[-1]


def _packed_convolution(_: Any, packed: Any, *__: Any, out_shape: Any, **___: Any) -> Any:
    weight, _bias = packed.unpack()
    return 2 * math.prod(out_shape) * math.prod(weight.shape[1:])


FORMULAS: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.mkldnn_rnn_layer: _recurrent_layer,
    torch.ops.aten._int_mm: _product_of_integers,
    **{
        getattr(torch.ops.quantized, name): _packed_linear
        for name in ("linear", "linear_relu", "linear_dynamic", "linear_relu_dynamic", "linear_dynamic_fp16")
    },
    **{
        getattr(torch.ops.quantized, f"conv{rank}d{kind}"): _packed_convolution
        for rank in (1, 2, 3)
        for kind in ("", "_relu", "_dynamic")
    },
}
"""FLOPs of what PyTorch's counter leaves out, by shapes, as its ``custom_mapping`` has them."""
