"""Means over whole images on the hardware engine: their arithmetic beside exact fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from fpga_dynamo.codegen.engine.maps import RefusedError
from fpga_dynamo.codegen.requantize import Channels, requantize
from fpga_dynamo.ir.quantised import Scale
from fpga_dynamo.lowering.ops.engine.int8.mean import mean_parameters


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
