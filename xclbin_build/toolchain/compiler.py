"""The C++ compiler of the emulator's kernels."""

from __future__ import annotations

import functools
import os
import platform
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ToolchainError
from . import elf, process

_PROBE_S = 60.0
_VERSION_CHARACTERS = 200
_ERROR_LINES = 40


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: the words that start it and the first line of its --version."""

    command: tuple[str, ...]
    version: str


def find_compiler(architecture: str = "") -> Compiler:
    """$CXX if set, else g++ or clang++ on PATH, or the cross-compiler of another architecture than this machine's.

    architecture: by the names of `uname -m`.
    Raises ToolchainError, which says how to install one, if none is found or it does not start.
    """
    wanted = os.environ.get("CXX", "")
    if wanted:
        command = shlex.split(wanted)
        if not command or not shutil.which(command[0]):
            raise ToolchainError(f"the compiler in $CXX, '{wanted}', was not found; unset CXX or name one on PATH.")
        return probe(tuple(command))
    if architecture not in ("", platform.machine()):
        cross = f"{architecture}-linux-gnu-g++"
        if shutil.which(cross):
            return probe((cross,))
        raise ToolchainError(
            f"kernels for {architecture} need a cross-compiler, and {cross} was not found; install "
            f"g++-{architecture}-linux-gnu or set CXX."
        )
    for name in ("g++", "clang++"):
        if shutil.which(name):
            return probe((name,))
    raise ToolchainError(
        "a C++ compiler is needed to build the emulator's kernels and was not found; install g++ ('apt-get install "
        "g++', 'dnf install gcc-c++') or set CXX."
    )


def knows(options: tuple[str, ...]) -> bool:
    """Whether there is a compiler, and it takes these options."""
    try:
        call = [*find_compiler().command, *options, "-x", "c++", "-fsyntax-only", os.devnull]
        return process.run(call, timeout=_probe_limit()).status == 0
    except (ToolchainError, OSError):
        return False


def shared_object(arguments: Sequence[str], output: Path) -> None:
    """Compiles and links a shared object, which takes the place of `output` when it is whole.

    Raises ToolchainError with the compiler's words if it fails, takes longer than `process.time_limit()`, or succeeds
    and has not written one.
    """
    compiler = find_compiler()
    with tempfile.TemporaryDirectory(prefix=".", dir=output.parent) as folder:
        partial = Path(folder) / output.name
        try:
            result = process.run([*compiler.command, *arguments, "-o", str(partial)], timeout=process.time_limit())
        except OSError as error:
            raise _does_not_start(compiler.command, error) from error
        if result.status:
            words = "\n".join(result.output.splitlines()[:_ERROR_LINES])
            raise ToolchainError(f"the compiler rejected the sources:\n{words or f'it ended with {result.status}'}")
        check_written(compiler, partial)
        os.replace(partial, output)


def check_written(compiler: Compiler, output: Path, architecture: str = "") -> bytes:
    """The shared object that a compiler says it has written.

    Raises ToolchainError if it is not there, not whole, or of another architecture than the one that is asked for.
    """
    try:
        data = output.read_bytes()
        fault = elf.fault(data, shared=True, architecture=architecture)
    except OSError as error:
        fault = error.strerror or str(error)
    if fault:
        raise ToolchainError(
            f"the compiler '{shlex.join(compiler.command)}' reported success, but its output {output.name} cannot be "
            f"used: {fault}; set CXX to a working compiler, and check whether the disk is full."
        )
    return data


def probe(command: tuple[str, ...]) -> Compiler:
    """The compiler that a command starts. Raises ToolchainError if it does not."""
    path = Path(shutil.which(command[0]) or command[0])
    return _start(command, str(path.resolve()), path.stat().st_mtime_ns)


@functools.lru_cache
def _start(command: tuple[str, ...], path: str, modified: int) -> Compiler:
    """Starts the compiler once a process for each version of its file."""
    try:
        result = process.run([*command, "--version"], timeout=_probe_limit(), errors=False)
    except (OSError, process.TimedOutError) as error:
        raise _does_not_start(command, error) from error
    if result.status:
        raise _does_not_start(command, f"--version ends with status {result.status}")
    line = result.output.strip().partition("\n")[0]
    return Compiler(command, "".join(filter(str.isprintable, line))[:_VERSION_CHARACTERS] or path)


def _probe_limit() -> float:
    return min(_PROBE_S, process.time_limit())


def _does_not_start(command: Sequence[str], reason: object) -> ToolchainError:
    return ToolchainError(
        f"the compiler '{shlex.join(command)}' does not start ({reason}); set CXX to a working compiler."
    )
