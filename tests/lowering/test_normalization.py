"""Layer, group, instance, RMS and batch norm: with and without affine, over layouts that fit and that do not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.lowering.lowering_cases import Call, Case, check

CHANNELS_LAST = torch.randn(2, 18, 5, 5).to(memory_format=torch.channels_last)


def rms_norm(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * scale


LAYER = {
    **{f"rows of {n}": Case(nn.LayerNorm(n), (3, n), commands={"reduce": 1}) for n in (2, 3, 10, 17, 58, 300)},
    "three dimensions": Case(nn.LayerNorm(17), (2, 5, 17), commands={"reduce": 1}),
    "four dimensions": Case(nn.LayerNorm(20), (2, 3, 4, 20), commands={"reduce": 1}),
    "over two dimensions": Case(nn.LayerNorm((5, 10)), (3, 5, 10), commands={"reduce": 1}),
    "over an image": Case(nn.LayerNorm((3, 5, 6)), (2, 3, 5, 6), commands={"reduce": 1}),
    "over everything": Case(nn.LayerNorm((5, 10)), (5, 10), commands={"reduce": 1}),
    "over a channels-last image": Case(nn.LayerNorm((18, 5, 5)), CHANNELS_LAST),
    "over the channels of an image": Case(lambda x: F.layer_norm(x.permute(0, 2, 3, 1), (18,)), (2, 18, 4, 4)),
    "ConvNeXt's way there and back": Case(
        Call(
            lambda x, w, b: F.layer_norm(x.permute(0, 2, 3, 1), (18,), w, b).permute(0, 3, 1, 2),
            w=torch.randn(18),
            b=torch.randn(18),
        ),
        CHANNELS_LAST,
    ),
    "no affine": Case(nn.LayerNorm(17, elementwise_affine=False), (4, 17), commands={"reduce": 1}),
    "no shift": Case(nn.LayerNorm(17, bias=False), (4, 17), commands={"reduce": 1}),
    "a large mean": Case(lambda x: F.layer_norm(x + 1000, (58,)), (3, 58)),
    "a large eps": Case(nn.LayerNorm(17, eps=0.5), (4, 17), commands={"reduce": 1}),
    "a transposed input": Case(nn.LayerNorm(9), torch.randn(9, 4).t()),
    "an expanded input": Case(lambda x: F.layer_norm(x.expand(4, 3, 17), (17,)), (4, 1, 17)),
    "padded rows": Case(nn.Sequential(nn.Linear(9, 17), nn.LayerNorm(17), nn.Linear(17, 9)), (2, 3, 9)),
    "scale and shift are inputs": Case(
        lambda x, w, b: F.layer_norm(x, (17,), w, b), (4, 17), (17,), (17,), commands={"reduce": 1, "pointwise": 2}
    ),
    "float64": Case(
        lambda x: F.layer_norm(x, (9,)), torch.randn(3, 9, dtype=torch.float64), offload=0.0, launches=0, why="float64"
    ),
}

GROUP = {
    "group norm": Case(nn.GroupNorm(3, 18), (2, 18, 5, 5), commands={"reduce": 1}),
    "group norm of odd groups": Case(nn.GroupNorm(2, 10), (3, 10, 4, 6), commands={"reduce": 1}),
    "group norm of one group": Case(nn.GroupNorm(1, 17), (2, 17, 5, 5), commands={"reduce": 1}),
    "group norm of one channel each": Case(nn.GroupNorm(17, 17), (2, 17, 5, 5), commands={"reduce": 1}),
    "group norm without affine": Case(nn.GroupNorm(3, 18, affine=False), (2, 18, 5, 5), commands={"reduce": 1}),
    "group norm of channels-last": Case(nn.GroupNorm(3, 18), CHANNELS_LAST),
    "group norm behind a convolution": Case(
        nn.Sequential(nn.Conv2d(3, 18, 3), nn.GroupNorm(3, 18), nn.ReLU(), nn.Conv2d(18, 4, 1)), (2, 3, 7, 7)
    ),
    "group norm of rows": Case(nn.GroupNorm(3, 18), (4, 18)),
    "group norm in one dimension": Case(nn.GroupNorm(3, 18), (2, 18, 7)),
    "group norm in three dimensions": Case(nn.GroupNorm(2, 6), (2, 6, 3, 4, 5)),
}

BATCH = {
    "not behind a convolution": Case(nn.BatchNorm2d(10), (2, 10, 5, 5), commands={"pointwise": 1}),
    "of a channels-last image": Case(nn.BatchNorm2d(18), CHANNELS_LAST, commands={"pointwise": 1}),
    "without affine": Case(nn.BatchNorm2d(17, affine=False), (2, 17, 5, 5), commands={"pointwise": 1}),
    "of rows": Case(nn.BatchNorm1d(17), (4, 17), commands={"pointwise": 1}),
    "in one dimension": Case(nn.BatchNorm1d(17), (2, 17, 6), commands={"pointwise": 1}),
    "in three dimensions": Case(nn.BatchNorm3d(5), (2, 5, 3, 4, 6), commands={"pointwise": 1}),
    "with an activation": Case(nn.Sequential(nn.BatchNorm2d(10), nn.ReLU()), (2, 10, 5, 5), commands={"pointwise": 1}),
    "between two convolutions that share nothing": Case(
        nn.Sequential(nn.Conv2d(3, 17, 3), nn.ReLU(), nn.BatchNorm2d(17), nn.ReLU(), nn.Conv2d(17, 4, 1)), (2, 3, 7, 7)
    ),
    "twice": Case(nn.Sequential(nn.BatchNorm2d(10), nn.BatchNorm2d(10)), (2, 10, 5, 5), commands={"pointwise": 1}),
}

OTHERS = {
    "instance norm": Case(nn.InstanceNorm2d(10), (2, 10, 5, 5), commands={"reduce": 1}),
    "instance norm with affine": Case(nn.InstanceNorm2d(17, affine=True), (2, 17, 4, 6), commands={"reduce": 1}),
    "instance norm of channels-last": Case(nn.InstanceNorm2d(18, affine=True), CHANNELS_LAST),
    "instance norm by running statistics": Case(
        nn.InstanceNorm2d(10, affine=True, track_running_stats=True), (2, 10, 5, 5), commands={"pointwise": 1}
    ),
    "instance norm in one dimension": Case(nn.InstanceNorm1d(10, affine=True), (3, 10, 7), commands={"reduce": 1}),
    "batch norm by the batch's statistics": Case(
        nn.BatchNorm2d(10, track_running_stats=False), (3, 10, 4, 4), commands={"reduce": 1}
    ),
    "RMS norm": Case(nn.RMSNorm(17), (2, 3, 17), commands={"reduce": 1}),
    "RMS norm by hand": Case(Call(rms_norm, scale=torch.randn(17)), (2, 3, 17), commands={"reduce": 1}),
    "RMS norm without a scale, over two dimensions": Case(
        nn.RMSNorm((5, 17), elementwise_affine=False), (3, 5, 17), commands={"reduce": 1}
    ),
    "RMS norm of channels": Case(
        lambda x: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 0.1), CHANNELS_LAST, commands={"reduce": 1}
    ),
    "a scale of another shape is multiplied by afterwards": Case(
        Call(rms_norm, scale=torch.randn(3, 1)), (2, 3, 17), commands={"reduce": 1, "pointwise": 1}
    ),
    "the square's mean is wanted too": Case(
        lambda x: (lambda m: (m, x * torch.rsqrt(m + 0.1)))(x.pow(2).mean(-1, keepdim=True)), (4, 17)
    ),
    "another factor than x": Case(lambda x, y: y * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1), (4, 17), (4, 17)),
}


@pytest.mark.parametrize("case", LAYER.values(), ids=LAYER)
def test_a_layer_norm_is_one_command(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", GROUP.values(), ids=GROUP)
def test_a_group_norm_splits_channels_without_a_copy(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", BATCH.values(), ids=BATCH)
def test_a_batch_norm_that_nothing_folds_is_a_scale_and_a_shift(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", OTHERS.values(), ids=OTHERS)
def test_other_norms(case: Case) -> None:
    check(case)
