"""Operators that no pattern takes: why they stay on the PS, and what tracing has to know of them."""

from __future__ import annotations

from fpga_dynamo.ir.graph import aten
from fpga_dynamo.ir.operators import Operator, first_of
from fpga_dynamo.torch_internals.dispatch import OpOverload

_OPS_BY_REASON = {
    "windows that overlap add up in the gradient; the pool core gathers and does not scatter": (
        "_adaptive_avg_pool2d_backward avg_pool2d_backward max_pool2d_with_indices_backward col2im"
    ),
    "it writes where the data say; the cores write where the command says": (
        "embedding_dense_backward masked_scatter scatter.src scatter_add scatter_reduce.two"
    ),
    "it reads between four pixels that the data say; the resample core steps evenly": "grid_sampler_2d",
    "rows of a length that the data say are summed; the gather core only copies": "_embedding_bag",
    "the size of its result depends on the data": "nonzero",
    "its result is a number that the host waits for": "_local_scalar_dense",
    "no core sorts: compare-and-swap stages would take area that the MAC array uses for every other op": "sort topk",
    "distances in any norm between all pairs; the MAC array has products only": "_cdist_forward _pdist_forward",
    "no micro-operation computes it, and what it could be made of loses digits": (
        "acos acosh asin asinh atan atan2 atanh cosh sinh tan log10 log2"
    ),
    "a quotient that rounding moves over a whole number would change the result by one": (
        "fmod.Scalar fmod.Tensor remainder.Tensor"
    ),
    "it changes the running statistics; AOTAutograd hands over the functional form": "_native_batch_norm_legit",
    "it changes the storage of a tensor that lives on the host": "resize_",
}

REASONS = {name: reason for reason, names in _OPS_BY_REASON.items() for name in names.split()}
"""ATen op, without `.default` -> the sentence."""

OPERATORS = {
    aten.native_dropout.default: Operator(laid_out=lambda x, *_: x * x),
    aten.sort.default: Operator(laid_out=first_of(aten.sort.default)),
    **{op: Operator(laid_out=op) for op in (aten.glu.default, aten.glu_backward.default, aten.mish_backward.default)},
}
"""Facts of operators that no pattern takes."""


def short(op: OpOverload) -> str:
    """`relu` of aten.relu.default, `max.dim` of aten.max.dim."""
    return str(op).removeprefix("aten.").removesuffix(".default")
