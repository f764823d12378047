"""Concatenation, stacking, padding, flipping, repeating, scattering into slices: copies, or none at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fpga_dynamo
from tests.lowering.lowering_cases import Call, Case, check


class Branches(nn.Module):
    """Convolutions of one input, concatenated along channels: an Inception block."""

    def __init__(self, *widths: int, tail: nn.Module | None = None) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(3, width, 3, padding=1) for width in widths)
        self.tail = tail or nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tail(torch.cat([F.relu(conv(x)) for conv in self.convs], 1))


class Dense(nn.Module):
    """Each convolution sees all that came before it: a DenseNet block."""

    def __init__(self, start: int, growth: int, layers: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(start + i * growth, growth, 3, padding=1) for i in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv in self.convs:
            x = torch.cat([x, F.relu(conv(x))], 1)
        return x


class NestedCat(nn.Module):
    def __init__(self, a: int, b: int, c: int, *, return_inner: bool = False) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(3, width, 1) for width in (a, b, c))
        self.return_inner = return_inner

    def forward(self, x: torch.Tensor) -> object:
        p, q, r = (conv(x) for conv in self.convs)
        inner = torch.cat([p, q], 1)
        outer = torch.cat([inner, r], 1)
        return (inner, outer) if self.return_inner else outer


def shuffled(x: torch.Tensor) -> torch.Tensor:
    """ShuffleNet's channel shuffle."""
    batch, channels, height, width = x.shape
    return x.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, channels, height, width)


class ShuffleUnit(nn.Module):
    """ShuffleNet's unit: half of the channels through convolutions, and all shuffled; `again` of them."""

    def __init__(self, channels: int, groups: int = 2, again: int = 2) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3)
        self.units = nn.ModuleList(nn.Conv2d(channels // 2, channels // 2, 1) for _ in range(again))
        self.groups = groups

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for unit in self.units:
            kept, changed = x.chunk(2, 1)
            x = torch.cat([kept, F.relu(unit(changed))], 1)
            batch, channels, height, width = x.shape
            x = x.view(batch, self.groups, channels // self.groups, height, width).transpose(1, 2).reshape(x.shape)
        return F.relu(x).mean((2, 3))


CHANNELS_LAST = torch.randn(2, 18, 4, 5).to(memory_format=torch.channels_last)

CAT = {
    "aligned channels are written in place": Case(
        Branches(16, 32, 10, tail=nn.Conv2d(58, 5, 1)), (2, 3, 6, 6), commands={"conv2d": 3, "gemm": 1}
    ),
    "unaligned channels": Case(Branches(10, 17, 3, tail=nn.Conv2d(30, 5, 1)), (2, 3, 6, 6)),
    "the last part alone is unaligned": Case(Branches(32, 17), (1, 3, 6, 6)),
    "one part": Case(Branches(17), (1, 3, 6, 6)),
    "a dense block": Case(Dense(16, 16, 3), (1, 16, 5, 5)),
    "a dense block of odd widths": Case(Dense(10, 12, 3), (2, 10, 5, 5)),
    "nested, aligned": Case(NestedCat(16, 16, 16), (2, 3, 5, 5)),
    "nested, unaligned": Case(NestedCat(10, 6, 17), (2, 3, 5, 5)),
    "nested, inner one returned too": Case(NestedCat(16, 32, 10, return_inner=True), (2, 3, 5, 5)),
    "a part is an output too": Case(
        Call(lambda x, w: (lambda y: (y, torch.cat([y, x], 1)))(F.conv2d(x, w)), w=torch.randn(16, 16, 1, 1)),
        (2, 16, 4, 4),
    ),
    "a part has another user": Case(
        Call(lambda x, w: (lambda y: torch.cat([y, y * 2], 1))(F.conv2d(x, w)), w=torch.randn(16, 3, 1, 1)),
        (2, 3, 4, 4),
    ),
    "a part twice": Case(
        Call(lambda x, w: (lambda y: torch.cat([y, y], 1))(F.conv2d(x, w)), w=torch.randn(16, 3, 1, 1)), (2, 3, 4, 4)
    ),
    "a part in two concatenations": Case(
        Call(
            lambda x, v, w: (lambda y, z: torch.cat([torch.cat([y, z], 1), torch.cat([z, y], 1)], 1))(
                F.conv2d(x, v), F.conv2d(x, w)
            ),
            v=torch.randn(16, 3, 1, 1),
            w=torch.randn(16, 3, 1, 1),
        ),
        (2, 3, 4, 4),
    ),
    "pools and resized images in place": Case(
        lambda x: torch.cat([F.max_pool2d(x, 3, 1, 1), F.interpolate(x[:, :, :2, :2], size=(4, 4)), x.relu()], 1),
        (2, 16, 4, 4),
    ),
    "an input as a part": Case(lambda x: torch.cat([x, x.relu()], 1), (2, 16, 4, 4)),
    "along the batch": Case(Call(lambda x, w: torch.cat([F.conv2d(x, w), x]), w=torch.randn(3, 3, 1, 1)), (2, 3, 4, 4)),
    "along rows of an image": Case(lambda x, y: torch.cat([x, y], 2), (2, 17, 3, 4), (2, 17, 5, 4)),
    "along columns of an image": Case(lambda x, y: torch.cat([x, y], 3), (2, 17, 4, 3), (2, 17, 4, 5)),
    "of matrices": Case(lambda x, y: torch.cat([x, y], 1), (3, 17), (3, 10)),
    "of matrices along rows": Case(lambda x, y: torch.cat([x, y]), (3, 17), (2, 17)),
    "a negative dimension": Case(lambda x, y: torch.cat([x, y], -2), (3, 2, 5), (3, 4, 5)),
    "of many": Case(lambda x: torch.cat([x * i for i in range(12)], 1), (2, 3)),
    "of both layouts": Case(lambda x, y: torch.cat([x, y], 1), (2, 16, 4, 5), CHANNELS_LAST),
    "with a parameter": Case(Call(lambda x, w: torch.cat([w.expand(2, -1), x], 1), w=torch.randn(1, 5)), (2, 17)),
    "of slices": Case(lambda x: torch.cat([x[:, 5:], x[:, :5]], 1), (2, 17, 3, 3)),
    "a slice of the result": Case(lambda x, y: torch.cat([x, y], 1)[:, 5:20], (2, 16, 3, 3), (2, 16, 3, 3)),
    "channels shuffled": Case(lambda x: shuffled(x).relu(), (2, 20, 3, 3)),
    "halves shuffled, as in ShuffleNet": Case(
        Call(
            lambda x, w: shuffled(torch.cat([x.chunk(2, 1)[0], F.relu(F.conv2d(x.chunk(2, 1)[1], w))], 1)),
            w=torch.randn(29, 29, 1, 1),
        ),
        (2, 58, 4, 4),
    ),
    "of integers": Case(lambda x, y: torch.cat([x, y]), torch.arange(5), torch.arange(3)),
    "of bools": Case(lambda x, y: torch.cat([x > 0, y > 0]), (3, 4), (2, 4)),
    "of integers and floats stays on the PS": Case(
        lambda x, y: torch.cat([x, y]), torch.arange(5), (3,), offload=0.0, launches=0, why="int64 to torch.float32"
    ),
    "stack": Case(lambda x, y: torch.stack([x, y], 1), (3, 17), (3, 17)),
    "stack at the end": Case(lambda x, y: torch.stack([x, y], -1), (3, 4, 5), (3, 4, 5)),
    "stack of scalars": Case(lambda x: torch.stack([x.sum(), x.mean()]), (3, 4)),
}

OTHERS = {
    "pad an image": Case(lambda x: F.pad(x, (1, 2, 3, 0)), (2, 17, 4, 5)),
    "pad with a number": Case(lambda x: F.pad(x, (1, 1), value=-2.5), (3, 10)),
    "pad with -inf": Case(lambda x: F.pad(x, (0, 1), value=-torch.inf), (3, 10)),
    "pad channels": Case(lambda x: F.pad(x, (0, 0, 0, 0, 1, 2)), CHANNELS_LAST),
    "pad the batch": Case(lambda x: F.pad(x, (0, 0, 0, 0, 0, 0, 0, 1)), (2, 3, 4, 5)),
    "pad in front of a convolution": Case(
        nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(3, 16, 3, stride=2)), (2, 3, 8, 8)
    ),
    "pad a slice": Case(lambda x: F.pad(x[:, 1:4, ::2], (1, 1)), (2, 5, 6)),
    "pad integers": Case(lambda x: F.pad(x, (1, 1), value=7), torch.arange(5)),
    "pad integers with a negative number": Case(lambda x: F.pad(x, (1, 1), value=-8388607), torch.arange(5)),
    "pad bools": Case(lambda x: F.pad(x > 0, (1, 2), value=True), (3, 4)),
    "pad integers with a number beyond int32 stays on the PS": Case(
        lambda x: F.pad(x, (1, 1), value=1 << 40),
        torch.arange(5),
        offload=0.0,
        launches=0,
        why="fill value is out of range",
    ),
    "flip": Case(lambda x: x.flip(1), (3, 17)),
    "flip an image": Case(lambda x: x.flip((2, 3)), (2, 17, 4, 5)),
    "flip channels": Case(lambda x: x.flip(1), CHANNELS_LAST),
    "flip everything": Case(lambda x: x.flip((0, 1, 2)), (2, 3, 17)),
    "flip twice": Case(lambda x: x.flip(0).flip(0), (5, 3)),
    "flip a slice": Case(lambda x: x[1:, ::2].flip((0, -1)), (4, 9)),
    "repeat": Case(lambda x: x.repeat(2, 3), (3, 5)),
    "repeat into more dimensions": Case(lambda x: x.repeat(2, 1, 3), (3, 5)),
    "repeat an image": Case(lambda x: x.repeat(1, 2, 2, 1), CHANNELS_LAST),
    "repeat a slice": Case(lambda x: x[:, ::2].repeat(2, 2), (3, 9)),
    "write into a slice": Case(lambda x, y: torch.slice_scatter(x, y, 1, 2, 8, 2), (4, 10), (4, 3)),
    "write into a slice from behind": Case(lambda x, y: torch.slice_scatter(x, y, 0, -2), (4, 10), (2, 10)),
    "write into a row": Case(lambda x, y: torch.select_scatter(x, y, 0, -1), (4, 10), (10,)),
    "write into a channel": Case(lambda x, y: torch.select_scatter(x, y, 1, 3), CHANNELS_LAST, (2, 4, 5)),
    "write into a slice of a new tensor": Case(lambda x, y: torch.slice_scatter(x * 2, y + 1, 1, 0, 3), (2, 5), (2, 3)),
    "float64 stays on the PS": Case(
        lambda x: x.flip(0), torch.randn(3, 2, dtype=torch.float64), offload=0.0, launches=0, why="float64"
    ),
}


@pytest.mark.parametrize("case", CAT.values(), ids=CAT)
def test_concatenation_of_anything(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", OTHERS.values(), ids=OTHERS)
def test_copies_of_anything(case: Case) -> None:
    check(case)


def test_memory_that_was_never_written_does_not_fail_a_launch_of_integers() -> None:
    def padded(x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, (2, 1), mode="circular")

    x, before = torch.arange(12).reshape(2, 2, 3), fpga_dynamo.stats()
    torch.use_deterministic_algorithms(True)  # fills what is uninitialised, with the largest number
    try:
        answer = torch.compile(padded, backend="fpga", options={"partition": "greedy"})(x)
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(answer, padded(x))
    after = fpga_dynamo.stats()
    assert after["pl_launches"] > before["pl_launches"] and after["ps_fallbacks"] == before["ps_fallbacks"]


def test_aligned_branches_copy_no_activation() -> None:
    report = check(Case(Branches(16, 32, 16, tail=nn.Conv2d(64, 20, 1)), (1, 3, 6, 6)))
    assert report.graphs[0].opcodes.get("move", 0) == 1, "only the result is copied, into eager mode's strides"


SHUFFLES = {
    "two groups": ShuffleUnit(20),
    "whole vectors": ShuffleUnit(64),
    "ShuffleNet's width": ShuffleUnit(116, again=1),
    "four groups": ShuffleUnit(40, groups=4),
}


@pytest.mark.parametrize("model", SHUFFLES.values(), ids=SHUFFLES)
def test_a_shuffle_copies_each_part_once(model: ShuffleUnit) -> None:
    report = check(Case(model, (1, 3, 6, 7))).graphs[0]
    assert report.layout_changes == 0, f"{report}"
    assert report.opcodes["move"] == 2 * len(model.units), f"{report}"


def test_shuffles_of_several_images() -> None:
    check(Case(ShuffleUnit(20, groups=4), (2, 3, 6, 7)))


def test_parts_that_do_not_make_whole_groups_are_put_together_first() -> None:
    check(Case(lambda a, b: shuffled(torch.cat([a.relu(), b.relu()], 1)).relu(), (2, 12, 3, 3), (2, 8, 3, 3)))


def test_a_concatenation_that_others_read_is_no_shuffle() -> None:
    def both(a: torch.Tensor, b: torch.Tensor) -> object:
        joined = torch.cat([a.relu(), b.relu()], 1)
        return joined, shuffled(joined)

    check(Case(both, (2, 10, 3, 3), (2, 10, 3, 3)))


@pytest.mark.parametrize(
    "model",
    [
        lambda a, b: F.max_pool2d(torch.cat([a.relu(), b.relu()], 1), 2),
        lambda a, b: F.max_pool3d(torch.cat([a, b], 1).view(2, 2, 6, 4, 4).transpose(1, 2), 2),
    ],
    ids=["instead of the grouping", "instead of the flattening"],
)
def test_a_pooling_with_two_results_ends_no_shuffle(model: Callable[..., torch.Tensor]) -> None:
    check(Case(model, (2, 6, 4, 4), (2, 6, 4, 4)))


def test_a_shuffle_that_is_the_result() -> None:
    check(Case(lambda a, b: shuffled(torch.cat([a.relu(), b.relu()], 1)), (2, 10, 3, 3), (2, 10, 3, 3)))


def test_a_shuffled_image_stays_one() -> None:
    pieces = Call(lambda x, w: shuffled(F.conv2d(x, w)).relu().mean((2, 3)), w=torch.randn(20, 3, 1, 1))
    assert check(Case(pieces, (1, 3, 4, 5))).graphs[0].opcodes["move"] == 1
