"""Instruction sets of the host: which level of x86-64 the emulation is compiled for.

The levels are those of the x86-64 psABI; other architectures get the compiler's own default.
"""

from __future__ import annotations

import platform
from pathlib import Path

from ..errors import ToolchainError, did_you_mean

_LEVELS = {
    "x86-64-v2": {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    "x86-64-v3": {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"},
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}  # each level includes the ones before it
BASELINE = "x86-64"


def host_isa(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The highest level that this machine runs, or the name of an architecture other than x86-64."""
    machine = platform.machine()
    if machine not in ("x86_64", "AMD64"):
        return machine or "generic"
    return level_of(_flags(cpuinfo))


def level_of(flags: set[str]) -> str:
    """The highest level of x86-64 whose features, by the names of /proc/cpuinfo, are all among `flags`."""
    reached = BASELINE
    for level, needed in _LEVELS.items():
        if not needed <= flags:
            break
        reached = level
    return reached


def compiler_flags(isa: str) -> list[str]:
    """Options of g++ and clang++ for an instruction set."""
    if isa == "x86-64-v4":
        return [f"-march={isa}", "-mprefer-vector-width=512"]
    if isa == BASELINE or isa in _LEVELS:
        return [f"-march={isa}"]
    return []


def checked(isa: str) -> str:
    """`isa` if it is a level of x86-64 or the host's own architecture, else a ToolchainError."""
    known = [BASELINE, *_LEVELS, host_isa()]
    if isa not in known:
        raise ToolchainError(f"unknown instruction set '{isa}'; {did_you_mean(isa, known)}")
    return isa


def _flags(cpuinfo: Path) -> set[str]:
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())
