"""Layer scales: products by a number for each output channel, which become part of the layer's weights.

ConvNeXt, CaiT and DINOv2 multiply the last layer of a block by a parameter of one number a channel. In 8 bits that
product would be a command of its own, on values that are rounded before it; as part of the weights, whose scales are
channel by channel, it costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.ir.graph import arguments
from fpga_dynamo.quantize.operators import MULTIPLICATIONS, PRODUCTS, aten
from fpga_dynamo.quantize.parameters import attribute, drop_unused, set_own

KEEPS_CHANNELS = (aten.permute.default, aten.transpose.int, aten.dropout.default, aten.contiguous.default)
"""Moves of whole channels that may stand between a layer and its scale."""


def fold_scales(model: GraphModule, kept: Collection[Node] = ()) -> None:
    """Multiplies layers' weights and biases by the scale behind them, in place, but for nodes that are `kept`.

    A layer is a convolution or linear layer, the weights of which are parameters and whose result only the scale reads.
    """
    folded = [node for node in model.graph.nodes if node.target in MULTIPLICATIONS and _fold(model, node, kept)]
    if folded:
        model.graph.eliminate_dead_code()
        drop_unused(model)
        model.recompile()


def _fold(model: GraphModule, node: Node, kept: Collection[Node]) -> bool:
    for scaled, scale in (node.args[:2], node.args[1::-1]):
        if not (isinstance(scaled, Node) and isinstance(scale, Node) and scale.op == "get_attr"):
            continue
        layer = _layer_behind(scaled)
        if layer is None or node in kept or layer in kept or node.meta["val"].shape != scaled.meta["val"].shape:
            continue
        axis = _axis_of_channels(model, layer, scaled)
        numbers = _numbers(attribute(model, scale), node.meta["val"].dim(), axis)
        if numbers is None:
            continue
        product = PRODUCTS[layer.target]
        assert product.weight_axis is not None and product.bias is not None
        _multiply(model, layer, 1, numbers, product.weight_axis)
        if len(layer.args) > product.bias and layer.args[product.bias] is not None:
            _multiply(model, layer, product.bias, numbers, 0)
        node.replace_all_uses_with(scaled)
        return True
    return False


def _layer_behind(node: Node) -> Node | None:
    """The layer whose channels `node` has, each multiplied by nothing else."""
    while node.target in KEEPS_CHANNELS and len(node.users) == 1 and isinstance(node.args[0], Node):
        node = node.args[0]
    product = PRODUCTS.get(node.target)
    if product is None or product.weight_axis is None or len(node.users) != 1:
        return None
    operands = [node.args[i] for i in (1, product.bias) if i is not None and i < len(node.args)]
    plain = all(operand is None or (isinstance(operand, Node) and operand.op == "get_attr") for operand in operands)
    groups = 1 if product.weight_axis == 0 or len(node.args) < 7 else node.args[6]
    return node if plain and groups == 1 else None  # a transposed convolution's groups have channels in two axes


def _axis_of_channels(model: GraphModule, layer: Node, node: Node) -> int:
    """The dimension of `node` that the layer's output channels are."""
    if node is layer:
        weight = layer.args[1]
        assert isinstance(weight, Node)
        # Behind the channels are the kernel's dimensions.
        return int(node.meta["val"].dim() - (attribute(model, weight).dim() - 1))
    source = node.args[0]
    assert isinstance(source, Node)
    axis, rank = _axis_of_channels(model, layer, source), source.meta["val"].dim()
    if node.target is aten.permute.default:
        order = [d % rank for d in arguments(node)[1]]
        return order.index(axis)
    if node.target is aten.transpose.int:
        a, b = (d % rank for d in arguments(node)[1:3])
        return {a: b, b: a}.get(axis, axis)
    return axis


def _numbers(scale: torch.Tensor, rank: int, axis: int) -> torch.Tensor | None:
    """A scale's numbers, one a channel or one for all; None if it has others."""
    if scale.dim() > rank or not scale.is_floating_point():
        return None
    sizes = [1] * (rank - scale.dim()) + list(scale.shape)
    if any(size != 1 for d, size in enumerate(sizes) if d != axis):
        return None
    return scale.flatten()


def _multiply(model: GraphModule, layer: Node, position: int, numbers: torch.Tensor, axis: int) -> None:
    """Gives the layer a parameter of its own, which is that at `position` times the numbers along an axis."""
    old = layer.args[position]
    assert isinstance(old, Node)
    tensor = attribute(model, old)
    size = [1] * tensor.dim()
    size[axis] = -1
    set_own(model, layer, position, tensor.detach() * numbers.detach().view(size), "scaled")
