"""Running Python apart, for tests of what may take its process group with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.driver.xrt_kit import ROOT, environment

WITHOUT_TORCH = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import tests.driver.bare_package\n"
"""Begins a script that needs no more of the package than its drivers: see bare_package.py."""


def run_apart(arguments: list[str], driver: str, folder: Path, seconds: float = 300) -> tuple[int, str]:
    """Exit code and output of Python, in a session of its own with this driver; -9 if it takes longer."""
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
