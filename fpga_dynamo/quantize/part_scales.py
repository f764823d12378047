"""Concatenations whose parts have different ranges: small parts are multiplied, and layers that read them divide.

A factor is a power of two, so values stay the same. In 8 bits each part then uses the levels of the common scale. The
layer's weights become smaller for small parts, which contribute less to its sums than others.
Tests: tests/quantize/test_part_scales.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.ir.graph import argument, arguments
from fpga_dynamo.quantize.builder import Builder
from fpga_dynamo.quantize.join_readers import moved_axis
from fpga_dynamo.quantize.operators import BATCH_NORM, MULTIPLICATIONS, PRODUCTS, aten, is_float
from fpga_dynamo.quantize.parameters import attribute, constant, drop_unused, set_own

_RELU = (aten.relu.default, aten.relu_.default)
_BY_CHANNEL = (aten.max_pool2d.default, aten.avg_pool2d.default, aten.adaptive_avg_pool2d.default)


@dataclass(frozen=True)
class _Reader:
    """A layer or norm that reads a value, whose channels are the dimension `axis`."""

    node: Node
    axis: int


def scale_parts(model: GraphModule, join: Node, ranges: Mapping[Node, float]) -> bool:
    """Has the parts of a join share a range, in place; False, and nothing changed, where what reads it cannot divide.

    ranges: what a scale of each part has to span.
    """
    parts = [part for part in join.args[0] if isinstance(part, Node)] if isinstance(join.args[0], (list, tuple)) else []
    if join.target not in (aten.cat.default, aten.concat.default) or not all(ranges.get(part) for part in parts):
        return False
    axis = argument(join, "dim", 1, 0) % join.meta["val"].dim()
    readers = _readers(model, join, axis)
    sizes = [part.meta["val"].shape[axis] for part in parts]
    if not readers or not all(isinstance(size, int) for size in sizes):
        return False
    largest = max(ranges[part] for part in parts)
    factors = [2.0 ** math.floor(math.log2(largest / ranges[part])) for part in parts]
    add = Builder(model, join)
    scaled = [part if f == 1 else add(aten.mul.Tensor, part, f) for part, f in zip(parts, factors, strict=True)]
    join.replace_all_uses_with(add(join.target, scaled, axis), delete_user_cb=lambda user: user is not join)
    model.graph.erase_node(join)
    numbers = torch.cat([torch.full((size,), f) for size, f in zip(sizes, factors, strict=True)])
    for reader in readers:
        _divide(model, reader.node, numbers)
    model.graph.lint()
    drop_unused(model)
    model.recompile()
    return True


def _readers(model: GraphModule, value: Node, axis: int) -> list[_Reader] | None:
    """What reads a value behind operators that keep its factors; None if that is not layers and norms alone."""
    found: list[_Reader] = []
    waiting, seen = [(value, axis)], {value}
    while waiting:
        at, axis = waiting.pop()
        if not at.users:
            return None
        for user in at.users:
            if user in seen or user.args.count(at) > 1:
                return None  # the factors would count twice
            seen.add(user)
            moved = axis if _keeps_factors(user, at, axis) else moved_axis(user, at, axis)
            if moved is not None:
                waiting.append((user, moved))
            elif user.args[0] is at and is_float(user) and _can_divide(model, user, axis):
                found.append(_Reader(user, axis))
            else:
                return None
    return found


def _keeps_factors(node: Node, source: Node, axis: int) -> bool:
    """Whether the result is multiplied where the source is: by ReLU, pooling, and products with another value."""
    if node.target in _BY_CHANNEL:
        return axis == source.meta["val"].dim() - 3
    same = is_float(node) and node.meta["val"].shape == source.meta["val"].shape
    return node.target in _RELU or (node.target in MULTIPLICATIONS and same)


def _can_divide(model: GraphModule, node: Node, axis: int) -> bool:
    rank = node.meta["val"].dim()
    if node.target in BATCH_NORM:
        statistics = [constant(model, arg) for arg in node.args[3:5]]
        return axis == 1 and not node.args[5] and all(value is not None for value in statistics)
    product = PRODUCTS.get(node.target)
    weight = constant(model, node.args[1]) if product is not None and product.weight_axis == 0 else None
    if weight is None:
        return False
    if node.target is aten.linear.default:
        return axis == rank - 1
    return axis == 1 and rank == weight.dim() and argument(node, "groups", 6, 1) == 1  # of a batch


def _divide(model: GraphModule, node: Node, numbers: torch.Tensor) -> None:
    """Has a layer or norm read a value whose channels are multiplied by `numbers`."""

    def own(position: int, change: Any) -> None:
        operand = node.args[position]
        assert isinstance(operand, Node)
        tensor = attribute(model, operand).detach()
        set_own(model, node, position, change(tensor, numbers.to(tensor)), "parts")

    if node.target in BATCH_NORM:
        eps = float(arguments(node)[7])
        own(3, lambda mean, n: mean * n)
        own(4, lambda variance, n: (variance + eps) * n**2 - eps)
    else:
        own(1, lambda weight, n: weight / n.view(1, -1, *(1,) * (weight.dim() - 2)))
