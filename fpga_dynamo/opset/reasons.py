"""Why ops of the core ATen set stay on the PS, where no rule of lowering says it already."""

from __future__ import annotations

_OPS_BY_REASON = {
    "windows over three dimensions have no core": "_adaptive_avg_pool3d avg_pool3d max_pool3d_with_indices",
    "windows that overlap add up in the gradient; the pool core gathers and does not scatter": (
        "_adaptive_avg_pool2d_backward avg_pool2d_backward max_pool2d_with_indices_backward col2im"
    ),
    "it is a transposed convolution and a contraction over pixels; no core has either": "convolution_backward",
    "it reads statistics of the forward pass, which the reduce core keeps to itself": (
        "native_group_norm_backward native_layer_norm_backward"
    ),
    "it writes where the data say; the cores write where the command says": (
        "embedding_dense_backward index_put masked_scatter scatter.src scatter.value scatter_add scatter_reduce.two"
    ),
    "it reads by several index tensors that broadcast; the gather core takes one": "index.Tensor",
    "it reads between four pixels that the data say; the resample core steps evenly": "grid_sampler_2d",
    "rows of a length that the data say are summed; the gather core only copies": "_embedding_bag",
    "the size of its result depends on the data": "nonzero",
    "its result is a number that the host waits for": "_local_scalar_dense",
    "no core sorts: compare-and-swap stages would take area that the MAC array uses for every other op": "sort topk",
    "it is a running sum, each element waiting for the one before; no core scans": "cumsum",
    "distances in any norm between all pairs; the MAC array has products only": "_cdist_forward _pdist_forward",
    "its numbers are complex; the cores hold float32, bool, int32 and int64": "_fft_c2r _fft_r2c",
    "no micro-operation computes it, and what it could be made of loses digits": (
        "acos acosh asin asinh atan atan2 atanh cosh sinh tan log10 log2"
    ),
    "a quotient that rounding moves over a whole number would change the result by one": (
        "div.Scalar_mode div.Tensor_mode fmod.Scalar fmod.Tensor remainder.Scalar remainder.Tensor"
    ),
    "bitwise logic of numbers needs integer arithmetic; the pointwise core computes in float32": (
        "bitwise_and.Scalar bitwise_or.Scalar bitwise_xor.Scalar bitwise_xor.Tensor"
    ),
    "its result is a truth value; the reduce core computes in float32": "any any.dim any.dims",
    "the move core pads with a constant; a mirrored or repeated border would be a command for every side": (
        "reflection_pad1d reflection_pad2d reflection_pad3d replication_pad2d replication_pad3d"
    ),
    "it is the mean's second moment, for which the reduce core has no command of its own": "var.correction var.dim",
    "it changes the running statistics; AOTAutograd hands over the functional form": "_native_batch_norm_legit",
    "it changes the storage of a tensor that lives on the host": "resize_",
    "it reads the size of its input and no element; eager fills at the speed of memory": "fill.Scalar full_like",
}

REASONS = {name: reason for reason, names in _OPS_BY_REASON.items() for name in names.split()}
"""ATen op, without `.default` -> the sentence."""
