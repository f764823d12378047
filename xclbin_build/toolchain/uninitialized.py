"""How plain kernels are compiled so that they find reads of variables that were never written.

clang instruments the code as it does for the Linux kernel: a function is called for each access, which tells where the
records of that memory are (hls_kernels/lib/uninitialized.cpp). So records cover the kernel's local variables, and
neither Python nor a library has to be instrumented.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterable, Sequence

from ..errors import ToolchainError
from . import isa as isas
from .compiler import Compiler, probe

OLDEST, NEWEST = 16, 19
"""Versions of clang that have all options below."""
_FLAGS = (
    "-fsanitize=kernel-memory",
    "-O1",  # a higher level removes reads of uninitialized variables
    "-fno-vectorize", "-fno-slp-vectorize",
    "-mllvm", "-simplifycfg-sink-common=false", "-mllvm", "-simplifycfg-hoist-common=false",  # or lines get lost
    "-mllvm", "-enable-tail-merge=false",
    "-mllvm", "-disable-loop-idiom-all",  # copies of structures may have gaps, copies of elements have none
    "-gline-tables-only",
    "-DFPGA_SEE_UNINITIALIZED=1",
    "-Wno-uninitialized", "-Wno-unused-command-line-argument",
)  # fmt: skip
_OF_GCC = ("-fno-gnu-unique", "-O3")
WRAPPED = ("frexp", "frexpf", "modf", "modff", "sincos", "sincosf", "strcpy", "strncpy", "snprintf", "sprintf")
"""Functions of the C library that write through pointers; lib/uninitialized.cpp has what stands in for them."""


def find_clang(isa: str) -> Compiler:
    """clang for the instrumentation: in $LLVM_BIN or on PATH.

    Raises ToolchainError, which says how to install it, if it is not found or too old.
    """
    if isas.architecture(isa) not in ("x86_64", platform.machine()):
        raise ToolchainError(f"--uninitialized builds for this machine, and not for {isa}; leave out --isa.")
    for name in (f"clang-{version}" for version in range(NEWEST, OLDEST - 1, -1)):
        path = shutil.which(name, path=os.environ.get("LLVM_BIN")) or shutil.which(name)
        if path:
            return probe((path,))
    raise ToolchainError(
        f"--uninitialized requires clang {OLDEST} to {NEWEST}, which was not found: 'apt-get install clang-19', set "
        "LLVM_BIN to its folder, or build without this option."
    )


def flags(of_gcc: Sequence[str], ignored: str) -> list[str]:
    """A kernel's flags for clang. ignored: a file that :func:`not_instrumented` makes."""
    kept = [flag.replace("-fsanitize=bounds,", "-fsanitize=array-bounds,") for flag in of_gcc if flag not in _OF_GCC]
    kept = [flag.replace("=bounds,", "=array-bounds,") for flag in kept]
    return [*kept, *_FLAGS, f"-fsanitize-ignorelist={ignored}"]


def not_instrumented(folders: Iterable[str]) -> str:
    """The list of sources whose stores count as written values: those of the emulator and of the system."""
    patterns = [f"src:{folder}*" for folder in folders]
    return "\n".join(["[kernel-memory]", *patterns, "src:/usr/*", ""])
