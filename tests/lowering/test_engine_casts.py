"""The borders of a graph on an int8 engine: commands quantize inputs and scale results, with the bits of eager mode."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from fpga_dynamo.codegen.engine.vector import VectorCommand, VectorOperation
from fpga_dynamo.frontend.capture import capture
from fpga_dynamo.quantize import quantize
from fpga_dynamo.tools.estimate.program import EngineProgram, lower_for_engine
from tests.lowering.engine_kit import apart, little, lowered


class TwoOrders(nn.Module):
    """An input that is read as an image of few channels, and as rows."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.rows = nn.Conv2d(3, 16, 3, padding=1), nn.Linear(8, 16)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.image(x), self.rows(x)


class Products(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x @ y.transpose(1, 2)


class Permuted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Linear(24, 20)

    def forward(self, x: Tensor) -> Tensor:
        return self.rows(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class InTheMiddle(nn.Module):
    """An operator that runs on the host."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 20, 3), nn.Conv2d(20, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        result: Tensor = self.last(torch.special.i0(x.clamp(-2, 2)))
        return result


def images(channels: int, size: int = 8, batch: int = 1) -> Tensor:
    return torch.randn(batch, channels, size, size)


CASES: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
    "few channels": (nn.Conv2d(3, 20, 3, padding=1), (images(3),)),
    "one channel": (nn.Conv2d(1, 16, 3), (images(1, 9),)),
    "blocks of channels": (nn.Conv2d(20, 40, 3), (images(20, 7, 2),)),
    "rows": (nn.Linear(20, 33), (torch.randn(5, 7, 20),)),
    "a vector": (nn.Linear(20, 3), (torch.randn(1, 20),)),
    "patches": (nn.Conv2d(3, 24, 14, 14), (images(3, 28, 2),)),
    "one dimension": (nn.Conv1d(5, 18, 3), (torch.randn(2, 5, 11),)),
    "products": (Products(), (torch.randn(3, 5, 20), torch.randn(3, 7, 20))),
    "two orders": (TwoOrders(), (images(3),)),
}


def casts(program: EngineProgram) -> list[VectorOperation]:
    commands = [emitted.command for launch in program.lists.launches for emitted in launch]
    return [c.operation for c in commands if isinstance(c, VectorCommand) and c.casts]


@pytest.mark.parametrize("scales", ["pow2", "float"])
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_left_to_the_host(name: str, scales: str) -> None:
    torch.manual_seed(1)
    model, inputs = CASES[name]
    program, captured = lowered(model, *inputs, scales=scales)
    assert not program.left
    assert len(program.lists.launches) == 1
    assert set(casts(program)) == {VectorOperation.QUANTIZE, VectorOperation.DEQUANTIZE}
    assert apart(program, captured) == {}


def test_an_input_that_is_permuted() -> None:
    program, captured = lowered(Permuted(), images(24))
    assert len(program.lists.launches) == 1
    assert apart(program, captured) == {}


def test_casts_beside_an_operator_of_the_host() -> None:
    program, captured = lowered(InTheMiddle(), images(3))
    assert len(program.lists.launches) == 2
    assert casts(program) == [VectorOperation.QUANTIZE, VectorOperation.DEQUANTIZE] * 2
    assert apart(program, captured) == {}


TIES: Sequence[float] = (0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, -128.5)
SPECIAL: Sequence[float] = (math.nan, math.inf, -math.inf, 3e38, -3e38, -0.0, 1e-42, *TIES)


def test_rounding_saturation_and_infinities() -> None:
    """Of the scale 1: halves, numbers beyond the limits, infinities and NaN."""
    x = torch.tensor([*SPECIAL, *(n + 0.5 for n in range(-140, 140)), *torch.linspace(-200, 200, 999).tolist()])
    x = x.unsqueeze(1)
    known = torch.linspace(-128, 127, len(x)).unsqueeze(1)
    converted = quantize(nn.Linear(1, 1).eval(), [(known,)], scales="pow2", progress=False)
    captured = capture(converted, (x,))
    program = lower_for_engine(captured.module, little(), captured.static)
    assert not program.left
    assert apart(program, captured) == {}
