"""Quantised modules as torchao's pt2e flow leaves them, written out: integers as buffers, scales as numbers.

With powers of two as scales, and few enough products, eager mode's float32 is exact: results have to be its integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from fpga_dynamo.ir.program import Program
from fpga_dynamo.testing.quantised import Grid, RandomWeights, dequantize, quantize, rounded
from tests.lowering.lowering_cases import GREEDY, programs_of

__all__ = ["Grid", "Layer", "RandomWeights", "check", "dequantize", "opcodes", "quantize", "rounded", "strict"]

U8: Grid = (2.0**-5, 117, torch.uint8)
I8: Grid = (2.0**-4, -11, torch.int8)
FINE: Grid = (2.0**-6, 3, torch.int8)
POSITIVE: Grid = (2.0**-4, 0, torch.uint8)


class Layer(nn.Module):
    """Rounded input -> function of it and of weights."""

    def __init__(self, weights: RandomWeights, function: Callable[..., torch.Tensor], source: Grid = U8) -> None:
        super().__init__()
        self.weights, self.function, self.source = weights, function, source

    def forward(self, *xs: torch.Tensor) -> torch.Tensor:
        first, *others = (rounded(x, self.source) for x in xs)
        return self.function(first, self.weights(), self.weights.bias, *others)


def strict(model: nn.Module | Callable[..., Any], *inputs: torch.Tensor) -> Any:
    """What the card makes of the inputs; nothing may stay on the host."""
    torch._dynamo.reset()
    with torch.no_grad():
        return torch.compile(model, backend="fpga", options={**GREEDY, "strict": True})(*inputs)


def opcodes(model: nn.Module | Callable[..., Any], *inputs: torch.Tensor) -> list[str]:
    """The commands of a model that is one launch, copies left out."""
    found: list[Program] = programs_of(model, *inputs)
    (task,) = (task for program in found for task in program.card_tasks)
    return [command.opcode for command in task.commands if command.opcode not in ("move", "convert")]


def check(model: nn.Module | Callable[..., Any], *inputs: torch.Tensor) -> None:
    """The card's results are eager mode's to the bit."""
    with torch.no_grad():
        expected = model(*inputs)
    torch.testing.assert_close(strict(model, *inputs), expected, rtol=0, atol=0)
