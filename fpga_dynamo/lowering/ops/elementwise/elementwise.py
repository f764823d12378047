"""Element-wise ATen ops as micro-operations: the table that says what each computes, and when the card may.

A rule takes the program, the FX node and its operands (streams, temporaries or numbers) and returns the result; rules
of activations are in activations.py, of gradients in backward.py, of whole numbers in integers.py.
Formulas are those of PyTorch's reference implementations (torch/_refs, ATen/native/cpu).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.micro import MicroProgram, Operand
from fpga_dynamo.ir.dtypes import FLOATS, INTEGERS, span_of, stored
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, is_view, refuse_value, value
from fpga_dynamo.ir.operators import Operator, Tensors
from fpga_dynamo.lowering.ops.calls import rows
from fpga_dynamo.lowering.ops.elementwise.activations import ACTIVATION_RULES
from fpga_dynamo.lowering.ops.elementwise.activations import FACTS as ACTIVATION_FACTS
from fpga_dynamo.lowering.ops.elementwise.backward import BACKWARD_RULES
from fpga_dynamo.lowering.ops.elementwise.backward import FACTS as BACKWARD_FACTS
from fpga_dynamo.lowering.ops.elementwise.integers import FACTS as INTEGER_FACTS
from fpga_dynamo.lowering.ops.elementwise.integers import INTEGER_RULES, refuse_integers
from fpga_dynamo.lowering.ops.elementwise.operands import CASTS, COMPARISONS, compute_dtype, is_condition, operands
from fpga_dynamo.lowering.ops.elementwise.rule import Operands, Rule, direct, masked_fill, with_scalar


def _scaled_sum(name: str) -> Rule:
    def rule(p: MicroProgram, n: Node, x: Operands) -> Operand:
        alpha = argument(n, "alpha", 2, 1)
        if alpha == 1:
            return p.op(name, x[0], x[1])
        factor = stored(alpha, value(n).dtype)
        return p.op("FMA", x[1], factor if name == "ADD" else -factor, x[0])

    return rule


def _reverse_sub(p: MicroProgram, n: Node, x: Operands) -> Operand:
    alpha = argument(n, "alpha", 2, 1)
    return p.op("SUB", x[1], x[0]) if alpha == 1 else p.op("FMA", x[0], -stored(alpha, value(n).dtype), x[1])


def _power(p: MicroProgram, n: Node, x: Operands) -> Operand:
    exponent = x[1]
    if isinstance(exponent, float):
        square = lambda: p.op("MUL", x[0], x[0])  # noqa: E731 - made only where used
        special: dict[float, Callable[[], Operand]] = {
            1.0: lambda: p.op("COPY", x[0]),
            2.0: square,
            3.0: lambda: p.op("MUL", square(), x[0]),
            0.5: lambda: p.op("SQRT", x[0]),
            -0.5: lambda: p.op("RSQRT", x[0]),
            -1.0: lambda: p.op("RECIPROCAL", x[0]),
            -2.0: lambda: p.op("RECIPROCAL", square()),
        }
        # Of float16, eager mode raises to the power ±0.5, which is not a square root for -0 and -inf.
        is_root = abs(exponent) == 0.5
        if exponent in special and not (is_root and value(n).dtype is torch.float16):
            return special[exponent]()
    return p.op("POW", x[0], x[1])


def _addcmul(p: MicroProgram, n: Node, x: Operands) -> Operand:
    scale = argument(n, "value", 3, 1)
    return p.op("FMA", x[1] if scale == 1 else p.op("MUL", x[1], float(scale)), x[2], x[0])


def _addcdiv(p: MicroProgram, n: Node, x: Operands) -> Operand:
    scale = argument(n, "value", 3, 1)
    return p.op("ADD", x[0], p.op("DIV", x[1] if scale == 1 else p.op("MUL", x[1], float(scale)), x[2]))


def _cast(p: MicroProgram, n: Node, x: Operands) -> Operand:
    """Operands come in the type that an op computes in, which of a cast is that of its result."""
    return p.op("COPY", x[0])


def _lerp(p: MicroProgram, n: Node, x: Operands) -> Operand:
    near = p.op("LT", p.op("ABS", x[2]), 0.5)
    factor, base = p.op("WHERE", near, x[2], p.op("SUB", x[2], 1.0)), p.op("WHERE", near, x[0], x[1])
    return p.op("FMA", p.op("SUB", x[1], x[0]), factor, base)


def _nan_to_num(p: MicroProgram, n: Node, x: Operands) -> Operand:
    largest = torch.finfo(value(n).dtype).max
    given = [argument(n, name, i) for i, name in enumerate(("nan", "posinf", "neginf"), 1)]
    nan, high, low = (d if g is None else float(g) for g, d in zip(given, (0.0, largest, -largest), strict=True))
    number = p.op("WHERE", p.op("EQ", x[0], math.inf), high, p.op("WHERE", p.op("EQ", x[0], -math.inf), low, x[0]))
    return p.op("WHERE", p.op("NE", x[0], x[0]), nan, number)


_SAME_NAME = (
    "neg", "abs", "sqrt", "rsqrt", "reciprocal", "exp", "expm1", "log", "log1p", "erf", "sin", "cos", "floor", "ceil",
    "round", "trunc", "sign",
)  # fmt: skip
"""Functions of one number that a micro-operation of the same name computes."""

RULES: dict[Any, Rule] = {
    **with_scalar(aten.add, _scaled_sum("ADD")),
    **with_scalar(aten.sub, _scaled_sum("SUB")),
    **with_scalar(aten.rsub, _reverse_sub),
    **with_scalar(aten.mul, direct("MUL")),
    **with_scalar(aten.div, direct("DIV")),
    **{getattr(aten, name).default: direct(name.upper()) for name in _SAME_NAME},
    aten.minimum.default: direct("MIN"),
    aten.maximum.default: direct("MAX"),
    **with_scalar(aten.eq, direct("EQ")),
    **with_scalar(aten.ne, direct("NE")),
    **with_scalar(aten.lt, direct("LT")),
    **with_scalar(aten.le, direct("LE")),
    **with_scalar(aten.gt, direct("GT")),
    **with_scalar(aten.ge, direct("GE")),
    aten.logical_and.default: direct("AND"),
    aten.logical_or.default: direct("OR"),
    aten.logical_not.default: direct("NOT"),
    aten.logical_xor.default: lambda p, n, x: p.op("NE", p.op("NE", x[0], 0.0), p.op("NE", x[1], 0.0)),
    aten.isnan.default: lambda p, n, x: p.op("NE", x[0], x[0]),
    aten.isinf.default: lambda p, n, x: p.op("EQ", p.op("ABS", x[0]), math.inf),
    aten.where.self: direct("WHERE"),
    aten.lerp.Scalar: _lerp,
    aten.lerp.Tensor: _lerp,
    aten.frac.default: lambda p, n, x: p.op("SUB", x[0], p.op("TRUNC", x[0])),
    aten.exp2.default: lambda p, n, x: p.op("POW", 2.0, x[0]),
    aten.nan_to_num.default: _nan_to_num,
    aten.pow.Tensor_Scalar: _power,
    aten.pow.Tensor_Tensor: _power,
    aten.pow.Scalar: _power,
    aten.addcmul.default: _addcmul,
    aten.addcdiv.default: _addcdiv,
    **with_scalar(aten.masked_fill, masked_fill),
    aten._to_copy.default: _cast,
    aten.copy.default: _cast,
    **ACTIVATION_RULES,
    **BACKWARD_RULES,
}

_BOTH = direct("AND")
_EITHER = direct("OR")

BOOL_RULES: dict[Any, Rule] = {
    aten.add.Tensor: _EITHER,
    aten.mul.Tensor: _BOTH,
    aten.bitwise_and.Tensor: _BOTH,
    aten.bitwise_or.Tensor: _EITHER,
    aten.bitwise_xor.Tensor: direct("NE"),
    aten.bitwise_not.default: direct("NOT"),
    **{
        op: RULES[op]
        for op in (
            *COMPARISONS,
            aten.logical_and.default,
            aten.logical_or.default,
            aten.logical_not.default,
            aten.logical_xor.default,
            aten.minimum.default,
            aten.maximum.default,
            aten.where.self,
            aten.masked_fill.Scalar,
            aten.masked_fill.Tensor,
        )
    },
}
"""The same for truth values, 0.0 or 1.0."""

FACTS: dict[Any, Operator] = {
    aten.where.self: Operator(lambda t: ((_mask(t), t(4, 16), t(4, 16)), {})),
    aten.masked_fill.Scalar: Operator(lambda t: rows(t, _mask(t), 1)),
    aten.masked_fill.Tensor: Operator(lambda t: rows(t, _mask(t), t()), laid_out=aten.masked_fill.Tensor),
    aten._to_copy.default: Operator(lambda t: ((t(4, 16),), {"dtype": torch.float32})),
    aten.copy.default: Operator(lambda t: ((t(4, 16, dtype=torch.float32), t(4, 16)), {})),
    **ACTIVATION_FACTS,
    **BACKWARD_FACTS,
    **INTEGER_FACTS,
}
"""What else is known of an op."""

_ROUNDED = frozenset(
    getattr(packet, name)
    for packet in (aten.add, aten.sub, aten.rsub, aten.pow)
    for name in packet.overloads()
    if "Tensor" in name or "Scalar" in name
)
"""Operators whose Python number eager mode rounds to half precision first; other operators use a float32."""

ANCHORS = tuple(dict.fromkeys((*RULES, *BOOL_RULES, *INTEGER_RULES)))


def _mask(t: Tensors) -> torch.Tensor:
    return t(4, 16, dtype=torch.bool)


def compute(p: MicroProgram, node: Node, given: Sequence[Operand | float]) -> Operand:
    """The value of `node` but for rounding, from operands in the type that it computes in."""
    if node.target in CASTS:
        return _cast(p, node, given)
    dtype = compute_dtype(node)
    if dtype in INTEGERS:
        whole = [x if isinstance(x, Operand) else p.integer(int(x)) for x in given]
        return INTEGER_RULES[node.target](p, node, whole)
    common = dtype if dtype is torch.bool or node.target in _ROUNDED else torch.float32
    numbers = [x if isinstance(x, Operand) else stored(x, common) for x in given]
    return (BOOL_RULES if dtype is torch.bool else RULES)[node.target](p, node, numbers)


def refuse_elementwise(node: Node, graph: GraphInfo) -> str | None:
    """Why the pointwise core cannot compute `node`, or None."""
    if node.target not in ANCHORS:
        return "the pointwise core does not support this operator"
    if why := refuse_value(node, "result"):
        return why
    for arg in node.all_input_nodes:
        if not isinstance(value(arg), torch.Tensor):
            return f"argument {arg} is not known before the call"
    try:
        given = operands(node)
    except TypeError:
        return "a scalar operand is not known before the call"
    for operand in given:
        if isinstance(operand, Node) and (why := _refuse_operand(operand, graph)):
            return why
    return _refuse_cast(node) if node.target in CASTS else _refuse_arithmetic(node, compute_dtype(node))


def _refuse_cast(node: Node) -> str | None:
    (source,) = operands(node)
    assert isinstance(source, Node)
    if value(node).dtype in INTEGERS and value(source).dtype in FLOATS and not _is_within(source, value(node).dtype):
        return "casts from float to integer are not supported: they are not exact beyond the range of int32"
    return None


def _is_within(node: Node, dtype: torch.dtype) -> bool:
    """Whether the numbers of `node` were limited to those that an integer type has."""
    while is_view(node) or node.target is aten.round.default:
        node = node.all_input_nodes[0]
    if node.target is not aten.clamp.default:
        return False
    low, high = argument(node, "min", 1), argument(node, "max", 2)
    least, most = span_of(dtype)
    return isinstance(low, (int, float)) and isinstance(high, (int, float)) and least <= low <= high <= most


def _refuse_arithmetic(node: Node, dtype: torch.dtype) -> str | None:
    masks = [o for i, o in enumerate(operands(node)) if is_condition(node, i)]
    if any(not isinstance(mask, Node) or value(mask).dtype is not torch.bool for mask in masks):
        return "the mask is not bool"
    if dtype in INTEGERS:
        return refuse_integers(node, dtype)
    if dtype is torch.bool:
        return None if node.target in BOOL_RULES else "no micro-operation supports bool for this operator"
    if node.target not in RULES:
        return "the micro-operations of this operator support integers only"
    if dtype not in FLOATS:
        return f"computation in {str(dtype).removeprefix('torch.')}is not supported"
    return None


def _refuse_operand(node: Node, graph: GraphInfo) -> str | None:
    fake = value(node)
    if not isinstance(fake, torch.Tensor):
        return f"operand {node} is not known before the call"
    if fake.dim() == 0 and fake.dtype is torch.float64 and graph.is_static(node):
        return None  # a number in the guise of a tensor: it does not take part in type promotion
    return refuse_value(node, f"operand {node}")
