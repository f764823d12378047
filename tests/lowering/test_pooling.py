"""Windows over images: maximum, average, adaptive; ReLU on either side; what asks for indices."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.lowering.lowering_cases import Case, check

ONE = {"pool": 1}

POOLS = {
    **{f"max over {c} channels": Case(nn.MaxPool2d(2), (2, c, 6, 8), commands=ONE) for c in (1, 3, 10, 17, 58)},
    "max with padding": Case(nn.MaxPool2d(3, 2, 1), (2, 10, 7, 7), commands=ONE),
    "max, everything asymmetric": Case(nn.MaxPool2d((3, 2), (1, 3), (1, 0), (2, 1)), (1, 17, 9, 9), commands=ONE),
    "max in ceil mode": Case(nn.MaxPool2d(3, 2, ceil_mode=True), (1, 3, 8, 8), commands=ONE),
    "max in ceil mode with padding": Case(nn.MaxPool2d(3, 2, 1, ceil_mode=True), (1, 3, 6, 7), commands=ONE),
    "max of negative numbers only": Case(lambda x: F.max_pool2d(-x.abs() - 1, 3, 2, 1), (1, 3, 7, 7)),
    "max of NaN": Case(
        nn.MaxPool2d(2), torch.tensor([[[[1.0, torch.nan, 3, 4], [5, 6, 7, -torch.inf]]]]), commands=ONE
    ),
    "average": Case(nn.AvgPool2d(2), (3, 17, 6, 6), commands=ONE),
    "average with padding counted": Case(nn.AvgPool2d(3, 2, 1), (1, 10, 7, 7), commands=ONE),
    "average without the padding": Case(nn.AvgPool2d(3, 2, 1, count_include_pad=False), (1, 10, 7, 7), commands=ONE),
    "average in ceil mode": Case(nn.AvgPool2d(3, 2, ceil_mode=True), (1, 10, 8, 8), commands=ONE),
    "average in ceil mode with padding": Case(nn.AvgPool2d(3, 2, 1, ceil_mode=True), (1, 10, 6, 6), commands=ONE),
    "average, ceil mode, padding not counted": Case(
        nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), (1, 3, 6, 6), commands=ONE
    ),
    "average with a divisor": Case(nn.AvgPool2d(2, divisor_override=3), (1, 10, 6, 6), commands=ONE),
    "average with a negative divisor": Case(
        nn.AvgPool2d(2, divisor_override=-2), (1, 3, 4, 4), offload=0.0, launches=0, why="negative divisor_override"
    ),
    "average, asymmetric": Case(nn.AvgPool2d((1, 3), (2, 1), (0, 1)), (2, 17, 5, 6), commands=ONE),
    "adaptive average to one": Case(nn.AdaptiveAvgPool2d(1), (2, 17, 5, 7)),
    "adaptive average of a channels-last image, between others": Case(
        nn.Sequential(nn.Conv2d(3, 17, 3), nn.AdaptiveAvgPool2d(1), nn.Conv2d(17, 4, 1)),
        torch.randn(2, 3, 8, 7).to(memory_format=torch.channels_last),
    ),
    "adaptive average to fewer": Case(nn.AdaptiveAvgPool2d((3, 2)), (2, 17, 7, 7), commands=ONE),
    "adaptive average to more": Case(nn.AdaptiveAvgPool2d((5, 7)), (1, 3, 3, 4), commands=ONE),
    "adaptive maximum": Case(nn.AdaptiveMaxPool2d((2, 3)), (2, 10, 5, 8), commands=ONE),
    "a slice of channels": Case(lambda x: F.max_pool2d(x[:, 3:], 2), (2, 20, 4, 4), commands=ONE),
    "channels-last": Case(
        nn.AvgPool2d(2), torch.randn(2, 10, 6, 6).to(memory_format=torch.channels_last), commands=ONE
    ),
    "in one dimension": Case(nn.MaxPool1d(2), (2, 10, 8), commands=ONE),
    "average in one dimension": Case(nn.AvgPool1d(3, 2, 1), (2, 10, 9), commands=ONE),
    "an image without batch": Case(nn.MaxPool2d(2), (10, 6, 6), commands=ONE),
    "with indices": Case(nn.MaxPool2d(2, return_indices=True), (1, 3, 4, 4), offload=0.0, launches=0, why="indices"),
    "float64": Case(
        nn.AvgPool2d(2), torch.randn(1, 3, 4, 4, dtype=torch.float64), offload=0.0, launches=0, why="float64"
    ),
}

VOLUMES = {
    "max": Case(nn.MaxPool3d(3, 2, 1), (2, 17, 5, 6, 7)),
    "max, everything asymmetric": Case(
        nn.MaxPool3d((3, 2, 1), (1, 2, 3), (1, 0, 0), (2, 1, 1), ceil_mode=True), (1, 3, 7, 5, 8)
    ),
    "average with padding counted": Case(nn.AvgPool3d(3, 2, 1, ceil_mode=True), (2, 10, 5, 6, 4)),
    "average without the padding": Case(nn.AvgPool3d((2, 3, 2), 2, 1, count_include_pad=False), (1, 10, 5, 5, 4)),
    "average with a divisor": Case(nn.AvgPool3d(2, divisor_override=3), (1, 10, 4, 4, 4)),
    "adaptive average": Case(nn.AdaptiveAvgPool3d((2, 3, 1)), (2, 10, 5, 4, 6)),
    "adaptive maximum": Case(nn.AdaptiveMaxPool3d((2, 1, 3)), (2, 10, 5, 4, 6)),
    "without batch, a slice of the depth": Case(lambda x: F.max_pool3d(x[:, ::2], 2), (10, 8, 4, 4)),
    "between convolutions": Case(
        nn.Sequential(nn.Conv3d(3, 17, 3), nn.MaxPool3d(2), nn.Conv3d(17, 4, 1)), (2, 3, 6, 6, 6)
    ),
}

MERGED = {
    "ReLU before max": Case(nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)), (2, 10, 6, 6), commands=ONE),
    "ReLU behind max": Case(nn.Sequential(nn.MaxPool2d(2), nn.ReLU()), (2, 10, 6, 6), commands=ONE),
    "SiLU behind average": Case(nn.Sequential(nn.AvgPool2d(2), nn.SiLU()), (2, 10, 6, 6), commands=ONE),
    "ReLU before and SiLU behind max": Case(nn.Sequential(nn.ReLU(), nn.MaxPool2d(2), nn.SiLU()), (1, 10, 6, 6)),
    "ReLU before average stays itself": Case(
        nn.Sequential(nn.ReLU(), nn.AvgPool2d(2)), (2, 10, 6, 6), commands={"pointwise": 1, "pool": 1}
    ),
    "a ReLU that others use stays itself": Case(
        lambda x: (lambda y: (y, F.max_pool2d(y, 2)))(F.relu(x)), (2, 10, 6, 6), commands={"pointwise": 1, "pool": 1}
    ),
    "convolution, ReLU and pool": Case(
        nn.Sequential(nn.Conv2d(3, 17, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(17, 5, 1)), (2, 3, 8, 8)
    ),
}


@pytest.mark.parametrize("case", POOLS.values(), ids=POOLS)
def test_windows_count_what_eager_counts(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", VOLUMES.values(), ids=VOLUMES)
def test_windows_over_volumes_are_those_over_slices_and_then_along_the_depth(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", MERGED.values(), ids=MERGED)
def test_a_relu_that_commutes_with_the_pool_is_part_of_it(case: Case) -> None:
    check(case)
