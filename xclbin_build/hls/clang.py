"""clang 19, its `opt` and `llvm-link`: found, started, and missed with one sentence."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hls_kernels import STAND_INS

from ..errors import ToolchainError
from ..toolchain import process

VERSION = 19  # what the text of the IR and of scalar evolution is read as
HEADERS = (Path(__file__).parent / "headers", STAND_INS)
"""Replacements of AMD's headers: the checker's own, and those that it shares with the emulator."""
_TIMEOUT_S = 300
_MOST_BYTES = 1 << 29
"""Of what a tool prints; the IR of the largest engine has a hundredth of it."""


@dataclass(frozen=True)
class Clang:
    """Paths of `clang`, `opt` and `llvm-link`, all of LLVM 19."""

    clang: str
    opt: str
    link: str


class SourceError(ToolchainError):
    """A source that clang refuses; `places` are the files and lines that it complains about, with what it says of them,
    "" for lines that only lead there."""

    def __init__(self, message: str, places: tuple[tuple[str, int, str], ...] = ()) -> None:
        super().__init__(message)
        self.places = places


@functools.cache
def find() -> Clang:
    """clang 19 on PATH or in $LLVM_BIN.

    Raises ToolchainError, which says how to install it, if it is not found.
    """
    folders = [os.environ.get("LLVM_BIN"), None, f"/usr/lib/llvm-{VERSION}/bin"]
    for folder in folders:
        for suffix in (f"-{VERSION}", ""):
            tools = [shutil.which(f"{name}{suffix}", path=folder) for name in ("clang", "opt", "llvm-link")]
            found = [tool for tool in tools if tool and _version(tool) == VERSION]
            if len(found) == len(tools):
                return Clang(*found)
    raise ToolchainError(
        f"the checker of loops requires clang, opt and llvm-link of LLVM {VERSION}, which were not found: "
        f"'apt-get install clang-{VERSION} llvm-{VERSION}', or set LLVM_BIN to the folder that they lie in."
    )


def available() -> bool:
    """Whether the checker can run here."""
    try:
        find()
    except ToolchainError:
        return False
    return True


def run(tool: str, arguments: list[str], *, text: str | None = None) -> tuple[str, str]:
    """Standard output and standard error of a call of a tool: "clang", "opt" or "link".

    Raises SourceError with what it complains about if it fails, ToolchainError if it takes longer than five minutes.
    """
    command = [getattr(find(), tool), *arguments]
    # Files, not pipes: `opt` writes what it says of scalar evolution word by word, and each would wake this process.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as told:
        try:
            given = text.encode("utf-8", "surrogateescape") if text is not None else None
            result = subprocess.run(command, input=given, stdout=out, stderr=told, timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise ToolchainError(f"{tool} ran for more than {_TIMEOUT_S} s; check a smaller source.") from error
        printed, complaints = (_read(file) for file in (out, told))
    if result.returncode:
        raise SourceError(*_complaint(tool, complaints))
    return printed, complaints


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MOST_BYTES).decode(errors="replace")


def _complaint(tool: str, errors: str) -> tuple[str, tuple[tuple[str, int, str], ...]]:
    wrong = [line for line in errors.splitlines() if re.search(r"\berror:", line)]
    # An error within a template names the place that it is called from in notes and in "in instantiation" lines.
    said = re.finditer(r"^([^:\n]*):(\d+):\d+: (error|note): ([^\n]*)", errors, re.M)
    places = tuple((m[1], int(m[2]), m[4] if m[3] == "error" else "") for m in said)
    words = "; ".join(wrong[:3]) or errors[:400].strip() or "it failed without a message"
    refused = "llvm-link rejects the sources" if tool == "link" else f"{tool} rejects the source"
    return f"{refused}: {words}", places


@functools.cache
def _version(tool: str) -> int:
    try:
        words = process.run([tool, "--version"], timeout=20, errors=False).output
    except (OSError, ToolchainError):
        return 0
    match = re.search(r"version (\d+)\.", words)
    return int(match[1]) if match else 0
