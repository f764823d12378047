"""Gradients of element-wise ops as micro-operations. Formulas are those of ATen/native/cpu/Activation.cpp.

A rule has the operands of the ATen call: the gradient first, then what the forward pass saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch.fx import Node

from fpga_dynamo.codegen.micro import MicroProgram, Operand
from fpga_dynamo.ir.graph import argument, aten
from fpga_dynamo.ir.operators import Call, Operator
from fpga_dynamo.lowering.ops.calls import rows
from fpga_dynamo.lowering.ops.elementwise.rule import Operands, Rule


def _gelu(p: MicroProgram, n: Node, x: Operands) -> Operand:
    """d/dx x Phi(x) = Phi(x) + x phi(x), or the same of the approximation by tanh."""
    grad, value = x
    square = p.op("MUL", value, value)
    if argument(n, "approximate", 2, "none") == "tanh":
        beta = math.sqrt(2 / math.pi)
        inner = p.op("MUL", p.op("FMA", p.op("MUL", square, value), 0.044715, value), beta)
        tangent = p.op("TANH", inner)
        left = p.op("FMA", tangent, 0.5, 0.5)
        slope = p.op("MUL", p.op("FMA", square, 3 * 0.044715, 1.0), beta)
        right = p.op(
            "MUL", p.op("MUL", p.op("MUL", value, 0.5), p.op("SUB", 1.0, p.op("MUL", tangent, tangent))), slope
        )
        return p.op("MUL", grad, p.op("ADD", left, right))
    cumulative = p.op("FMA", p.op("ERF", p.op("MUL", value, math.sqrt(0.5))), 0.5, 0.5)
    density = p.op("MUL", p.op("EXP", p.op("MUL", square, -0.5)), 1 / math.sqrt(2 * math.pi))
    return p.op("MUL", grad, p.op("FMA", value, density, cumulative))


def _silu(p: MicroProgram, n: Node, x: Operands) -> Operand:
    grad, value = x
    sigmoid = p.op("SIGMOID", value)
    slope = p.op("FMA", value, p.op("SUB", 1.0, sigmoid), 1.0)
    return p.op("MUL", p.op("MUL", grad, sigmoid), slope)


def _within(low: float, high: float, p: MicroProgram, grad: Operand | float, value: Operand | float) -> Operand:
    """`grad` where low < value < high, else 0. NaN counts as within."""
    outside = p.op("OR", p.op("LE", value, low), p.op("GE", value, high))
    return p.op("WHERE", outside, 0.0, grad)


def _hardtanh(p: MicroProgram, n: Node, x: Operands) -> Operand:
    return _within(float(argument(n, "min_val", 2)), float(argument(n, "max_val", 3)), p, *x)


def _hardsigmoid(p: MicroProgram, n: Node, x: Operands) -> Operand:
    grad, value = x
    inside = p.op("AND", p.op("GT", value, -3.0), p.op("LT", value, 3.0))
    return p.op("WHERE", inside, p.op("MUL", grad, 1 / 6), 0.0)


def _hardswish(p: MicroProgram, n: Node, x: Operands) -> Operand:
    grad, value = x
    slope = p.op("FMA", value, 1 / 3, 0.5)
    inner = p.op("WHERE", p.op("LT", value, 3.0), p.op("MUL", grad, slope), grad)
    return p.op("WHERE", p.op("LE", value, -3.0), 0.0, inner)


def _leaky_relu(p: MicroProgram, n: Node, x: Operands) -> Operand:
    grad, value = x
    return p.op("WHERE", p.op("GT", value, 0.0), grad, p.op("MUL", grad, float(argument(n, "negative_slope", 2))))


def _elu(p: MicroProgram, n: Node, x: Operands) -> Operand:
    grad, saved = x
    alpha, scale, inner = (float(argument(n, k, i)) for i, k in ((1, "alpha"), (2, "scale"), (3, "input_scale")))
    if argument(n, "is_result", 4):
        negative = p.op("MUL", p.op("MUL", grad, inner), p.op("ADD", saved, alpha * scale))
    else:  # in the order of eager mode's products, which may overflow
        factor = p.op("MUL", grad, inner * alpha * scale)
        negative = p.op("MUL", factor, p.op("EXP", p.op("MUL", saved, inner)))
    return p.op("WHERE", p.op("LE", saved, 0.0), negative, p.op("MUL", grad, scale))


def _softplus(p: MicroProgram, n: Node, x: Operands) -> Operand:
    grad, value = x
    beta, threshold = float(argument(n, "beta", 2)), float(argument(n, "threshold", 3))
    scaled = p.op("MUL", value, beta)
    return p.op("WHERE", p.op("GT", scaled, threshold), grad, p.op("MUL", grad, p.op("SIGMOID", scaled)))


BACKWARD_RULES: dict[Any, Rule] = {
    aten.threshold_backward.default: lambda p, n, x: p.op("WHERE", p.op("LE", x[1], x[2]), 0.0, x[0]),
    aten.sigmoid_backward.default: lambda p, n, x: p.op("MUL", p.op("MUL", x[0], p.op("SUB", 1.0, x[1])), x[1]),
    aten.tanh_backward.default: lambda p, n, x: p.op("MUL", x[0], p.op("SUB", 1.0, p.op("MUL", x[1], x[1]))),
    aten.gelu_backward.default: _gelu,
    aten.silu_backward.default: _silu,
    aten.hardtanh_backward.default: _hardtanh,
    aten.hardsigmoid_backward.default: _hardsigmoid,
    aten.hardswish_backward.default: _hardswish,
    aten.leaky_relu_backward.default: _leaky_relu,
    aten.elu_backward.default: _elu,
    aten.softplus_backward.default: _softplus,
}

_SETTINGS: dict[Any, Call | None] = {
    aten.elu_backward.default: lambda t: rows(t, 1.0, 1.0, 1.0, False, t(4, 16)),
    aten.hardsigmoid_backward.default: None,
    aten.hardswish_backward.default: None,
    aten.hardtanh_backward.default: None,
    aten.leaky_relu_backward.default: lambda t: rows(t, t(4, 16), 0.1, False),
    aten.softplus_backward.default: None,
}
FACTS = {op: Operator(call, laid_out=op) for op, call in _SETTINGS.items()}

OPERANDS: dict[Any, Callable[[Node], list[Any]]] = {aten.elu_backward.default: lambda n: [n.args[0], n.args[5]]}
"""Operands of ops that have settings between them."""
