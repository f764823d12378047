"""Rotary positions: ``x * cos + rotate(x) * sin``, where `rotate` moves features and negates some of them.

`rotate` becomes a linear layer with weights of 0, 1 and -1. A layer, two products by tables of constants and a sum all
have a form in 8 bits. Tests: tests/quantize/test_rotary.py.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from fpga_dynamo.quantize.builder import Builder
from fpga_dynamo.quantize.operators import ADDITIONS, CONCATENATIONS, MOVES, MULTIPLICATIONS, aten, is_float
from fpga_dynamo.quantize.parameters import buffer, drop_unused, evaluated


@dataclass(frozen=True)
class _Product:
    """The product `node` of a value and a table of constants."""

    node: Node
    value: Node
    table: Tensor


def rotate_by_tables(model: GraphModule, kept: Collection[Node] = ()) -> set[Node]:
    """The products of a value and a table in rotary positions; rewritten in place, but for nodes that are `kept`."""
    memo: dict[Node, Tensor | None] = {}
    found: set[Node] = set()
    for node in list(model.graph.nodes):
        if node.target not in ADDITIONS or node.kwargs.get("alpha", 1) != 1 or not is_float(node):
            continue
        products = [product for arg in node.args[:2] if (product := _product(model, arg, memo)) is not None]
        for plain, rotated in itertools.permutations(products, 2) if len(products) == 2 else ():
            steps = _steps(rotated.value, plain.value)
            if not steps or not set(kept).isdisjoint((node, plain.node, rotated.node, *steps)):
                continue
            if (weight := _weight(steps, plain.value)) is not None:
                add = Builder(model, rotated.node)
                matrix = _constant(model, rotated.node, "_rotary_weight", weight)
                layer = add(aten.linear.default, plain.value, matrix)
                for product, value in ((plain, plain.value), (rotated, layer)):
                    product.node.args = (value, _constant(model, product.node, "_rotary_table", product.table))
                    found.add(product.node)
                break
    if found:
        model.graph.eliminate_dead_code()
        drop_unused(model)
        model.recompile()
    return found


def _product(model: GraphModule, node: object, memo: dict[Node, Tensor | None]) -> _Product | None:
    """A product of two float values, of which one is constant and broadcast to the other; None for others."""
    if not isinstance(node, Node) or node.target not in MULTIPLICATIONS or len(node.users) != 1:
        return None
    for value, numbers in (node.args[:2], node.args[1::-1]):
        if not (isinstance(value, Node) and isinstance(numbers, Node) and is_float(value) and is_float(numbers)):
            return None
        table = evaluated(model, numbers, memo)
        size = value.meta["val"].shape
        if table is not None and evaluated(model, value, memo) is None and size == node.meta["val"].shape:
            return _Product(node, value, table) if all(isinstance(count, int) for count in size) else None
    return None


def _steps(value: Node, source: Node) -> list[Node]:
    """Moves, joins and negations that make a value of `source` alone, in their order; none if others do."""
    found: dict[Node, None] = {}
    waiting = [value]
    while waiting:
        at = waiting.pop()
        if at is source or at in found:
            continue
        if at.target not in (*MOVES, *CONCATENATIONS, operator.getitem, aten.neg.default) or not at.all_input_nodes:
            return []
        found[at] = None
        waiting += at.all_input_nodes
    return [node for node in value.graph.nodes if node in found]


def _weight(steps: list[Node], source: Node) -> Tensor | None:
    """The matrix by which `steps` multiply each row of features; None if they do something else."""
    size = tuple(source.meta["val"].shape)
    numbers = torch.arange(1.0, size[-1] + 1)
    values: dict[Node, Any] = {source: numbers.expand(size)}
    for node in steps:
        given: Any = map_arg((node.args, node.kwargs), values.__getitem__)
        target: Any = node.target
        values[node] = target(*given[0], **given[1])
    moved: Tensor = values[steps[-1]]
    if moved.shape != size:
        return None
    features = moved.reshape(-1, size[-1])[0]
    is_rotation = bool((moved == features).all()) and torch.equal(features.abs().sort().values, numbers)
    return torch.sign(features).unsqueeze(1) * (features.abs().unsqueeze(1) == numbers) if is_rotation else None


def _constant(model: GraphModule, reader: Node, name: str, numbers: Tensor) -> Node:
    """A node in front of `reader` that reads a buffer, which equal constants share."""
    fake = reader.meta["val"].new_empty(numbers.shape)
    with model.graph.inserting_before(reader):
        return buffer(model, name, numbers.detach().clone(), fake)
