"""The command `xclbin-build estimate`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console

from . import platform as platforms
from . import recipe as recipes
from .build import load_design
from .command_line import parse
from .design import Design
from .errors import RecipeError
from .estimate import platforms as tables
from .estimate.design import estimate
from .estimate.report import document, show


def run(words: list[str]) -> int:
    """Runs the command; 0 if the design fits, 1 if it does not or if that is unknown."""
    parser = argparse.ArgumentParser(
        prog="xclbin-build estimate",
        description="Estimates the resources of a design: DSPs, block RAMs, UltraRAMs, LUTs and flip-flops of each "
        "kernel, core and process, and whether they fit the platform. Returns 1 if they do not fit, or if "
        "that is unknown.",
    )
    parser.add_argument("--recipe", help="as for a build (default: the platform's own)")
    parser.add_argument("--platform", help=f"{', '.join(platforms.names())}, or the path of a .toml")
    parser.add_argument("--cu", action="append", default=[], metavar="KERNEL=N", help="compute units of a kernel")
    parser.add_argument("--process", action="append", default=[], metavar="NAME",
                        help="count only this process of an engine; repeatable")  # fmt: skip
    parser.add_argument(
        "--all-platforms", action="store_true", help="a row for each platform, of its own recipe if none is given"
    )
    parser.add_argument("--sizes-only", action="store_true",
                        help="with --all-platforms: count arrays and memories only, which takes seconds")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parse(parser, words)
    if options.all_platforms:
        return _all(options)
    if options.sizes_only:
        raise RecipeError("--sizes-only requires --all-platforms; leave it out.")
    if options.recipe is None and options.platform is None:
        raise RecipeError("give --platform, --recipe, or both, such as: xclbin-build estimate --platform u250")
    design = load_design(options.recipe, recipes.parse_compute_units(options.cu), options.platform)
    found = estimate(design, only=options.process)
    if options.json:
        print(json.dumps(document(found), indent=1))
    else:
        # As wide as it comes where nobody looks at it, so that no figure is cut.
        show(found, Console(width=None if sys.stdout.isatty() else 400))
    return 0 if found.fits else 1


def _all(options: argparse.Namespace) -> int:
    """The table of all platforms; 0 if the recipe fits one of them."""
    for name in ("platform", "process"):
        if getattr(options, name):
            raise RecipeError(f"--{name} and --all-platforms exclude each other; leave one out.")
    units = recipes.parse_compute_units(options.cu)

    def design_for(platform: str, recipe: str | Path) -> Design:
        return load_design(recipe, units, platform)

    rows = tables.estimate_all(options.recipe, design_for, whole=not options.sizes_only)
    if options.json:
        print(json.dumps(tables.document(rows), indent=1))
    else:
        tables.show(rows, Console(width=None if sys.stdout.isatty() else 400))
    return 0 if any(row.estimate and row.estimate.fits for row in rows) else 1
