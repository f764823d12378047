"""Operators that no pattern matches: why they stay on the PS, and what tracing has to know of them."""

from __future__ import annotations

from fpga_dynamo.ir.graph import aten
from fpga_dynamo.ir.operators import Operator, first_of
from fpga_dynamo.torch_internals.dispatch import OpOverload

_OPS_BY_REASON = {
    "accumulating gradients of overlapping windows is not supported: the pool core does not scatter": (
        "_adaptive_avg_pool2d_backward avg_pool2d_backward max_pool2d_with_indices_backward col2im"
    ),
    "data-dependent addressing (scatter) is not supported": (
        "embedding_dense_backward masked_scatter scatter.src scatter_add scatter_reduce.two"
    ),
    "data-dependent interpolation is not supported; the resample core supports regular grids only": "grid_sampler_2d",
    "sums over segments of data-dependent length are not supported; the gather core copies rows only": "_embedding_bag",
    "data-dependent result sizes are not supported": "nonzero",
    "the operator returns a Python number, which the host must read before it continues": "_local_scalar_dense",
    "sorting is not supported": "sort topk",
    "pairwise distances are not supported; the MAC array computes products only": "_cdist_forward _pdist_forward",
    "no micro-operation computes this function, and a composition of others loses accuracy": (
        "acos acosh asin asinh atan atan2 atanh cosh sinh tan log10 log2"
    ),
    "floating-point remainders are not supported: a rounding error changes them by a whole divisor": (
        "fmod.Scalar fmod.Tensor remainder.Tensor"
    ),
    "in-place update of running statistics is not supported": "_native_batch_norm_legit",
    "changing the storage of a host tensor is not supported": "resize_",
}

REASONS = {name: reason for reason, names in _OPS_BY_REASON.items() for name in names.split()}
"""ATen op, without `.default` -> the sentence."""

OPERATORS = {
    aten.native_dropout.default: Operator(laid_out=lambda x, *_: x * x),
    aten.sort.default: Operator(laid_out=first_of(aten.sort.default)),
    **{op: Operator(laid_out=op) for op in (aten.glu.default, aten.glu_backward.default, aten.mish_backward.default)},
}
"""Facts of operators that no pattern matches."""


def short(op: OpOverload) -> str:
    """`relu` of aten.relu.default, `max.dim` of aten.max.dim."""
    return str(op).removeprefix("aten.").removesuffix(".default")
