"""Gradients of softmax and log-softmax: a row's sum and two element-wise commands.

Pattern, legality and commands; cores: hls_kernels/cores/reduce and pointwise, tests:
tests/lowering/test_backward.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.micro import MicroProgram, Operand
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, operand, refuse_float, shape
from fpga_dynamo.ir.operators import Operator
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.ops.calls import rows
from fpga_dynamo.lowering.ops.reduction.compose import elementwise, reduced
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone

_SOFTMAX, _LOG = aten._softmax_backward_data.default, aten._log_softmax_backward_data.default


def check_softmax_backward(match: Match, graph: GraphInfo) -> str | None:
    node = match.root
    if argument(node, "input_dtype", 3) is not torch.float32:
        return "half precision is not supported"
    for position, what in enumerate(("gradient", "the forward pass's result")):
        if why := refuse_float(operand(node, position), what):
            return why
    return "a 0-D tensor is not supported" if not shape(node) else refuse_float(node, "result")


def lower_softmax_backward(match: Match, emitter: Emitter) -> Sequence[View]:
    """softmax: y (g - sum(g y)); log-softmax: g - exp(y) sum(g), of a gradient g and result y."""
    node = match.root
    gradient, result = (emitter.view(operand(node, i)) for i in (0, 1))
    dim = (int(argument(node, "dim", 2)) % len(gradient.shape),)
    if node.target is _LOG:
        total = reduced(emitter, "REDUCE_SUM", gradient, dim)
        return [elementwise(emitter, _log_softmax, [gradient, result, total])]
    weighted = elementwise(emitter, lambda p, g, y: p.op("MUL", g, y), [gradient, result])
    total = reduced(emitter, "REDUCE_SUM", weighted, dim)
    return [elementwise(emitter, _softmax, [weighted, result, total])]


def _softmax(p: MicroProgram, weighted: Operand, result: Operand, total: Operand) -> Operand:
    return p.op("SUB", weighted, p.op("MUL", result, total))


def _log_softmax(p: MicroProgram, gradient: Operand, result: Operand, total: Operand) -> Operand:
    return p.op("SUB", gradient, p.op("MUL", p.op("EXP", result), total))


PATTERNS = (
    Pattern(
        name="softmax_backward",
        anchors=(_SOFTMAX, _LOG),
        match=anchor_alone,
        check=check_softmax_backward,
        lower=lower_softmax_backward,
        opcodes=frozenset({"reduce", "pointwise", "move"}),
        operators={op: Operator(lambda t: rows(t, t(4, 16), 1, t().dtype), laid_out=op) for op in (_SOFTMAX, _LOG)},
    ),
)
