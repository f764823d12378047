"""What the name of a cached xclbin is made from: contents, and no folder that this package is installed in.

The name has two parts. The first stands for the design, its sources and this package, the second for the compiler and
the instruction sets. Where no compiler is installed, the second part is unknown: an xclbin is found by the first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from .axlf import read
from .cache import digest, xclbin_path
from .design import Design, Kernel
from .errors import XclbinError
from .generate import emulation_sources, hls_sources, user_directories
from .manifest import EMULATED
from .toolchain import gxx
from .toolchain import isa as isas
from .trusted_path import weakness


def contents(design: Design, target: str) -> Iterator[str | bytes]:
    """All that the xclbin of a design depends on but the compiler and the instruction sets.

    The sources of the user's own cores and kernels name their files, so a recipe in another folder has another key: it
    may include other files than those that lie beside it.
    """
    yield from (target, design.recipe.name, repr(design.platform), *map(_kernel, design.kernels))
    if target in EMULATED:
        emulation = emulation_sources(design, counting=target == "cycles")
        sources = emulation.shared | emulation.own
    else:
        sources = hls_sources(design)
    yield from sources
    yield from sources.values()
    yield from (path.read_bytes() for path in _user_headers(design))
    yield from (path.read_bytes() for path in sorted(Path(__file__).parent.rglob("*.py")))


def path_of(design: str, target: str, isa: str, plan: str) -> Path:
    """Where the finished xclbin is, or goes to. design: the digest of its :func:`contents`.

    Raises ToolchainError if the target requires a compiler and none is found.
    """
    tool = [target]
    if target in EMULATED:
        compiler = gxx.find_compiler(isas.architecture(isa))
        tool = [*compiler.command, compiler.version, isa, plan]
    return xclbin_path(f"{design}-{digest(tool)}")


def built_before(design: str, isa: str | None, plan: str | None) -> Path | None:
    """The emulation that a compiler which is gone has made of a design; the best that this machine runs.

    isa, plan: if given, or by their environment variables, those alone. Raises ToolchainError for an unknown isa.
    """
    runnable = isas.runnable(isa)
    plan = plan or os.environ.get("FPGA_DYNAMO_PLAN")
    found: list[tuple[int, str]] = []
    for path in xclbin_path("").parent.glob(f"{design}-*.xclbin"):
        built = _instruction_sets(path)
        if built is not None and built[0] in runnable and built[1] == (plan or isas.level(built[0])):
            found.append((runnable.index(built[0]), str(path)))
    return Path(min(found)[1]) if found else None


def _instruction_sets(path: Path) -> tuple[str, str] | None:
    """The isa and the plan of an xclbin; None if it cannot be used."""
    if weakness(path) is not None:
        return None
    try:
        manifest = read(path).manifest
    except (OSError, XclbinError):
        return None
    return manifest["isa"], manifest["plan"]


def _kernel(kernel: Kernel) -> str:
    """A kernel, with the names of its files and without their folders."""
    return json.dumps(asdict(kernel), default=lambda path: path.name)


def _user_headers(design: Design) -> list[Path]:
    """Headers beside the user's cores and kernels, which those may include."""
    return sorted(path for directory in user_directories(design) for path in directory.glob("*.h*") if path.is_file())
