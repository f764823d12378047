"""``aot_compile``: saved, and loaded in another process, which lowers nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, torch, fpga_dynamo

def function(x, w):
    return torch.relu(x @ w) + 1

torch.manual_seed(0)
x, w = torch.randn(16, 12), torch.randn(12, 8)
what, path, xclbin = sys.argv[1:]
with torch.no_grad():
    if what == "save":
        options = {"partition": "greedy", "xclbin": xclbin, "strict": True}
        compiled = torch.compile(function, backend="fpga", fullgraph=True, options=options)
        compiled = compiled.aot_compile(((x, w), {}))
        compiled.save_compiled_function(path)
    else:
        with open(path, "rb") as file:
            compiled = torch.compiler.load_compiled_function(file)
    for _ in range(3):
        x, w = torch.randn(16, 12), torch.randn(12, 8)
        torch.testing.assert_close(compiled(x, w), function(x, w))
counters = fpga_dynamo.stats()
print(int(counters["graphs_compiled"]), int(counters["programs_loaded"]), int(counters["pl_launches"]))
"""


def run(what: str, path: Path, xclbin: str, cache: Path) -> list[int]:
    """Graphs lowered, programs read and launches of a process with a cache of its own."""
    names = {**os.environ, "FPGA_DYNAMO_CACHE": str(cache), "FPGA_DYNAMO_PROGRAM_CACHE": "64"}
    command = [sys.executable, "-c", PROGRAM, what, str(path), xclbin]
    done = subprocess.run(command, env=names, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [int(number) for number in done.stdout.split()]


@pytest.mark.slow
@pytest.mark.extended
def test_a_function_that_another_process_has_compiled(tmp_path: Path, xclbin: str) -> None:
    assert run("save", tmp_path / "saved", xclbin, tmp_path / "one") == [1, 0, 3]
    assert run("load", tmp_path / "saved", xclbin, tmp_path / "two") == [0, 1, 3]
