"""Dynamo's debugging of backends (TORCHDYNAMO_REPRO_AFTER), which runs and compares what they compile."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backend.backend_kit import ROOT

pytestmark = pytest.mark.slow

PROGRAM = """
import torch

def function(x):
    return torch.relu(x @ x).sum(0)

x = torch.randn(8, 8)
torch.testing.assert_close(torch.compile(function, backend="fpga")(x), function(x), rtol=1e-4, atol=1e-5)
"""


WRONG = """
import torch
from tests.backend.fault_ops import Fault, faulty, ill

def function(x):
    y = torch.relu(x * 1.0) + torch.tanh(x) * 0
    return torch.relu(faulty(y, int(Fault.{fault})) * 2) - y

torch.compile(function, backend="faulty_card")(ill())
"""

FAULTY_CARD = """
from torch._dynamo import register_backend
from tests.backend.fault_ops import FAULTY
from fpga_dynamo.frontend.backend import fpga
from fpga_dynamo.lowering.patterns import register_pattern

register_pattern(FAULTY)

@register_backend(name="faulty_card")
def faulty_card(module, inputs):
    return fpga(module, inputs, options={{"partition": "greedy", "strict": {strict}, "xclbin": {xclbin!r}}})
"""
"""What every process of the test runs at its start, the scripts that Dynamo writes too."""


def run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    names = {**os.environ, **environment, "TORCHDYNAMO_DEBUG_DIR": str(folder), "TORCH_COMPILE_DEBUG_DIR": str(folder)}
    return subprocess.run([sys.executable, *command], cwd=folder, env=names, capture_output=True, text=True)


@pytest.mark.parametrize("after", ["dynamo", "aot"])
def test_a_program_that_compiles_gives_eager_s_answer(after: str, tmp_path: Path) -> None:
    ended = run(tmp_path, "-c", PROGRAM, TORCHDYNAMO_REPRO_AFTER=after, TORCHDYNAMO_REPRO_LEVEL="4")
    assert ended.returncode == 0, ended.stderr
    assert not list(tmp_path.rglob("*.py"))


@pytest.mark.parametrize(
    "fault, level, error", [("WRONG", "4", "AccuracyError"), ("STATUS", "2", "DeviceError")], ids=["wrong", "failing"]
)
def test_a_program_that_fails_is_reduced_to_the_op_that_does(
    faulty_xclbin: Path, fault: str, level: str, error: str, tmp_path: Path
) -> None:
    start = FAULTY_CARD.format(strict=fault == "STATUS", xclbin=str(faulty_xclbin))
    (tmp_path / "sitecustomize.py").write_text(start)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    ended = run(
        tmp_path,
        "-c",
        WRONG.format(fault=fault),
        PYTHONPATH=path,
        TORCHDYNAMO_REPRO_AFTER="dynamo",
        TORCHDYNAMO_REPRO_LEVEL=level,
    )
    assert error in ended.stderr
    (launcher,) = tmp_path.rglob("minifier_launcher.py")
    run(tmp_path, str(launcher), PYTHONPATH=path)
    repro = tmp_path / "repro.py"
    calls = re.findall(r"= (\S+)\(", repro.read_text().partition("def forward")[2].partition("return")[0])
    assert calls == ["torch.ops.backend_test.faulty.default"]
    ended = run(tmp_path, str(repro), PYTHONPATH=path)
    assert error in ended.stderr, ended.stderr
