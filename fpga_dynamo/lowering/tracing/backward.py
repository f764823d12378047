"""Decompositions of gradients whose parts have cores: convolution into one op a gradient, the squared error into
element-wise ops, that of a part of a tensor into padding; and two ops of the gradient of a cumulative product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from fpga_dynamo.ir.dtypes import FLOATS

aten = torch.ops.aten

_MEAN, _SUM = 1, 2


def convolution_backward(
    grad_output: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    """Gradients of input, weight and bias, each by an op of its own.

    The input's is a convolution of the gradient with the same weights, transposed where the forward one is not. The
    weight's stays `convolution_backward`, with a mask that asks for nothing else (ops/convolution/gradient.py).
    """
    of_input, of_weight, of_bias = output_mask
    dtypes = {tensor.dtype for tensor in (grad_output, input, weight)}
    if not (of_input or of_bias) or dtypes != {torch.float32} or not grad_output.numel() or not input.numel():
        return NotImplemented
    rank = input.dim() - 2
    stride, padding, dilation = (each_axis(given, rank) for given in (stride, padding, dilation))
    if transposed and any(rest >= step for rest, step in zip(each_axis(output_padding, rank), stride, strict=True)):
        return NotImplemented  # the gradient has windows that no pixel of the input made
    found: list[torch.Tensor | None] = [None, None, None]
    if of_input:
        rest = [0] * rank
        if not transposed:
            kernel = weight.shape[2:]
            covered = [
                (out - 1) * s - 2 * p + d * (k - 1) + 1
                for out, s, p, d, k in zip(grad_output.shape[2:], stride, padding, dilation, kernel, strict=True)
            ]
            rest = [size - reach for size, reach in zip(input.shape[2:], covered, strict=True)]
        found[0] = aten.convolution(grad_output, weight, None, stride, padding, dilation, not transposed, rest, groups)
    if of_weight:
        found[1] = aten.convolution_backward(
            grad_output,
            input,
            weight,
            None,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            [False, True, False],
        )[1]
    if of_bias:
        found[2] = grad_output.sum([d for d in range(grad_output.dim()) if d != 1])
    return tuple(found)


def each_axis(given: Sequence[int], rank: int) -> list[int]:
    """A setting of a convolution for each axis, which may be given as one number for all."""
    return list(given) if len(given) == rank else [given[0]] * rank


def mse_loss(input: torch.Tensor, target: torch.Tensor, reduction: int = _MEAN) -> Any:
    """Mean or sum of the squared error, or the squares themselves."""
    if input.dtype is not torch.float32 or target.dtype is not torch.float32:
        return NotImplemented
    distance = input - target
    square = distance * distance
    return {_MEAN: square.mean, _SUM: square.sum}.get(reduction, lambda: square)()


def mse_loss_backward(grad_output: torch.Tensor, input: torch.Tensor, target: torch.Tensor, reduction: int) -> Any:
    """2 (input - target) grad_output, divided by the number of elements if the loss is their mean."""
    if any(tensor.dtype is not torch.float32 for tensor in (grad_output, input, target)):
        return NotImplemented
    factor = 2 / input.numel() if reduction == _MEAN else 2
    return (input - target) * factor * grad_output


def select_backward(gradient: torch.Tensor, sizes: Sequence[int], dim: int, index: int) -> Any:
    """Zeros but for the slice `index` of dimension `dim`."""
    dim %= len(sizes)
    if not _pads(gradient, sizes[dim]):
        return NotImplemented
    index %= sizes[dim]
    return _surrounded(gradient.contiguous().unsqueeze(dim), dim, index, sizes[dim] - index - 1)


def slice_backward(gradient: torch.Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Any:
    """Zeros but for the slices from `start` to `end` of dimension `dim`."""
    dim %= len(sizes)
    if step != 1 or not _pads(gradient, sizes[dim]):
        return NotImplemented
    before, _, _ = slice(start, end).indices(sizes[dim])
    return _surrounded(gradient.contiguous(), dim, before, sizes[dim] - before - gradient.shape[dim])


def _pads(gradient: torch.Tensor, size: int) -> bool:
    return gradient.dtype in FLOATS and gradient.numel() != 0 and isinstance(size, int)


def _surrounded(x: torch.Tensor, dim: int, before: int, after: int) -> torch.Tensor:
    """`x` with so many zeros before and after it; row-major, as eager mode's gradient of a view is."""
    return aten.constant_pad_nd(x, [0, 0] * (x.dim() - 1 - dim) + [before, after], 0)


def max_of_truth(x: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
    """Whether any is true, and where the first true one is (or the first, if none is)."""
    if x.dtype is not torch.bool or not x.dim() or not x.numel():
        return NotImplemented
    return x.any(dim, keepdim), x.to(torch.float32).argmax(dim, keepdim)


def scatter_value(x: torch.Tensor, dim: int, index: torch.Tensor, value: complex) -> Any:
    """A number written once a line, where `index` says: chosen by comparing each element's position with it."""
    dim = dim % x.dim() if x.dim() else 0
    lines = [*x.shape[:dim], 1, *x.shape[dim + 1 :]]
    if not _has_lines(x, index) or list(index.shape) != lines or not isinstance(x.shape[dim], int):
        return NotImplemented
    if x.is_floating_point() and torch.finfo(x.dtype).max < abs(value) < math.inf:
        return NotImplemented  # eager mode raises
    places = torch.arange(x.shape[dim], device=x.device).view([-1] + [1] * (x.dim() - 1 - dim))
    # The gather changes no number: it raises for an index out of range, as the scatter does.
    index = places.expand(x.shape).gather(dim, index)
    chosen = torch.where(places == index, torch.full((), value, dtype=x.dtype, device=x.device), x)
    # A choice lies like its operands; what is scattered into is row-major in eager, however it lay.
    return chosen if x.is_contiguous() else chosen.clone(memory_format=torch.contiguous_format)


def _has_lines(x: torch.Tensor, index: torch.Tensor) -> bool:
    return x.dtype in (torch.bool, *FLOATS) and x.dim() != 0 and x.numel() != 0 and index.dim() == x.dim()
