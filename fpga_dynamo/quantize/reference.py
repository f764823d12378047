"""The float model's values, by the names of a quantised graph, where norms and scales are part of layers' weights.

The float graph is run as it is: a folded layer's value is that of the norm or scale behind it, or, in front of a
scale, the layer's own value times that scale.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.fx import GraphModule, Node

from fpga_dynamo.ir.graph import arguments
from fpga_dynamo.quantize.operators import BATCH_NORM, MULTIPLICATIONS, PRODUCTS, aten
from fpga_dynamo.quantize.parameters import constant
from fpga_dynamo.quantize.scales_of_layers import KEEPS_CHANNELS


@dataclass(frozen=True)
class ReferenceValue:
    """Where the value that a quantised graph's node should have comes from: a node of the float graph, and factors
    along one of its dimensions (None for one number)."""

    name: str
    factors: tuple[tuple[Tensor, int | None], ...] = ()

    def value(self, values: dict[str, Any]) -> Any:
        found = values.get(self.name)
        for factor, axis in self.factors:
            if isinstance(found, Tensor):
                size = [1] * found.dim()
                if axis is not None:
                    size[axis] = -1
                found = found * factor.reshape(size if axis is not None else ())
        return found


def sources(reference: GraphModule, there: Collection[str]) -> dict[str, ReferenceValue]:
    """For each name of a quantised graph that the float one has too; `there` are all names of the former."""
    found: dict[str, ReferenceValue] = {}
    for node in reference.graph.nodes:
        if node.name in there:
            last = node
            while (norm := _missing_norm(last, there)) is not None:
                last = norm
            found[node.name] = ReferenceValue(last.name)
    for node in reference.graph.nodes:
        if node.target in MULTIPLICATIONS and node.name not in there:
            _add_factors(reference, node, there, found)
    return found


def _missing_norm(node: Node, there: Collection[str]) -> Node | None:
    """The norm that is part of a layer in the quantised graph."""
    if node.target not in PRODUCTS:
        return None
    return next((u for u in node.users if u.target in BATCH_NORM and u.args[0] is node and u.name not in there), None)


def _add_factors(
    reference: GraphModule, product: Node, there: Collection[str], found: dict[str, ReferenceValue]
) -> None:
    """Has the values in front of a multiplication that is part of a layer multiplied."""
    for scaled, scale in (product.args[:2], product.args[1::-1]):
        factor = constant(reference, scale)
        if factor is None or not isinstance(scaled, Node):
            continue
        rank = product.meta["val"].dim()
        wide = [d for d, size in enumerate(factor.shape) if size != 1]
        axis = wide[0] + rank - factor.dim() if wide else None
        chain: list[tuple[Node, int | None]] = [(scaled, axis)]
        while (node := chain[-1][0]).target not in PRODUCTS:
            missing = node.name not in there and node.target in (*BATCH_NORM, *MULTIPLICATIONS)
            if not (missing or node.target in KEEPS_CHANNELS) or not isinstance(node.args[0], Node):
                return
            chain.append((node.args[0], _axis_before(node, chain[-1][1])))
        for node, along in chain:
            if node.name in found:
                source = found[node.name]
                found[node.name] = ReferenceValue(source.name, (*source.factors, (factor.detach(), along)))
        return


def _axis_before(node: Node, axis: int | None) -> int | None:
    """The dimension of a move's operand that is `axis` of its result."""
    if axis is None:
        return None
    rank = node.meta["val"].dim()
    if node.target is aten.permute.default:
        order: Any = node.args[1]
        return int(order[axis] % rank)
    if node.target is aten.transpose.int:
        a, b = (d % rank for d in arguments(node)[1:3])
        return {a: b, b: a}.get(axis, axis)
    return axis
