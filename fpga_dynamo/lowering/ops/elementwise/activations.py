"""Activations as micro-operations, and the clamps that many of them are made of.

A rule takes the program, the FX node and its operands, as those of elementwise.py do. Formulas are those of PyTorch's
reference implementations (torch/_refs, ATen/native/cpu).
"""

from __future__ import annotations

import math
from typing import Any

from torch.fx import Node

from fpga_dynamo.codegen.micro import MicroProgram, Operand
from fpga_dynamo.ir.dtypes import stored
from fpga_dynamo.ir.graph import argument, aten, value
from fpga_dynamo.ir.operators import Operator
from fpga_dynamo.lowering.ops.calls import rows
from fpga_dynamo.lowering.ops.elementwise.rule import Operands, Rule, direct


def _bounds(p: MicroProgram, x: Operand | float, low: float | None, high: float | None) -> Operand:
    result = x if isinstance(x, Operand) else p.constant(x)
    if low is not None and low != -math.inf:  # a bound that is NaN makes every element NaN
        result = p.op("MAX", low, result)  # of equal operands the second, so that -0.0 stays -0.0 at a bound of 0
    if high is not None and high != math.inf:
        result = p.op("MIN", high, result)
    return p.op("COPY", x) if result is x else result


def _clamp_tensor(p: MicroProgram, n: Node, x: Operands) -> Operand:
    if len(x) == 3:
        return p.op("MIN", x[2], p.op("MAX", x[1], x[0]))  # of equal operands the second, as in _bounds
    return p.op("MAX" if argument(n, "min", 1) is not None else "MIN", x[0], x[1])


def _hardtanh(p: MicroProgram, n: Node, x: Operands) -> Operand:
    return _bounds(p, x[0], argument(n, "min_val", 1, -1), argument(n, "max_val", 2, 1))


def _leaky_relu(p: MicroProgram, n: Node, x: Operands) -> Operand:
    slope = argument(n, "negative_slope", 1, 0.01)
    return p.op("WHERE", p.op("GT", x[0], 0.0), x[0], p.op("MUL", x[0], slope))


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
    # At 0 the factor of the negative side does not matter, which may be infinite or NaN.
    return p.op("WHERE", p.op("LT", x[0], 0.0), negative, p.op("MUL", x[0], scale))


def _hardswish(p: MicroProgram, n: Node, x: Operands) -> Operand:
    gate = _bounds(p, p.op("ADD", x[0], 3.0), 0.0, 6.0)
    return p.op("MUL", p.op("MUL", x[0], gate), 1 / 6)


def _softplus_of(p: MicroProgram, x: Operand | float, beta: float, threshold: float) -> Operand:
    scaled = p.op("MUL", x, beta)
    smooth = p.op("LOG1P", p.op("EXP", scaled))
    if beta != 1:
        smooth = p.op("DIV", smooth, beta)  # 1 / beta may be beyond the range of float32
    return p.op("WHERE", p.op("GT", scaled, threshold), x, smooth)


def _softplus(p: MicroProgram, n: Node, x: Operands) -> Operand:
    return _softplus_of(p, x[0], float(argument(n, "beta", 1, 1)), float(argument(n, "threshold", 2, 20)))


def _celu(p: MicroProgram, n: Node, x: Operands) -> Operand:
    alpha = float(argument(n, "alpha", 1, 1))
    negative = p.op("MUL", p.op("EXPM1", p.op("DIV", x[0], alpha)), alpha)
    return p.op("WHERE", p.op("LT", x[0], 0.0), negative, x[0])


def _logit(p: MicroProgram, n: Node, x: Operands) -> Operand:
    eps = argument(n, "eps", 1)
    limited = eps is not None and eps >= 0  # neither below 0 nor NaN
    low, high = None, None
    if limited:  # eager mode computes both bounds in the dtype of the result
        low = stored(eps, value(n).dtype)
        high = stored(1 - low, value(n).dtype)
    given = _bounds(p, x[0], low, high)
    return p.op("LOG", p.op("DIV", given, p.op("SUB", 1.0, given)))


def _bound(name: str) -> Rule:
    """A bound that is a number; of equal operands the second, so that a zero keeps its sign."""
    return lambda p, n, x: p.op(name, x[1], x[0])


ACTIVATION_RULES: dict[Any, Rule] = {
    aten.tanh.default: direct("TANH"),
    aten.sigmoid.default: direct("SIGMOID"),
    aten.relu.default: direct("RELU"),
    aten.clamp.default: lambda p, n, x: _bounds(p, x[0], argument(n, "min", 1), argument(n, "max", 2)),
    aten.clamp.Tensor: _clamp_tensor,
    aten.clamp_min.default: _bound("MAX"),
    aten.clamp_max.default: _bound("MIN"),
    aten.clamp_min.Tensor: direct("MAX"),
    aten.clamp_max.Tensor: direct("MIN"),
    aten.hardtanh.default: _hardtanh,
    aten.leaky_relu.default: _leaky_relu,
    aten.silu.default: lambda p, n, x: p.op("MUL", x[0], p.op("SIGMOID", x[0])),
    aten.gelu.default: _gelu,
    aten.elu.default: _elu,
    aten.hardswish.default: _hardswish,
    aten.hardsigmoid.default: lambda p, n, x: p.op("MUL", _bounds(p, p.op("ADD", x[0], 3.0), 0.0, 6.0), 1 / 6),
    aten.softplus.default: _softplus,
    aten.mish.default: lambda p, n, x: p.op("MUL", x[0], p.op("TANH", _softplus_of(p, x[0], 1.0, 20.0))),
    aten.celu.default: _celu,
    aten.threshold.default: lambda p, n, x: p.op("WHERE", p.op("LE", x[0], x[1]), x[2], x[0]),
    aten._prelu_kernel.default: lambda p, n, x: p.op("WHERE", p.op("GT", x[0], 0.0), x[0], p.op("MUL", x[0], x[1])),
    aten.logit.default: _logit,
}

FACTS: dict[Any, Operator] = {
    aten.sigmoid.default: Operator(steps=2),
    aten.hardswish.default: Operator(steps=2, laid_out=aten.hardswish.default),
    aten.elu.default: Operator(steps=3),
    aten.silu.default: Operator(steps=3),
    aten.gelu.default: Operator(steps=4),
    # Beside a ReLU of as many bytes, eager mode's takes 20 times as long (4 MB, two cores with AVX-512).
    aten.tanh.default: Operator(passes=4),
    aten.clamp.default: Operator(lambda t: rows(t, 0, 1)),
    aten.clamp.Tensor: Operator(lambda t: rows(t, t(4, 16), t(4, 16))),
    aten._prelu_kernel.default: Operator(laid_out=aten._prelu_kernel.default),
    aten.threshold.default: Operator(lambda t: rows(t, 0, 0)),
}
"""What else is known of them. Of those with steps, eager is as fast as memory gives."""
