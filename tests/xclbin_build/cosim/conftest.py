"""What tests of the co-simulation share; without clang 19 they are skipped."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from xclbin_build.cli import main
from xclbin_build.hls import clang

CASES = Path(__file__).parent / "cases"


@dataclass
class Outcome:
    """status: of the command; found: its JSON; bench: what the test bench printed."""

    status: int
    found: dict[str, Any]
    bench: str

    def process(self, name: str) -> dict[str, Any]:
        return next(one for one in self.found["processes"] if one["name"] == name)

    def fifo(self, name: str) -> dict[str, Any]:
        return next(one for one in self.found["fifos"] if one["name"] == name)


Simulate = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def _clang() -> None:
    if not clang.available():
        pytest.skip("clang 19 is not installed")


@pytest.fixture
def simulate(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Simulate:
    """Simulates a design that is given as text, with the statements of its bench's main()."""

    def run(kernel: str, bench: str, *options: str, top: str = "top") -> Outcome:
        (tmp_path / "kernel.cpp").write_text(textwrap.dedent(kernel))
        (tmp_path / "tb.cpp").write_text(textwrap.dedent(bench))
        words = [str(tmp_path / "kernel.cpp"), "-k", top, "--tb", str(tmp_path / "tb.cpp"), "--clock", "5", "--json"]
        status = main(["cosim", *words, "--part", "xcvu9p-flga2104-2-i", *options])
        captured = capfd.readouterr()
        return Outcome(status, json.loads(captured.out), captured.err)

    return run
