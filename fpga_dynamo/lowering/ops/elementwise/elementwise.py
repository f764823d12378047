"""Element-wise ATen ops as micro-operations: the table that says what each computes, and when the card may.

A rule takes the program, the FX node and its operands (streams, temporaries or numbers) and returns the result.
Formulas are those of PyTorch's reference implementations (torch/_refs, ATen/native/cpu).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.micro import MicroProgram, Operand
from fpga_dynamo.ir.dtypes import FLOATS, INTEGERS
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, refuse_value, value
from fpga_dynamo.ir.operators import Operator, Tensors
from fpga_dynamo.lowering.ops.calls import rows
from fpga_dynamo.lowering.ops.elementwise.backward import BACKWARD_RULES
from fpga_dynamo.lowering.ops.elementwise.backward import FACTS as BACKWARD_FACTS
from fpga_dynamo.lowering.ops.elementwise.integers import FACTS as INTEGER_FACTS
from fpga_dynamo.lowering.ops.elementwise.integers import INTEGER_RULES, refuse_integers
from fpga_dynamo.lowering.ops.elementwise.operands import CASTS, COMPARISONS, compute_dtype, is_condition, operands

Operands = Sequence[Operand | float]
Rule = Callable[[MicroProgram, Node, Operands], Operand]


def _direct(name: str) -> Rule:
    return lambda p, n, x: p.op(name, *x)


def _scaled_sum(name: str) -> Rule:
    def rule(p: MicroProgram, n: Node, x: Operands) -> Operand:
        alpha = argument(n, "alpha", 2, 1)
        if alpha == 1:
            return p.op(name, x[0], x[1])
        return p.op("FMA", x[1], float(alpha) if name == "ADD" else -float(alpha), x[0])

    return rule


def _reverse_sub(p: MicroProgram, n: Node, x: Operands) -> Operand:
    alpha = argument(n, "alpha", 2, 1)
    return p.op("SUB", x[1], x[0]) if alpha == 1 else p.op("FMA", x[0], -float(alpha), x[1])


def _bounds(p: MicroProgram, x: Operand | float, low: float | None, high: float | None) -> Operand:
    result = x if isinstance(x, Operand) else p.constant(x)
    if low is not None and low > -math.inf:
        result = p.op("MAX", low, result)  # of equal operands the second, so that -0.0 stays -0.0 at a bound of 0
    if high is not None and high < math.inf:
        result = p.op("MIN", high, result)
    return p.op("COPY", x) if result is x else result


def _clamp(p: MicroProgram, n: Node, x: Operands) -> Operand:
    return _bounds(p, x[0], argument(n, "min", 1), argument(n, "max", 2))


def _clamp_tensor(p: MicroProgram, n: Node, x: Operands) -> Operand:
    result, rest = x[0], list(x[1:])
    for name, position in (("MAX", 1), ("MIN", 2)):
        if argument(n, "min" if position == 1 else "max", position) is not None:
            result = p.op(name, result, rest.pop(0))
    return p.op("COPY", result)


def _hardtanh(p: MicroProgram, n: Node, x: Operands) -> Operand:
    return _bounds(p, x[0], argument(n, "min_val", 1, -1), argument(n, "max_val", 2, 1))


def _leaky_relu(p: MicroProgram, n: Node, x: Operands) -> Operand:
    slope = argument(n, "negative_slope", 1, 0.01)
    return p.op("WHERE", p.op("GT", x[0], 0.0), x[0], p.op("MUL", x[0], slope))


def _silu(p: MicroProgram, n: Node, x: Operands) -> Operand:
    return p.op("MUL", x[0], p.op("SIGMOID", x[0]))


def _gelu(p: MicroProgram, n: Node, x: Operands) -> Operand:
    if argument(n, "approximate", 1, "none") == "tanh":
        cube = p.op("MUL", p.op("MUL", x[0], x[0]), x[0])
        inner = p.op("MUL", p.op("FMA", cube, 0.044715, x[0]), math.sqrt(2 / math.pi))
        odd = p.op("TANH", inner)
    else:
        odd = p.op("ERF", p.op("MUL", x[0], math.sqrt(0.5)))
    return p.op("MUL", x[0], p.op("FMA", odd, 0.5, 0.5))  # a product, so that zeros keep their sign


def _elu(p: MicroProgram, n: Node, x: Operands) -> Operand:
    alpha, scale, inner = (float(argument(n, k, i, 1)) for i, k in ((1, "alpha"), (2, "scale"), (3, "input_scale")))
    negative = p.op("MUL", p.op("EXPM1", p.op("MUL", x[0], inner)), alpha * scale)
    return p.op("WHERE", p.op("GT", x[0], 0.0), p.op("MUL", x[0], scale), negative)


def _hardswish(p: MicroProgram, n: Node, x: Operands) -> Operand:
    gate = _bounds(p, p.op("ADD", x[0], 3.0), 0.0, 6.0)
    return p.op("MUL", p.op("MUL", x[0], gate), 1 / 6)


def _hardsigmoid(p: MicroProgram, n: Node, x: Operands) -> Operand:
    return p.op("MUL", _bounds(p, p.op("ADD", x[0], 3.0), 0.0, 6.0), 1 / 6)


def _softplus_of(p: MicroProgram, x: Operand | float, beta: float, threshold: float) -> Operand:
    scaled = p.op("MUL", x, beta)
    smooth = p.op("MUL", p.op("LOG1P", p.op("EXP", scaled)), 1 / beta)
    return p.op("WHERE", p.op("GT", scaled, threshold), x, smooth)


def _softplus(p: MicroProgram, n: Node, x: Operands) -> Operand:
    return _softplus_of(p, x[0], float(argument(n, "beta", 1, 1)), float(argument(n, "threshold", 2, 20)))


def _mish(p: MicroProgram, n: Node, x: Operands) -> Operand:
    return p.op("MUL", x[0], p.op("TANH", _softplus_of(p, x[0], 1.0, 20.0)))


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
        if exponent in special:
            return special[exponent]()
    return p.op("POW", x[0], x[1])


def _addcmul(p: MicroProgram, n: Node, x: Operands) -> Operand:
    scale = argument(n, "value", 3, 1)
    return p.op("FMA", x[1] if scale == 1 else p.op("MUL", x[1], float(scale)), x[2], x[0])


def _addcdiv(p: MicroProgram, n: Node, x: Operands) -> Operand:
    scale = argument(n, "value", 3, 1)
    return p.op("ADD", x[0], p.op("DIV", x[1] if scale == 1 else p.op("MUL", x[1], float(scale)), x[2]))


def _cast(p: MicroProgram, n: Node, x: Operands) -> Operand:
    return p.op("NE", x[0], 0.0) if value(n).dtype is torch.bool else p.op("COPY", x[0])


def _isnan(p: MicroProgram, n: Node, x: Operands) -> Operand:
    return p.op("NE", x[0], x[0])


def _isinf(p: MicroProgram, n: Node, x: Operands) -> Operand:
    return p.op("EQ", p.op("ABS", x[0]), math.inf)


def _logical_xor(p: MicroProgram, n: Node, x: Operands) -> Operand:
    return p.op("NE", p.op("NE", x[0], 0.0), p.op("NE", x[1], 0.0))


def _masked_fill(p: MicroProgram, n: Node, x: Operands) -> Operand:
    return p.op("WHERE", x[1], x[2], x[0])


def _celu(p: MicroProgram, n: Node, x: Operands) -> Operand:
    alpha = float(argument(n, "alpha", 1, 1))
    negative = p.op("MUL", p.op("EXPM1", p.op("DIV", x[0], alpha)), alpha)
    return p.op("WHERE", p.op("GT", x[0], 0.0), x[0], negative)


def _threshold(p: MicroProgram, n: Node, x: Operands) -> Operand:
    return p.op("WHERE", p.op("LE", x[0], x[1]), x[2], x[0])


def _prelu(p: MicroProgram, n: Node, x: Operands) -> Operand:
    return p.op("WHERE", p.op("GT", x[0], 0.0), x[0], p.op("MUL", x[0], x[1]))


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


def _logit(p: MicroProgram, n: Node, x: Operands) -> Operand:
    eps = argument(n, "eps", 1)
    given = _bounds(p, x[0], None, None) if eps is None else _bounds(p, x[0], float(eps), 1 - float(eps))
    return p.op("LOG", p.op("DIV", given, p.op("SUB", 1.0, given)))


RULES: dict[Any, Rule] = {
    aten.add.Tensor: _scaled_sum("ADD"),
    aten.add.Scalar: _scaled_sum("ADD"),
    aten.sub.Tensor: _scaled_sum("SUB"),
    aten.sub.Scalar: _scaled_sum("SUB"),
    aten.rsub.Tensor: _reverse_sub,
    aten.rsub.Scalar: _reverse_sub,
    aten.mul.Tensor: _direct("MUL"),
    aten.mul.Scalar: _direct("MUL"),
    aten.div.Tensor: _direct("DIV"),
    aten.div.Scalar: _direct("DIV"),
    aten.neg.default: _direct("NEG"),
    aten.abs.default: _direct("ABS"),
    aten.sqrt.default: _direct("SQRT"),
    aten.rsqrt.default: _direct("RSQRT"),
    aten.reciprocal.default: _direct("RECIPROCAL"),
    aten.exp.default: _direct("EXP"),
    aten.expm1.default: _direct("EXPM1"),
    aten.log.default: _direct("LOG"),
    aten.log1p.default: _direct("LOG1P"),
    aten.tanh.default: _direct("TANH"),
    aten.erf.default: _direct("ERF"),
    aten.sigmoid.default: _direct("SIGMOID"),
    aten.sin.default: _direct("SIN"),
    aten.cos.default: _direct("COS"),
    aten.floor.default: _direct("FLOOR"),
    aten.ceil.default: _direct("CEIL"),
    aten.round.default: _direct("ROUND"),
    aten.trunc.default: _direct("TRUNC"),
    aten.sign.default: _direct("SIGN"),
    aten.relu.default: _direct("RELU"),
    aten.minimum.default: _direct("MIN"),
    aten.maximum.default: _direct("MAX"),
    aten.eq.Tensor: _direct("EQ"),
    aten.eq.Scalar: _direct("EQ"),
    aten.ne.Tensor: _direct("NE"),
    aten.ne.Scalar: _direct("NE"),
    aten.lt.Tensor: _direct("LT"),
    aten.lt.Scalar: _direct("LT"),
    aten.le.Tensor: _direct("LE"),
    aten.le.Scalar: _direct("LE"),
    aten.gt.Tensor: _direct("GT"),
    aten.gt.Scalar: _direct("GT"),
    aten.ge.Tensor: _direct("GE"),
    aten.ge.Scalar: _direct("GE"),
    aten.logical_and.default: _direct("AND"),
    aten.logical_or.default: _direct("OR"),
    aten.logical_not.default: _direct("NOT"),
    aten.logical_xor.default: _logical_xor,
    aten.isnan.default: _isnan,
    aten.isinf.default: _isinf,
    aten.where.self: _direct("WHERE"),
    aten.clamp.default: _clamp,
    aten.clamp.Tensor: _clamp_tensor,
    aten.clamp_min.default: _direct("MAX"),
    aten.clamp_max.default: _direct("MIN"),
    aten.clamp_min.Tensor: _direct("MAX"),
    aten.clamp_max.Tensor: _direct("MIN"),
    aten.hardtanh.default: _hardtanh,
    aten.leaky_relu.default: _leaky_relu,
    aten.silu.default: _silu,
    aten.gelu.default: _gelu,
    aten.elu.default: _elu,
    aten.hardswish.default: _hardswish,
    aten.hardsigmoid.default: _hardsigmoid,
    aten.softplus.default: _softplus,
    aten.mish.default: _mish,
    aten.celu.default: _celu,
    aten.threshold.default: _threshold,
    aten._prelu_kernel.default: _prelu,
    aten.lerp.Scalar: _lerp,
    aten.lerp.Tensor: _lerp,
    aten.frac.default: lambda p, n, x: p.op("SUB", x[0], p.op("TRUNC", x[0])),
    aten.exp2.default: lambda p, n, x: p.op("POW", 2.0, x[0]),
    aten.nan_to_num.default: _nan_to_num,
    aten.logit.default: _logit,
    aten.pow.Tensor_Scalar: _power,
    aten.pow.Tensor_Tensor: _power,
    aten.pow.Scalar: _power,
    aten.addcmul.default: _addcmul,
    aten.addcdiv.default: _addcdiv,
    aten.masked_fill.Scalar: _masked_fill,
    aten.masked_fill.Tensor: _masked_fill,
    aten._to_copy.default: _cast,
    aten.copy.default: _cast,
    **BACKWARD_RULES,
}

_BOTH = _direct("AND")
_EITHER = _direct("OR")

BOOL_RULES: dict[Any, Rule] = {
    aten.add.Tensor: _EITHER,
    aten.mul.Tensor: _BOTH,
    aten.bitwise_and.Tensor: _BOTH,
    aten.bitwise_or.Tensor: _EITHER,
    aten.bitwise_xor.Tensor: _direct("NE"),
    aten.bitwise_not.default: _direct("NOT"),
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
    aten.sigmoid.default: Operator(steps=2),
    aten.hardswish.default: Operator(steps=2),
    aten.elu.default: Operator(steps=3),
    aten.silu.default: Operator(steps=3),
    aten.gelu.default: Operator(steps=4),
    # Beside a ReLU of as many bytes, eager's takes 20 times as long (4 MB, two cores with AVX-512).
    aten.tanh.default: Operator(passes=4),
    aten.clamp.default: Operator(lambda t: rows(t, 0, 1)),
    aten.clamp.Tensor: Operator(lambda t: rows(t, t(4, 16), t(4, 16))),
    aten.threshold.default: Operator(lambda t: rows(t, 0, 0)),
    aten.where.self: Operator(lambda t: ((_mask(t), t(4, 16), t(4, 16)), {})),
    aten.masked_fill.Scalar: Operator(lambda t: rows(t, _mask(t), 1)),
    aten.masked_fill.Tensor: Operator(lambda t: rows(t, _mask(t), t())),
    aten._to_copy.default: Operator(lambda t: ((t(4, 16),), {"dtype": torch.float32})),
    aten.copy.default: Operator(lambda t: ((t(4, 16, dtype=torch.float32), t(4, 16)), {})),
    **BACKWARD_FACTS,
    **INTEGER_FACTS,
}
"""What else is known of an op. Of the activations with steps, eager is as fast as memory gives."""

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
    numbers = [x if isinstance(x, Operand) else float(x) for x in given]
    return (BOOL_RULES if dtype is torch.bool else RULES)[node.target](p, node, numbers)


def refuse_elementwise(node: Node, graph: GraphInfo) -> str | None:
    """Why the pointwise core cannot compute `node`, or None."""
    if node.target not in ANCHORS:
        return "it is no element-wise op that the pointwise core knows"
    if why := refuse_value(node, "its result"):
        return why
    for arg in node.all_input_nodes:
        if not isinstance(value(arg), torch.Tensor):
            return f"its argument {arg} is not known before the call"
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
    if value(node).dtype in INTEGERS and value(source).dtype in FLOATS:  # type: ignore[arg-type]
        return "a cast from float to integer is not exact beyond the range of int32"
    return None


def _refuse_arithmetic(node: Node, dtype: torch.dtype) -> str | None:
    masks = [o for i, o in enumerate(operands(node)) if is_condition(node, i)]
    if any(value(mask).dtype is not torch.bool for mask in masks):  # type: ignore[arg-type]
        return "its mask is not bool"
    if dtype in INTEGERS:
        return refuse_integers(node, dtype)
    if dtype is torch.bool:
        return None if node.target in BOOL_RULES else "it has no micro-operations for truth values"
    if node.target not in RULES:
        return "it has micro-operations for integers only"
    if dtype not in FLOATS:
        return f"it computes in {str(dtype).removeprefix('torch.')}, which the card does not"
    return None


def _refuse_operand(node: Node, graph: GraphInfo) -> str | None:
    fake = value(node)
    if not isinstance(fake, torch.Tensor):
        return f"its operand {node} is not known before the call"
    if fake.dim() == 0 and fake.dtype is torch.float64 and graph.is_static(node):
        return None  # a number in the guise of a tensor: it does not take part in type promotion
    return refuse_value(node, f"its operand {node}")
