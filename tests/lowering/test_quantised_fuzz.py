"""Random quantised networks; what they are made of is in fpga_dynamo/testing/quantised.py."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from fpga_dynamo.testing.quantised import KINDS, RandomLayer, fuzz_quantised, script
from fpga_dynamo.tools.cli import main
from tests.lowering.lowering_cases import GREEDY

EXAMPLES = 25


@pytest.mark.slow
@pytest.mark.extended
def test_random_networks() -> None:
    report = fuzz_quantised(EXAMPLES, seed=1, options=GREEDY)
    assert not report.failures, str(report)
    assert report.examples == EXAMPLES and report.launches >= EXAMPLES


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["fuzz", "--dtype", "int8", "--examples", "2", "--out", str(tmp_path)]) == 0
    assert "2 examples of " in capsys.readouterr().out


def test_a_failure_becomes_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise AssertionError("one is other than the other")

    with monkeypatch.context() as patched:
        patched.setattr("fpga_dynamo.testing.quantised.check", wrong)
        report = fuzz_quantised(3, seed=0, out_dir=tmp_path)
    (failure,) = report.failures
    assert failure.message == "one is other than the other" and failure.script is not None
    runpy.run_path(str(failure.script))  # with the true check it holds


def test_every_kind_of_layer(tmp_path: Path) -> None:
    grid = (2.0**-4, 5, torch.int8)
    for kind in KINDS:
        text = script([RandomLayer(kind, grid, 1, grid)], (2.0**-4, 100, torch.uint8), 1, dict(GREEDY), "")
        (tmp_path / "one.py").write_text(text)
        runpy.run_path(str(tmp_path / "one.py"))


@pytest.mark.slow
def test_many_random_networks() -> None:
    report = fuzz_quantised(5000, seed=0, options=GREEDY)
    assert not report.failures, str(report)
