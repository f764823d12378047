"""Convolutions of every shape, with everything that one command may do behind them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.lowering.lowering_cases import Call, Case, check


class Residual(nn.Module):
    """conv + other, or other + conv, with an activation behind the sum."""

    def __init__(self, channels: int, *, conv_first: bool, activation: nn.Module, norm: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=not norm)
        self.norm = nn.BatchNorm2d(channels) if norm else nn.Identity()
        self.activation = activation
        self.conv_first = conv_first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x))
        return self.activation(y + x if self.conv_first else x + y)


def conv_bn(*args: Any, activation: nn.Module | None = None, **kwargs: Any) -> nn.Sequential:
    conv = nn.Conv2d(*args, **kwargs, bias=False)  # type: ignore[misc]
    return nn.Sequential(conv, nn.BatchNorm2d(conv.out_channels), activation or nn.Identity())


def plus_per_channel(x: torch.Tensor, weight: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return F.conv2d(x, weight, padding=1) + shift


def weights_from_a_function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.conv2d(x, torch.tanh(weight) * 0.5, padding=1)


ONE = {"conv2d": 1}

SHAPES = {
    **{
        f"{i} to {o} channels": Case(nn.Conv2d(i, o, 3, padding=1), (1, i, 7, 9))
        for i, o in ((1, 1), (1, 10), (3, 17), (10, 3), (10, 58), (17, 10), (58, 1), (58, 17), (16, 80))
    },
    **{f"a batch of {n}": Case(nn.Conv2d(3, 20, 3), (n, 3, 8, 8)) for n in (1, 2, 3)},
    "1x1 as a matrix product": Case(nn.Conv2d(17, 58, 1), (2, 17, 5, 6)),
    "1x1 with a stride": Case(nn.Conv2d(17, 58, 1, stride=2), (2, 17, 5, 6)),
    "1x1 with padding": Case(nn.Conv2d(8, 24, 1, padding=1), (1, 8, 4, 4)),
    "one pixel": Case(nn.Conv2d(20, 30, 1), (3, 20, 1, 1)),
    "a kernel as large as the image": Case(nn.Conv2d(4, 18, (5, 6)), (2, 4, 5, 6)),
    "everything asymmetric": Case(
        nn.Conv2d(5, 18, (3, 5), stride=(2, 1), padding=(0, 3), dilation=(2, 1)), (2, 5, 11, 9)
    ),
    "a column kernel": Case(nn.Conv2d(6, 10, (5, 1), padding=(2, 0)), (1, 6, 9, 3)),
    "a row kernel": Case(nn.Conv2d(6, 10, (1, 7), padding=(0, 3)), (1, 6, 3, 9)),
    "padding wider than the kernel's reach": Case(nn.Conv2d(3, 16, 2, padding=3), (1, 3, 4, 4)),
    "padding 'same'": Case(nn.Conv2d(3, 16, 4, padding="same"), (1, 3, 6, 6)),
    "stride beyond the kernel": Case(nn.Conv2d(4, 16, 2, stride=5), (1, 4, 12, 12)),
    "no bias": Case(nn.Conv2d(3, 17, 3, bias=False), (1, 3, 6, 6)),
    "channels-last input": Case(nn.Conv2d(10, 20, 3), torch.randn(2, 10, 6, 6).to(memory_format=torch.channels_last)),
    "transposed input": Case(nn.Conv2d(3, 16, 3), torch.randn(1, 3, 9, 6).transpose(2, 3)),
    "an input that is a slice": Case(nn.Conv2d(5, 16, 3), torch.randn(2, 9, 6, 6)[:, 2:7]),
    "every second column": Case(lambda x, w: F.conv2d(x[:, :, :, ::2], w), (1, 3, 6, 12), (16, 3, 3, 3)),
    "an image without batch": Case(nn.Conv2d(3, 16, 3), (3, 8, 8)),
    "one dimension": Case(nn.Conv1d(5, 18, 3, padding=1), (2, 5, 20)),
    "one dimension with everything": Case(nn.Conv1d(6, 20, 5, stride=3, padding=4, dilation=2, groups=2), (3, 6, 33)),
    "more products than the table of offsets holds": Case(nn.Conv2d(2048, 1, 3, bias=False), (1, 2048, 3, 3)),
    "one dimension, depthwise": Case(nn.Conv1d(18, 18, 3, padding=1, groups=18), (2, 18, 12)),
}

TRANSPOSED = {
    "doubled, no overlap": Case(nn.ConvTranspose2d(9, 20, 2, stride=2), (2, 9, 4, 5), commands={"conv2d": 4}),
    "stride 1 is one convolution": Case(nn.ConvTranspose2d(5, 18, 3, padding=1), (1, 5, 6, 7), commands={"conv2d": 1}),
    "everything asymmetric": Case(
        nn.ConvTranspose2d(6, 10, (3, 5), stride=(2, 3), padding=(0, 2), output_padding=(1, 2), groups=2), (2, 6, 4, 3)
    ),
    "dilation that shares a factor with the stride": Case(
        nn.ConvTranspose2d(3, 17, 3, stride=4, dilation=2, output_padding=3), (1, 3, 3, 3)
    ),
    "a stride beyond the kernel leaves the bias, whatever the input": Case(
        nn.ConvTranspose2d(3, 7, 2, stride=5, output_padding=4), torch.full((1, 3, 2, 2), torch.inf)
    ),
    "cropped more than the kernel reaches": Case(nn.ConvTranspose2d(3, 8, 2, stride=2, padding=3), (1, 3, 6, 6)),
    "depthwise": Case(
        nn.ConvTranspose2d(18, 18, 4, stride=2, padding=1, groups=18), (1, 18, 5, 5), commands={"depthwise": 4}
    ),
    "one dimension": Case(nn.ConvTranspose1d(5, 18, 4, stride=2, padding=1), (2, 5, 9)),
    "with everything behind it": Case(
        Call(
            lambda x, y, w, mean, var: F.relu(
                F.batch_norm(F.conv_transpose2d(x, w, stride=2), mean, var, eps=0.1) + y
            ),
            w=torch.randn(5, 17, 2, 2), mean=torch.randn(17), var=torch.rand(17),
        ),
        (2, 5, 4, 4), (2, 17, 8, 8), commands={"conv2d": 4},
    ),
}  # fmt: skip

VOLUMES = {
    "3x3x3": Case(nn.Conv3d(3, 18, 3, padding=1), (2, 3, 4, 5, 6), commands={"conv2d": 1}),
    "everything asymmetric": Case(
        nn.Conv3d(4, 6, (3, 2, 1), stride=(2, 1, 3), padding=(3, 0, 1), dilation=(1, 2, 1), groups=2), (2, 4, 5, 6, 7)
    ),
    "deep only, no copy": Case(nn.Conv3d(16, 18, (3, 1, 1), padding=(1, 0, 0)), (2, 16, 5, 3, 4)),
    "flat, every second slice of a batch": Case(
        nn.Conv3d(16, 18, (1, 3, 3), stride=(2, 1, 1)), (2, 16, 5, 4, 4), commands={"conv2d": 2}
    ),
    "depthwise and flat": Case(nn.Conv3d(16, 16, (1, 3, 3), groups=16), (1, 16, 3, 4, 4), commands={"depthwise": 1}),
    "as a product of matrices": Case(nn.Conv3d(16, 18, 1), (2, 16, 3, 2, 2), commands={"gemm": 1}),
    "with everything behind it": Case(
        Call(
            lambda x, y, w, mean, var: F.relu(F.batch_norm(F.conv3d(x, w), mean, var, eps=0.1) + y),
            w=torch.randn(17, 3, 2, 2, 2), mean=torch.randn(17), var=torch.rand(17),
        ),
        (2, 3, 4, 4, 4), (2, 17, 3, 3, 3), commands={"conv2d": 1},
    ),
    "transposed": Case(
        nn.ConvTranspose3d(4, 6, (3, 2, 3), stride=(2, 2, 1), padding=(1, 0, 1), groups=2), (2, 4, 3, 3, 4)
    ),
    "transposed along the depth only": Case(nn.ConvTranspose3d(4, 6, (2, 1, 1), stride=(2, 1, 1)), (1, 4, 3, 3, 4)),
}  # fmt: skip

GROUPS = {
    "whole vectors in each group": Case(nn.Conv2d(12, 32, 3, groups=2), (2, 12, 6, 6), commands=ONE),
    "groups of 8 channels": Case(nn.Conv2d(12, 32, 3, groups=4, padding=1), (1, 12, 6, 6), commands=ONE),
    "groups of 5 channels": Case(nn.Conv2d(9, 15, 3, groups=3), (2, 9, 6, 6), commands=ONE),
    "groups of one input channel": Case(nn.Conv2d(6, 18, 3, groups=6), (2, 6, 7, 7), commands=ONE),
    "depthwise": Case(nn.Conv2d(17, 17, 3, padding=1, groups=17), (2, 17, 7, 9)),
    "depthwise with a stride": Case(nn.Conv2d(32, 32, 5, stride=2, padding=2, groups=32), (1, 32, 9, 9)),
    "depthwise with dilation": Case(nn.Conv2d(10, 10, 3, dilation=2, groups=10), (1, 10, 9, 9)),
    "depthwise asymmetric": Case(nn.Conv2d(20, 20, (1, 3), stride=(1, 2), padding=(1, 0), groups=20), (3, 20, 4, 8)),
    "grouped 1x1": Case(nn.Conv2d(24, 48, 1, groups=3), (2, 24, 4, 4)),
    "folded batch norm in groups": Case(
        conv_bn(12, 24, 3, groups=4, activation=nn.ReLU()), (1, 12, 6, 6), commands=ONE
    ),
    "folded batch norm behind depthwise": Case(
        conv_bn(18, 18, 3, groups=18, activation=nn.ReLU6()),
        torch.randn(1, 18, 6, 6).to(memory_format=torch.channels_last),
        commands={"depthwise": 1},
    ),
}

ACTIVATIONS = {
    type(a).__name__ + (str(i) if i else ""): Case(conv_bn(3, 20, 3, activation=a), (1, 3, 8, 8))
    for i, a in enumerate(
        (
            nn.ReLU(),
            nn.ReLU6(),
            nn.SiLU(),
            nn.GELU(),
            nn.GELU(approximate="tanh"),
            nn.LeakyReLU(0.2),
            nn.Sigmoid(),
            nn.Tanh(),
            nn.Hardswish(),
            nn.Hardsigmoid(),
            nn.ELU(0.7),
            nn.Hardtanh(-0.3, 0.4),
        )
    )
}

EPILOGUES = {
    "conv + x": Case(Residual(17, conv_first=True, activation=nn.ReLU()), (2, 17, 6, 6)),
    "x + conv": Case(Residual(17, conv_first=False, activation=nn.ReLU()), (2, 17, 6, 6)),
    "conv + x without norm": Case(Residual(16, conv_first=True, activation=nn.SiLU(), norm=False), (1, 16, 6, 6)),
    "x + conv with leaky ReLU": Case(Residual(10, conv_first=False, activation=nn.LeakyReLU(0.3)), (1, 10, 6, 6)),
    "a parameter for each channel is added": Case(
        Call(plus_per_channel, weight=torch.randn(18, 3, 3, 3), shift=torch.randn(18, 1, 1)), (2, 3, 6, 6)
    ),
    "a whole image is added": Case(
        Call(lambda x, w, y: F.relu(F.conv2d(x, w) + y), w=torch.randn(18, 3, 3, 3), y=torch.randn(2, 18, 4, 4)),
        (2, 3, 6, 6),
    ),
    "a broadcast input is added": Case(
        Call(lambda x, y, w: F.relu(F.conv2d(x, w) + y), w=torch.randn(18, 3, 3, 3)), (2, 3, 6, 6), (2, 18, 1, 1)
    ),
    "an expanded input is added": Case(
        Call(lambda x, y, w: F.conv2d(x, w) + y.expand(2, 18, 4, 4), w=torch.randn(18, 3, 3, 3)),
        (2, 3, 6, 6),
        (1, 18, 1, 1),
    ),
    "a number is added": Case(Call(lambda x, w: F.conv2d(x, w) + 1.5, w=torch.randn(18, 3, 3, 3)), (1, 3, 6, 6)),
    "alpha in the addition": Case(
        Call(lambda x, y, w: torch.add(F.conv2d(x, w), y, alpha=0.5), w=torch.randn(18, 3, 3, 3)),
        (1, 3, 6, 6),
        (1, 18, 4, 4),
    ),
    "added to itself": Case(
        Call(lambda x, w: (lambda y: F.relu(y + y))(F.conv2d(x, w)), w=torch.randn(18, 3, 3, 3)), (1, 3, 6, 6)
    ),
    "two convolutions added": Case(
        Call(
            lambda x, v, w: F.relu(F.conv2d(x, v) + F.conv2d(x, w)),
            v=torch.randn(20, 3, 3, 3),
            w=torch.randn(20, 3, 3, 3),
        ),
        (2, 3, 6, 6),
        commands={"conv2d": 2},
    ),
    "used before the activation too": Case(
        Call(lambda x, w: (lambda y: (y, F.relu(y)))(F.conv2d(x, w)), w=torch.randn(18, 3, 3, 3)), (1, 3, 6, 6)
    ),
    "the residual has strides of NCHW": Case(
        Call(lambda x, y, w: F.conv2d(x, w) + y, w=torch.randn(10, 3, 3, 3)), (1, 3, 6, 6), (1, 10, 4, 4)
    ),
    "a residual of the last columns of a slice": Case(
        Call(lambda x, y, w: F.conv2d(x, w) + y[:, 5:], w=torch.randn(10, 3, 3, 3)),
        (1, 3, 6, 6),
        torch.randn(1, 15, 4, 4).to(memory_format=torch.channels_last),
    ),
    "depthwise with residual": Case(
        Call(lambda x, w: F.relu(F.conv2d(x, w, padding=1, groups=18) + x), w=torch.randn(18, 1, 3, 3)), (2, 18, 6, 6)
    ),
    "batch norm without affine": Case(
        nn.Sequential(nn.Conv2d(3, 17, 3), nn.BatchNorm2d(17, affine=False), nn.ReLU()), (1, 3, 6, 6)
    ),
    "batch norm in one dimension": Case(
        nn.Sequential(nn.Conv1d(3, 17, 3), nn.BatchNorm1d(17), nn.ReLU()), (2, 3, 9), commands={"conv2d": 1}
    ),
    "a deep chain": Case(
        nn.Sequential(
            conv_bn(3, 24, 3, activation=nn.ReLU()),
            conv_bn(24, 40, 1, activation=nn.ReLU6()),
            conv_bn(40, 40, 3, groups=40, padding=1, activation=nn.SiLU()),
            nn.Conv2d(40, 7, 2),
        ),
        (2, 3, 9, 9),
    ),
}

WEIGHTS = {
    "the weight is an input": Case(lambda x, w: F.conv2d(x, w, padding=1), (2, 3, 6, 6), (18, 3, 3, 3)),
    "weight and bias are inputs": Case(lambda x, w, b: F.conv2d(x, w, b), (2, 3, 6, 6), (18, 3, 3, 3), (18,)),
    "a weight seen through views": Case(lambda x, w: F.conv2d(x, w.view(18, 3, 3, 3)), (1, 3, 6, 6), (18, 27)),
    "a weight that is a function of a parameter": Case(
        Call(weights_from_a_function, weight=torch.randn(18, 3, 3, 3)), (1, 3, 6, 6), commands={"conv2d": 1}
    ),
    "a weight computed in the graph stays on the PS": Case(
        lambda x, w: F.conv2d(x, torch.tanh(w)), (1, 3, 6, 6), (18, 3, 3, 3), offload=1 / 2, why="computed in the graph"
    ),
    "float64 stays on the PS": Case(
        lambda x, w: F.conv2d(x, w),
        torch.randn(1, 3, 6, 6, dtype=torch.float64),
        torch.randn(8, 3, 3, 3, dtype=torch.float64),
        offload=0.0,
        launches=0,
        why="float64",
    ),
}


@pytest.mark.parametrize("case", SHAPES.values(), ids=SHAPES)
def test_a_convolution_of_any_geometry_is_one_launch(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", TRANSPOSED.values(), ids=TRANSPOSED)
def test_a_transposed_convolution_is_a_plain_one_for_each_phase_of_its_strides(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", VOLUMES.values(), ids=VOLUMES)
def test_a_convolution_over_three_dimensions_is_one_over_images(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", GROUPS.values(), ids=GROUPS)
def test_groups_fill_whole_vectors(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_an_activation_is_part_of_the_command(case: Case) -> None:
    report = check(case)
    assert report.graphs[0].opcodes["conv2d"] == 1
    assert "pointwise" not in report.graphs[0].opcodes


@pytest.mark.parametrize("case", EPILOGUES.values(), ids=EPILOGUES)
def test_what_follows_a_convolution_is_right_in_and_out_of_its_epilogue(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", WEIGHTS.values(), ids=WEIGHTS)
def test_weights_come_from_anywhere_but_the_graph_itself(case: Case) -> None:
    check(case)
