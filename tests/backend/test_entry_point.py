"""The name "fpga" is all that a program needs, and importing the package leaves the program's logging alone."""

from __future__ import annotations

import logging

import torch
from torch import nn

import fpga_dynamo
from tests.backend.backend_kit import run_python

MODEL = """
import os, sys, torch
from torch import nn
torch.manual_seed(0)
model, x = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).eval(), torch.randn(32, 64)
model = nn.Sequential(model, nn.Softmax(-1))
assert "fpga_dynamo.frontend" not in sys.modules or os.environ.get("TORCH_LOGS"), "logs look the name up"
with torch.no_grad():
    def forward(x):
        return torch.atan(model(x))
    answer = torch.compile(forward, backend="fpga", options={"partition": "greedy"})(x)
    torch.testing.assert_close(answer, forward(x))
import fpga_dynamo
assert fpga_dynamo.stats()["pl_launches"] == 1
"""


def test_the_name_is_enough() -> None:
    done = run_python(MODEL)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" and done.stderr == "", "a program that asks for nothing is told nothing"


def test_the_backend_is_listed_with_dynamo_s() -> None:
    assert "fpga" in torch._dynamo.list_backends()


def test_the_function_itself_is_a_backend() -> None:
    model, x = nn.Linear(4, 3), torch.randn(2, 4)
    torch.testing.assert_close(torch.compile(model, backend=fpga_dynamo.fpga)(x), model(x))


def test_torch_logs_shows_passes_and_decisions() -> None:
    done = run_python(MODEL, TORCH_LOGS="+fpga_dynamo")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "fpga_dynamo" in line]
    text = "\n".join(lines)
    assert "matched" in text
    assert "1 launches" in text
    assert "atan (aten.atan.default" in text and "falls back to eager mode: no pattern matches" in text


def test_importing_the_package_configures_no_logging() -> None:
    code = """
import logging, sys
before = (logging.root.level, list(logging.root.handlers))
import fpga_dynamo
fpga_dynamo.fpga  # names are imported on first use
assert (logging.root.level, list(logging.root.handlers)) == before
package = [n for n in logging.root.manager.loggerDict if n.split(".")[0] in ("fpga_dynamo", "xclbin_build")]
assert package
for name in package:
    logger = logging.getLogger(name)
    assert not logger.handlers and logger.level == logging.NOTSET and logger.propagate, name
assert "matplotlib" not in sys.modules
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_a_program_s_own_logging_receives_the_package_s() -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[assignment, method-assign]
    logger = logging.getLogger("fpga_dynamo.lowering.passes.pipeline")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        torch.compile(nn.Linear(4, 3), backend="fpga")(torch.randn(2, 4))
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert any("lowered in" in record.getMessage() for record in records)


def test_everything_that_is_public_exists_and_says_what_it_is() -> None:
    for name in fpga_dynamo.__all__:
        assert getattr(fpga_dynamo, name).__doc__, name
