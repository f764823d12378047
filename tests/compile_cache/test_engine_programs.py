"""Programs of an engine from disk: commands, their constants and their maps come back as they were."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import fpga_dynamo
import xclbin_build
from fpga_dynamo.quantize import quantize
from tests.backend.test_counting_card import Encoder
from tests.compile_cache.test_warm_start import counts, run
from tests.lowering import engine_kit
from tests.lowering.test_engine_lowering import Residual
from tests.marks import EXTENDED


@pytest.fixture(scope="module")
def card() -> str:
    return str(xclbin_build.cached(engine_kit.recipe(), "cycles", platform="u250"))


def _signal() -> nn.Module:
    """Its values, images of one row, are written and read by the host with their channels first."""
    return nn.Sequential(nn.Conv1d(24, 16, 3), nn.ReLU(), nn.Conv1d(16, 8, 3))


def _wide() -> nn.Module:
    """Commands go along its rows, whose weights then are in another order."""
    return nn.Sequential(nn.Conv2d(20, 24, 3, padding=1), nn.ReLU())


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (Residual, (1, 3, 33, 35)),
        (_signal, (2, 24, 20)),
        (_wide, (1, 20, 3, 2101)),
        pytest.param(Encoder, (1, 21, 32), marks=EXTENDED),
    ],
)
def test_an_engine_s_program_is_not_made_twice(card: str, make: Any, size: tuple[int, ...]) -> None:
    x = torch.randn(size)
    model: Any = quantize(make().eval(), [(x,)], scales="pow2", bias="int32", progress=False)
    made = run(model, card, x)
    assert counts()[:2] == (1, 0)
    with fpga_dynamo.trace() as recorder:
        read = run(model, card, x)
    assert torch.equal(read, made)
    assert counts()[:2] == (0, 1)
    assert {command.name for command in recorder.commands} == {"mac", "vector"}
    if make is not Encoder:
        with torch.no_grad():
            assert torch.equal(made, model(x))
    assert all(command.arguments["layer"] for command in recorder.commands)


def test_constants_are_packed_from_the_weights_that_are_there_now(card: str) -> None:
    """From disk after a change, and by a compiled model that goes on after another one."""
    x = torch.randn(5, 40)
    model: Any = quantize(nn.Sequential(nn.Linear(40, 33), nn.ReLU()).eval(), [(x,)], scales="pow2", progress=False)
    weight: torch.Tensor = model.get_buffer("_frozen_param0")
    with torch.no_grad():
        old = run(model, card, x)
        weight.copy_(weight.flip(0))
        new = run(model, card, x)
        assert torch.equal(new, model(x)) and not torch.equal(new, old)
        assert counts()[1] == 1
        compiled = torch.compile(model, backend="fpga", options={"xclbin": card, "partition": "greedy"})
        assert torch.equal(compiled(x), new)
        weight.copy_(weight.flip(0))
        assert torch.equal(compiled(x), old)
