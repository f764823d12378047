"""`fpga-dynamo doctor` and `devices`: they run on any machine, and say what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

import fpga_dynamo
import xclbin_build
from fpga_dynamo.tools import doctor
from fpga_dynamo.tools.cli import main


def test_whatever_is_not_good_has_a_remedy() -> None:
    findings = doctor.examine()
    assert {"compiler", "emulator", "driver xrt", "driver pyxrt", "cards that XRT sees"} <= {
        finding.subject for finding in findings
    }
    assert all(finding.found for finding in findings)
    assert not [finding for finding in findings if finding.state != doctor.GOOD and not finding.remedy]


def test_a_missing_compiler_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    finding = next(finding for finding in doctor.examine() if finding.subject == "compiler")
    assert finding.state == doctor.WRONG and "g++" in finding.remedy
    assert main(["doctor"]) == 2


def test_an_xclbin_is_looked_at(tmp_path: Path) -> None:
    good = xclbin_build.cached(Path(__file__).parents[1] / "examples/plain_kernel/vadd.toml")
    assert "target emu" in doctor.examine(good)[-1].found
    (tmp_path / "broken.xclbin").write_bytes(good.read_bytes()[:1000])
    assert doctor.examine(tmp_path / "broken.xclbin")[-1].state == doctor.WRONG
    assert main(["doctor", str(tmp_path / "none.xclbin")]) == 2


def test_devices_lists_the_software_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FPGA_DYNAMO_EMULATED_CARDS", "2")
    assert [d.index for d in fpga_dynamo.devices() if d.driver == "emulated"] == [0, 1]
