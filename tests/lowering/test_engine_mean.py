"""Means over images and windows on the hardware engine: their arithmetic beside exact fractions and eager mode."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fpga_dynamo.codegen.engine.maps import RefusedError
from fpga_dynamo.codegen.engine.vector import VectorCommand
from fpga_dynamo.codegen.requantize import Channels, requantize
from fpga_dynamo.ir.quantised import Scale
from fpga_dynamo.lowering.ops.engine.int8.mean import mean_parameters
from fpga_dynamo.lowering.ops.engine.int8.vector_side import scale_of_elements
from tests.lowering.engine_kit import apart, left_of, lowered
from tests.marks import EXTENDED


def scale(of: float, zero: int) -> Scale:
    return Scale(of, zero, -128, 127, torch.int8)


def rounded(sums: torch.Tensor, pixels: int, source: Scale, result: Scale, way: int) -> torch.Tensor:
    """What one command makes of sums of integers."""
    offset, factor = (torch.tensor([n], dtype=torch.int32) for n in mean_parameters(pixels, source, result, way))
    made = Channels(offset, factor, torch.zeros(1, dtype=torch.int32))
    return requantize(sums.view(1, -1), made, result.zero, result.low, result.high)[0]


@pytest.mark.parametrize("ratio", [0.25, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("pixels", [6, 196, 3136, 12544])
def test_two_roundings_and_half_of_their_sum_are_one_rounding(pixels: int, ratio: float) -> None:
    source, result = scale(0.5 * ratio, -128), scale(0.5, -7)
    middle = [round(pixels * (2 * k + 1) / (2 * ratio)) for k in range(-2, 120)]
    numbers = [n for at in middle for n in (at - 1, at, at + 1) if 0 <= n <= 255 * pixels]
    sums = torch.tensor(numbers) + pixels * source.zero
    below, above = (rounded(sums, pixels, source, result, way) for way in (-1, 1))
    found = torch.round((below + above - 2 * result.zero) / 2).long() + result.zero
    means = [Fraction(n) * Fraction(ratio) / pixels for n in numbers]
    assert found.tolist() == [max(-128, min(127, round(mean) + result.zero)) for mean in means]
    # They differ where a mean lies between two integers that are no limits, and nowhere else.
    between = [mean % 1 == Fraction(1, 2) and round(mean) + result.zero < 127 for mean in means]
    assert (below != above).tolist() == between


def test_what_is_not_exact_enough_is_refused() -> None:
    with pytest.raises(RefusedError, match="a mean over 160000 pixels"):
        mean_parameters(160000, scale(1.0, 0), scale(1.0, 0), 0)


class _Pooled(nn.Module):
    """An average whose input has one scale with it: most of a value is a number for its channel."""

    def __init__(self, **window: Any) -> None:
        super().__init__()
        self.first, self.last, self.window = nn.Conv2d(3, 32, 1), nn.Conv2d(32, 16, 1), window
        self.channels = nn.Parameter(4 * torch.randn(1, 32, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(nn.functional.avg_pool2d(self.first(x) + self.channels, stride=1, **self.window))
        return result


@pytest.mark.parametrize(
    "window",
    [
        {"kernel_size": 3, "padding": 1, "count_include_pad": False},
        pytest.param({"kernel_size": (2, 3)}, marks=EXTENDED),
    ],
)
def test_windows_whose_averages_may_be_halves_have_the_bits_of_eager(window: dict[str, Any]) -> None:
    torch.manual_seed(4)
    program, captured = lowered(_Pooled(**window), torch.randn(2, 3, 9, 7))
    commands = [emitted.command for launch in program.lists.launches for emitted in launch]
    half = scale_of_elements(0.5)
    assert sum(isinstance(c, VectorCommand) and c.input_scale == half and c.has_other for c in commands) == 1
    assert left_of(program) == [] and len(program.lists.launches) == 1
    assert apart(program, captured) == {}
