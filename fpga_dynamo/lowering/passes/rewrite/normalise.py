"""Pass: small rewrites after which later passes need no special cases."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.ir.graph import IDENTITY_TARGETS, argument, aten, is_view, value
from fpga_dynamo.ir.quantised import quantizes
from fpga_dynamo.ir.sizes.size import Size
from fpga_dynamo.lowering.passes.rewrite.checks import drop_checks
from fpga_dynamo.lowering.passes.rewrite.embeddings import gather_integers
from fpga_dynamo.lowering.passes.rewrite.qparams import open_choices
from fpga_dynamo.lowering.passes.rewrite.quantised import hoist_scales
from fpga_dynamo.lowering.passes.rewrite.roundings import name_roundings
from fpga_dynamo.lowering.passes.rewrite.scalar_operands import convert_scalar_operands


def normalise(module: GraphModule, static_inputs: Collection[int] = ()) -> None:
    """Rewrites the graph in place. static_inputs: positions of parameters and buffers among the placeholders."""
    drop_checks(module)
    for node in list(module.graph.nodes):
        if _is_empty_item(node):
            _replace_by_empty(module, node)
        elif (number := _filling(node)) is not None:
            _replace_by_full(module, node, number)
        elif _is_the_same_to_quantisers(node):
            node.replace_all_uses_with(node.all_input_nodes[0])
            module.graph.erase_node(node)
        elif node.target is aten.cat.default:
            _leave_out_empty_parts(module, node)
        elif _moves_nothing(node):
            node.target, node.args, node.kwargs = aten.clone.default, (node.args[0],), {}
    convert_scalar_operands(module)
    name_roundings(module)
    open_choices(module)
    hoist_scales(module, static_inputs)
    gather_integers(module)


def _moves_nothing(node: Node) -> bool:
    """Whether it pads or rolls by 0, as models with windows do where sizes fit."""
    if node.target is aten.constant_pad_nd.default:
        by = argument(node, "pad", 1)
    elif node.target is aten.roll.default:
        by = argument(node, "shifts", 1)
    else:
        return False
    return all(isinstance(n, int) and n == 0 for n in by)


def _leave_out_empty_parts(module: GraphModule, cat: Node) -> None:
    """Joins parts that have elements alone: the first update of a cache joins its keys to none.

    A part without elements may still decide the dtype of the result; then it stays.
    """
    parts: Any = cat.args[0]
    fakes = [value(part) for part in parts]
    full = [part for part, fake in zip(parts, fakes, strict=True) if not _has_no_elements(fake)]
    dtype = value(cat).dtype
    if len(full) == len(parts) or not full or any(value(part).dtype is not dtype for part in full):
        return
    if len(full) > 1:
        cat.args = (full, *cat.args[1:])
    else:
        cat.target, cat.args, cat.kwargs = aten.clone.default, (full[0],), {}
        if not _same_strides(value(full[0]), value(cat)):
            cat.kwargs = {"memory_format": torch.contiguous_format}
    for part in set(parts) - set(full):
        if not part.users and part.op == "call_function":
            module.graph.erase_node(part)


def _has_no_elements(fake: torch.Tensor) -> bool:
    return any(isinstance(size, int) and size == 0 for size in fake.shape)


def _same_strides(one: torch.Tensor, other: torch.Tensor) -> bool:
    pairs = zip(one.shape, one.stride(), other.stride(), strict=True)
    return all(a == b for size, a, b in pairs if size != 1)


def _is_the_same_to_quantisers(node: Node) -> bool:
    """Whether it only gives dimensions of size 1 other strides, as pooling of channels-last images to one pixel does.

    What rounds to integers then is next to what makes the values, as patterns look for it.
    """
    if node.target is not aten.as_strided.default or not node.users:
        return False
    before, after = value(node.all_input_nodes[0]), value(node)
    return (
        before.shape == after.shape
        and before.storage_offset() == after.storage_offset()
        and _same_strides(after, before)
        and all(quantizes(user) is not None for user in node.users)
    )


def _is_empty_item(node: Node) -> bool:
    """An item without elements: what an inference batch norm saves for its backward. One of a view shows its input.

    Of operands of several dtypes PyTorch's kernels make another dtype than tracing predicts, and the backward asks
    for theirs.
    """
    fake = value(node)
    if node.target is not operator.getitem or not isinstance(fake, torch.Tensor):
        return False
    whole = node.all_input_nodes[0]
    operands = [value(operand) for operand in whole.all_input_nodes]
    return (
        all(isinstance(size, int) for size in fake.shape)
        and fake.numel() == 0
        and not is_view(whole)
        and not any(isinstance(size, torch.SymInt) for size in value(whole)[0].shape)  # known by running alone
        and value(whole)[0].numel() != 0
        and all(operand.dtype is fake.dtype for operand in operands if isinstance(operand, torch.Tensor))
    )


def _replace_by_empty(module: GraphModule, node: Node) -> None:
    """An empty tensor depends on nothing, so it must not keep the node from being fused."""
    fake = value(node)
    with module.graph.inserting_before(node):
        empty = module.graph.call_function(
            aten.empty.memory_format, (list(fake.shape),), {"dtype": fake.dtype, "device": fake.device}
        )
    empty.meta = dict(node.meta)
    node.replace_all_uses_with(empty)
    module.graph.erase_node(node)


FILLED: dict[Any, Callable[[Node], Any]] = {
    aten.full_like.default: lambda node: argument(node, "fill_value", 1),
    aten.new_full.default: lambda node: argument(node, "fill_value", 2),
    aten.fill.Scalar: lambda node: argument(node, "value", 1),
    aten.fill.Tensor: lambda node: _number(argument(node, "value", 1)),
    aten.zeros_like.default: lambda node: 0,
    aten.new_zeros.default: lambda node: 0,
    aten.zero.default: lambda node: 0,
    aten.ones_like.default: lambda node: 1,
    aten.new_ones.default: lambda node: 1,
}
"""Ops that read the size of their input and no element -> the number that their result is full of."""

_UNINITIALISED = (aten.empty.memory_format, aten.new_empty.default, aten.empty_like.default)


def _number(node: Any) -> Any:
    """The number that a scalar tensor of the graph is, or None."""
    if isinstance(node, Node) and node.target in (aten.full.default, aten.scalar_tensor.default):
        return node.args[-1]
    if isinstance(node, Node) and node.target in IDENTITY_TARGETS:
        return _number(node.args[0])
    return None


def _filling(node: Node) -> Any:
    """The number that all elements of `node` equal, whatever its inputs, or None.

    Memory that the graph writes to before it is read is full of zeros: what lies there may be numbers that int32 cannot
    hold, and it must not keep the ops that write to it waiting for its input.
    """
    fake = value(node)
    if node.target not in FILLED and node.target not in _UNINITIALISED:
        return None
    if fake.layout is not torch.strided or not all(isinstance(n, (int, Size)) for n in fake.shape):
        return None
    if not fake.is_contiguous():
        return None
    if node.target in FILLED:
        number = FILLED[node.target](node)
        return number if isinstance(number, (bool, int, float)) else None
    written = any(user.op != "output" for user in node.users)
    return 0 if written and (node.all_input_nodes or fake.dtype is torch.int64) else None


def _replace_by_full(module: GraphModule, node: Node, number: Any) -> None:
    fake = value(node)
    with module.graph.inserting_before(node):
        full = module.graph.call_function(
            aten.full.default, (list(fake.shape), number), {"dtype": fake.dtype, "device": fake.device}
        )
    full.meta = dict(node.meta)
    node.replace_all_uses_with(full)
    module.graph.erase_node(node)
