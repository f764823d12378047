"""Dynamo's debugging of backends (TORCHDYNAMO_REPRO_AFTER), which runs and compares what they compile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import torch

def function(x):
    return torch.relu(x @ x).sum(0)

x = torch.randn(8, 8)
torch.testing.assert_close(torch.compile(function, backend="fpga")(x), function(x), rtol=1e-4, atol=1e-5)
"""


def run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    names = {**os.environ, **environment, "TORCHDYNAMO_DEBUG_DIR": str(folder), "TORCH_COMPILE_DEBUG_DIR": str(folder)}
    return subprocess.run([sys.executable, *command], cwd=folder, env=names, capture_output=True, text=True)


@pytest.mark.parametrize("after", ["dynamo", "aot"])
def test_a_program_that_compiles_gives_eager_s_answer(after: str, tmp_path: Path) -> None:
    ended = run(tmp_path, "-c", PROGRAM, TORCHDYNAMO_REPRO_AFTER=after, TORCHDYNAMO_REPRO_LEVEL="4")
    assert ended.returncode == 0, ended.stderr
    assert not list(tmp_path.rglob("*.py"))
