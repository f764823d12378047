"""What resizing operators are while they are traced: operators of their own where a core resizes, parts elsewhere.

PyTorch's own parts of linear interpolation are `low + (high - low) * share`, whose difference overflows beyond 1.7e38
and is NaN beside an infinity. Eager mode's kernels add two products, and so do the parts here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from fpga_dynamo.ir.dtypes import HALVES
from fpga_dynamo.torch_internals.decompositions import upsample_compute_output_size, upsample_linear
from fpga_dynamo.torch_internals.layouts import suggest_memory_format

aten = torch.ops.aten


def _is_empty_batch(x: torch.Tensor) -> bool:
    """Whether there is no image, but images would have elements; PyTorch predicts their result with a TypeError."""
    return isinstance(x.shape[0], int) and x.shape[0] == 0 and all(size != 0 for size in x.shape[1:])


def _no_images(x: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """The result for a batch without images, differentiable in `x`."""
    first: tuple[slice, ...] = (slice(None), slice(None), *(slice(1) for _ in size))
    return x[first].expand(*x.shape[:2], *size).clone(memory_format=torch.contiguous_format)


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


def _linear(
    x: torch.Tensor, output_size: list[int] | None, align_corners: bool, scale_factors: list[float] | None
) -> torch.Tensor:
    size = upsample_compute_output_size(x.shape, output_size, scale_factors)
    return _linear_of_size(x, size, align_corners, *(scale_factors or ()))


def _linear_of_size(x: torch.Tensor, size: list[int], align_corners: bool, *factors: float | None) -> torch.Tensor:
    """`x`, (batch, channels, spatial dimensions), with `size` as its spatial dimensions; `factors` as the user gave."""
    given = factors or (None,) * len(size)
    if not x.is_floating_point():
        return upsample_linear(x, size, align_corners, given)
    if any(n <= 0 for n in (*x.shape[1:], *size)):
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got {list(x.shape[1:])} and {list(size)}"
        )
    if _is_empty_batch(x):
        return _no_images(x, size)
    y = x.to(torch.float32) if x.dtype in HALVES else x
    for dim in reversed(range(2, x.dim())):  # the last one first, as eager mode's kernel
        y = _along(y, dim, size[dim - 2], align_corners, given[dim - 2])
    return y.to(x.dtype).contiguous(memory_format=suggest_memory_format(x))


def _along(x: torch.Tensor, dim: int, size: int, align_corners: bool, factor: float | None) -> torch.Tensor:
    """`x` with `size` elements along `dim`, each of two neighbours by their shares."""
    if size == x.shape[dim]:  # a copy whatever the factor; 0 times infinity is NaN, as in eager mode
        return x + x * 0
    last = x.shape[dim] - 1
    place = torch.arange(size, device=x.device).to(x.dtype)
    if align_corners:
        place = place * (last / (size - 1) if size > 1 else 0.0)
    else:
        place = (place + 0.5) * (1.0 / factor if factor else x.shape[dim] / size) - 0.5
    place = place.clamp(min=0.0)
    low = place.to(torch.int64).clamp(max=last)
    share = (place - low).clamp(max=1.0).view(-1, *(1,) * (x.dim() - 1 - dim))
    below, above = (aten._unsafe_index(x, [*(None,) * dim, index]) for index in (low, (low + 1).clamp(max=last)))
    return below * (1 - share) + above * share


WHOLE: dict[Any, Callable[..., Any] | None] = {
    aten.upsample_nearest2d.default: None,
    aten.upsample_nearest2d.vec: _nearest,
    aten.upsample_bilinear2d.default: None,
    aten.upsample_bilinear2d.vec: _bilinear,
}
"""Ops with a core that PyTorch takes apart itself while it traces, into gathers and sums.

The value: what an op that names its output's size in another way is, with sizes that may be symbolic."""

PARTS: dict[Any, Callable[..., Any]] = {
    aten.upsample_linear1d.default: _linear_of_size,
    aten.upsample_linear1d.vec: _linear,
    aten.upsample_trilinear3d.default: _linear_of_size,
    aten.upsample_trilinear3d.vec: _linear,
}
"""Ops without a core, which consist of other parts than PyTorch's."""

SHAPES: dict[Any, Callable[..., Any]] = {aten.upsample_bilinear2d_backward.default: _bilinear_backward}
"""Gradients whose result PyTorch predicts by a kernel that does not support symbolic sizes."""
