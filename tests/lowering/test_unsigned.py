"""Signed bytes between operators become unsigned, 128 greater, where nobody but the graph's own operators sees them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fpga_dynamo.ir import elements
from fpga_dynamo.testing.quantised import RandomWeights, dequantize, quantize, rounded
from fpga_dynamo.torch_internals.quantized import decomposed
from tests.lowering.lowering_cases import programs_of
from tests.lowering.quantised_kit import FINE, I8, check

READS = {"conv2d_int8": "in_format", "gemm_int8": "a_format"}


def read_by_products(model: Callable[..., Tensor], *inputs: Tensor) -> list[str]:
    """Types of the activations that a model's products read, in order."""
    (program,) = programs_of(model, *inputs)
    (task,) = program.card_tasks
    names = {program.graph.target.format_of(element): element.name for element in (elements.U8, elements.I8)}
    return [
        names[command.fields[READS[command.opcode]]]  # type: ignore[index]
        for command in task.commands
        if command.opcode in READS
    ]


class Two(torch.nn.Module):
    """Rounded images -> convolution -> integers of `between` -> convolution -> integers of `FINE`."""

    def __init__(self, between: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second, self.between = RandomWeights(8, 8, 3, 3), RandomWeights(8, 8, 1, 1), between

    def forward(self, x: Tensor) -> Tensor:
        x = F.conv2d(rounded(x, I8), self.first(), self.first.bias)
        return quantize(F.conv2d(self.between(x), self.second(), self.second.bias), FINE)


def narrow(x: Tensor) -> Tensor:
    limits = -127, 127, torch.int8
    q = decomposed.quantize_per_tensor.default(x, 2.0**-4, 0, *limits)
    return decomposed.dequantize_per_tensor.default(q, 2.0**-4, 0, *limits)


BETWEEN: dict[str, tuple[Callable[[Tensor], Tensor], list[str]]] = {
    "to float32": (lambda x: rounded(x, I8), ["U8", "U8"]),
    "with padding": (lambda x: F.pad(rounded(x, I8), (1, 1, 1, 1)), ["U8", "U8"]),
    "maxima": (lambda x: rounded(F.max_pool2d(rounded(x, I8), 2), I8), ["U8", "U8"]),
    "joined": (lambda x: rounded(torch.cat([rounded(x[:, 4:], I8), rounded(x[:, :4], I8)], 1), I8), ["U8", "U8"]),
    "of 255 integers": (narrow, ["U8", "I8"]),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_bytes_between_operators_have_no_sign(name: str) -> None:
    torch.manual_seed(0)
    between, wanted = BETWEEN[name]
    model, x = Two(between).eval(), torch.randn(2, 8, 9, 9)
    assert read_by_products(model, x) == wanted
    check(model, x)


def test_bytes_that_leave_the_graph_keep_their_signs() -> None:
    torch.manual_seed(0)
    weights = RandomWeights(8, 8, 1, 1)

    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        q = quantize(x, I8)
        return q, quantize(F.conv2d(dequantize(q, I8), weights(), weights.bias), FINE)

    x = torch.randn(1, 8, 5, 5)
    assert read_by_products(model, x) == ["I8"]  # type: ignore[arg-type]
    check(model, x)


def test_bytes_that_come_into_the_graph_keep_their_signs() -> None:
    torch.manual_seed(0)
    weights = RandomWeights(8, 8, 1, 1)
    q = torch.randint(-128, 128, (1, 8, 5, 5), dtype=torch.int8)

    def model(q: Tensor) -> Tensor:
        return quantize(F.conv2d(dequantize(q, I8), weights(), weights.bias), FINE)

    assert read_by_products(model, q) == ["I8"]
    check(model, q)


@pytest.mark.parametrize("times", [1, 2])
def test_weights_that_the_graph_rounds_keep_their_signs(times: int) -> None:
    """As in training with rounded weights, which a batch norm may be part of: products take signed weights only."""
    torch.manual_seed(0)
    grid = 2.0**-6, 0, torch.int8
    model = torch.nn.Linear(16, 8, bias=False).eval()

    def run(x: Tensor) -> Tensor:
        weight = model.weight if times == 1 else model.weight.mul(times)
        return quantize(F.linear(rounded(x, I8), rounded(weight, grid)), FINE)

    x = torch.randn(4, 16)
    assert read_by_products(run, x) == ["U8"]
    check(run, x)
