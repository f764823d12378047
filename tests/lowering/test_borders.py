"""Mirrored and repeated borders, rolls, pixels and channels, windows: every element where eager has it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.lowering.lowering_cases import Call, Case, check

LAST = torch.channels_last

CASES = {
    "reflected rows": Case(nn.ReflectionPad1d((3, 2)), (2, 3, 4)),
    "a reflected image": Case(nn.ReflectionPad2d((1, 2, 3, 0)), (2, 17, 5, 4)),
    "a reflected channels-last image between convolutions": Case(
        nn.Sequential(nn.Conv2d(3, 17, 3), nn.ReflectionPad2d(2), nn.Conv2d(17, 4, 3)), (2, 3, 7, 7)
    ),
    "a reflected volume without batch": Case(nn.ReflectionPad3d((1, 1, 2, 0, 0, 1)), (3, 3, 4, 5)),
    "repeated rows, further than the rows are long": Case(nn.ReplicationPad1d((5, 4)), (2, 3, 3)),
    "a repeated image": Case(nn.ReplicationPad2d((0, 2, 3, 1)), torch.randn(1, 5, 3, 4).to(memory_format=LAST)),
    "a repeated volume": Case(nn.ReplicationPad3d(1), (1, 2, 2, 3, 2)),
    "a cropping reflection": Case(
        lambda x: F.pad(x, (-1, 2), mode="reflect"), (2, 3, 5), offload=0.0, launches=0, why="cropping"
    ),
    "cropped and padded with zeros": Case(lambda x: F.pad(x, (-1, 2, 1, -2)), (2, 5, 4)),
    "nothing left but zeros": Case(lambda x: F.pad(x, (-4, 5)), (2, 4)),
    "a circular border": Case(lambda x: F.pad(x, (2, 1), mode="circular"), (2, 3, 4)),
    "rolled both ways": Case(lambda x: torch.roll(x, (1, -2), (0, 2)), (3, 4, 7)),
    "rolled by more than all, twice along one dimension": Case(lambda x: torch.roll(x, (9, 2), (1, -2)), (3, 4, 7)),
    "rolled by nothing": Case(lambda x: torch.roll(x, 4, 1), (3, 4)),
    "rolled as one row": Case(lambda x: torch.roll(x.t(), 5), (3, 4)),
    "a rolled channels-last image": Case(
        nn.Sequential(nn.Conv2d(3, 17, 3), Call(lambda x: x.roll((-2, 1), (2, 3))), nn.Conv2d(17, 4, 1)), (2, 3, 7, 6)
    ),
    "rolled integers": Case(lambda x: torch.roll(x, 1, 0), torch.arange(6)),
    "pixels out of channels": Case(nn.PixelShuffle(2), (2, 12, 3, 4)),
    "pixels out of a convolution's channels": Case(
        nn.Sequential(nn.Conv2d(3, 18, 3), nn.PixelShuffle(3)), (1, 3, 5, 5)
    ),
    "channels out of pixels": Case(nn.PixelUnshuffle(3), (2, 5, 6, 9)),
    "an image without batch": Case(nn.PixelShuffle(2), (8, 3, 3)),
    "channels of three groups, shuffled": Case(nn.ChannelShuffle(3), (2, 12, 3, 4)),
    "channels of an image between convolutions, shuffled": Case(
        nn.Sequential(nn.Conv2d(3, 18, 1), nn.ChannelShuffle(2), nn.Conv2d(18, 4, 1)), (1, 3, 4, 4)
    ),
    "windows as columns": Case(nn.Unfold((2, 3), dilation=(1, 2), padding=(1, 0), stride=(2, 1)), (2, 3, 5, 7)),
    "windows of an image without batch": Case(nn.Unfold(3), (2, 4, 5)),
    "overlapping windows as a view": Case(lambda x: x.unfold(2, 3, 2).sum(-1) + x.unfold(2, 3, 2)[..., 1], (2, 3, 9)),
    "diagonals": Case(
        lambda x: (x.diagonal(dim1=1, dim2=2) * 2, x.diagonal(2, 0, 2) + 1, x.diagonal(-1, -2, 0) + 1), (3, 4, 5)
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_element_lies_where_eager_has_it(case: Case) -> None:
    check(case)
