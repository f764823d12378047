"""Biases in units of the sums, of a graph that any quantizer of torchao has made."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from fpga_dynamo.quantize.capture import refuse_no_graph
from fpga_dynamo.quantize.operators import PRODUCTS

_PER_TENSOR = "quantized_decomposed.dequantize_per_tensor"
_PER_CHANNEL = "quantized_decomposed.dequantize_per_channel"


def round_biases(model: GraphModule) -> int:
    """Rounds float32 biases to whole units of their accumulators, in place; returns how many it changed.

    A unit is the scale of the activation times that of the channel's weights. A bias moves by half a unit at most, far
    less than the rounding of a result. With scales that are powers of two all sums below 2^24 units are exact in
    float32 then, so that eager has the same bits in whatever order it adds, and a card has eager mode's. Biases of 2^24
    units or more, and those of products whose operands are not quantised, stay as they are.

    Raises OptionError for a model that is no graph.
    """
    refuse_no_graph(model)
    changed = 0
    for node in model.graph.nodes:
        product = PRODUCTS.get(node.target)
        if product is None or product.bias is None or len(node.args) <= product.bias:
            continue
        bias = node.args[product.bias]
        unit = _unit(model, node, product.weight_axis or 0)
        if unit is None or not isinstance(bias, Node) or bias.op != "get_attr":
            continue
        given = _attribute(model, bias)
        whole = torch.round(given.detach().double() / unit)
        rounded = torch.where(whole.abs() < 2.0**24, whole * unit, given.detach().double()).to(given.dtype)
        if torch.equal(rounded, given):
            continue
        _set_attribute(model, bias, nn.Parameter(rounded, requires_grad=given.requires_grad))
        changed += 1
    return changed


def _unit(model: GraphModule, node: Node, axis: int) -> Tensor | None:
    """What a sum of 1 stands for in each output channel, float64; None unless both operands are dequantised."""
    data, weight = node.args[:2]
    if not isinstance(data, Node) or not isinstance(weight, Node) or _PER_TENSOR not in str(data.target):
        return None
    scale, own = data.args[1], None
    if _PER_CHANNEL in str(weight.target) and weight.args[3] == axis:
        own = _attribute(model, weight.args[1])
    elif _PER_TENSOR in str(weight.target) and isinstance(weight.args[1], float):
        own = torch.tensor(weight.args[1])
    if own is None or not isinstance(scale, float):
        return None
    return own.double() * scale


def _attribute(model: GraphModule, node: Any) -> Tensor:
    found: Any = model
    for name in str(node.target).split("."):
        found = getattr(found, name)
    assert isinstance(found, Tensor)
    return found


def _set_attribute(model: GraphModule, node: Node, tensor: Tensor) -> None:
    *path, name = str(node.target).split(".")
    owner = model.get_submodule(".".join(path))
    setattr(owner, name, tensor)
