"""Reports on dynamic sizes, numbers that come from data, and on strides that results are promised to have."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from tests.reports.case import Kind, Trial, raised

Tensor = torch.Tensor

dynamic = Kind("dynamic shapes")
layout = Kind("strides")


@dynamic("pytorch#101014", "padding of a convolution that depends on whether a length is odd")
def padding_by_parity(trial: Trial) -> Any:
    kernel = trial.randn(1, 1, 4)

    def step(x: Tensor) -> Tensor:
        padding = math.ceil((kernel.shape[-1] + x.shape[-1] % 2) / 2) - 1
        return F.conv1d(x, kernel, padding=padding, stride=2)

    compiled = trial.compile(step, dynamic=True)
    return [compiled(trial.randn(1, 1, n)) for n in (17, 24, 25)]


@dynamic("pytorch#198064", "round(n, -1) of a size")
def rounded_size(trial: Trial) -> Any:
    compiled = trial.compile(lambda x: x * round(x.shape[0] * 5, -1), dynamic=True)
    return [compiled(torch.ones(n, dtype=trial.dtype)) for n in (4, 5, 7)]


@dynamic("pytorch#169602", "a tensor padded to a multiple of four by a negative remainder")
def padded_to_multiple(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        return F.pad(x, (0, 0, 0, -x.shape[0] % 4)).relu() * 100

    compiled = trial.compile(step, dynamic=True)
    return [compiled(trial.randn(n, 3)) for n in (10, 12, 5)]


@dynamic("pytorch#108067", "a number that is an argument becomes a tensor")
def tensors_of_number(trial: Trial) -> Any:
    compiled = trial.compile(lambda a: (a + torch.zeros(3), torch.full((3,), a), a - torch.zeros(3)), dynamic=True)
    return [compiled(number) for number in (5, 7, 2)]


@dynamic("pytorch#117461", "a size that is read from a tensor")
def size_from_data(trial: Trial) -> Any:
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = trial.compile(lambda n: torch.ones(n.item()).cumsum(0).sum())
        return [compiled(torch.tensor(n)) for n in (5, 8)]


@dynamic("pytorch#125307", "three sizes from a list in a tensor, joined and reshaped")
def sizes_from_list(trial: Trial) -> Any:
    def step(sizes: Tensor, x: Tensor) -> Tensor:
        a, b, width = sizes.tolist()
        torch._check(a >= 0)
        torch._check(b >= 0)
        torch._check(width >= 0)
        rows = torch.cat([torch.ones(a * width), torch.zeros(b * width)])
        return rows.view(a + b, width) + x

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        return raised(trial.compile(step), torch.tensor([3, 2, 4]), trial.randn(4))


@dynamic("TensorRT#2443", "indexing by a tensor while sizes are dynamic")
def index_while_dynamic(trial: Trial) -> Any:
    compiled = trial.compile(lambda x, i: F.relu(x[:, i]) * x.shape[0], dynamic=True)
    return [compiled(trial.randn(n, 6), torch.tensor([0, 5, -1])) for n in (3, 4, 6)]


@dynamic("TensorRT#3148", "a model called with another batch, then another width, then the first again")
def several_shapes(trial: Trial) -> Any:
    layer = trial.module(torch.nn.Conv2d(3, 4, 3))
    compiled = trial.compile(lambda x: F.relu(layer(x)).mean((2, 3)))
    with torch.no_grad():
        return [compiled(trial.randn(*shape)) for shape in ((1, 3, 8, 8), (2, 3, 8, 8), (2, 3, 9, 7), (1, 3, 8, 8))]


@dynamic("pytorch#97877", "a power of a size with a fractional exponent as a scale")
def fractional_power_of_size(trial: Trial) -> Any:
    compiled = trial.compile(lambda x: x.softmax(-1) * x.shape[-1] ** -0.5, dynamic=True)
    return [compiled(trial.randn(2, n)) for n in (4, 9)]


@layout("pytorch#174963", "as_strided behind a roll of a channels-last tensor")
def as_strided_of_channels_last(trial: Trial) -> Any:
    x = torch.arange(100, dtype=trial.dtype).reshape(2, 5, 2, 5).to(memory_format=torch.channels_last)
    return trial.compile(lambda x: torch.as_strided(torch.roll(x, -1, 0), (5, 10), (4, 1), 0))(x)


@layout("pytorch#198364", "strides of copysign, floor_divide, addr and put for a transposed input")
def strides_for_transposed(trial: Trial) -> Any:
    a, b = trial.randn(6, 5).abs().mT, trial.randn(5, 6).abs() + 1
    results = []
    for step in (
        lambda a, b: torch.copysign(a, b - 1.5),
        lambda a, b: torch.floor_divide(a, b),
        lambda a, b: torch.div(a, b, rounding_mode="floor"),
        lambda a, b: torch.addr(a, b[:, 0], b[0], beta=0.0),
        lambda a, b: a.put(torch.tensor([0, 7]), b[0, :2]),
    ):
        y = trial.compile(step)(a, b)
        results.append((y, tuple(y.stride())))
    return results


@layout("pytorch#183771", "strides of nearest interpolation for an input that is not contiguous")
def strides_of_interpolation(trial: Trial) -> Any:
    x = trial.randn(2, 2, 5, 6, 2).permute(0, 4, 2, 3, 1)[..., :3, :]
    y = trial.compile(lambda x: F.interpolate(x, size=(5, 6, 7), mode="nearest"))(x)
    return y, tuple(y.stride())


@layout("pytorch#197431", "as_strided of a strided slice with the base's strides")
def as_strided_of_slice(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        whole = x.repeat((3, 4))
        return torch.as_strided(whole[:, ::2], (3, 2), whole.stride()) + 0

    return trial.compile(step)(trial.randn(1, 1))


@layout("pytorch#142118", "strides of a column of a clone that masked_fill_ changes", sample=True)
def stride_of_filled_column(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        y = x.clone()[:, 1]
        y.masked_fill_(torch.ones_like(y, dtype=torch.bool), 0)
        return y

    y = trial.compile(step)(trial.randn(4, 4))
    return y, tuple(y.stride())
