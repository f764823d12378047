"""Bilinear resizing of int8 images on the hardware engine: one launch, the bits of eager mode, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from tests.lowering.engine_kit import apart, left_of, lowered
from tests.marks import EXTENDED


class Resized(nn.Module):
    """Two layers, with a resize between them whose result is added to another one's in some cases."""

    def __init__(self, *, channels: int = 24, residual: bool = False, **settings: Any) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, channels, 3, 2, 1), nn.Conv2d(channels, 16, 1)
        self.side = nn.Conv2d(3, channels, 1) if residual else None
        self.settings = {"mode": "bilinear", **settings}

    def forward(self, x: Tensor) -> Tensor:
        y = interpolate(torch.relu(self.first(x)), **self.settings)
        result: Tensor = self.last(y if self.side is None else y + self.side(x))
        return result


CASES: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "twice": ({"scale_factor": 2}, (1, 3, 10, 14)),
    "twice, two images": ({"scale_factor": 2, "residual": True}, (2, 3, 10, 14)),
    "four times": ({"scale_factor": 4, "channels": 40}, (1, 3, 7, 5)),
    "to a size": ({"size": (20, 14)}, (1, 3, 10, 14)),
    "a row": ({"scale_factor": 2}, (1, 3, 2, 14)),
    "a pixel": ({"scale_factor": 4}, (2, 3, 1, 1)),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n.endswith("images") else EXTENDED) for n in CASES])
def test_one_launch_with_the_bits_of_eager(name: str) -> None:
    torch.manual_seed(4)
    settings, size = CASES[name]
    program, captured = lowered(Resized(**settings), torch.randn(size))
    assert left_of(program) == [] and len(program.lists.launches) == 1
    assert apart(program, captured) == {}


@pytest.mark.parametrize(
    "settings",
    [
        {"scale_factor": 2, "align_corners": True},
        {"scale_factor": 3},
        {"scale_factor": 8},
        {"scale_factor": (2.05, 2)},
        {"scale_factor": 3.1, "mode": "nearest"},
    ],
)
def test_other_factors_are_the_host_s(settings: dict[str, Any]) -> None:
    program, _ = lowered(Resized(**settings), torch.randn(1, 3, 8, 8))
    (why,) = left_of(program)
    assert "factors" in why
