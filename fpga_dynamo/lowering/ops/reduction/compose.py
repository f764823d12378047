"""Compositions of commands over views: element-wise programs and reductions that a pattern's `lower` puts together.

A pattern that covers one ATen op (a normalisation's gradient, say) and needs several commands for it writes them with
these, so that the op as a whole is either on the card or runs in eager as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.micro import Operand
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.ops.elementwise.pointwise import emit_elementwise
from fpga_dynamo.lowering.ops.reduction.reduction import emit_deviation, emit_reduction

Formula = Callable[..., Operand]
"""(program, operand of each input) -> the result."""


def elementwise(emitter: Emitter, formula: Formula, inputs: Sequence[View]) -> View:
    """One command that computes `formula` over inputs that broadcast to one shape; the result lies as the first one of
    full size does."""
    size = tuple(torch.broadcast_shapes(*(view.shape for view in inputs)))
    return emit_elementwise(emitter, lambda program, given: formula(program, *given), inputs, size)


def reduced(emitter: Emitter, kind: str, x: View, dims: Sequence[int], *, keep: bool = True) -> View:
    """One command that reduces `dims` of x; with `keep` they stay as sizes of 1."""
    wanted = tuple(1 if d in dims else n for d, n in enumerate(x.shape) if keep or d not in dims)
    return emit_reduction(emitter, kind, x, tuple(dims), wanted)


def deviations(emitter: Emitter, x: View, dims: Sequence[int]) -> tuple[View, View]:
    """One command: mean and square root of the biased variance over `dims` of x, which stay as sizes of 1."""
    return emit_deviation(emitter, x, tuple(dims), tuple(1 if d in dims else n for d, n in enumerate(x.shape)))


def undefined_mean(emitter: Emitter, mean: View, spread: View) -> View:
    """The mean as eager mode's variance kernels give it: NaN where the spread is, for a row with an infinity."""
    return elementwise(emitter, lambda p, m, v: p.op("WHERE", p.op("EQ", v, v), m, v), [mean, spread])
