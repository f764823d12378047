"""The command `xclbin-build check`."""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from . import platform as platforms
from . import pragma_lint, qor
from . import recipe as recipes
from .arguments import positive_number
from .build import load_design
from .check.report import document, show
from .check.run import Checked, CheckedPart, check_design, check_source
from .command_line import parse
from .design import Design
from .errors import RecipeError
from .estimate.design import estimate
from .hls import clang
from .hls_project import HlsProject, SourceFile, load
from .synthesis import against

_WIDE = 400  # characters
_CLOCK_NS = 1000 / 300


def run(words: list[str]) -> int:
    """Runs the command; 0 if every loop keeps its contract, 1 if one does not or could not be checked."""
    options = parse(_parser(), words)
    _check_options(options)
    if options.against:
        return _against(options)
    clang.find()
    if options.source:
        parts: list[CheckedPart] = []
        pragmas: list[pragma_lint.Finding] = []
        for component in _components(options):
            parts += _source(component, options)
            folders = [Path(folder) for folder in options.include]
            pragmas += pragma_lint.check_files([each.path for each in component.sources], folders)
        checked = Checked(parts, pragmas)
    elif options.recipe is not None or options.platform is not None:
        design = _design(options)
        checked = replace(check_design(design, options.process), pragmas=pragma_lint.check_design(design))
    else:
        raise RecipeError("give a source, --recipe or --platform, such as: xclbin-build check vadd.cpp --top vadd")
    if options.json:
        print(json.dumps(document(checked), indent=1))
    else:
        # A line for each loop where nobody looks at it, so that grep finds it.
        show(checked, Console(width=None if sys.stdout.isatty() else _WIDE), every=options.all)
    return 0 if checked.passes else 1


def _against(options: argparse.Namespace) -> int:
    """Holds reports of Vitis against a recipe; 1 if they break a contract."""
    design = _design(options)
    checked = check_design(design, options.process) if clang.available() else None
    estimated = estimate(design, whole=clang.available(), advise=False)
    found = against.compare(design, options.against, checked, estimated)
    if options.json:
        print(json.dumps(found.document(), indent=1))
    else:
        against.show(found, Console(width=None if sys.stdout.isatty() else _WIDE))
    return 1 if found.broken else 0


def _design(options: argparse.Namespace) -> Design:
    recipe = recipes.own(platforms.load(options.platform).name) if options.recipe is None else options.recipe
    return load_design(recipe, {}, options.platform)


def _check_options(options: argparse.Namespace) -> None:
    """Refuses options of a source beside a recipe, and a recipe beside a source."""
    if options.source and options.recipe is not None:
        raise RecipeError("give a source or --recipe, not both: they are checked separately.")
    if options.against and (options.source or (options.recipe is None and options.platform is None)):
        raise RecipeError("--against requires --recipe or --platform, and no source: which design was built?")
    if not options.source and (options.recipe is not None or options.platform is not None):
        for name in ("vitis", "top", "clock", "flow", "contract", "include", "define"):
            if getattr(options, name):
                raise RecipeError(
                    f"--{name} requires a source; the kernels of a recipe are checked against their contracts."
                )


def _components(options: argparse.Namespace) -> list[HlsProject]:
    """What a `.cfg` file or a Tcl script describes, or the sources of the command line."""
    described = [path for path in options.source if path.suffix in (".cfg", ".ini", ".tcl")]
    for path in options.source:
        if not path.is_file():
            raise RecipeError(f"source '{path}' does not exist.")
    if not described:
        return [HlsProject(Path(), sources=[SourceFile(path) for path in options.source])]
    if len(options.source) > 1:
        raise RecipeError(f"give '{described[0]}' alone: it names the sources of its component.")
    found = [component for component in load(described[0]) if component.sources]
    if not found:
        raise RecipeError(f"'{described[0]}' names no sources: as syn.file, or by add_files in a Tcl script.")
    return found


def _source(component: HlsProject, options: argparse.Namespace) -> list[CheckedPart]:
    path, *others = [each.path for each in component.sources]
    clock_ns, part = options.clock or (None if options.platform else component.clock_ns), component.part
    if options.platform:
        platform = platforms.load(options.platform)
        part = platform.part or part
        clock_ns = clock_ns or 1000 / platform.speeds["clock_mhz"]
    beside = path.parent / "qor.toml"
    file = options.contract or (beside if beside.is_file() else None)
    parts = check_source(
        path,
        options.top or component.top or path.stem,
        others=others,
        includes=[*options.include, *component.values("-I")],
        defines=[*options.define, *component.values("-D")],
        clock_ns=clock_ns or _CLOCK_NS,
        contract=qor.load(file) if file else None,
        part=part,
        only=options.process,
        flow=options.flow,
        vitis=options.vitis or "",
        directives=component.directives,
    )
    missing = [name for name in options.process if not any(name in (part.kernel, part.name) for part in parts)]
    if missing:
        raise RecipeError(f"'{path}' has no process '{missing[0]}'; run the check without --process to see the names.")
    return parts


def _version(text: str) -> str:
    """A version of Vitis HLS as its reports write it: 2022.2."""
    if not re.fullmatch(r"20\d\d\.[1-9]", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a version of Vitis HLS; write it as 2022.2.")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xclbin-build check",
        description="Checks the loops of kernels without Vitis: initiation intervals and their limits, bursts, "
        "latencies. Requires clang 19. Returns 1 if a loop has a larger II than its contract (qor.toml) or "
        "its pragma requires.",
    )
    parser.add_argument("source", nargs="*", type=Path,
                        help="C++ and C sources of a design, or a component's .cfg file or Tcl script with its "
                             "directives; a contract (qor.toml) may lie in the folder of the first source (default: "
                             "the kernels of the recipe)")  # fmt: skip
    parser.add_argument("--top", help="the top function (default: the name of the first source)")
    parser.add_argument("--recipe", help="as for a build (default: the platform's own)")
    parser.add_argument("--platform", help=f"{', '.join(platforms.names())}, or the path of a .toml; gives the clock")
    parser.add_argument("--process", action="append", default=[], metavar="NAME",
                        help="check only this process, core or kernel; repeatable")  # fmt: skip
    parser.add_argument(
        "--clock", type=positive_number, metavar="NS", help="clock period in ns (default: the platform's, or 3.33)"
    )
    parser.add_argument("--flow", choices=("vitis", "vivado"),
                        help="pointers without a pragma are m_axi ports (vitis) or memories (vivado); default: "
                        "vitis if the top is extern \"C\" or a pragma names an m_axi port")  # fmt: skip
    parser.add_argument("--vitis", type=_version, metavar="VERSION",
                        help="version of Vitis HLS whose rules apply: 2022.2 (default: the newest)")  # fmt: skip
    parser.add_argument(
        "--contract",
        type=Path,
        metavar="TOML",
        help="contract of the loops (default: qor.toml in the folder of the source)",
    )
    parser.add_argument("-I", "--include", action="append", default=[], metavar="DIR", help="as for a compiler")
    parser.add_argument("-D", "--define", action="append", default=[], metavar="NAME=VALUE", help="as for a compiler")
    parser.add_argument(
        "--against", type=Path, metavar="DIR",
        help="hold Vitis' reports in DIR (csynth.xml, timing, utilization) against contracts, check and estimate",
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="also show loops that are not pipelined")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
