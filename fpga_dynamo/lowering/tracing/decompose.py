"""Pass (in AOTAutograd): ops that are taken apart because every part has a core. The table is small on purpose:
PyTorch's own core decompositions would break up what a command does in one (silu, hardswish, linear).

A decomposition returns NotImplemented for arguments that the cores do not support; the op then stays what it is and
runs in eager, bit for bit.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from fpga_dynamo.ir.dtypes import FLOATS
from fpga_dynamo.lowering.tracing import attention, attention_backward, backward, layouts, recurrent
from fpga_dynamo.torch_internals.decompositions import upsample_compute_output_size
from fpga_dynamo.torch_internals.dispatch import kernels_replaced
from fpga_dynamo.torch_internals.layouts import suggest_memory_format
from fpga_dynamo.torch_internals.pytree import tree_leaves
from fpga_dynamo.torch_internals.tracing import has_free_unbacked_symbols

aten = torch.ops.aten


def _glu(x: torch.Tensor, dim: int = -1) -> Any:
    if not _takes(x):
        return NotImplemented
    value, gate = x.to(torch.float32).chunk(2, dim)
    return (value * gate.sigmoid()).to(x.dtype)


def _log_sigmoid_forward(x: torch.Tensor) -> Any:
    """(value, what eager keeps for the backward pass)"""
    if not _takes(x):
        return NotImplemented
    wide = x.to(torch.float32).contiguous()  # as both results are in eager
    kept = (-wide.abs()).exp()
    return (wide.clamp(max=0) - kept.log1p()).to(x.dtype), kept.to(x.dtype)


def _takes(*tensors: torch.Tensor) -> bool:
    """Whether the cores compute in what the tensors hold, and there is something to compute."""
    return all(t.dtype in FLOATS and t.numel() for t in tensors)


def _mv(matrix: torch.Tensor, vector: torch.Tensor) -> Any:
    """As a row by the transposed matrix, because the vector lanes run along columns."""
    if not _takes(matrix, vector):
        return NotImplemented
    return torch.mm(vector.unsqueeze(0), matrix.t()).squeeze(0)


def _dot(left: torch.Tensor, right: torch.Tensor) -> Any:
    if not _takes(left, right):
        return NotImplemented
    products = left.to(torch.float32) * right.to(torch.float32)
    return products.sum().to(left.dtype)


def _trilinear(
    left: torch.Tensor,
    weight: torch.Tensor,
    right: torch.Tensor,
    *dims: list[int],
    unroll_dim: int = 1,
) -> Any:
    """What a bilinear layer is: y[b, o] = sum of left[b, i] weight[o, i, j] right[b, j] over i and j."""
    if dims != ([1, 3], [0], [1, 2], [2, 3]) or not _takes(left, weight, right):
        return NotImplemented
    outputs, inputs, _ = weight.shape
    rows = torch.mm(left, weight.transpose(0, 1).reshape(inputs, -1)).view(left.shape[0], outputs, -1)
    return torch.bmm(rows, right.unsqueeze(2)).squeeze(2)


_SIZED = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)


def _of_known_sizes(parts: Callable[..., Any]) -> Callable[..., Any]:
    """`parts`, but nothing for operands whose sizes only a run gives: decompositions ask for sizes.

    The name is that of `parts`, by which the disk cache knows it.
    """

    @functools.wraps(parts)
    def take_apart(*args: Any, **kwargs: Any) -> Any:
        sized = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, _SIZED)]
        return NotImplemented if has_free_unbacked_symbols(sized) else parts(*args, **kwargs)

    return take_apart


_PARTS: dict[Any, Callable[..., Any]] = {
    aten._native_multi_head_attention.default: attention.native_multi_head_attention,
    aten._scaled_dot_product_flash_attention_for_cpu.default: attention.attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: attention_backward.attention_backward,
    aten._safe_softmax.default: attention.safe_softmax,
    aten.convolution_backward.default: backward.convolution_backward,
    aten.mse_loss.default: backward.mse_loss,
    aten.mse_loss_backward.default: backward.mse_loss_backward,
    aten.select_backward.default: backward.select_backward,
    aten.slice_backward.default: backward.slice_backward,
    aten.max.dim: backward.max_of_truth,
    aten.scatter.value: backward.scatter_value,
    aten._transformer_encoder_layer_fwd.default: attention.transformer_encoder_layer,
    aten.mkldnn_rnn_layer.default: recurrent.lstm_layer,
    aten.mv.default: _mv,
    aten.dot.default: _dot,
    aten._trilinear.default: _trilinear,
    aten.glu.default: _glu,
    aten.log_sigmoid_forward.default: _log_sigmoid_forward,
    **layouts.DECOMPOSITIONS,
}

DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {op: _of_known_sizes(parts) for op, parts in _PARTS.items()}
"""ATen op -> its parts."""


def _is_empty_batch(x: torch.Tensor) -> bool:
    """Whether there is no image, but images would have elements; PyTorch predicts their result with a TypeError."""
    return isinstance(x.shape[0], int) and x.shape[0] == 0 and all(size != 0 for size in x.shape[1:])


def _no_images(x: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """The result for a batch without images, differentiable in `x`."""
    return x[:, :, :1, :1].expand(*x.shape[:2], *size).clone(memory_format=torch.contiguous_format)


def _nearest(x: torch.Tensor, output_size: list[int] | None, scale_factors: list[float] | None) -> torch.Tensor:
    size = upsample_compute_output_size(x.shape, output_size, scale_factors)
    if _is_empty_batch(x):
        return _no_images(x, size)
    return aten.upsample_nearest2d.default(x, size, *(scale_factors or (None, None)))


def _bilinear(
    x: torch.Tensor, output_size: list[int] | None, align_corners: bool, scale_factors: list[float] | None
) -> torch.Tensor:
    size = upsample_compute_output_size(x.shape, output_size, scale_factors)
    if _is_empty_batch(x):
        return _no_images(x, size)
    return aten.upsample_bilinear2d.default(x, size, align_corners, *(scale_factors or (None, None)))


def _bilinear_backward(
    gradient: torch.Tensor, output_size: list[int], input_size: list[int], *_: Any, **__: Any
) -> torch.Tensor:
    return torch.empty(
        input_size,
        dtype=gradient.dtype,
        device=gradient.device,
        memory_format=suggest_memory_format(gradient),
    )


WHOLE: dict[Any, Callable[..., Any] | None] = {
    aten.upsample_nearest2d.default: None,
    aten.upsample_nearest2d.vec: _nearest,
    aten.upsample_bilinear2d.default: None,
    aten.upsample_bilinear2d.vec: _bilinear,
}
"""Ops with a core that PyTorch takes apart itself while it traces, into gathers and sums.

The value: what an op that names its output's size in another way is, with sizes that may be symbolic."""

_SHAPES: dict[Any, Callable[..., Any]] = {aten.upsample_bilinear2d_backward.default: _bilinear_backward}
"""Gradients whose result PyTorch predicts by a kernel that does not support symbolic sizes."""

_tracing = threading.RLock()


@contextmanager
def kept_whole() -> Iterator[None]:
    """While it lasts, tracing keeps the ops of :data:`WHOLE`: their Python kernels that decompose are put aside.

    The kernels belong to the process, so that one thread traces at a time; eager never uses them.
    """
    with _tracing, kernels_replaced(WHOLE, _SHAPES):
        yield
