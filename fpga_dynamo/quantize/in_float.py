"""Which products of an annotated graph stay in float32, and their share of the multiplications: a warning names them.

Tests: tests/quantize/test_products.py.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils.flop_counter import FlopCounterMode

from fpga_dynamo.ir.flops import FORMULAS
from fpga_dynamo.quantize.operators import PRODUCTS, is_parameter
from fpga_dynamo.torch_internals.dispatch import OpOverload

_NAMED = 4
_LEAST = 0.01
"""The share of multiplications below which nothing is said."""


@dataclass(frozen=True)
class FloatProduct:
    """A product that stays in float32. macs: multiplications in one call, of the sizes of the trace."""

    name: str
    macs: int
    reason: str


@dataclass(frozen=True)
class Multiplications:
    """Those of one call. in_float: products that no option of the user's leaves in float32."""

    total: int
    in_float: tuple[FloatProduct, ...]

    def warning(self) -> str | None:
        """A sentence about what stays in float32; None if that is less than 1 %."""
        left = sum(product.macs for product in self.in_float)
        if not self.total or left < _LEAST * self.total:
            return None
        largest = sorted(self.in_float, key=lambda product: -product.macs)
        named = "; ".join(f"{product.name} ({product.reason})" for product in largest[:_NAMED])
        more = f"; {len(largest) - _NAMED} more" if len(largest) > _NAMED else ""
        return f"{100 * left / self.total:.0f} % of the multiplications stay float32: {named}{more}"


def multiplications(
    model: GraphModule, annotated: Collection[Node], asked: Collection[Node], activations: Collection[Node]
) -> Multiplications:
    """Counts those of a graph's products; what no input changes is computed once.

    annotated: products in 8 bits. asked: nodes that options leave alone. activations: values that have a scale.
    """
    total = 0
    left: list[FloatProduct] = []
    for node in model.graph.nodes:
        macs = _macs(node) if node in activations else 0
        total += macs
        if macs and node not in annotated and node not in asked:
            left.append(FloatProduct(node.name, macs, _reason(node, activations)))
    return Multiplications(total, tuple(left))


def _macs(node: Node) -> int:
    """Multiplications of a node whose sizes are known, as PyTorch's counter of operations has them."""
    operands = [operand.meta.get("val") for operand in node.all_input_nodes]
    floats = [value for value in operands if isinstance(value, torch.Tensor) and value.is_floating_point()]
    if not isinstance(node.target, OpOverload) or torch.Tag.pointwise in node.target.tags or len(floats) < 2:
        return 0
    args, kwargs = map_arg((node.args, node.kwargs), lambda arg: arg.meta.get("val"))
    target: Any = node.target
    fake_mode = getattr(floats[0], "fake_mode", None) or nullcontext()
    with fake_mode, FlopCounterMode(display=False, custom_mapping=FORMULAS) as counter:
        target(*args, **kwargs)
    count = counter.get_total_flops() // 2
    return count if isinstance(count, int) else 0


def _reason(node: Node, activations: Collection[Node]) -> str:
    product = PRODUCTS.get(node.target)
    if product is None:
        return f"{node.target} has no 8-bit form"
    data, weight = node.args[:2]
    if data not in activations and not (product.weight_axis is None and is_parameter(data)):
        return "it reads no activation"
    if product.weight_axis is not None and not is_parameter(weight):
        return "its weight is computed in each call"
    return "an operand stays in float32"
