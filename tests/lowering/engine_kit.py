"""A small engine for tests: its recipe, a card that counts, and programs on it."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fpga_dynamo.codegen.engine.commands import Emitted
from fpga_dynamo.codegen.engine.target import EngineTarget
from fpga_dynamo.codegen.engine.vector import VectorCommand
from fpga_dynamo.frontend.capture import Captured, capture
from fpga_dynamo.quantize import quantize
from fpga_dynamo.tools.estimate import hardware
from fpga_dynamo.tools.estimate.program import EngineProgram, lower_for_engine
from fpga_dynamo.tools.estimate.simulation import EngineCard, EngineRun, differences

RECIPE = """name = "little"
platform = "u250"
[kernel.engine]
engine = "4x32x16"
window = 512
weights = 128
vector_lanes = 16
vector_depth = 256
"""


@functools.cache
def recipe() -> Path:
    path = Path(tempfile.mkdtemp(prefix="fpga-dynamo-little-")) / "little.toml"
    path.write_text(RECIPE)
    return path


@functools.cache
def card() -> EngineCard:
    return EngineCard(recipe(), "u250")


def little() -> EngineTarget:
    """The engine of the recipe."""
    return hardware.card("u250", str(recipe()), "int8").engine


def lowered(model: nn.Module, *inputs: Any, scales: Any = "pow2") -> tuple[EngineProgram, Captured]:
    converted = quantize(model.eval(), [inputs], scales=scales, bias="int32", progress=False)
    captured = capture(converted, inputs)
    return lower_for_engine(captured.module, little(), captured.static), captured


def left_of(program: EngineProgram) -> list[str]:
    """The reasons of host nodes, without the casts of inputs and results."""
    return [why for why in program.left.values() if not why.startswith("the host ")]


def computing(launch: Sequence[Emitted]) -> list[Emitted]:
    """The commands of a launch but the casts at its borders."""
    return [e for e in launch if not (isinstance(e.command, VectorCommand) and e.command.casts)]


def apart(program: EngineProgram, captured: Captured) -> dict[str, tuple[int, int, int]]:
    """What the card's values differ in from eager mode's; the graph's results are compared as well."""
    run = EngineRun(program, card(), captured.tensors())
    results = run.results()
    found = differences(program, run, captured.tensors())
    if not found:
        for made, wanted in zip(results, captured.results, strict=True):
            assert isinstance(made, Tensor)
            torch.testing.assert_close(made, wanted, rtol=0, atol=0)
    return found


def assert_one_exact_launch(model: nn.Module, *inputs: Any) -> EngineProgram:
    """One launch without a host node whose values on the cycle simulator are bit-identical to eager mode's."""
    program, captured = lowered(model, *inputs)
    assert left_of(program) == [] and len(program.lists.launches) == 1
    assert apart(program, captured) == {}
    return program
