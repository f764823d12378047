"""`xclbin-build --target hw|hw_emu`: the options of a build with Vitis, and what is printed of it."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ..arguments import positive_number
from ..axlf import read
from ..design import Design
from ..errors import RecipeError
from ..progress import shown
from ..trusted_path import printable
from . import boards, csynth, vitis

VALUED = ("--board", "--linux", "--csynth", "--clock")
"""Options with a value, for a command line of sources."""


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("with AMD Vitis (--target hw or hw_emu)")
    group.add_argument(
        "--clock", type=positive_number, metavar="MHZ", help="clock of the kernels (default: the platform's)"
    )
    group.add_argument("--csynth", metavar="KERNEL", help="only synthesize this kernel, and print its report")
    group.add_argument(
        "--board", action="append", default=[], metavar="KIND=DIR",
        help="also write a folder for a board: kria=DIR (xmutil loadapp), pynq=DIR (Overlay), sd=DIR (SD card); "
        "repeatable",
    )  # fmt: skip
    group.add_argument("--linux", type=Path, metavar="DIR", help="rootfs.ext4 and Image for the SD card")


def check_options(options: argparse.Namespace, emulated: bool) -> None:
    """Raises RecipeError for options without an effect."""
    given = {name: getattr(options, name.lstrip("-")) for name in VALUED}
    for name, value in given.items():
        if value and emulated:
            raise RecipeError(f"{name} requires --target hw or hw_emu, not {options.target}; leave it out.")
        if value and options.sources_only and name != "--clock":
            raise RecipeError(f"{name} has no effect with --sources-only, which runs no Vitis; leave it out.")
        if value and options.csynth and name not in ("--csynth", "--clock"):
            raise RecipeError(f"{name} has no effect with --csynth, which stops before the link; leave it out.")
    if options.linux and not any(text.startswith("sd=") for text in options.board):
        raise RecipeError("--linux requires --board sd=DIR, whose SD card it is for.")


def with_clock(design: Design, mhz: float | None) -> Design:
    """The design for another clock of its kernels, in MHz."""
    if mhz is None:
        return design
    return replace(design, platform=replace(design.platform, speeds=design.platform.speeds | {"clock_mhz": mhz}))


def run(design: Design, options: argparse.Namespace, console: Console) -> int:
    """Builds, or synthesizes one kernel; 1 if the synthesis of a kernel misses its clock."""
    if options.csynth:
        with shown(f"{options.csynth} (synthesis)", quiet=options.quiet, stages=True) as progress:
            folder = vitis.synthesize(design, options.target, options.csynth, progress)
        reports = csynth.load(folder)
        for line in csynth.lines(reports):
            print(line)
        return 0 if reports and all(one.meets_clock for one in reports) else 1
    flow = vitis.Flow(tuple(boards.parse_package(text) for text in options.board), options.linux)
    what = f"{printable(options.output)} (recipe {design.recipe.name})"
    with shown(what, quiet=options.quiet, stages=True) as progress:
        built = vitis.build(design, options.target, options.output, progress, flow)
    kept = [name for name, step in built.steps.items() if not step.ran]
    if kept:
        _say(console, f"kept from before: {', '.join(kept)}")
    for note in built.notes:
        _say(console, note)
    _say(console, f"logs and reports: {printable(built.directory)}")
    _say(console, f"{options.output}: {options.output.stat().st_size} bytes, uuid {read(options.output).uuid}")
    return 0


def _say(console: Console, text: str) -> None:
    console.print(text.encode("utf-8", "backslashreplace").decode(), markup=False, highlight=False, soft_wrap=True)
