"""Memory over many calls of several models."""

from __future__ import annotations

import gc
import itertools
from pathlib import Path

import pytest
import torch
from backend_kit import Net, mlp, on_card
from torch import nn

pytestmark = pytest.mark.slow

MIB = 1 << 20


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
