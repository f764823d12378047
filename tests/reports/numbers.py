"""Reports on wrong values: integers that wrap, NaN, rounding, reductions, operators' rarer arguments."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from tests.reports.case import Kind, Trial, raised

Tensor = torch.Tensor

report = Kind("values")


@report("pytorch#93829", "a negated uint8 is compared before it wraps", sample=True)
def negated_uint8(trial: Trial) -> Any:
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.neg(x)
        return y, torch.lt(y, torch.tensor(4, dtype=torch.uint8))

    return trial.compile(step)(torch.tensor([6, 0, 255, 253], dtype=torch.uint8))


@report("pytorch#105264", "a sum of uint8 is widened before it wraps")
def sum_of_uint8(trial: Trial) -> Any:
    return trial.compile(lambda x: (x + x).to(torch.int16))(torch.tensor([128, 3, 200], dtype=torch.uint8))


@report("pytorch#187018", "abs and neg of uint8 above 127, concatenated and summed")
def abs_of_uint8(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        y = -x.abs()
        return torch.cat([y, y]).sum()

    return trial.compile(step)(torch.tensor([200, 200], dtype=torch.uint8))


@report("pytorch#161763", "a negated uint8 constant is added to floats")
def uint8_and_float(trial: Trial) -> Any:
    def step(x: Tensor) -> tuple[Tensor, ...]:
        c = torch.tensor(7, dtype=torch.uint8)
        return c + x, torch.neg(c), torch.neg(c) + x

    return trial.compile(step)(trial.randn(2, 2))


@report("pytorch#175966", "products of int64 beyond 32 bits")
def large_int64(trial: Trial) -> Any:
    return trial.compile(lambda x: torch.arange(0, 11) * torch.tensor([10**9]) + x)(torch.zeros(1, dtype=torch.int64))


@report("pytorch#109105", "int8 products that wrap, factored and expanded")
def int8_factored(trial: Trial) -> Any:
    def step(c: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (c * x + c * y) * c, c * (x + y) * c

    ints = [torch.randint(-30, 30, (3, 4)).to(torch.int8) for _ in range(3)]
    return trial.compile(step)(*ints)


@report("pytorch#118266", "position of the maximum of values with NaN")
def argmax_with_nan(trial: Trial) -> Any:
    x = trial.floats([[-2.0, 100.0, 3.0], [5.0, 4.0, -7.0], [1.0, math.nan, math.nan]])
    return trial.compile(lambda x: (torch.log1p(x).argmax(), torch.log1p(x).argmin(1), x.max(1)))(x)


@report("pytorch#93784", "NaN through relu, clamp and maximum", sample=True)
def nan_through_bounds(trial: Trial) -> Any:
    def step(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return F.relu(x), x.clamp_min(0.5), torch.maximum(x, y), torch.clamp_min(x, y), x.clamp(-1, 1)

    return trial.compile(step)(trial.floats([-3.0, math.nan, 1.0, math.nan]), trial.floats([0.0, 0.0, math.nan, 2.0]))


@report("pytorch#94775", "max_pool2d with kernel 1, stride 2 and ceil_mode")
def max_pool_ceil(trial: Trial) -> Any:
    return trial.compile(lambda x: F.max_pool2d(x, 1, stride=(2, 2), ceil_mode=True))(trial.randn(1, 1, 6, 7))


@report("tvm#15281", "max_pool2d with padding and ceil_mode at the lower border")
def max_pool_padded_ceil(trial: Trial) -> Any:
    return trial.compile(lambda x: F.max_pool2d(x, 3, padding=1, ceil_mode=True))(trial.randn(2, 5, 5, 3))


@report("pytorch#100987", "avg_pool2d with ceil_mode: windows that reach over the border")
def avg_pool_ceil(trial: Trial) -> Any:
    x = trial.randn(1, 2, 7, 8)
    return trial.compile(
        lambda x: (
            F.avg_pool2d(x, 3, 2, ceil_mode=True),
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        )
    )(x)


@report("tvm#15006", "lp_pool1d with a fractional norm")
def lp_pool(trial: Trial) -> Any:
    return trial.compile(lambda x: F.lp_pool1d(x, 1.5, 2))(trial.randn(1, 3, 7).abs())


@report("tvm#15395", "constant padding with a value beyond 32-bit integers")
def large_pad_value(trial: Trial) -> Any:
    return trial.compile(lambda x: F.pad(x, (1, 2), value=2.771606e18) + 0)(trial.randn(2, 5))


@report("tvm#15285", "a 1x1 convolution with stride 2")
def pointwise_strided_convolution(trial: Trial) -> Any:
    x, weight = trial.randn(1, 16, 9, 9), trial.randn(24, 16, 1, 1)
    return trial.compile(lambda x, w: F.conv2d(x, w, None, (2, 2)))(x, weight)


@report("tvm#15284", "linear with 2048 inputs and a bias")
def wide_linear(trial: Trial) -> Any:
    return trial.compile(F.linear)(trial.randn(1, 2048), trial.randn(50, 2048), trial.randn(50))


@report("pytorch#198201", "interpolation that leaves one of two sizes as it was")
def interpolate_one_size(trial: Trial) -> Any:
    x = trial.floats(list(range(12))).reshape(1, 1, 3, 4)
    return trial.compile(lambda x: F.interpolate(x, scale_factor=(1.3, 1.5), mode="nearest"))(x)


@report("pytorch#175154", "nearest interpolation by a factor that changes no size")
def interpolate_no_size(trial: Trial) -> Any:
    return trial.compile(lambda x: F.interpolate(x, scale_factor=1.3, mode="nearest"))(trial.floats([[[[1.0, 2.0]]]]))


@report("executorch#11683", "add with alpha", sample=True)
def add_with_alpha(trial: Trial) -> Any:
    return trial.compile(lambda x, y: torch.add(x, y, alpha=10))(trial.randn(10), trial.randn(10))


@report("executorch#11684", "sub and rsub with alpha, also of numbers")
def sub_with_alpha(trial: Trial) -> Any:
    def step(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return torch.sub(x, y, alpha=10), torch.rsub(x, y, alpha=3), torch.sub(x, 2, alpha=7)

    return trial.compile(step)(trial.randn(10), trial.randn(10))


@report("TensorRT#4379", "linear on four dimensions, reshaped as attention heads")
def linear_on_windows(trial: Trial) -> Any:
    layer = trial.module(torch.nn.Linear(12, 36))

    def step(x: Tensor) -> Tensor:
        y = layer(x).reshape(x.shape[0], -1, 3, 2, 6).permute(2, 0, 3, 1, 4)
        return y[0] @ y[1].transpose(-1, -2)

    return trial.compile(step)(trial.randn(2, 3, 3, 12))


@report("TensorRT#1382", "int64 values that 32 bits do not hold are compared and indexed")
def int64_kept(trial: Trial) -> Any:
    x = torch.tensor([2**40, 2**40 + 1, 3])
    return trial.compile(lambda x: (x + 1, x == 2**40, (x % 7).float(), x.max()))(x)


@report("torch2trt#190", "inputs that are not contiguous: sliced, transposed, expanded")
def not_contiguous(trial: Trial) -> Any:
    compiled = trial.compile(lambda x, w: F.relu(x @ w) + 1)
    weight = trial.randn(4, 6).t()
    inputs = trial.randn(8, 12)[::2, ::2], trial.randn(6, 4).t(), trial.randn(1, 6).expand(5, 6)
    return [compiled(x, weight) for x in inputs]


@report("TensorRT#4624", "a float64 model stays float64")
def float64_model(trial: Trial) -> Any:
    model = trial.module(torch.nn.Linear(5, 3)).double()
    return trial.compile(model)(trial.randn(2, 5).double())


@report("pytorch#171493", "index_add_ to one row, then a division by the gathered sum")
def normalise_by_group(trial: Trial) -> Any:
    def step(x: Tensor, group: Tensor) -> Tensor:
        squares = x.square() + 0.0098765
        sums = torch.zeros((2, x.shape[1]), dtype=x.dtype).index_add_(0, group, squares)
        return squares / (sums[group] + 1e-6)

    return trial.compile(step)(trial.randn(64, 3), torch.randint(0, 2, (64,)))


@report("pytorch#174459", "sort without the argument stable, many equal elements")
def sort_of_equal(trial: Trial) -> Any:
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.ops.aten.sort(x, stable=None, dim=-1, descending=True)

    return trial.compile(step)(torch.randint(1, 3, (8, 5)))


@report("pytorch#159239", "rotary embedding of bfloat16 queries by float32 angles", exact=False)
def rotary_embedding(trial: Trial) -> Any:
    def step(q: Tensor, angle: Tensor) -> Tensor:
        cos, sin = angle.cos().bfloat16(), angle.sin().bfloat16()
        left, right = q.chunk(2, -1)
        return q * cos + torch.cat([-right, left], -1) * sin

    return trial.compile(step)(torch.randn(2, 5, 8).bfloat16(), torch.randn(5, 8))


@report("pytorch#143717", "an in-place true division of integers is refused")
def integer_division_in_place(trial: Trial) -> Any:
    return raised(trial.compile(lambda x: x.div_(2)), torch.tensor([4, 5]))


@report("pytorch#100025", "dropout with probability 1, in training and in evaluation")
def dropout_of_everything(trial: Trial) -> Any:
    x = trial.randn(3, 5)
    return [trial.compile(lambda x, on=on: F.dropout(x, 1.0, training=on))(x) for on in (True, False)]


@report("pytorch#137762", "scaled_dot_product_attention in bfloat16, reshaped and projected", exact=False)
def attention_in_bfloat16(trial: Trial) -> Any:
    projection = trial.module(torch.nn.Linear(8, 8)).bfloat16()

    def step(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return projection(F.scaled_dot_product_attention(q, k, v).permute(0, 2, 1, 3).reshape(2, 5, 8))

    with torch.no_grad():
        return trial.compile(step)(*(torch.randn(2, 2, 5, 4).bfloat16() for _ in range(3)))


@report("pytorch#188225", "softmax of NaN that constants give")
def softmax_of_nan(trial: Trial) -> Any:
    def step() -> Tensor:
        ones = torch.ones(2, 2)
        return torch.softmax(torch.arccosh(torch.log2(torch.atan2(ones, ones))), 1)

    return trial.compile(step)()


@report("pytorch#131910", "conversion of positive and negative floats to int8 and int16")
def floats_to_integers(trial: Trial) -> Any:
    x = trial.floats([-3.7, -0.5, 0.5, 99.9, 126.4])
    return trial.compile(lambda x: (x.to(torch.int8), x.short(), x.abs().byte()))(x)


@report("pytorch#99879", "minimum and its position after element-wise work")
def min_and_argmin(trial: Trial) -> Any:
    x = trial.randn(6, 9)
    return trial.compile(lambda x: ((x * 2).min(1), x.cos().argmin(0), x.flatten().argmin(), x.t().max(0)))(x)


@report("pytorch#194281", "a chain of Conv3d and nearest upsampling at odd sizes, called twice")
def conv3d_decoder(trial: Trial) -> Any:
    first, second = trial.module(torch.nn.Conv3d(2, 4, 3, padding=1)), trial.module(torch.nn.Conv3d(4, 2, 3, padding=1))

    def step(x: Tensor) -> Tensor:
        return second(F.interpolate(F.silu(first(x)), scale_factor=(1, 2, 2), mode="nearest"))

    x, compiled = trial.randn(1, 2, 3, 7, 5), trial.compile(step)
    with torch.no_grad():
        return compiled(x), compiled(x)


@report("pytorch#184026", "conv_transpose2d with output_padding: values and strides")
def transposed_convolution(trial: Trial) -> Any:
    x, weight = trial.randn(1, 4, 5, 5), trial.randn(4, 3, 3, 3)
    y = trial.compile(lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1))(x, weight)
    return y, tuple(y.stride())
