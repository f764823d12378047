"""Compiles a design for the software card: generated C++ to one shared object."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..cache import build_directory, digest, locked
from ..design import Design
from ..errors import ToolchainError
from ..generate import emulation_sources, stage, user_directories
from . import isa as isas
from .ninja_file import Progress, Unit, run, write

_FLAGS = (
    "-std=c++17", "-O3", "-fno-math-errno", "-fPIC", "-fvisibility=hidden", "-pthread",
    "-ffp-contract=fast",  # FMA is what the card's MAC array does; nothing else of -ffast-math is allowed
    "-Wall", "-Wno-unknown-pragmas", "-Wno-psabi", "-Wno-unused-label", "-Wno-unused-variable",
)  # fmt: skip
_ENGINE_FLAGS = ("-ffp-contract=off",)  # each operation of its epilogue rounds for itself, as on a card
INCLUDES = ("-I.", "-Ilib")  # cores may name headers of lib with the folder or without
# What hls_kernels/lib/leave.cpp stands in for.
_WRAPPED = ("exit", "_exit", "_Exit", "quick_exit", "abort", "__assert_fail", "__cxa_pure_virtual", "pthread_exit")
LINK_FLAGS = [f"-Wl,--wrap={name}" for name in _WRAPPED]


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: the words that start it and the first line of its --version."""

    command: tuple[str, ...]
    version: str


@dataclass(frozen=True)
class Emulation:
    """Compiled kernels: the shared object's bytes, its instruction set, the one that its tiles are planned for, and how
    many steps the build had to run."""

    shared_object: bytes
    isa: str
    plan: str
    edges: int


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


def build(
    design: Design,
    isa: str | None = None,
    plan: str | None = None,
    progress: Progress | None = None,
    *,
    counting: bool = False,
) -> Emulation:
    """Compiles `design` in the user's cache, where objects that are up to date are kept.

    isa: a level of x86-64 (`x86-64-v3`), the host's by default. plan: the level that tiles are planned for, by default
    the same; see `isa.chosen`. counting: processes of plain kernels count their cycles.
    """
    compiler = find_compiler()
    isa, plan = isas.chosen(isa, plan)
    flags = [*_FLAGS, *isas.compiler_flags(isa), *isas.plan_flags(isa, plan), *INCLUDES]
    if counting:
        flags.append("-DFPGA_COUNT_CYCLES=1")
    sources = emulation_sources(design, counting=counting)
    # A directory for all recipes with the same tiles, so that they share the objects of the cores; in it one for each
    # recipe. What follows from the content of files is ninja's business.
    tiles = [f"{name}={value}" for name, value in design.tiles.items()]
    directory = build_directory(digest([*compiler.command, compiler.version, *flags, *tiles]))
    own = digest([str(design.recipe.directory), design.recipe.name])[:12]
    own_flags = [*flags, f"-I{own}", *(f"-I{path}" for path in user_directories(design)), f"-ffile-prefix-map={own}/="]
    units = [Unit(name, flags) for name in _units(sources.shared)]
    engines = {f"cu_{kernel.name}.cpp" for kernel in design.kernels if kernel.engine}
    units += [
        Unit(f"{own}/{name}", [*own_flags, *(_ENGINE_FLAGS if name in engines else ())]) for name in _units(sources.own)
    ]
    ninja, output = directory / f"{own}.ninja", f"{own}/kernels.so"
    with locked(directory):
        stage(sources.shared, directory)
        stage(sources.own, directory / own)
        write(ninja, compiler.command, units, output, LINK_FLAGS)
        edges = run(ninja, progress)
        return Emulation((directory / output).read_bytes(), isa, plan, edges)


def _units(sources: dict[str, str]) -> list[str]:
    """Translation units among the sources; files in folders are included by others."""
    return [name for name in sources if name.endswith(".cpp") and "/" not in name]


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
