"""Concatenations of unlike ranges that share a scale, since what reads them is as coarse, and those that do not."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from fpga_dynamo.quantize import quantize
from tests.lowering.engine_kit import assert_one_exact_launch
from tests.marks import EXTENDED


class ClassToken(nn.Module):
    """A small result for the first token beside the other tokens, which are added to all of them, as in XCiT."""

    def __init__(self, times: float = 1.0) -> None:
        super().__init__()
        self.times = times
        self.first, self.token, self.last = nn.Linear(32, 48), nn.Linear(48, 48), nn.Linear(48, 24)
        self.scale = nn.Parameter(torch.rand(48) + 0.5)
        with torch.no_grad():
            self.token.weight.mul_(0.02), self.token.bias.mul_(0.02)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.first(x)
        joined = torch.cat([self.token(rows[:, :1]), rows[:, 1:]], 1)
        result: Tensor = self.last(self.times * rows + self.scale * joined)
        return result


class Normed(nn.Module):
    """Features of two layers side by side, normed together, as in EdgeNeXt. gamma: of the small part."""

    def __init__(self, gamma: float = 1.0) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Conv2d(3, 32, 1), nn.Conv2d(3, 16, 3, padding=1)
        self.norm, self.last = nn.LayerNorm(48), nn.Linear(48, 24)
        with torch.no_grad():
            for parameter in self.narrow.parameters():
                parameter.mul_(0.02)
            self.norm.weight[32:] = gamma

    def forward(self, x: Tensor) -> Tensor:
        images = torch.cat([self.wide(x), self.narrow(x)], 1)
        result: Tensor = self.last(self.norm(images.flatten(2).permute(0, 2, 1)))
        return result


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "a sum": (ClassToken, (1, 9, 32)),
    "a sum of three sequences": (ClassToken, (3, 9, 32)),
    "a norm": (Normed, (1, 3, 6, 7)),
}
ALWAYS = ("a sum",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in ALWAYS else EXTENDED) for n in CASES])
def test_one_launch_of_the_engine_with_the_bits_of_eager(name: str) -> None:
    torch.manual_seed(3)
    make, size = CASES[name]
    assert_one_exact_launch(make(), torch.randn(size))


@pytest.mark.parametrize("name", CASES)
def test_a_shared_scale_costs_no_accuracy(name: str) -> None:
    torch.manual_seed(3)
    make, size = CASES[name]
    model, data = make().eval(), [torch.randn(size) for _ in range(4)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        quantized = quantize(model, data, progress=False)
    with torch.no_grad():
        assert (quantized(data[0]) - model(data[0])).norm() / model(data[0]).norm() < 0.03


@pytest.mark.parametrize("make", [lambda: Normed(100.0), lambda: ClassToken(0.01)], ids=["gamma", "a small sum"])
def test_a_finer_reader_keeps_the_parts_apart(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(3)
    model = make().eval()
    if isinstance(model, ClassToken):
        with torch.no_grad():
            model.scale.mul_(0.01)
    size = (1, 9, 32) if isinstance(model, ClassToken) else (1, 3, 6, 7)
    with pytest.warns(RuntimeWarning, match="stays in float32"):
        quantize(model, [torch.randn(size)], progress=False)
