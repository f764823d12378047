"""Pools, resizing, reductions, and operators that no core will ever run."""

from __future__ import annotations

import torch

from fpga_dynamo.testing.builder import Builder
from fpga_dynamo.testing.operators.table import batched_matrix, image, operator, vector, volume


@operator(image, weight=2)
def max_pool(b: Builder, name: str, x: torch.Tensor) -> None:
    kernel = (b.integer(1, 3), b.integer(1, 3))
    padding = (b.integer(0, kernel[0] // 2), b.integer(0, kernel[1] // 2))
    stride = b.choose("None", 1, 2, (2, 1), 3)
    # A window between whose taps all of the image lies has no pixel: eager mode's gradient then writes beyond the
    # image.
    dilation = b.choose(1, 1, 2) if min(x.shape[2:]) > 1 else 1
    ceil_mode = b.flag()
    b.emit(f"F.max_pool2d({name}, {kernel}, {stride}, padding={padding}, dilation={dilation}, ceil_mode={ceil_mode})")


@operator(image, weight=2)
def avg_pool(b: Builder, name: str, _: torch.Tensor) -> None:
    kernel = (b.integer(1, 3), b.integer(1, 3))
    padding = (b.integer(0, kernel[0] // 2), b.integer(0, kernel[1] // 2))
    divisor = b.choose("", "", ", divisor_override=3")
    b.emit(
        f"F.avg_pool2d({name}, {kernel}, {b.choose('None', 1, 2, (1, 2))}, padding={padding}, ceil_mode={b.flag()}, "
        f"count_include_pad={b.flag()}{divisor})"
    )


@operator(image, weight=2)
def adaptive_pool(b: Builder, name: str, _: torch.Tensor) -> None:
    size = b.choose(1, (1, 1), 2, (3, 2), 7, (None, 2))
    b.emit(f"F.adaptive_{b.choose('avg', 'avg', 'max')}_pool2d({name}, {size})")


@operator(image)
def interpolate(b: Builder, name: str, _: torch.Tensor) -> None:
    _resize(b, name, "'nearest'", f"'bilinear'{_CORNERS}False", f"'bilinear'{_CORNERS}True", "'bicubic'", size="(5, 7)")


@operator(batched_matrix)
def interpolate_signal(b: Builder, name: str, _: torch.Tensor) -> None:
    _resize(b, name, "'nearest'", f"'linear'{_CORNERS}False", f"'linear'{_CORNERS}True", size="7")


@operator(volume)
def interpolate_volume(b: Builder, name: str, _: torch.Tensor) -> None:
    _resize(b, name, "'nearest'", f"'trilinear'{_CORNERS}False", f"'trilinear'{_CORNERS}True", size="(2, 3, 5)")


_CORNERS = ", align_corners="


def _resize(b: Builder, name: str, *modes: str, size: str) -> None:
    """By factors too whose size is that of the input, or twice that, though the factor is another."""
    factor = b.choose("2", "1.5", "0.5", "1.1", "2.2", "3.3")
    b.emit(f"F.interpolate({name}, {b.choose(f'scale_factor={factor}', f'size={size}')}, mode={b.choose(*modes)})")


@operator(image, first=lambda t: image(t) and t.shape[1] % 4 == 0)
def pixel_shuffle(b: Builder, name: str, _: torch.Tensor) -> None:
    b.emit(f"F.pixel_shuffle({name}, 2)")


# Reductions.


def _some_dimensions(b: Builder, x: torch.Tensor) -> str:
    first = b.dimension(x)
    second = b.dimension(x)
    return str([first]) if b.flag() or first % x.dim() == second % x.dim() else str([first, second])


@operator(vector, weight=3)
def reduction(b: Builder, name: str, x: torch.Tensor) -> None:
    function = b.choose("mean", "sum", "amax", "amin")
    b.emit(f"{name}.{function}({_some_dimensions(b, x)}, keepdim={b.flag()})")


@operator(vector)
def reduction_of_all(b: Builder, name: str, _: torch.Tensor) -> None:
    b.emit(f"{name}.{b.choose('mean', 'sum', 'amax', 'max', 'argmax', 'prod')}()")


@operator(vector)
def arg_reduction(b: Builder, name: str, x: torch.Tensor) -> None:
    b.emit(f"{name}.{b.choose('argmax', 'argmin')}({b.dimension(x)}, keepdim={b.flag()})")


@operator(vector)
def variance(b: Builder, name: str, x: torch.Tensor) -> None:
    function = b.choose("var({}, correction=0, keepdim={})", "std({}, keepdim={})", "norm(dim={}, keepdim={})")
    b.emit(f"{name}." + function.format(_some_dimensions(b, x), b.flag()))


@operator(vector)
def max_with_indices(b: Builder, name: str, x: torch.Tensor) -> None:
    b.emit(f"torch.max({name}, {b.dimension(x)})", results=2)


@operator(vector, weight=2)
def softmax(b: Builder, name: str, x: torch.Tensor) -> None:
    b.emit(f"F.{b.choose('softmax', 'log_softmax')}({name}, dim={b.dimension(x)})")


# Never lowered: these must run as eager runs them, wherever they stand.


@operator(vector, weight=2)
def foreign(b: Builder, name: str, x: torch.Tensor) -> None:
    dim = b.dimension(x)
    call = b.choose(
        "torch.cumsum({x}, {d})",
        "torch.sort({x}, {d})[0]",
        "torch.sort({x}, {d})[1]",
        "torch.logsumexp({x}, {d})",
        "torch.nan_to_num({x})",
        "torch.cummax({x}, {d})[0]",
        "torch.median({x}.contiguous(), {d})[0]",  # of a stride of 0 eager makes up numbers (PyTorch 2.13)
        "torch.triu({x}.reshape(1, -1))",
        "torch.complex({x}, {x}).real",
        "{x}.double()",
    )
    b.emit(call.format(x=name, d=dim))
