"""Numbers of the cores that add up on xclbins compiled and planned for each level of x86-64 that this machine can run,
and for the plans of those that it cannot: against float64, and those with fused multiply-adds against each other.

A small recipe has these cores; still, compiling it for every plan takes a minute. tests/hls_kernels compares benches.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import xclbin_build
from fpga_dynamo import stats
from fpga_dynamo.testing.reference import measure
from tests.lowering.lowering_cases import Call, programs_of, randomise
from tests.marks import EXTENDED
from xclbin_build.toolchain.isa import host_isa

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
FACTOR = 8.0  # of eager float32's own error against float64: that of Winograd's tests
RECIPE = """
name = "sums"
[kernel.sequencer]
cores = ["conv2d", "winograd", "gemm", "attention", "reduce", "move"]
cu = 1
"""

pytestmark = [*EXTENDED, pytest.mark.skipif(host_isa() not in LEVELS, reason="needs x86-64-v2 or better")]


@pytest.fixture(scope="module")
def xclbins(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The xclbin planned for a level, compiled for the same or the highest one that this machine runs."""
    recipe = tmp_path_factory.mktemp("recipe") / "sums.toml"
    recipe.write_text(RECIPE)

    def built(plan: str) -> Path:
        isa = min(plan, host_isa(), key=LEVELS.index)
        asked = {"FPGA_DYNAMO_ISA", "FPGA_DYNAMO_PLAN"} & set(os.environ)
        if isa == plan == host_isa() and not asked:
            return xclbin_build.cached()  # other tests have built it
        return xclbin_build.cached(recipe, isa=isa, plan=plan)

    return built


MODELS: dict[str, tuple[nn.Module, tuple[tuple[int, ...], ...], str]] = {
    "gemm": (nn.Linear(700, 130), ((33, 700),), "gemm"),
    "gemm of one row": (nn.Linear(700, 130), ((1, 700),), "gemm"),
    "batched gemm": (Call(torch.matmul), ((3, 19, 300), (3, 300, 40)), "gemm"),
    "conv": (nn.Conv2d(70, 50, 3, stride=2, padding=1), ((2, 70, 15, 13),), "conv2d"),
    "conv to one pixel": (nn.Conv2d(70, 50, 3), ((1, 70, 3, 3),), "conv2d"),
    "winograd": (nn.Conv2d(384, 16, 3, padding=1), ((2, 384, 16, 15),), "winograd"),
    "wide winograd": (nn.Conv2d(130, 100, 3, padding=1), ((1, 130, 13, 14),), "winograd"),
    "attention": (Call(F.scaled_dot_product_attention), ((1, 2, 45, 32),) * 3, "attention"),
    "sum": (Call(lambda x: x.sum(-1)), ((17, 5000),), "reduce"),
    "softmax": (Call(lambda x: x.softmax(-1)), ((17, 900),), "reduce"),
}


@pytest.mark.parametrize("name", MODELS)
def test_numbers_under_every_plan(xclbins: Callable[[str], Path], name: str) -> None:
    model, shapes, opcode = MODELS[name]
    winograd = 4 if opcode == "winograd" else False
    model = randomise(copy.deepcopy(model))
    generator = torch.Generator().manual_seed(5)
    inputs = [torch.randn(shape, generator=generator) for shape in shapes]
    failed = stats()["ps_fallbacks"]
    results = {}
    with torch.no_grad():
        eager, exact = model(*inputs), copy.deepcopy(model).double()(*[x.double() for x in inputs])
        for plan in LEVELS:
            torch._dynamo.reset()
            options: dict[str, Any] = {"partition": "greedy", "cache": False, "winograd": winograd}
            compiled = torch.compile(model, backend="fpga", options={"xclbin": str(xclbins(plan)), **options})
            compiled(*[torch.full_like(x, float("nan")) for x in inputs])  # what is not written again stays visible
            results[plan] = compiled(*inputs)
            errors = measure(results[plan], eager, exact, FACTOR)
            assert torch.isfinite(results[plan]).all()
            assert errors.compiled <= errors.bound, (plan, errors)
    opcodes = [
        command.opcode
        for program in programs_of(model, *inputs, xclbin=str(xclbins(LEVELS[0])), cache=False, winograd=winograd)
        for task in program.card_tasks
        for command in task.commands
    ]
    assert opcode in opcodes
    assert stats()["ps_fallbacks"] == failed
    if host_isa() != "x86-64-v2":
        assert torch.equal(results["x86-64-v3"], results["x86-64-v4"])
    else:
        assert torch.equal(results["x86-64-v2"], results["x86-64-v4"])
