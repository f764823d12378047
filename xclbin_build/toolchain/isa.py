"""Instruction sets of the host: the level of x86-64 that the emulation is compiled for, and that of its tiles.

The levels are those of the x86-64 psABI; other architectures get the compiler's own default. The *plan* is the level
whose registers the tiles of the MAC array fill, and whose costs the cost model has: usually that of the compiler, but
any host can run any plan, so that all of them can be tested on one machine.
"""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path

from ..errors import ToolchainError, did_you_mean

_LEVELS = {
    "x86-64-v2": {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    "x86-64-v3": {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"},
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}  # each level includes the ones before it
BASELINE = "x86-64"
_PLANS = {"aarch64": (4, 32), BASELINE: (4, 16), "x86-64-v2": (4, 16), "x86-64-v3": (8, 16), "x86-64-v4": (16, 32)}
"""Lanes of a vector register, and how many of these there are."""


def chosen(isa: str | None = None, plan: str | None = None) -> tuple[str, str]:
    """What to compile for and to plan for: as given, else $FPGA_DYNAMO_ISA and $FPGA_DYNAMO_PLAN, else this machine's.

    Raises ToolchainError for an unknown one.
    """
    isa = isa or os.environ.get("FPGA_DYNAMO_ISA")
    isa = checked(isa) if isa else host_isa()
    plan = plan or os.environ.get("FPGA_DYNAMO_PLAN") or isa
    if plan != isa and plan not in _PLANS:
        raise ToolchainError(f"there is no plan for the instruction set '{plan}'; {did_you_mean(plan, _PLANS)}")
    return isa, plan


@functools.cache
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


def plan_flags(isa: str, plan: str) -> list[str]:
    """Options for tiles of another instruction set than the compiler's (hls_kernels/lib/mac/plan.hpp)."""
    if plan == isa:
        return []
    lanes, registers = _PLANS[plan]
    return [f"-DFPGA_PLAN_LANES={lanes}", f"-DFPGA_PLAN_REGISTERS={registers}"]


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
