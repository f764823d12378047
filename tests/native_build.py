"""Builds of the native sources for checking tools, each in a folder of its own under build/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nanobind

ROOT = Path(__file__).resolve().parents[1]
_BIN = Path(sys.executable).parent


def configure(folder: Path, *options: str) -> None:
    """Configures CMake in `folder` with the tools of this environment.

    Raises subprocess.CalledProcessError when CMake fails; its message is on stderr.
    """
    command = [
        _BIN / "cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={_BIN / 'ninja'}",
        f"-DPython_EXECUTABLE={sys.executable}", f"-Dnanobind_DIR={nanobind.cmake_dir()}", *options,
    ]  # fmt: skip
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)


def build(folder: Path, target: str) -> None:
    """Builds `target` in a configured folder; raises subprocess.CalledProcessError when the compiler fails."""
    subprocess.run([str(_BIN / "cmake"), "--build", str(folder), "--target", target, "--parallel", "2"], check=True)
