"""Renders the templates of hls_kernels for a design and stages the sources in a build directory.

A staged tree is complete: headers of hls_kernels, the user's cores and kernels, and what is generated. Files whose
content has not changed are left alone, so that ninja rebuilds only what has.
"""

from __future__ import annotations

from pathlib import Path

import jinja2

from hls_kernels import CORES, ROOT

from .design import Core, Design
from .errors import RecipeError
from .records import parse_header

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(ROOT), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    keep_trailing_newline=True, autoescape=False,
)  # fmt: skip


def emulation_sources(design: Design) -> dict[str, str]:
    """Sources of the shared object, by path in the build directory: a unit for each core and for each kernel's stub."""
    sources = _common(design)
    sources["core_calls.hpp"] = _render(
        "core_calls.hpp.j2", design, opcodes=[o for core in design.cores for o in core.opcodes]
    )
    for core in design.cores:
        sources[f"core_{core.name}.cpp"] = _render("core_unit.cpp.j2", design, core=core)
    for kernel in design.kernels:
        if kernel.cores:
            offset = {bound.argument.name: f"0x{bound.offset:x}" for bound in kernel.arguments}
            text = _render("cu_stub.cpp.j2", design, kernel=kernel, offset=offset)
        else:
            text = _render("user_kernel_stub.cpp.j2", design, kernel=kernel)
        sources[f"cu_{kernel.name}.cpp"] = text
    return sources


def hls_sources(design: Design) -> dict[str, str]:
    """Sources for Vitis HLS, by path in the build directory: a file for each sequencer, plain kernels in user/."""
    sources = _common(design)
    for kernel in design.kernels:
        if kernel.cores:
            sources[f"{kernel.name}.cpp"] = _render("kernel.cpp.j2", design, kernel=kernel)
    return sources


def stage(sources: dict[str, str], directory: Path) -> None:
    """Writes the sources whose content differs from what lies in `directory`."""
    for name, text in sources.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        if not path.is_file() or path.read_bytes() != data:
            path.write_bytes(data)


def user_directories(design: Design) -> list[Path]:
    """Where the user's cores and kernels came from: there the compiler finds the headers that they include."""
    files = [core.header for core in design.cores if core.user]
    files += [kernel.source for kernel in design.kernels if kernel.source]
    return sorted({path.parent for path in files})


def _common(design: Design) -> dict[str, str]:
    sources = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted(ROOT.glob("*.hpp"))}
    sources |= {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted(CORES.glob("*.hpp"))}
    sources["tiles.hpp"] = _render("tiles.hpp.j2", design, tiles=design.tiles, overridden=design.recipe.tiles)
    shared = parse_header(ROOT / "command.hpp")
    user_opcodes = {name: value for name, value in design.opcodes.items() if name not in shared.records}
    sources["command_decode.hpp"] = _render(
        "command_decode.hpp.j2", design, records=list(shared.records.values()), user_opcodes=user_opcodes
    )
    for core in design.cores:
        if core.user:
            records = [design.record(opcode) for opcode in core.opcodes if opcode not in shared.records]
            _add_user_file(sources, core.header)
            sources[_core_include(core)] = _render("user_decode.hpp.j2", design, core=core, records=records)
    for kernel in design.kernels:
        if kernel.source:
            _add_user_file(sources, kernel.source)
    return sources


def _add_user_file(sources: dict[str, str], path: Path) -> None:
    name, text = f"user/{path.name}", path.read_text()
    if sources.setdefault(name, text) != text:
        raise RecipeError(f"two files of the recipe have the name '{path.name}'; rename one.")


def _core_include(core: Core) -> str:
    return f"user/{core.name}_decode.hpp" if core.user else core.include


def _render(template: str, design: Design, **values: object) -> str:
    return _TEMPLATES.get_template(template).render(recipe=design.recipe.name, core_include=_core_include, **values)
