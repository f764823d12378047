"""Quantised and floating-point networks on several units that share each command: the values of one unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from fpga_dynamo.codegen.engine.command import MacCommand
from fpga_dynamo.codegen.engine.sizes import EngineSizes
from fpga_dynamo.codegen.engine.target import FITTED, EngineTarget
from fpga_dynamo.frontend.capture import capture
from fpga_dynamo.quantize import quantize
from fpga_dynamo.tools.estimate.program import lower_for_engine
from fpga_dynamo.tools.estimate.simulation import EngineRun, SharedCard, counted
from tests.lowering.test_engine_floats import Deep
from tests.lowering.test_engine_gather import Attention, Tokens, Windows
from tests.lowering.test_engine_lowering import CARD, Residual
from tests.lowering.test_engine_phases import Skipped

SIZES = EngineSizes(2, 16, lanes=16, window_rows=1024, weight_steps=128, vector_lanes=16, vector_depth=256)


def engine(units: int, sizes: EngineSizes = SIZES) -> EngineTarget:
    return EngineTarget("test", sizes, FITTED["u250"], CARD, units)


@pytest.mark.slow
@pytest.mark.parametrize("network", [Residual, Skipped])
def test_two_units_have_eagers_bits(network: type[nn.Module]) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 3, 34, 36)
    converted = quantize(network().eval(), [(x,)], scales="pow2", bias="int32", progress=False)
    captured = capture(converted, (x,))
    program = lower_for_engine(captured.module, engine(2), captured.static)
    assert all(len(emitted.working) == 2 for emitted in program.lists.launches[0][:3])
    found = counted(program, SharedCard(program.engine, "u250"), captured.tensors())
    assert not found.differences and found.values
    assert list(found.ends[0]) == sorted(found.ends[0]) and found.ends[0][-1] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "size"),
    [(Windows, (1, 3, 14, 21)), (lambda: Attention(3, 24, bias=True), (2, 10, 72)), (Tokens, (3, 10, 64))],
)
def test_copies_of_two_units_have_eagers_bits(make: Callable[[], nn.Module], size: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(size)
    converted = quantize(make().eval(), [(x,)], scales="pow2", bias="int32", progress=False)
    captured = capture(converted, (x,))
    program = lower_for_engine(captured.module, engine(2, replace(SIZES, gather=True)), captured.static)
    assert len(program.lists.launches) == 1
    found = counted(program, SharedCard(program.engine, "u250"), captured.tensors())
    assert not found.differences and found.values


@pytest.mark.slow
def test_each_of_two_units_keeps_its_own_sums() -> None:
    torch.manual_seed(0)
    deep, wide = nn.Conv2d(304, 40, 3, padding=1), nn.Conv2d(40, 20, 5, padding=2)
    x = torch.randn(1, 304, 5, 300)
    converted = quantize(nn.Sequential(deep, nn.ReLU(), wide).eval(), [(x,)], scales="pow2", progress=False)
    captured = capture(converted, (x,))
    program = lower_for_engine(captured.module, engine(2), captured.static)
    raw = [[c for c in e.working if isinstance(c, MacCommand) and c.raw] for e in program.lists.launches[0]]
    assert any(len({c.output for c in own}) == 2 for own in raw)
    found = counted(program, SharedCard(program.engine, "u250"), captured.tensors())
    assert not found.differences and found.values == 2


@pytest.mark.slow
def test_two_units_of_floats_have_the_bits_of_one() -> None:
    sizes = replace(SIZES, in_channels=8, element_bytes=4, vector_lanes=0, weight_steps=512)
    torch.manual_seed(0)
    model: nn.Module = Deep().eval()
    results = []
    for units in (1, 2):
        captured = capture(model, (torch.ones(1, 160, 6, 7).cumsum(1).sin(),))
        program = lower_for_engine(captured.module, engine(units, sizes), captured.static)
        results.append(EngineRun(program, SharedCard(program.engine, "u250"), captured.tensors()).results()[0])
    assert torch.equal(*results)
