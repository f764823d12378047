"""conformance.py over every driver that is there: the software card, XRT with it inside and outside of the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from xrt_kit import HERE, environment, needs

SECONDS = 300


@pytest.mark.parametrize("driver", ["emulated", "inproc"])
def test_conformance(driver: str, tmp_path: Path) -> None:
    needs(driver)
    code, output = run_apart(
        ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(HERE / "conformance.py")], driver, tmp_path
    )
    assert code == 0, output[-6000:]


def run_apart(arguments: list[str], driver: str, folder: Path, seconds: float = SECONDS) -> tuple[int, str]:
    """Runs Python in a session of its own, so that nothing it does to its process group comes back."""
    output = folder / "output.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment(driver), cwd=folder,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
    return code, output.read_text(errors="replace")
