"""`torch.compile` and `fpga-dynamo estimate` lower by one loop: the same launches with the same commands."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from fpga_dynamo.codegen.engine.commands import Emitted
from fpga_dynamo.codegen.engine.sizes import EngineSizes
from fpga_dynamo.codegen.engine.target import EngineTarget, MemoryTiming
from fpga_dynamo.frontend.capture import capture
from fpga_dynamo.lowering.passes.engine.plan import plan_for_engine
from fpga_dynamo.lowering.passes.pipeline import prepare
from fpga_dynamo.quantize import quantize
from fpga_dynamo.tools.estimate.program import lower_for_engine, target_of
from tests.lowering.test_engine_lowering import CARD, ENGINE, Joined, Residual

CASTS = replace(ENGINE, sizes=replace(ENGINE.sizes, casts=True))
NO_VECTORS = EngineTarget("test", EngineSizes(8, 32, vector_lanes=0), MemoryTiming(0.93), CARD)


class Parts(nn.Module):
    """Parts of a match, which the host reads in another order than the engine gives them."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.sizes, self.up = sizes, nn.Conv2d(3, sum(sizes), 1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        parts = torch.relu(self.up(x)).split(self.sizes, 1)
        return tuple(part * 1.0 for part in reversed(parts))


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], EngineTarget, int]] = {
    "one launch": (Residual, (1, 3, 33, 35), ENGINE, 1),
    "a concatenation": (lambda: Joined((24, 16)), (1, 16, 12, 12), ENGINE, 1),
    "casts": (Residual, (1, 3, 33, 35), CASTS, 1),
    "casts of parts": (lambda: Parts((7, 33)), (1, 3, 6, 5), CASTS, 1),
    "several launches": (_encoder, (1, 21, 64), NO_VECTORS, 3),
    "parts read in another order": (lambda: Parts((7, 33)), (1, 3, 6, 5), ENGINE, 1),
    "three parts": (lambda: Parts((5, 9, 20)), (1, 3, 6, 5), ENGINE, 1),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_launches_of_an_estimate_are_those_of_torch_compile(name: str) -> None:
    torch.manual_seed(0)
    make, size, engine, launches = MODELS[name]
    x = torch.randn(size)
    captured = capture(quantize(make().eval(), [(x,)], scales="pow2", progress=False), (x,))
    estimated = lower_for_engine(copy.deepcopy(captured.module), engine, captured.static)

    plan = plan_for_engine(prepare(captured.module, target_of(engine), captured.static), engine)

    compiled = [launch for memory in plan.memories for launch in memory.emitter.lists.launches]
    assert len(compiled) == launches
    assert list(map(_commands, compiled)) == list(map(_commands, estimated.lists.launches))
    reasons = {node.name: why for node, why in plan.parts.reasons.items()}
    assert reasons == {node.name: why for node, why in estimated.left.items()}
    assert [segment.on_card for segment in plan.parts.segments].count(True) == launches


def _commands(launch: Sequence[Emitted]) -> list[tuple[str, str, int, str]]:
    """What the commands compute, without their addresses."""
    return [(e.node.name, e.pattern, e.macs, type(e.command).__name__) for e in launch]
