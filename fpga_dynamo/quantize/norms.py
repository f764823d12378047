"""Batch norms as part of the weights of the layers in front of them, where nothing else reads what that changes.

torchao's ``prepare_pt2e`` writes the folded weight to the parameter's own name and lets every reader of the layer read
the norm instead: other layers with the same parameter, and other readers of the layer, then compute something else.
Here each layer has parameters of its own, and a norm behind a layer that something else reads is not folded.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from fpga_dynamo.quantize.operators import BATCH_NORM, PRODUCTS, QuantizedProduct, aten
from fpga_dynamo.quantize.parameters import attribute, constant, drop_unused, set_own
from fpga_dynamo.torch_internals.dispatch import OpOverload, schema

BARRIER = aten.alias.default
"""Stands between a layer and a norm that torchao must not fold."""


def fold_norms(model: GraphModule) -> None:
    """Folds norms into the layers in front of them, in place, and puts a barrier in front of the others."""
    folded = [node for node in list(model.graph.nodes) if node.target in BATCH_NORM and _fold(model, node)]
    add_barriers(model)
    if folded:
        model.graph.eliminate_dead_code()
        drop_unused(model)
    model.recompile()


def add_barriers(model: GraphModule, shared_only: bool = False) -> None:
    """Puts a barrier between each layer and the norm that reads it, in place; torchao folds no norm behind one.

    shared_only: only where a fold would change what others read.
    """
    for norm in list(model.graph.nodes):
        if norm.target not in BATCH_NORM or not isinstance(layer := norm.args[0], Node) or layer.target not in PRODUCTS:
            continue
        if shared_only and not _is_read_by_others(model, layer, norm):
            continue
        with model.graph.inserting_before(norm):
            barrier = model.graph.call_function(BARRIER, (layer,))
        barrier.meta = dict(layer.meta)
        norm.replace_input_with(layer, barrier)
    model.recompile()


def remove_barriers(model: GraphModule) -> None:
    """Takes the barriers of `add_barriers` out, in place."""
    for node in list(model.graph.nodes):
        if is_barrier(node):
            node.replace_all_uses_with(node.args[0])
            model.graph.erase_node(node)
    model.recompile()


def is_barrier(node: Node) -> bool:
    """Whether a node is one of `add_barriers`."""
    return node.target is BARRIER and any(user.target in BATCH_NORM for user in node.users)


def warn_of_folds(model: GraphModule) -> None:
    """Warns where ``prepare_pt2e`` may have folded a norm into a weight that several layers share."""
    read = {str(node.target) for node in model.graph.nodes if node.op == "get_attr"}
    if not any(name.endswith("running_var") and name not in read for name, _ in model.named_buffers()):
        return
    weights = [n.args[1] for n in model.graph.nodes if n.target in PRODUCTS and constant(model, n.args[1]) is not None]
    shared = {str(node.target) for node in weights if isinstance(node, Node) and _readers(model, node) > 1}
    if shared:
        warnings.warn(
            f"several layers read {', '.join(sorted(shared))}, into which prepare_pt2e may have folded a batch norm of "
            "one of them: use fpga_dynamo.quantize.prepare instead, which gives each layer its own copy",
            RuntimeWarning,
            stacklevel=3,
        )


def _is_read_by_others(model: GraphModule, layer: Node, norm: Node) -> bool:
    if set(layer.users) != {norm}:
        return True
    product = PRODUCTS[layer.target]
    for position in (1, product.bias):
        operand = layer.args[position] if position is not None and position < len(layer.args) else None
        if operand is not None and not (isinstance(operand, Node) and constant(model, operand) is not None):
            return True
        if isinstance(operand, Node) and _readers(model, operand) > 1:
            return True
    return False


def _readers(model: GraphModule, parameter: Node) -> int:
    """How many operands a parameter is, under whatever names the model has it."""
    tensor = attribute(model, parameter)
    same = [n for n in model.graph.nodes if n.op == "get_attr" and _same(model, n, tensor)]
    return sum(user.all_input_nodes.count(node) for node in same for user in node.users)


def _same(model: GraphModule, node: Node, tensor: Tensor) -> bool:
    other = constant(model, node)
    return other is not None and other.data_ptr() == tensor.data_ptr()


def _fold(model: GraphModule, norm: Node) -> bool:
    layer = norm.args[0]
    if not isinstance(layer, Node) or set(layer.users) != {norm}:
        return False
    product = PRODUCTS.get(layer.target)
    if product is None or product.weight_axis is None or product.bias is None or not _is_along_channels(layer):
        return False
    assert isinstance(norm.target, OpOverload)
    arguments = schema(norm.target).arguments
    given: dict[str, Any] = {argument.name: argument.default_value for argument in arguments}
    given |= dict(zip((argument.name for argument in arguments), norm.args, strict=False)) | dict(norm.kwargs)
    weight = constant(model, layer.args[1])
    bias_node = layer.args[product.bias] if len(layer.args) > product.bias else None
    parts = [bias_node, *(given[name] for name in ("weight", "bias", "running_mean", "running_var"))]
    if given["training"] or given["running_mean"] is None or given["running_var"] is None or weight is None:
        return False
    values = [None if part is None else constant(model, part) for part in parts]
    if any(part is not None and value is None for part, value in zip(parts, values, strict=True)):
        return False  # computed by the graph
    bias, gain, shift, mean, variance = (None if value is None else value.detach().double() for value in values)
    assert mean is not None and variance is not None
    factor = torch.rsqrt(variance + float(given["eps"]))
    factor = factor if gain is None else factor * gain
    offset = (-mean if bias is None else bias - mean) * factor
    offset = offset if shift is None else offset + shift
    set_own(model, layer, 1, _scaled(layer, product, weight.detach().double(), factor).to(weight.dtype), "folded")
    set_own(model, layer, product.bias, offset.to(weight.dtype), "folded")
    norm.replace_all_uses_with(layer)
    model.graph.erase_node(norm)
    return True


def _is_along_channels(layer: Node) -> bool:
    """Whether dimension 1, which a norm is along, is the layer's channels: not so for linear layers of sequences."""
    return layer.target is not aten.linear.default or layer.meta["val"].dim() == 2


def _scaled(layer: Node, product: QuantizedProduct, weight: Tensor, factor: Tensor) -> Tensor:
    """A weight with each output channel multiplied; a transposed convolution's groups have theirs in two axes."""
    kernel = [1] * (weight.dim() - 2)
    if not product.weight_axis:
        return weight * factor.view(-1, 1, *kernel)
    groups: Any = layer.args[6] if len(layer.args) > 6 else 1
    parts = weight.chunk(groups, 0)
    return torch.cat(
        [part * own.view(1, -1, *kernel) for part, own in zip(parts, factor.chunk(groups), strict=True)], 0
    )
