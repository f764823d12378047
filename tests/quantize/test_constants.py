"""Values that a graph computes from parameters alone: constants in 8 bits, also on the engine, if nothing trains."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import prepare_qat_pt2e

from fpga_dynamo.quantize import FPGAQuantizer, quantize
from fpga_dynamo.quantize.constants import fold_constants, numbers_of_parameters
from fpga_dynamo.quantize.export import exported
from tests.lowering.engine_kit import assert_one_exact_launch
from tests.marks import EXTENDED


class Standardized(nn.Module):
    """Convolutions whose weights are standardized at each call, with a gain of one element."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 16, 1)
        self.gain, self.skip = nn.Parameter(torch.rand(32, 1, 1, 1) + 0.5), nn.Parameter(torch.tensor(0.3))

    def forward(self, x: Tensor) -> Tensor:
        own = self.first.weight
        weight = functional.batch_norm(own.reshape(1, 32, -1), None, None, self.gain.view(-1), training=True)
        x = functional.conv2d(x, weight.reshape_as(own), self.first.bias, padding=1)
        result: Tensor = self.last(functional.gelu(x) * self.skip + x)
        return result


class StarReLU(nn.Module):
    """A function with parameters of one element."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 24), nn.Linear(24, 16)
        self.scale, self.bias = nn.Parameter(torch.tensor([0.8])), nn.Parameter(torch.tensor([-0.4]))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.scale * torch.relu(self.first(x)) ** 2 + self.bias)
        return result


class Positions(nn.Module):
    """Attention whose bias is made by a layer of distances, behind a table of positions that is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.split, self.project, self.bias = nn.Linear(64, 192), nn.Linear(64, 24), nn.Linear(8, 2)
        self.distance = nn.Sequential(nn.Linear(1, 8), nn.ReLU(inplace=True))
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("distances", torch.arange(10.0)[:, None] - torch.arange(10.0))

    def forward(self, x: Tensor) -> Tensor:
        angles = torch.arange(10).view(-1, 1) / 3.0 ** torch.arange(32)
        x = x + torch.cat([angles.sin(), angles.cos()], 1)
        q, k, v = self.split(x).view(1, 10, 3, 2, 32).permute(2, 0, 3, 1, 4).unbind(0)
        hidden = self.distance(self.dropout(self.get_buffer("distances")).unsqueeze(-1))
        bias = 4 * torch.sigmoid(self.bias(hidden)).permute(2, 0, 1)
        mixed = (q @ k.transpose(-2, -1) * 0.2 + bias.unsqueeze(0)).softmax(-1) @ v
        result: Tensor = self.project(mixed.transpose(1, 2).reshape(1, 10, 64))
        return result


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "standardized weights": (Standardized, (1, 3, 9, 7)),
    "a function with parameters": (StarReLU, (2, 5, 8)),
    "positions": (Positions, (1, 10, 64)),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n == "positions" else EXTENDED) for n in CASES])
def test_the_engine_computes_them_with_the_bits_of_eager(name: str) -> None:
    torch.manual_seed(4)
    make, size = CASES[name]
    assert_one_exact_launch(make(), torch.randn(size))


@pytest.mark.parametrize("name", CASES)
def test_the_graph_computes_what_the_model_does(name: str) -> None:
    torch.manual_seed(4)
    make, size = CASES[name]
    model, x = make().eval(), torch.randn(size)
    graph = exported(model, x, None)
    count = sum(node.op == "call_function" for node in graph.graph.nodes)
    fold_constants(graph)
    numbers_of_parameters(graph)
    folded = sum(node.op == "call_function" for node in graph.graph.nodes)
    assert folded < count or name == "a function with parameters"
    torch.testing.assert_close(graph(x), model(x))
    error = quantize(model, [x], progress=False)(x) - model(x)
    assert error.norm() < 0.1 * model(x).norm()


def test_a_model_that_trains_keeps_what_its_parameters_are_read_for() -> None:
    model, x = Standardized(), torch.randn(1, 3, 9, 7)
    graph = prepare_qat_pt2e(exported(model, x, None), FPGAQuantizer(training=True))
    graph(x).sum().backward()
    trained = [name for name, parameter in graph.named_parameters() if parameter.grad is not None]
    assert {"gain", "skip"} <= set(trained)


def test_what_is_changed_in_place_begins_anew_at_each_call() -> None:
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(8, 4)

        def forward(self, x: Tensor) -> Tensor:
            table = torch.arange(8.0) * 0.1
            table += x.mean()
            result: Tensor = self.last(x + table)
            return result

    model, x = Counted().eval(), torch.randn(3, 8)
    graph = exported(model, x, None)
    fold_constants(graph)
    for _ in range(2):
        torch.testing.assert_close(graph(x), model(x))


def test_pieces_of_a_constant_may_be_changed_in_place() -> None:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            first, second = torch.tanh(torch.arange(8.0)).split(4)
            first += x.mean()
            second *= x.max()
            return self.last(torch.cat([first, second]) + x)

    model, x = Gated().eval(), torch.randn(3, 8)
    graph = exported(model, x, None)
    fold_constants(graph)
    for _ in range(2):
        torch.testing.assert_close(graph(x), model(x))
