"""Compiles a design for the emulator: generated C++ to one shared object."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hls_kernels import LIB, ROOT

from ..atomic_file import symlink
from ..cache import build_directory, digest, locked
from ..design import Design
from ..errors import ToolchainError
from ..generate import emulation_sources, stage, stubs, user_directories
from ..trusted_path import remove_untrusted
from . import elf
from . import isa as isas
from . import uninitialized as records
from .compiler import check_written, find_compiler
from .ninja_file import Progress, TranslationUnit, run, write

_FLAGS = (
    "-std=c++17", "-O3", "-fno-math-errno", "-fPIC", "-fvisibility=hidden", "-pthread",
    "-ffp-contract=fast",  # FMA is what the card's MAC array does; nothing else of -ffast-math is allowed
    "-Wall", "-Wno-unknown-pragmas", "-Wno-psabi", "-Wno-unused-label", "-Wno-unused-variable",
)  # fmt: skip
_ENGINE_FLAGS = ("-ffp-contract=off",)  # each operation of its epilogue rounds for itself, as on a card
INCLUDES = ("-I.", "-Ilib")  # cores may name headers of lib with the folder or without
STAND_INS = ("-isystem", "headers")  # of AMD's headers, for the user's kernels and cores
# What hls_kernels/lib/exit_guard.cpp stands in for.
_WRAPPED = ("exit", "_exit", "_Exit", "quick_exit", "abort", "__assert_fail", "__cxa_pure_virtual", "pthread_exit")
# Not of signed overflow: hardware wraps around. What a failed check calls is hls_kernels/lib/undefined.cpp.
SANITIZE = (
    "-fsanitize=bounds,shift,integer-divide-by-zero,vla-bound,unreachable,return",
    "-fno-sanitize-recover=bounds,shift,integer-divide-by-zero,vla-bound",
)
_IGNORED = "written.txt"
_OF_EMULATOR = ("sim/", "./sim/", "lib/", "./lib/")
_UNUSUAL = re.compile(r"[^A-Za-z0-9+,/_:.~(){}%=@!\[\] \x80-\U0010ffff-]")
"""What no path in a ninja file or a file of dependencies can have: a link stands for a user's folder with it."""
LINK_FLAGS = [f"-Wl,--wrap={name}" for name in _WRAPPED]


@dataclass(frozen=True)
class Emulation:
    """Compiled kernels: the shared object's bytes, its instruction set, the one that its tiles are planned for, and how
    many steps the build had to run."""

    shared_object: bytes
    isa: str
    plan: str
    edges: int


def build(
    design: Design,
    isa: str | None = None,
    plan: str | None = None,
    progress: Progress | None = None,
    *,
    counting: bool = False,
    sanitize: bool = False,
    uninitialized: bool = False,
) -> Emulation:
    """Compiles `design` in the user's cache, where objects that are up to date are kept.

    isa: a level of x86-64 (`x86-64-v3`), perhaps with an extension, or `aarch64`; that of the machine by default.
    plan: the level that tiles are planned for, by default the same; see `isa.chosen`.
    counting: processes of plain kernels count their cycles.
    sanitize: plain kernels check array bounds, shifts and divisions.
    uninitialized: plain kernels find reads of variables without a value; requires clang.
    """
    isa, plan = isas.chosen(isa, plan)
    compiler = find_compiler(isas.architecture(isa))
    flags = [*_FLAGS, *isas.compiler_flags(isa), *isas.plan_flags(isa, plan), *INCLUDES]
    if counting:
        flags.append("-DFPGA_COUNT_CYCLES=1")
    sources = emulation_sources(design, counting=counting)
    # A directory for all recipes with the same tiles, so that they share the objects of the cores; in it one for each
    # recipe. What follows from the content of files is ninja's business, so two checkouts, which may differ, take turns
    # in none.
    tiles = [f"{name}={value}" for name, value in design.tiles.items()]
    directory = build_directory(digest([str(ROOT), *compiler.command, compiler.version, *flags, *tiles]))
    own = digest([str(design.recipe.directory), design.recipe.name])[:12]
    folders = {f"{own}/include{n}" if _UNUSUAL.search(str(path)) else str(path): path
               for n, path in enumerate(user_directories(design))}  # fmt: skip
    own_flags = [*flags, *STAND_INS, f"-I{own}", f"-I{own}/user", *(f"-I{name}" for name in folders)]
    own_flags.append(f"-ffile-prefix-map={own}/=")
    own_flags.append("-fstack-clash-protection")  # a large frame meets the page below the stack
    if "clang" not in compiler.version.lower():  # which has no such symbols
        own_flags.append("-fno-gnu-unique")  # they cannot be made local to a kernel
    engines = {f"cu_{kernel.name}.cpp" for kernel in design.kernels if kernel.engine}
    plain = [kernel for kernel in design.kernels if kernel.source]
    macros = {
        name: [*(f"-D{macro}" for macro in kernel.define), *(SANITIZE if sanitize else ())]
        for kernel in plain
        for name in stubs(kernel)
    }
    if sanitize:
        sources.shared["undefined.cpp"] = (LIB / "undefined.cpp").read_text()
    clang: tuple[str, ...] = ()
    link_flags = list(LINK_FLAGS)
    if uninitialized:
        clang = records.find_clang(isa).command
        sources.shared["uninitialized.cpp"] = (LIB / "uninitialized.cpp").read_text()
        sources.own[_IGNORED] = records.not_instrumented([*_OF_EMULATOR, f"{own}/cu_"])
        link_flags += [f"-Wl,--wrap={name}" for name in records.WRAPPED]
    units = [TranslationUnit(name, flags) for name in _units(sources.shared)]
    for name in _units(sources.own):
        options = [*own_flags, *macros.get(name, ()), *(_ENGINE_FLAGS if name in engines else ())]
        instrumented = bool(clang) and name in macros
        if instrumented:
            options = records.flags(options, f"{own}/{_IGNORED}")
        units.append(TranslationUnit(f"{own}/{name}", options, instrumented))
    # v++ compiles each kernel by itself: what two of them call the same is not the same.
    parts = {f"{own}/kernel_{kernel.name}.o": [f"{own}/{name}" for name in stubs(kernel)] for kernel in plain}
    if len(plain) < 2:
        parts = {}
    ninja, output = directory / f"{own}.ninja", f"{own}/kernels.so"
    with locked(directory) as lock:
        remove_untrusted(directory)
        stage(sources.shared, directory)
        stage(sources.own, directory / own)
        for name, path in folders.items():
            if name != str(path):
                symlink(path, directory / name)
        write(ninja, compiler.command, units, output, link_flags, parts, clang)
        try:
            edges = run(ninja, progress, keep_open=[lock])
            shared_object = check_written(compiler, directory / output, isas.architecture(isa))
        except ToolchainError:
            _forget_damaged(directory, [*(unit.object for unit in units), *parts, output])
            raise
        return Emulation(shared_object, isa, plan, edges)


def _forget_damaged(directory: Path, outputs: list[str]) -> None:
    """Deletes outputs that are not whole, which ninja would take for finished the next time."""
    for name in outputs:
        path = directory / name
        if path.is_file() and elf.fault(path.read_bytes()):
            path.unlink()


def _units(sources: dict[str, str]) -> list[str]:
    """Translation units among the sources; files in folders are included by others."""
    return [name for name in sources if name.endswith(".cpp") and "/" not in name]
