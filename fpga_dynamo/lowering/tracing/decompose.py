"""Pass (in AOTAutograd): ops that are taken apart because every part has a core. The table is small on purpose:
PyTorch's own core decompositions would break up what a command does in one (silu, hardswish, linear).

A decomposition returns NotImplemented for arguments that the cores do not support; the op then stays what it is and
runs in eager, bit for bit.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from fpga_dynamo.ir.dtypes import FLOATS
from fpga_dynamo.lowering.tracing import attention, attention_backward, backward, interpolation, layouts, recurrent
from fpga_dynamo.torch_internals.dispatch import kernels_replaced
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


_tracing = threading.RLock()


@contextmanager
def kept_whole() -> Iterator[None]:
    """While it lasts, tracing keeps the ops of `interpolation.WHOLE`, and takes others apart as `PARTS` there says.

    The kernels belong to the process, so that one thread traces at a time; eager never uses them.
    """
    with _tracing, kernels_replaced({**interpolation.WHOLE, **interpolation.PARTS}, interpolation.SHAPES):
        yield
