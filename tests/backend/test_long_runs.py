"""Memory over many calls of several models, and over many models."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import fpga_dynamo
from tests.backend.backend_kit import Net, memory_used, mlp, on_card

pytestmark = pytest.mark.slow

MIB = 1 << 20
OWN_CARD = 5
"""One that no other test uses."""


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()


def test_resident_memory_is_flat_over_calls_of_changing_shapes_and_models() -> None:
    models: list[tuple[nn.Module, tuple[int, ...]]] = [
        (Net().eval(), (3, 12, 12)),
        (Net(16).eval(), (3, 9, 7)),
        (mlp(64, 128, 10), (64,)),
        (nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), (5, 32)),
    ]
    calls = itertools.cycle([(on_card(model), shape) for model, shape in models])
    batches = itertools.cycle((1, 2, 3, 5, 8, 4, 7))  # seven and four: every model meets every batch
    with torch.no_grad():
        for number, (compiled, shape), batch in zip(range(2000), calls, batches, strict=False):
            compiled(torch.randn(batch, *shape))
            if number == 200:
                before = resident()
    assert resident() - before < 8 * MIB


def test_a_hundred_models_made_and_dropped_leave_nothing_on_the_card() -> None:
    makers: list[tuple[Callable[[int], nn.Module], tuple[int, ...]]] = [
        (Net, (2, 3, 9, 7)),
        (lambda width: mlp(16, width, 5), (3, 16)),
        (lambda width: nn.Sequential(nn.Conv1d(4, width, 3), nn.GroupNorm(2, width), nn.SiLU()), (2, 4, 9)),
        (lambda width: nn.TransformerEncoderLayer(16, 4, width, batch_first=True), (2, 5, 16)),
    ]
    refused = fpga_dynamo.stats()["ps_fallbacks"]
    for number, (make, shape) in zip(range(100), itertools.cycle(makers), strict=False):
        model = make(8 + 2 * number)
        trains = number % 8 >= 4
        compiled = on_card(model.train(trains), device=OWN_CARD)
        answer = compiled(torch.randn(shape))
        if trains:
            answer.sum().backward()
        assert memory_used(OWN_CARD) > 0
        del model, compiled, answer
        assert memory_used(OWN_CARD) == 0
        torch._dynamo.reset()  # it compiles one function for a few models only
    assert fpga_dynamo.stats()["ps_fallbacks"] == refused
