"""Ops whose results tracing predicts in other strides than eager mode's kernels give them, taken apart into ops for
which both agree. The results of a launch, and of all that reads them, are laid out as tracing says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fpga_dynamo.torch_internals.layouts import suggest_memory_format

aten = torch.ops.aten

_TRAINED = aten._native_batch_norm_legit_functional.default
_UNTRAINED = aten._native_batch_norm_legit_no_training.default

CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
"""An image's number of dimensions -> the format with its channels last."""


def _in_format_of_input(op: Any) -> Callable[..., Any]:
    """Of channels-last images eager makes such; tracing says row-major."""

    def parts(x: torch.Tensor, *args: Any) -> Any:
        layout = suggest_memory_format(x)
        if layout is torch.contiguous_format or x.is_contiguous():
            return NotImplemented
        return op(x.contiguous(), *args).contiguous(memory_format=layout)

    return parts


def _in_format_of(position: int, op: Any, *others: int) -> Callable[..., Any]:
    """Operand `position`, and `others` with it, brought into the memory format that eager makes the result in: that of
    an image which is one, else row-major. Tracing takes the operand's own strides.
    """

    def parts(*args: Any) -> Any:
        if _is_dense_image(args[position]):
            return NotImplemented
        layout = suggest_memory_format(args[position])
        given = list(args)
        for i in (position, *others):
            given[i] = given[i].contiguous(memory_format=layout)
        return op(*given)

    return parts


def _is_dense_image(x: torch.Tensor) -> bool:
    return x.is_contiguous() or (x.dim() in CHANNELS_LAST and x.is_contiguous(memory_format=CHANNELS_LAST[x.dim()]))


def _log_sigmoid_backward(gradient: torch.Tensor, x: torch.Tensor, kept: torch.Tensor) -> Any:
    if gradient.is_contiguous() and x.is_contiguous() and kept.is_contiguous():
        return NotImplemented
    return aten.log_sigmoid_backward.default(gradient.contiguous(), x.contiguous(), kept.contiguous())


def _roll(x: torch.Tensor, shifts: list[int], dims: list[int] | None = None) -> Any:
    """Along dimensions an image stays what it is. Rolled as one row it becomes row-major in eager too; and all the way
    round, as a whole image and one without elements are put together then.
    """
    if not dims or x.is_contiguous():
        return NotImplemented
    if any(shift % x.shape[d] == 0 for shift, d in zip(shifts, dims, strict=True)):
        return NotImplemented
    return _in_format_of_input(aten.roll.default)(x, shifts, dims)


def _logical(bitwise: Any) -> Callable[..., Any]:
    """Where operands lie in different orders, tracing orders the result of a logical op by other rules than eager."""

    def parts(left: torch.Tensor, right: torch.Tensor) -> Any:
        if left.is_contiguous() and right.is_contiguous():
            return NotImplemented
        return bitwise(left != 0, right != 0)

    return parts


def _power_of_number(base: Any, x: torch.Tensor) -> Any:
    """Row-major in eager, whatever the exponents' layout is."""
    return NotImplemented if x.is_contiguous() else aten.pow.Scalar(base, x.contiguous())


def _dropout_backward(gradient: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    return gradient * mask * scale


LAID_OUT: dict[Any, Callable[..., Any]] = {
    aten.roll.default: _roll,
    **{
        op: _in_format_of_input(op)
        for op in (
            aten.channel_shuffle.default,
            aten.reflection_pad3d.default,
            aten.replication_pad3d.default,
            aten.max_unpool2d.default,
        )
    },
    _TRAINED: _in_format_of(0, _TRAINED),
    _UNTRAINED: _in_format_of(0, _UNTRAINED),
    aten.native_batch_norm_backward.default: _in_format_of(1, aten.native_batch_norm_backward.default, 0),
    aten.log_sigmoid_backward.default: _log_sigmoid_backward,
    aten.pow.Scalar: _power_of_number,
}
"""ATen op -> itself, of operands in other strides."""

DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    **LAID_OUT,
    aten.logical_and.default: _logical(aten.bitwise_and.Tensor),
    aten.logical_or.default: _logical(aten.bitwise_or.Tensor),
    aten.logical_xor.default: _logical(aten.bitwise_xor.Tensor),
    aten.native_dropout_backward.default: _dropout_backward,
}
"""ATen op -> its parts."""
