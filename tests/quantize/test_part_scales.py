"""Concatenations whose parts have different ranges: in 8 bits, one launch, accurate, and eager mode's bits."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import fpga_dynamo
from fpga_dynamo.quantize import compare, quantize
from fpga_dynamo.tools.estimate.program import EngineProgram
from tests.lowering.engine_kit import assert_one_exact_launch
from tests.marks import EXTENDED


def small(layer: nn.Module, factor: float = 0.02) -> nn.Module:
    """The layer with a small result."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(factor)
    return layer


class Partial(nn.Module):
    """A convolution of some channels beside the others, as in FasterNet."""

    def __init__(self, channels: int, some: int) -> None:
        super().__init__()
        self.sizes = [some, channels - some]
        self.first, self.some = nn.Conv2d(3, channels, 1), small(nn.Conv2d(some, some, 3, padding=1, bias=False))
        self.up, self.down = nn.Conv2d(channels, 2 * channels, 1), nn.Conv2d(2 * channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        some, others = x.split(self.sizes, 1)
        result: Tensor = x + self.down(torch.relu(self.up(torch.cat((self.some(some), others), 1))))
        return result


class Dense(nn.Module):
    """A concatenation in front of batch norm, ReLU and a convolution, as in DenseNet, and of another layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 32, 3), small(nn.Conv2d(32, 16, 3, padding=1))
        self.norm, self.last, self.beside = nn.BatchNorm2d(48), nn.Conv2d(48, 24, 1), nn.Conv2d(48, 24, 3, 2)
        mean, variance = self.norm.running_mean, self.norm.running_var
        assert mean is not None and variance is not None
        nn.init.normal_(mean)
        nn.init.uniform_(variance, 0.5, 1.5)
        variance[32:] *= 0.0004

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = torch.cat((x, self.second(x)), 1)
        pooled = nn.functional.max_pool2d(x, 2)
        result: Tensor = self.last(torch.relu(self.norm(x))).mean((2, 3)) + self.beside(pooled).mean((2, 3))
        return result


class Gated(nn.Module):
    """A product with a gate behind a concatenation, as in MambaOut."""

    def __init__(self) -> None:
        super().__init__()
        self.split, self.mixed = nn.Linear(24, 96), small(nn.Conv2d(16, 16, 3, padding=1, groups=16))
        self.last = nn.Linear(48, 24)

    def forward(self, x: Tensor) -> Tensor:
        gate, kept, some = self.split(x).split((48, 32, 16), -1)
        some = self.mixed(some.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        result: Tensor = self.last(nn.functional.gelu(gate) * torch.cat((kept, some), -1))
        return result


class Features(nn.Module):
    """Rows of features of two layers, one of which is read by two concatenations."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow, self.other = nn.Linear(24, 32), small(nn.Linear(24, 16)), nn.Linear(24, 16)
        self.last, self.second = nn.Linear(48, 20), nn.Linear(32, 20)

    def forward(self, x: Tensor) -> Tensor:
        wide, narrow, other = self.wide(x), self.narrow(x), self.other(x)
        rows = torch.cat((wide, narrow), -1).transpose(1, 2)
        result: Tensor = self.last(rows.transpose(1, 2)) + self.second(torch.cat((other, narrow), -1))
        return result


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "some channels": (lambda: Partial(48, 16), (1, 3, 9, 8)),
    "some channels within a block": (lambda: Partial(40, 10), (2, 3, 9, 8)),
    "dense": (Dense, (1, 3, 12, 11)),
    "a gate": (Gated, (1, 5, 6, 24)),
    "features": (Features, (2, 9, 24)),
}
ALWAYS = ("some channels within a block",)


def commands(program: EngineProgram) -> int:
    return sum(map(len, program.lists.launches))


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in ALWAYS else EXTENDED) for n in CASES])
def test_one_launch_of_the_engine_with_the_bits_of_eager(name: str) -> None:
    torch.manual_seed(3)
    make, size = CASES[name]
    assert_one_exact_launch(make(), torch.randn(size))


@pytest.mark.parametrize("name", CASES)
def test_nothing_stays_in_float_and_small_parts_keep_their_accuracy(name: str) -> None:
    torch.manual_seed(3)
    torch._dynamo.reset()
    make, size = CASES[name]
    model, data = make().eval(), [torch.randn(size) for _ in range(4)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        quantized = quantize(model, data, "pow2", bias="int32", progress=False)
    with torch.no_grad():
        wanted, exact = quantized(data[0]), model.double()(data[0].double())
        assert torch.equal(torch.compile(quantized, backend="fpga")(data[0]), wanted)
    assert (wanted - exact).norm() / exact.norm() < 0.05
    assert fpga_dynamo.explain(quantized, data[0]).pl_launches == 1


def test_what_a_small_part_alone_says_stays_accurate() -> None:
    """The large part has weights of 0, so only the small part's levels count."""
    torch.manual_seed(3)
    model = Features().eval()
    with torch.no_grad():
        model.last.weight[:, :32] = 0
        for parameter in (model.last.bias, model.second.weight, model.second.bias):
            parameter.zero_()
    data = [torch.randn(2, 9, 24) for _ in range(4)]
    quantized = quantize(model, data, progress=False)
    with torch.no_grad():
        exact, found = model(data[0]), quantized(data[0])
    assert (found - exact).norm() / exact.norm() < 0.05


def test_a_square_leaves_the_parts_alone() -> None:
    class Squared(Features):
        def forward(self, x: Tensor) -> Tensor:
            rows = torch.cat((self.wide(x), self.narrow(x)), -1)
            result: Tensor = self.last(rows * rows.relu())
            return result

    with pytest.warns(RuntimeWarning, match="stays in float32"):
        quantize(Squared().eval(), [torch.randn(2, 9, 24)], progress=False)


def test_a_reader_that_is_no_layer_leaves_the_parts_alone() -> None:
    class Shown(Features):
        def forward(self, x: Tensor) -> Tensor:
            rows = torch.cat((self.wide(x), self.narrow(x)), -1)
            result: Tensor = self.last(rows) + rows.sum(-1, keepdim=True)
            return result

    with pytest.warns(RuntimeWarning, match="stays in float32"):
        quantize(Shown().eval(), [torch.randn(2, 9, 24)], progress=False)


def test_weights_that_another_layer_reads_stay_as_they_are() -> None:
    class Tied(Features):
        def forward(self, x: Tensor) -> Tensor:
            wide, narrow = self.wide(x), self.narrow(x)
            half = torch.cat((wide, 0.5 * wide[..., :16]), -1)
            result: Tensor = self.last(torch.cat((wide, narrow), -1)) + self.last(half)
            return result

    torch.manual_seed(3)
    model, data = Tied().eval(), [torch.randn(2, 9, 24) for _ in range(4)]
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    quantized = quantize(model, data, progress=False)
    with torch.no_grad():
        assert (quantized(data[0]) - model(data[0])).norm() / model(data[0]).norm() < 0.05
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())


def test_compare_finds_the_layers_behind_scaled_parts() -> None:
    torch.manual_seed(3)
    model, data = Partial(40, 10).eval(), [torch.randn(2, 3, 9, 8) for _ in range(4)]
    found = compare(model, quantize(model, data, progress=False), data)
    assert len(found.layers) >= 4 and all(layer.own_db > 20 for layer in found.layers)
