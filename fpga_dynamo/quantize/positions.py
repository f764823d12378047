"""Which values of a graph are activations, and which are positions: masks, indices, tables of constants.

A scale that is calibrated suits values that are like those of the calibration. Positions are not: a counter of 300
tokens in 8 bits names other rows of a table. So a value that depends on no input, or only on integers, stays as it is,
and so does what a comparison, an index, or a conversion to integers reads.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.quantize.operators import EMBEDDING, PRODUCTS, aten, is_parameter

_IMAGES = (torch.uint8, torch.int8)
"""Integers that are activations: pixels."""

_SAY_NOTHING = (aten.sym_size.int, aten._assert_tensor_metadata.default)
"""Operators without a tensor as result that use no value: a size, and what export leaves of `type_as`."""

_GRIDS: dict[str, tuple[int, ...]] = {
    "aten.grid_sampler.default": (1,),
    "aten.grid_sampler_2d.default": (1,),
    "aten.grid_sampler_3d.default": (1,),
    "torchvision.deform_conv2d.default": (2,),
    "torchvision.roi_align.default": (1,),
    "torchvision.roi_pool.default": (1,),
    "torchvision.nms.default": (0, 1),
}
"""Operands that are float positions, by the operator's name."""


def activations(model: GraphModule) -> set[Node]:
    """Nodes that depend on a floating-point or pixel input, or on an input and a layer's weights."""
    found: set[Node] = set()
    depends: set[Node] = set()
    for node in model.graph.nodes:
        if node.op == "placeholder":
            depends.add(node)
            if any(value.dtype.is_floating_point or value.dtype in _IMAGES for value in _tensors(node)):
                found.add(node)
        elif node.op == "call_function":
            operands = node.all_input_nodes
            if any(operand in depends for operand in operands):
                depends.add(node)
                if any(operand in found for operand in operands) or _is_layer(node):
                    found.add(node)
    return found


def indices(nodes: Iterable[Node]) -> set[Node]:
    """Floating-point nodes that are used only in indices or comparisons, without a layer with weights between."""
    found: set[Node] = set()
    for node in reversed(list(nodes)):
        if node.op != "call_function":
            continue
        if _makes_integers(node):
            found.update(operand for operand in node.all_input_nodes if _is_real(operand))
        elif (positions := _GRIDS.get(str(node.target))) is not None:
            found.update(x for i in positions if i < len(node.args) and isinstance(x := node.args[i], Node))
        if node in found and not _is_layer(node):
            found.update(operand for operand in node.all_input_nodes if _is_real(operand))
    return found


def _is_layer(node: Node) -> bool:
    """Whether a node multiplies by weights or looks them up, so that its operand is no position any more."""
    product = PRODUCTS.get(node.target)
    if product is not None and product.weight_axis is not None:
        return is_parameter(node.args[1])
    return node.target is EMBEDDING and is_parameter(node.args[0])


def _makes_integers(node: Node) -> bool:
    """Whether a node turns floating-point values into integers, booleans or Python numbers."""
    if node.target in _SAY_NOTHING or not any(_is_real(operand) for operand in node.all_input_nodes):
        return False
    values = _tensors(node)
    return not values or any(not value.dtype.is_floating_point and not value.dtype.is_complex for value in values)


def _is_real(node: Node) -> bool:
    return any(value.dtype.is_floating_point for value in _tensors(node))


def _tensors(node: Node) -> list[torch.Tensor]:
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else [value]
    return [part for part in values if isinstance(part, torch.Tensor)]
