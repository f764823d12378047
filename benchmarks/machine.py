"""The machine's roofs, measured by machine.cpp: compiled when needed, with the compiler of the emulator."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("machine.cpp")


class NoCompilerError(Exception):
    """The program cannot be compiled here."""


@dataclass(frozen=True)
class Roofs:
    """Peak of fused multiply-adds in FLOP/s, and read bandwidth by level of memory in bytes/s, of all threads."""

    threads: int
    flops: float
    bandwidth: dict[str, float]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Roofs:
        return cls(data["threads"], data["flops"], dict(data["bandwidth"]))

    def attainable(self, intensity: float, level: str) -> float:
        """FLOP/s at most for so many FLOPs a byte (Williams, Waterman and Patterson, "Roofline", 2009)."""
        return min(self.flops, intensity * self.bandwidth[level])


def measure(*threads: int) -> list[Roofs]:
    """The roofs for each number of threads. Raises NoCompilerError."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise NoCompilerError("no C++ compiler: install g++ or set CXX")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "machine"
        flags = ["-std=c++20", "-O3", "-march=native", "-mprefer-vector-width=512", "-ffp-contract=fast", "-pthread"]
        done = subprocess.run([compiler, *flags, SOURCE, "-o", program], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoCompilerError(f"{compiler} does not compile {SOURCE.name}: {done.stderr.strip()[:300]}")
        return [Roofs.from_dict(json.loads(subprocess.check_output([program, str(count)]))) for count in threads]
