"""What every co-simulation has in common, compiled once: the network of events, and the headers that regions need."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hls_kernels import ROOT, SIM, STAND_INS

from .. import cache, csim
from ..toolchain.compiler import find_compiler

_COSIM = SIM / "cosim"
_PARTS = ("network", "schedule", "result", "control", "fifo", "region")
_HEADER = """#include "sim/cosim/region.hpp"
#include "hls_stream.h"
"""
FLAGS = ("-DFPGA_COSIM=1",)


@dataclass(frozen=True)
class Runtime:
    """objects: to link to each design. header: to include in front of each source."""

    objects: tuple[Path, ...]
    header: Path


def ready() -> Runtime:
    """The runtime for this compiler, from the cache or compiled now. Raises ToolchainError without a compiler."""
    compiler = find_compiler().command
    sources = sorted([*SIM.glob("*.hpp"), *_COSIM.iterdir(), *STAND_INS.glob("*.h*"), SIM / "csim.cpp"])
    words = [*compiler, find_compiler().version, *csim.FLAGS, *FLAGS, _HEADER, str(ROOT)]
    key = cache.digest([*words, *(path.read_bytes() for path in sources if path.is_file())])
    folder = cache.folder("cosim", key)
    objects = tuple(folder / f"{name}.o" for name in (*_PARTS, "csim"))
    header = folder / "cosim.hpp"
    if not (folder / "cosim.hpp.gch").is_file():
        includes = [f"-I{ROOT}", "-isystem", str(STAND_INS)]
        flags = [*compiler, "-std=gnu++17", *csim.FLAGS, *FLAGS, *includes]
        for name, target in zip((*_PARTS, "csim"), objects, strict=True):
            source = SIM / "csim.cpp" if name == "csim" else _COSIM / f"{name}.cpp"
            _made([*flags, *(("-O2",) if name != "csim" else ()), "-c", str(source)], target)
        header.write_text(_HEADER)
        _made([*flags, "-x", "c++-header", str(header)], folder / "cosim.hpp.gch")
    return Runtime(objects, header)


def _made(command: Sequence[str], target: Path) -> None:
    """Compiles to a file that appears when it is whole: several commands may run at once."""
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        part = Path(file.name)
    csim.call_compiler([*command, "-o", str(part)])
    os.replace(part, target)
