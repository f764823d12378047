"""Stand-ins for AMD's tools, which check their command lines and configuration files strictly and write small outputs.

`install` puts v++, vitis-run, emconfigutil, xclbinutil, bootgen and dtc on PATH. What they know is what AMD's guides
say of the releases (UG1393, UG1399, UG1702): an option that a release does not have ends with an error. `calls` has
what they were called with; `configure(faults={STEP: FAULT})` makes a step fail in one of the ways of fake_tools.py.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.xclbin_build import fake_tools
from tests.xclbin_build.fake_tools import step_of
from xclbin_build.axlf import Axlf, Mode, write

TOOLS = ("v++", "vitis-run", "emconfigutil", "xclbinutil", "bootgen", "dtc")
BIT = bytes.fromhex("00090ff00ff00ff00ff0000001") + b"top;UserID=0" + bytes.fromhex("ffffffffaa99556620000000")


@dataclass(frozen=True)
class FakeVitis:
    """The tools on PATH. folder: where they lie."""

    folder: Path

    @property
    def calls(self) -> list[list[str]]:
        log = self.folder / "calls"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []

    def steps(self) -> list[str]:
        """What was called, in short: "csynth vadd", "link"."""
        return [step_of(call) for call in self.calls if "--version" not in call]

    def forget(self) -> None:
        (self.folder / "calls").unlink(missing_ok=True)

    def configure(self, **values: object) -> None:
        path = self.folder / "settings"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, release: str = "2023.2", leave_out: tuple[str, ...] = ()
) -> FakeVitis:
    """Puts the tools on PATH. leave_out: tools that are missing."""
    folder.mkdir()
    settings = {"release": release, "faults": {}, "loops": {}, "estimated": 2.4}
    (folder / "settings").write_text(json.dumps(settings))
    for kind, bits in (("board", BIT), ("card", b"bits")):
        write(folder / f"{kind}.xclbin", Axlf({0: bits, 7: b"connections"}, Mode.FLAT, kind, timestamp=77))
    for tool in TOOLS:
        if tool in leave_out or (tool == "vitis-run" and release < "2023.2"):
            continue
        script = folder / tool
        script.write_text(
            f"#!{sys.executable} -ISE\nimport sys\nsys.path.insert(0, {str(Path(fake_tools.__file__).parent)!r})\n"
            f"import fake_tools\nfake_tools.main({tool!r}, {str(folder)!r})\n"
        )
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return FakeVitis(folder)
