"""What reads a concatenation, where that decides whether its parts can share a scale.

A small part of a join with one scale has few levels. That costs nothing where each reader is as coarse. A sum is, if
its range is as large as that of the join, since it is rounded with one scale as well. So is a norm over the joined
dimension, which divides all parts alike. Tests: tests/quantize/test_join_readers.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch.fx import GraphModule, Node

from fpga_dynamo.ir.graph import argument, arguments
from fpga_dynamo.quantize.operators import ADDITIONS, MULTIPLICATIONS, aten, is_idle_dropout, is_parameter
from fpga_dynamo.quantize.parameters import constant

_BY_ELEMENT = (aten.contiguous.default, aten.clone.default)
_RESHAPES = (aten.view.default, aten.reshape.default, aten.flatten.using_ints)
_COARSER = 2.0
"""The largest ratio of a join's range to that of a sum that reads it: the sum's rounding then counts about as much."""


@dataclass(frozen=True)
class Reader:
    """A node that reads a value behind moves. axis: the dimension there that the value's `axis` has become."""

    node: Node
    value: Node
    axis: int


def readers(value: Node, axis: int) -> Iterator[Reader]:
    """What reads a value behind moves that keep a dimension, and products by numbers and parameters."""
    waiting = [(value, axis)]
    while waiting:
        at, axis = waiting.pop()
        for user in at.users:
            moved = moved_axis(user, at, axis)
            if moved is None:
                yield Reader(user, at, axis)
            else:
                waiting.append((user, moved))


def moved_axis(node: Node, source: Node, axis: int) -> int | None:
    """The dimension that the `axis` of its operand has become; None where `node` does more than move or scale."""
    rank = source.meta["val"].dim()
    if source not in node.args[: 2 if node.target in MULTIPLICATIONS else 1]:
        return None
    if node.target is aten.permute.default:
        return [d % rank for d in arguments(node)[1]].index(axis)
    if node.target is aten.transpose.int:
        a, b = (d % rank for d in arguments(node)[1:3])
        return {a: b, b: a}.get(axis, axis)
    if node.target in _RESHAPES:
        before, behind = source.meta["val"].shape, node.meta["val"].shape
        return axis if before[: axis + 1] == behind[: axis + 1] else None
    if node.target in MULTIPLICATIONS:
        other = node.args[1] if node.args[0] is source else node.args[0]
        plain = not isinstance(other, Node) or is_parameter(other)
        return axis if plain and node.meta["val"].shape == source.meta["val"].shape else None
    return axis if node.target in _BY_ELEMENT or is_idle_dropout(node) else None


def sums_behind(join: Node) -> list[Node]:
    """The sums that read a join."""
    axis = argument(join, "dim", 1, 0) % join.meta["val"].dim()
    return [reader.node for reader in readers(join, axis) if _is_sum(reader)]


def _is_sum(reader: Reader) -> bool:
    size = reader.value.meta["val"].shape
    return reader.node.target in ADDITIONS and all(
        isinstance(arg, Node) and arg.meta["val"].shape == size for arg in reader.node.args[:2]
    )


def are_coarse(model: GraphModule, join: Node, parts: Mapping[Node, float], ranges: Mapping[Node, float]) -> bool:
    """Whether all that reads a join is as coarse as one scale for its `parts`, of these ranges.

    ranges: those of the sums that read it.
    """
    axis = argument(join, "dim", 1, 0) % join.meta["val"].dim()
    largest, found = max(parts.values()), list(readers(join, axis))
    for reader in found:
        if _is_sum(reader):
            if largest > _COARSER * ranges.get(reader.node, 0.0):
                return False
        elif not _divides_alike(model, reader, join, parts):
            return False
    return bool(found)


def _divides_alike(model: GraphModule, reader: Reader, join: Node, ranges: Mapping[Node, float]) -> bool:
    """Whether it is a norm over the joined dimension, whose parameter does not make up for small parts."""
    node = reader.node
    if node.target is not aten.layer_norm.default or node.args[0] is not reader.value or len(arguments(node)[1]) != 1:
        return False
    if reader.axis != reader.value.meta["val"].dim() - 1 or join.target is aten.stack.default:
        return False
    gamma = constant(model, node.args[2]) if len(node.args) > 2 else None
    if gamma is None:
        return len(node.args) < 3 or node.args[2] is None
    first, widest = 0, 0.0
    for part in arguments(join)[0]:
        count = part.meta["val"].shape[argument(join, "dim", 1, 0)]
        widest = max(widest, ranges.get(part, 0.0) * float(gamma[first : first + count].abs().max()))
        first += count
    return max(ranges.values()) * float(gamma.abs().max()) <= _COARSER * widest
