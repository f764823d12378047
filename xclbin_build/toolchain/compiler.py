"""The C++ compiler of the software card's kernels."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..errors import ToolchainError


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: the words that start it and the first line of its --version."""

    command: tuple[str, ...]
    version: str


def find_compiler() -> Compiler:
    """$CXX if set, else g++ or clang++ on PATH.

    Raises ToolchainError, which says how to install one, if there is none or it does not start.
    """
    wanted = os.environ.get("CXX", "")
    if wanted:
        command = shlex.split(wanted)
        if not command or not shutil.which(command[0]):
            raise ToolchainError(f"the compiler in $CXX, '{wanted}', was not found; unset CXX or name one on PATH.")
        return _probe(tuple(command))
    for name in ("g++", "clang++"):
        if shutil.which(name):
            return _probe((name,))
    raise ToolchainError(
        "a C++ compiler is needed to build the software card's kernels and none was found; "
        "install g++ ('apt-get install g++', 'dnf install gcc-c++') or set CXX."
    )


def knows(options: tuple[str, ...]) -> bool:
    """Whether there is a compiler, and it takes these options."""
    try:
        call = [*find_compiler().command, *options, "-x", "c++", "-fsyntax-only", os.devnull]
        return subprocess.run(call, capture_output=True, timeout=60).returncode == 0
    except (ToolchainError, subprocess.SubprocessError):
        return False


def _probe(command: tuple[str, ...]) -> Compiler:
    path = Path(shutil.which(command[0]) or command[0])
    return _probed(command, str(path.resolve()), path.stat().st_mtime_ns)


@functools.lru_cache
def _probed(command: tuple[str, ...], path: str, modified: int) -> Compiler:
    """Starts the compiler once a process for each version of its file."""
    try:
        result = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainError(
            f"the compiler '{shlex.join(command)}' does not start ({error}); set CXX to one that does."
        ) from error
    lines = result.stdout.splitlines()
    return Compiler(command, lines[0] if lines else path)
