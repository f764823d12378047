"""Operands of element-wise ATen calls: which they are, and the type in which eager computes with them."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.ir.dtypes import INTEGERS
from fpga_dynamo.ir.graph import argument, arguments, aten, value
from fpga_dynamo.lowering.ops.elementwise.backward import OPERANDS

CASTS = frozenset({aten._to_copy.default, aten.copy.default})

_OPERAND_COUNT: dict[Any, int] = {
    aten.clamp.default: 1,
    aten.hardtanh.default: 1,
    aten.leaky_relu.default: 1,
    aten.gelu.default: 1,
    aten.elu.default: 1,
    aten.softplus.default: 1,
    aten.celu.default: 1,
    aten.nan_to_num.default: 1,
    aten.logit.default: 1,
    aten.threshold.default: 3,
    aten.lerp.Scalar: 3,
    aten.lerp.Tensor: 3,
    aten.addcmul.default: 3,
    aten.addcdiv.default: 3,
    aten._to_copy.default: 1,
    aten.where.self: 3,
    aten.masked_fill.Scalar: 3,
    aten.masked_fill.Tensor: 3,
    aten.threshold_backward.default: 3,
}
"""How many leading arguments are operands, where it is not "all tensors and numbers up to two"."""

COMPARISONS = frozenset(
    overload
    for packet in (aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge)
    for overload in (packet.Tensor, packet.Scalar)
)

_SELECTS = frozenset(
    {
        aten.neg.default,
        aten.abs.default,
        aten.sign.default,
        aten.floor.default,
        aten.ceil.default,
        aten.round.default,
        aten.trunc.default,
        aten.relu.default,
        aten.minimum.default,
        aten.maximum.default,
    }
)


def is_exact(node: Node) -> bool:
    """Whether the result, of operands of its own type, needs no rounding to that type."""
    if node.target not in _SELECTS:
        return False
    return all(isinstance(o, Node) and value(o).dtype is value(node).dtype for o in operands(node))


def operands(node: Node) -> list[Node | float]:
    """The FX nodes and numbers that the rule's operands stand for."""
    if node.target is aten.copy.default:
        return [arguments(node)[1]]
    if node.target is aten.clamp.Tensor:
        given = [node.args[0], argument(node, "min", 1), argument(node, "max", 2)]
        return [g for g in given if g is not None]
    if node.target in OPERANDS:
        return OPERANDS[node.target](node)
    count = _OPERAND_COUNT.get(node.target, 2)
    found: list[Node | float] = []
    for arg in arguments(node)[:count]:
        found.append(arg if isinstance(arg, (Node, int, float)) else float(arg))
    return found


def compute_dtype(node: Node) -> torch.dtype:
    """The type that eager brings the operands to: the result's, or for a truth value what the operands promote to."""
    result: torch.dtype = value(node).dtype
    if result is not torch.bool or node.target in CASTS or node.target in _SELECTIONS:
        return result
    given = [_stand_in(o) if isinstance(o, Node) else o for o in operands(node)]
    common = torch.result_type(given[0], given[-1])
    return torch.float32 if node.target in _TRUTHS and common in INTEGERS else common


def _stand_in(node: Node) -> torch.Tensor:
    """A tensor that is promoted as the value of `node` is, whose sizes may be unknown."""
    return torch.empty((1,) if value(node).dim() else (), dtype=value(node).dtype, device="meta")


_TRUTHS = frozenset({getattr(aten, f"logical_{name}").default for name in ("and", "or", "not", "xor")})
"""Ops that ask of each operand whether it is zero, which an integer's float says as well."""


def is_condition(node: Node, position: int) -> bool:
    """Whether operand `position` is a mask, which type promotion ignores."""
    return _SELECTIONS.get(node.target) == position


_SELECTIONS: dict[Any, int] = {aten.where.self: 0, aten.masked_fill.Scalar: 1, aten.masked_fill.Tensor: 1}
"""Ops that choose by a mask, and its position."""
