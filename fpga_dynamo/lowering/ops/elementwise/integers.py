"""Element-wise ATen ops on integers as integer micro-operations: what each computes, and when the card may.

An integer of any type is an int32 on the card. An int32 wraps as in eager mode; narrower types are truncated to their
bits after every op. int64 values must fit: inputs are checked, and the range of sums and products is bounded here. An
op that may exceed the bounds falls back to eager mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.micro import MicroProgram, Operand
from fpga_dynamo.ir.dtypes import INTEGERS, span_of
from fpga_dynamo.ir.graph import argument, aten, is_view, value
from fpga_dynamo.ir.operators import Operator, Span, facts
from fpga_dynamo.lowering.ops.calls import rows
from fpga_dynamo.lowering.ops.elementwise.operands import CASTS, operands
from fpga_dynamo.lowering.ops.elementwise.rule import direct, masked_fill, with_scalar

Rule = Callable[[MicroProgram, Node, Sequence[Operand]], Operand]

INT32: Span = span_of(torch.int32)
_DEEP = 12
"""Most ops that bounds are followed through."""


# --- what each op computes --------------------------------------------------------------------------------------------


def _scaled(p: MicroProgram, n: Node, x: Operand) -> Operand:
    alpha = _alpha(n)
    return x if alpha == 1 else p.op("INT_MUL", x, p.integer(int(alpha)))


def _negated(p: MicroProgram, n: Node, x: Sequence[Operand]) -> Operand:
    return p.op("INT_SUB", p.integer(0), x[0])


def _clamped(p: MicroProgram, n: Node, x: Sequence[Operand]) -> Operand:
    result = x[0]
    for name, bound in (("INT_MAX", argument(n, "min", 1)), ("INT_MIN", argument(n, "max", 2))):
        if bound is not None:
            result = p.op(name, result, p.integer(int(bound)))
    return p.op("COPY", result)


def _comparison(name: str, *, swapped: bool = False, inverted: bool = False) -> Rule:
    def rule(p: MicroProgram, n: Node, x: Sequence[Operand]) -> Operand:
        result = p.op(name, *(reversed(x) if swapped else x))
        return p.op("NOT", result) if inverted else result

    return rule


INTEGER_RULES: dict[Any, Rule] = {
    **with_scalar(aten.add, lambda p, n, x: p.op("INT_ADD", x[0], _scaled(p, n, x[1]))),
    **with_scalar(aten.sub, lambda p, n, x: p.op("INT_SUB", x[0], _scaled(p, n, x[1]))),
    **with_scalar(aten.rsub, lambda p, n, x: p.op("INT_SUB", x[1], _scaled(p, n, x[0]))),
    **with_scalar(aten.mul, direct("INT_MUL")),
    **with_scalar(aten.eq, _comparison("INT_EQ")),
    **with_scalar(aten.ne, _comparison("INT_EQ", inverted=True)),
    **with_scalar(aten.lt, _comparison("INT_LT")),
    **with_scalar(aten.ge, _comparison("INT_LT", inverted=True)),
    **with_scalar(aten.gt, _comparison("INT_LT", swapped=True)),
    **with_scalar(aten.le, _comparison("INT_LT", swapped=True, inverted=True)),
    **with_scalar(aten.bitwise_and, direct("BITS_AND")),
    **with_scalar(aten.bitwise_or, direct("BITS_OR")),
    **with_scalar(aten.bitwise_xor, direct("BITS_XOR")),
    aten.bitwise_not.default: lambda p, n, x: p.op("BITS_XOR", x[0], p.integer(-1)),
    aten.bitwise_left_shift.Tensor_Scalar: direct("SHIFT_LEFT"),
    aten.bitwise_right_shift.Tensor_Scalar: direct("SHIFT_RIGHT"),
    aten.__lshift__.Scalar: direct("SHIFT_LEFT"),
    aten.__rshift__.Scalar: direct("SHIFT_RIGHT"),
    aten.floor_divide.default: direct("INT_FLOOR_DIV"),
    aten.div.Tensor_mode: direct("INT_FLOOR_DIV"),
    aten.div.Scalar_mode: direct("INT_FLOOR_DIV"),
    aten.remainder.Scalar: lambda p, n, x: p.op("INT_SUB", x[0], p.op("INT_MUL", p.op("INT_FLOOR_DIV", *x), x[1])),
    aten.neg.default: _negated,
    aten.abs.default: lambda p, n, x: p.op("INT_MAX", x[0], _negated(p, n, x)),
    aten.relu.default: lambda p, n, x: p.op("INT_MAX", x[0], p.integer(0)),
    aten.minimum.default: direct("INT_MIN"),
    aten.maximum.default: direct("INT_MAX"),
    aten.clamp.default: _clamped,
    aten.clamp_min.default: direct("INT_MAX"),
    aten.clamp_max.default: direct("INT_MIN"),
    aten.clamp_min.Tensor: direct("INT_MAX"),
    aten.clamp_max.Tensor: direct("INT_MIN"),
    aten.where.self: direct("WHERE"),
    **with_scalar(aten.masked_fill, masked_fill),
}
"""ATen op -> its result from operands that are int32 already (a mask: 0.0 or 1.0)."""

_ROUNDED_DOWN = Operator(lambda t: ((t(4, 16), 2), {"rounding_mode": "floor"}))
FACTS = {
    aten.floor_divide.default: Operator(lambda t: rows(t, 2)),
    aten.div.Tensor_mode: _ROUNDED_DOWN,
    aten.div.Scalar_mode: _ROUNDED_DOWN,
}

_SUMS = frozenset(overload for packet in (aten.add, aten.sub, aten.rsub) for overload in (packet.Tensor, packet.Scalar))
_SHIFTS = frozenset(op for op in INTEGER_RULES if "shift" in str(op))
_DIVISIONS = frozenset(op for op in INTEGER_RULES if "div" in str(op) or "remainder" in str(op))


def wrapped(p: MicroProgram, x: Operand, dtype: torch.dtype) -> Operand:
    """The low bits of an int32 that an integer of `dtype` keeps, as an int32."""
    if dtype is torch.uint8:
        return p.op("BITS_AND", x, p.integer(255))
    if dtype is torch.int8:
        return p.op("SHIFT_RIGHT", p.op("SHIFT_LEFT", x, p.integer(24)), p.integer(24))
    return x


# --- what the card may ------------------------------------------------------------------------------------------------


def refuse_integers(node: Node, dtype: torch.dtype) -> str | None:
    """Why the pointwise core cannot compute `node` on integers of `dtype`, or None."""
    if node.target not in INTEGER_RULES:
        return "no micro-operation supports integers for this operator"
    numbers = [o for o in operands(node) if not isinstance(o, Node)]
    if node.target is aten.clamp.default:
        numbers += [n for n in (argument(node, "min", 1), argument(node, "max", 2)) if n is not None]
    low, high = span_of(dtype)
    if any(not (low <= number <= high and float(number).is_integer()) for number in [*numbers, _alpha(node)]):
        return "a scalar is not an integer, or is out of range for its device type"
    if node.target in _SHIFTS and not 0 <= numbers[0] < _bits(dtype):
        return "the shift count is out of range for the dtype"
    if node.target in _DIVISIONS and (isinstance(operands(node)[1], Node) or numbers[-1] <= 0):
        return "integer division is supported by positive constants only"
    mode = argument(node, "rounding_mode", 2, "floor")
    if node.target in (aten.div.Tensor_mode, aten.div.Scalar_mode) and mode != "floor":
        return "integer division with truncation is not supported; the device rounds quotients down"
    exact = _exact_span(node, 0)
    if dtype is torch.int64 and not (INT32[0] <= exact[0] and exact[1] <= INT32[1]):
        return "the int64 result may overflow int32, the device's integer type"
    return None


def _alpha(node: Node) -> Any:
    """The factor of a sum's second operand."""
    return argument(node, "alpha", 2, 1) if node.target in _SUMS else 1


def _bits(dtype: torch.dtype) -> int:
    return min(dtype.itemsize * 8, 32)


# --- bounds of values -------------------------------------------------------------------------------------------------


def span(node: Node, depth: int = 0) -> Span:
    """Bounds of the integers that `node` may be, as the card holds them."""
    dtype = value(node).dtype
    widest = span_of(dtype)
    if depth > _DEEP or node.op != "call_function":
        return widest
    low, high = _exact_span(node, depth)
    return (low, high) if widest[0] <= low and high <= widest[1] else widest


def _exact_span(node: Node, depth: int) -> Span:
    """The same without wrapping around: of a sum, that of all sums."""
    widest = span_of(value(node).dtype)
    if value(node).dtype not in INTEGERS:
        return widest
    if (is_view(node) and node.target is not aten.view.dtype) or node.target in CASTS:
        source = node.all_input_nodes[-1]  # copy(self, source) shows `source` in the place of `self`
        known = isinstance(value(source), torch.Tensor) and value(source).dtype in (*INTEGERS, torch.bool)
        return span(source, depth + 1) if known else widest
    if (known_bounds := facts(node.target).bounds) is not None:
        return known_bounds(node, lambda operand: span(operand, depth + 1)) or widest
    if node.target not in INTEGER_RULES:
        return widest
    if any(isinstance(o, Node) and value(o).dtype not in (*INTEGERS, torch.bool) for o in operands(node)):
        return widest
    x = [span(o, depth + 1) if isinstance(o, Node) else (int(o), int(o)) for o in operands(node)]
    bound = _BOUNDS.get(node.target)
    return widest if bound is None else bound(node, x)


def _sum(node: Node, x: Sequence[Span]) -> Span:
    a, b = x[0], _times(x[1], _alpha(node))
    return a[0] + b[0], a[1] + b[1]


def _difference(node: Node, x: Sequence[Span]) -> Span:
    a, b = x[0], _times(x[1], _alpha(node))
    return a[0] - b[1], a[1] - b[0]


def _times(a: Span, factor: int) -> Span:
    low, high = sorted((a[0] * factor, a[1] * factor))
    return low, high


def _product(node: Node, x: Sequence[Span]) -> Span:
    corners = [a * b for a in x[0] for b in x[1]]
    return min(corners), max(corners)


def _shifted(node: Node, x: Sequence[Span]) -> Span:
    return _times(x[0], 1 << x[1][0])


def _clamp_span(node: Node, x: Sequence[Span]) -> Span:
    low, high = argument(node, "min", 1), argument(node, "max", 2)
    inside = (x[0][0] if low is None else max(x[0][0], int(low))), (x[0][1] if low is None else max(x[0][1], int(low)))
    return inside if high is None else (min(inside[0], int(high)), min(inside[1], int(high)))


_Bound = Callable[[Node, Sequence[Span]], Span]
_BOUNDS: dict[Any, _Bound] = {
    **dict.fromkeys((aten.add.Tensor, aten.add.Scalar), _sum),
    **dict.fromkeys((aten.sub.Tensor, aten.sub.Scalar), _difference),
    **dict.fromkeys((aten.rsub.Tensor, aten.rsub.Scalar), lambda n, x: _difference(n, [x[1], x[0]])),
    **dict.fromkeys((aten.mul.Tensor, aten.mul.Scalar), _product),
    **dict.fromkeys((aten.bitwise_left_shift.Tensor_Scalar, aten.__lshift__.Scalar), _shifted),
    aten.remainder.Scalar: lambda n, x: (0, x[1][1] - 1),
    aten.neg.default: lambda n, x: (-x[0][1], -x[0][0]),
    aten.abs.default: lambda n, x: (0, max(abs(x[0][0]), abs(x[0][1]))),
    aten.clamp.default: _clamp_span,
    aten.where.self: lambda n, x: (min(x[1][0], x[2][0]), max(x[1][1], x[2][1])),
}
"""Bounds of a result from those of its operands, where they are not those of the type."""
