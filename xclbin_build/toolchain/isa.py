"""Instruction sets of the host: the level of x86-64 that the emulation is compiled for, and that of its tiles.

The levels are those of the x86-64 psABI; other architectures get the compiler's own default. An *extension* is what a
CPU multiplies int8 and bfloat16 with, or looks bytes up with, beyond its level: `x86-64-v4+amx` is that level and the
extension. The *plan* is the level whose registers the tiles of the MAC array fill, and whose costs the cost model has.
It is usually the level of the compiler. Any machine can run any plan, so that all plans can be tested on one machine.
"""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path

from ..errors import ToolchainError, did_you_mean
from .compiler import knows

_LEVELS = {
    "x86-64-v2": {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    "x86-64-v3": {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"},
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}  # each level includes the ones before it
BASELINE = "x86-64"
_PLANS = {"aarch64": (4, 32), BASELINE: (4, 16), "x86-64-v2": (4, 16), "x86-64-v3": (8, 16), "x86-64-v4": (16, 32)}
"""Lanes of a vector register, and how many of these there are."""
_EXTENSIONS: dict[str, tuple[set[str], tuple[str, ...]]] = {
    "x86-64-v3+vnni": ({"avx_vnni"}, ("-mavxvnni",)),
    "x86-64-v4+vnni": ({"avx512_vnni"}, ("-mavx512vnni",)),
    "x86-64-v4+bf16": ({"avx512_vnni", "avx512_bf16"}, ("-mavx512vnni", "-mavx512bf16")),
    "x86-64-v4+vbmi": (
        {"avx512_vnni", "avx512_bf16", "avx512vbmi"},
        ("-mavx512vnni", "-mavx512bf16", "-mavx512vbmi"),
    ),
    "x86-64-v4+amx": (
        {"avx512_vnni", "avx512_bf16", "avx512vbmi", "amx_tile", "amx_int8", "amx_bf16"},
        ("-mavx512vnni", "-mavx512bf16", "-mavx512vbmi", "-mamx-tile", "-mamx-int8", "-mamx-bf16"),
    ),
}
"""Features, by the names of /proc/cpuinfo, and options of g++ and clang++; later ones of a level include these."""
_MULTIPLIES = {"bfloat16": "avx512_bf16", "tiles": "amx_int8"}


def chosen(isa: str | None = None, plan: str | None = None) -> tuple[str, str]:
    """What to compile for and to plan for: as given, else $FPGA_DYNAMO_ISA and $FPGA_DYNAMO_PLAN, else this machine's.

    Raises ToolchainError for an unknown one.
    """
    isa = isa or os.environ.get("FPGA_DYNAMO_ISA")
    isa = checked(isa) if isa else native()
    plan = plan or os.environ.get("FPGA_DYNAMO_PLAN") or level(isa)
    if plan != level(isa) and plan not in _PLANS:
        raise ToolchainError(f"no tile plan exists for the instruction set '{plan}'; {did_you_mean(plan, _PLANS)}")
    return isa, plan


def runnable(isa: str | None = None) -> list[str]:
    """What may run here, the best first: `isa` or $FPGA_DYNAMO_ISA as given, else all that this machine's CPU knows.

    Raises ToolchainError for an unknown one.
    """
    given = isa or os.environ.get("FPGA_DYNAMO_ISA")
    if given:
        return [checked(given)]
    best, levels = host_isa(), [BASELINE, *_LEVELS]
    below = levels[: levels.index(best) + 1] if best in levels else [best]
    return [*reversed(extensions(best, host_flags())), *reversed(below)]


@functools.cache
def host_isa(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The highest level that this machine runs, or the name of an architecture other than x86-64."""
    machine = platform.machine()
    if machine not in ("x86_64", "AMD64"):
        return machine or "generic"
    return level_of(host_flags(cpuinfo))


def level(isa: str) -> str:
    """An instruction set without its extension."""
    return isa.partition("+")[0]


@functools.cache
def native(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The best that this machine runs and its compiler knows: its level, with an extension if there is one."""
    best, flags = host_isa(cpuinfo), host_flags(cpuinfo)
    for name in extensions(best, flags):
        if knows(_EXTENSIONS[name][1]):
            best = name
    return best


def extensions(level: str, flags: set[str]) -> list[str]:
    """Instruction sets with extensions of a level whose features are all among `flags`, the best one last."""
    return [name for name, (needed, _) in _EXTENSIONS.items() if name.startswith(f"{level}+") and needed <= flags]


def multiplies(isa: str) -> tuple[str, ...]:
    """What CPUs of an instruction set multiply for which lowering has ways of its own.

    `bfloat16`: pairs of these (`vdpbf16ps`); `tiles`: matrices of bytes, by a unit for them (AMX).
    """
    needed = _EXTENSIONS[isa][0] if isa in _EXTENSIONS else set()
    return tuple(name for name, feature in _MULTIPLIES.items() if feature in needed)


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
    name = level(isa)
    if name != BASELINE and name not in _LEVELS:
        return []
    wide = ["-mprefer-vector-width=512"] if name == "x86-64-v4" else []
    return [f"-march={name}", *wide, *(_EXTENSIONS[isa][1] if isa in _EXTENSIONS else ())]


def plan_flags(isa: str, plan: str) -> list[str]:
    """Options for tiles of another instruction set than the compiler's (hls_kernels/lib/mac/plan.hpp)."""
    if plan == level(isa):
        return []
    lanes, registers = _PLANS[plan]
    return [f"-DFPGA_PLAN_LANES={lanes}", f"-DFPGA_PLAN_REGISTERS={registers}"]


def architecture(isa: str) -> str:
    """The architecture of an instruction set, by the names of `uname -m`."""
    return "x86_64" if level(isa) in (BASELINE, *_LEVELS) else isa


def checked(isa: str) -> str:
    """`isa` if it is a level of x86-64, perhaps with an extension, aarch64, or that of the machine.

    Raises ToolchainError for an unknown one.
    """
    known = [*_PLANS, *_EXTENSIONS, host_isa()]
    if isa not in known:
        raise ToolchainError(f"unknown instruction set '{isa}'; {did_you_mean(isa, known)}")
    return isa


def host_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> set[str]:
    """Features of this machine's CPU by the names of /proc/cpuinfo; none where there is no such file."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())
