"""Renders the templates of hls_kernels for a design and stages the sources in a build directory.

A staged tree is complete: headers of hls_kernels, the user's cores and kernels, and what is generated. Files whose
content has not changed are left alone, so that ninja rebuilds only what has.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jinja2

from hls_kernels import CORES, ENGINE, LIB, ROOT, SIM, STAND_INS, TEMPLATES

from . import counting as cycles
from . import dataflow
from . import engine as engines
from .atomic_file import write_changed
from .design import Core, Design, Kernel
from .errors import BuildError, RecipeError
from .escape import cpp_comment, cpp_string
from .names import FILE, check
from .peers import Peers
from .records import parse_command, parse_tiles
from .trusted_path import check_named, printable

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    keep_trailing_newline=True, autoescape=False,
)  # fmt: skip


@dataclass(frozen=True)
class EmulationSources:
    """Sources of the shared object, by path: those that all recipes with the same tiles share, and the recipe's own.

    There is a unit (.cpp) for each core and for each kernel's stub; the user's cores are among the recipe's own. One
    more has what kernels call instead of `exit` and its like.
    """

    shared: dict[str, str]
    own: dict[str, str]


def emulation_sources(design: Design, *, counting: bool = False) -> EmulationSources:
    """Renders the sources for the emulator.

    counting: those of kernels that count cycles; raises RecipeError for a design that cannot.
    """
    shared, own = _library(design), _user_sources(design, built_here=True, processes=True, counting=counting)
    if not counting:
        own |= _user_headers(design)
    shared |= _texts(SIM, STAND_INS, STAND_INS / "utils")
    if counting:
        own |= cycles.headers(design)
    shared["exit_guard.cpp"] = (LIB / "exit_guard.cpp").read_text()
    for core in design.cores:
        (own if core.user else shared)[f"core_{core.name}.cpp"] = _render("core_unit.cpp.j2", design, core=core)
    opcodes = [opcode for core in design.cores for opcode in core.opcodes]
    own["core_calls.hpp"] = _render("core_calls.hpp.j2", design, opcodes=opcodes)
    for kernel in design.kernels:
        if kernel.takes_commands:
            offset = {bound.argument.name: f"0x{bound.offset:x}" for bound in kernel.arguments}
            template = "cu_stub.cpp.j2" if kernel.cores else "cu_engine.cpp.j2"
            text = _render(template, design, kernel=kernel, offset=offset, counting=counting, banks=design.peer_banks)
            if counting and kernel.peers == 1:
                own[f"hardware_{kernel.name}.hpp"] = _render("kernel_engine.cpp.j2", design, kernel=kernel)
        else:
            ports = cycles.ports(kernel)
            streams = any(bound.argument.kind == "stream" for bound in kernel.arguments)
            text = _render(
                "user_kernel_stub.cpp.j2", design, kernel=kernel, ports=ports, streams=streams, counting=counting
            )
            for name, path in zip(stubs(kernel)[1:], kernel.more_sources, strict=True):
                own[name] = f"#include {cpp_string(f'user/{path.name}')}\n"
        own[f"cu_{kernel.name}.cpp"] = text
    return EmulationSources(shared, own)


def stubs(kernel: Kernel) -> list[str]:
    """The emulator's translation units of a kernel: the one that starts it, and one for each further source."""
    return [f"cu_{kernel.name}.cpp", *(f"cu_{kernel.name}_{number}.cpp" for number in range(len(kernel.more_sources)))]


def hls_sources(design: Design, *, built_here: bool = True) -> dict[str, str]:
    """Sources for Vitis HLS, by path in the build directory: a file for each sequencer, plain kernels in user/.

    built_here: the compiler is to speak of the user's files by the paths that they have on this machine.
    """
    sources = _library(design) | _user_sources(design, built_here=built_here)
    sources["sim/dataflow.hpp"] = (SIM / "dataflow.hpp").read_text()  # which has nothing but AMD's headers for Vitis
    for kernel in design.kernels:
        if kernel.cores:
            sources[f"{kernel.name}.cpp"] = _render("kernel.cpp.j2", design, kernel=kernel)
        elif kernel.peers > 1:
            peers = Peers.of(kernel, design)
            sources[f"{kernel.name}.cpp"] = _render("kernel_peer.cpp.j2", design, kernel=kernel, peers=peers)
            sources[f"{peers.barrier}.cpp"] = _render("kernel_barrier.cpp.j2", design, kernel=kernel, peers=peers)
        elif kernel.engine:
            sources[f"{kernel.name}.cpp"] = _render("kernel_engine.cpp.j2", design, kernel=kernel)
    return sources


def stage(sources: dict[str, str], directory: Path) -> None:
    """Writes the sources whose content differs from what lies in `directory`.

    Raises BuildError if it cannot be written to.
    """
    for name, text in sources.items():
        path = directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_changed(path, text)
        except OSError as error:
            why = error.strerror or error
            raise BuildError(f"{printable(path)} cannot be written: {why}; choose another directory.") from error


def user_directories(design: Design) -> list[Path]:
    """Where the user's cores and kernels came from: there the compiler finds the headers that they include."""
    files = [core.header for core in design.cores if core.user]
    files += [path for kernel in design.kernels for path in kernel.files]
    folders = [folder for kernel in design.kernels for folder in kernel.include]
    return sorted({*folders, *(path.parent for path in files)})


def _library(design: Design) -> dict[str, str]:
    """The headers of hls_kernels, and what is generated from them and the tiles alone."""
    headers = sorted([*ROOT.glob("*.hpp"), *LIB.rglob("*.hpp"), *CORES.rglob("*.hpp")])
    sources = {path.relative_to(ROOT).as_posix(): path.read_text() for path in headers}
    if design.engine:
        own = (ENGINE, ENGINE / "processes", ENGINE / "vector", ENGINE / "vector" / "floats")
        sources |= _texts(*own, SIM, STAND_INS)  # the last two for g++
    defaults = parse_tiles(ROOT / "tiles.hpp")
    sources["tiles.hpp"] = _render("tiles.hpp.j2", design, tiles=design.tiles, defaults=defaults)
    records = list(parse_command(ROOT / "command.hpp").records.values())
    sources["command_decode.hpp"] = _render("command_decode.hpp.j2", design, records=records)
    return sources


def _texts(*folders: Path) -> dict[str, str]:
    """The headers that lie in these folders of hls_kernels."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for folder in folders
        for path in sorted(folder.glob("*.h*"))
    }


def _user_sources(
    design: Design, *, built_here: bool, processes: bool = False, counting: bool = False
) -> dict[str, str]:
    """The user's cores and kernels, and what is generated for them. processes: calls in dataflow regions are such;
    counting: those that the kernels name themselves."""
    shared = parse_command(ROOT / "command.hpp").records
    user_opcodes = {name: value for name, value in design.opcodes.items() if name not in shared}
    sources = {"user_opcodes.hpp": _render("user_opcodes.hpp.j2", design, user_opcodes=user_opcodes)}
    for core in design.cores:
        if core.user:
            records = [design.record(opcode) for opcode in core.opcodes if opcode not in shared]
            _add_user_file(sources, core.header, built_here)
            sources[_core_include(core)] = _render("user_decode.hpp.j2", design, core=core, records=records)
    for path in (path for kernel in design.kernels for path in kernel.files):
        _add_user_file(sources, path, built_here, processes, counting)
    if design.engine:
        sources[engines.HEADER] = design.engine.header(design.recipe.name, design.peers, design.peer_banks)
        records = [design.record(opcode) for opcode in engines.OPCODES]
        sources["engine_decode.hpp"] = _render("engine_decode.hpp.j2", design, records=records)
    return sources


def _user_headers(design: Design) -> dict[str, str]:
    """Headers beside plain kernels that have dataflow regions, whose calls are processes."""
    found: dict[str, str] = {}
    for folder in user_directories(design) if any(kernel.source for kernel in design.kernels) else ():
        for path in sorted(folder.glob("*.h*")):
            text = path.read_text(encoding="utf-8", errors="surrogateescape") if path.is_file() else ""
            if dataflow.rewritten(text) != text:
                _add_user_file(found, path, built_here=True, processes=True)
    return found


def _add_user_file(
    sources: dict[str, str], path: Path, built_here: bool, processes: bool = False, counting: bool = False
) -> None:
    check(path.name, FILE, f"the name of {path!r}")
    check_named(path, "source")
    name, text = f"user/{path.name}", path.read_text(encoding="utf-8", errors="surrogateescape")
    if processes:
        text = dataflow.rewritten(text, only_manual=counting)
    if built_here:  # messages and __FILE__ name the user's file, not its copy
        text = f"#line 1 {cpp_string(str(path))}\n{text}"
    if sources.setdefault(name, text) != text:
        raise RecipeError(f"two files of the recipe have the name '{path.name}'; rename one.")


def _core_include(core: Core) -> str:
    return f"user/{core.name}_decode.hpp" if core.user else core.include


def _render(template: str, design: Design, **values: object) -> str:
    recipe = cpp_comment(design.recipe.name)
    return _TEMPLATES.get_template(template).render(recipe=recipe, core_include=_core_include, **values)
