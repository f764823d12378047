"""Builds a design with AMD Vitis: HLS sources and a link configuration, then v++ if there is one.

This flow has not been run on Vitis; the sources are compiled and run by g++ in the tests.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from ..axlf import Section, read, write
from ..cache import build_directory, digest, locked
from ..design import Design, Kernel
from ..errors import BuildError, RecipeError, ToolchainError, XclbinError
from ..escape import config_value, cpp_comment
from ..generate import hls_sources, stage, user_directories
from ..manifest import describe, encode
from ..peers import Peers
from ..platform import NO_PART
from ..trusted_path import remove_untrusted
from . import process
from .gxx import INCLUDES
from .ninja_file import Progress

_LINKED = "linked.xclbin"
_ERROR_LINES = 40


def build(design: Design, target: str, output: Path, progress: Progress | None = None) -> None:
    """Compiles and links `design` for `hw` or `hw_emu` and writes the xclbin, with the manifest added, to `output`."""
    if not shutil.which("v++"):
        raise ToolchainError(
            f"target {target} needs AMD Vitis, and v++ is not on PATH; run Vitis' settings64.sh first, or use "
            "--sources-only DIR to write the sources and build them elsewhere."
        )
    sources = _sources(design, target, built_here=True)
    directory = build_directory(digest([target, design.platform.xsa, *(f"{k}\0{v}" for k, v in sources.items())]))
    steps = commands(design, target)
    with locked(directory) as lock:
        remove_untrusted(directory)
        stage(sources, directory)
        (directory / _LINKED).unlink(missing_ok=True)
        for index, step in enumerate(steps):
            _run(step, directory, lock)
            if progress is not None:
                progress(index + 1, len(steps), shlex.join(step[:4]))
        try:
            linked = read(directory / _LINKED, foreign=True)
        except XclbinError as error:
            raise ToolchainError(f"v++ reported success, but its output cannot be used: {error}") from error
    write(output, linked.with_section(Section.USER_METADATA, encode(describe(design, target, ""))), keep_uuid=True)


def check_directory(directory: Path) -> None:
    """Raises BuildError for a place where no sources can be written."""
    nearest = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        why = "permission denied" if nearest.is_dir() else f"{nearest} is a file"
        raise BuildError(f"{directory} cannot be written: {why}; choose another directory.")


def write_sources(design: Design, target: str, directory: Path) -> list[Path]:
    """Writes all that v++ needs, and `build.sh` with its commands, to `directory`; returns the files."""
    sources = _sources(design, target, built_here=False)
    sources["build.sh"] = _script(design, target)
    sources["manifest.json"] = encode(describe(design, target, "")).decode() + "\n"
    stage(sources, directory)
    (directory / "build.sh").chmod(0o755)
    return [directory / name for name in sources]


def commands(design: Design, target: str) -> list[list[str]]:
    """The calls of v++, to be run in the build directory: one compile a kernel, and the link."""
    common = ["v++", "-t", target, "--platform", design.platform.xsa]
    includes = [*INCLUDES, *(f"-I{path}" for path in user_directories(design))]
    kernels = [(kernel.name, _sources_of(kernel), kernel.flags) for kernel in design.kernels]
    barriers = [Peers.of(kernel, design).barrier for kernel in design.kernels if kernel.peers > 1]
    kernels += [(name, [f"{name}.cpp"], []) for name in barriers]
    compiles = [
        [*common, "-c", "-k", name, *includes, *flags, "-o", f"{name}.xo", *sources] for name, sources, flags in kernels
    ]
    objects = [f"{name}.xo" for name, _, _ in kernels]
    return [*compiles, [*common, "-l", "--config", "link.cfg", "-o", _LINKED, *objects]]


def link_config(design: Design) -> str:
    """link.cfg: how many compute units of each kernel, which memory bank each argument has, in which SLR they lie, and
    streams between them."""
    lines = [f"# Made by xclbin_build from recipe '{cpp_comment(design.recipe.name)}': do not edit."]
    lines += [f"kernel_frequency={design.platform.speeds['clock_mhz']:g}", "", "[connectivity]"]
    for kernel in design.kernels:
        units = ".".join(unit.name for unit in kernel.compute_units)
        lines.append(f"nk={kernel.name}:{len(kernel.compute_units)}:{units}")
        if kernel.peers > 1:
            lines += Peers.of(kernel, design).connectivity()
        else:
            lines += [
                f"sp={unit.name}.{kernel.arguments[index].argument.name}:{config_value(_bank_range(banks))}"
                for unit in kernel.compute_units
                for index, banks in unit.banks.items()
            ]
        lines += [f"slr={unit.name}:{config_value(unit.slr)}" for unit in kernel.compute_units if unit.slr]
    lines += [f"stream_connect={stream.text}" for stream in design.recipe.streams]
    return "\n".join(lines) + "\n"


def _bank_range(banks: Sequence[str]) -> str:
    """Neighbouring banks as v++ spells them: HBM[0:3]."""
    if len(banks) == 1:
        return banks[0]
    return f"{banks[0].removesuffix(']')}:{banks[-1].partition('[')[2]}"


def _sources(design: Design, target: str, *, built_here: bool) -> dict[str, str]:
    if design.platform.part == NO_PART:
        raise RecipeError(
            f"target {target} needs a card, and '{design.platform.name}' is the emulator; give --platform u250, "
            "for example."
        )
    return hls_sources(design, built_here=built_here) | {"link.cfg": link_config(design)}


def _sources_of(kernel: Kernel) -> list[str]:
    return [f"user/{path.name}" for path in kernel.files] or [f"{kernel.name}.cpp"]


def _script(design: Design, target: str) -> str:
    lines = [
        "#!/bin/sh",
        "# Made by xclbin_build; run it in this directory with Vitis' settings64.sh sourced.",
        "set -e",
    ]
    lines += [shlex.join(step) for step in commands(design, target)]
    lines += [
        "# The manifest describes the kernels to fpga_dynamo.",
        f"xclbinutil --input {_LINKED} --add-section USER_METADATA:RAW:manifest.json --output torch.xclbin",
    ]
    return "\n".join(lines) + "\n"


def _run(command: list[str], directory: Path, lock: int) -> None:
    result = process.run(command, cwd=directory, keep_open=[lock])  # a link takes hours: no limit
    if result.status:
        words = "\n".join(result.output.splitlines()[-_ERROR_LINES:])
        raise ToolchainError(f"v++ failed in {directory}:\n{shlex.join(command)}\n{words}")
