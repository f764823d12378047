"""The command `xclbin-build`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from rich.console import Console

from . import check_command as check
from . import csim, pragma_lint, scaffold, vpp
from . import estimate_command as estimates
from . import platform as platforms
from . import recipe as recipes
from .axlf import read
from .build import build_design, check_output, design_of, load_design
from .command_line import parse, run_command
from .cosim import command as cosim
from .design import Design
from .errors import BuildError, RecipeError, XclbinError, did_you_mean
from .estimate.design import check_fit
from .flow import command as hardware
from .flow import vitis
from .info import show, summary
from .manifest import EMULATED, TARGETS
from .progress import shown
from .synthesis import report
from .trusted_path import printable

_FROM_MODEL = "--from-model"
_EPILOG = """\
xclbin-build info FILE [--json]   shows the contents of an xclbin.

xclbin-build estimate --platform P [--recipe R] [--json]   which resources a design uses, and whether it fits.

xclbin-build estimate --all-platforms [--recipe R] [--json]   a row for each platform.

xclbin-build check [SOURCE | --recipe R | --platform P] [--json]   which loops miss their II, and why.

xclbin-build check --against DIR --recipe R   Vitis' reports beside contracts, check and estimate.

xclbin-build report DIR|XCLBIN [--html FILE] [--json]   what Vitis said of a build.

xclbin-build A.cpp -k NAME [B.cpp -k NAME2] [--config FILE]   compiles and links kernels of your own, as v++ does.

xclbin-build --from-model MODEL --platform P -o DIR   searches the engine for a model, and writes its recipe.

xclbin-build csim FILE.cfg | SCRIPT.tcl   a component of Vitis HLS with its own test bench.

xclbin-build cosim SOURCE... -k TOP --tb TB.cpp [--json]   cycles, deadlocks, FIFO depths with a test bench.

xclbin-build new core|kernel NAME [-o DIR]   the files of a core or kernel of your own, with an operator of PyTorch.

examples:
  xclbin-build --target emu                                  the emulator's own recipe, with all cores
  xclbin-build --target emu --recipe my.toml --cu vadd=4 -o my.xclbin
  xclbin-build --target sw_emu vadd.cpp -k vadd --config link.cfg -o vadd.xclbin

  xclbin-build --target hw --platform u250 --sources-only build
  xclbin-build --target hw --platform kv260 --board kria=app -o engine.xclbin
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status.

    0: done; 1: a design does not fit or misses its contract; 2: it could not be done, a message says why.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    commands = {
        "info": _info,
        "estimate": estimates.run,
        "check": check.run,
        "csim": csim.run,
        "cosim": cosim.run,
        "new": scaffold.run,
        "report": report.run,
    }
    command = commands.get(words[0]) if words else None
    if any(word.partition("=")[0] == _FROM_MODEL for word in words):
        return run_command("error", lambda: _from_model(words), (BuildError, XclbinError))
    return run_command("error", lambda: command(words[1:]) if command else _build(words), (BuildError, XclbinError))


def _from_model(words: list[str]) -> int:
    """The command of a package that knows models, which registers it in the group `xclbin_build.commands`."""
    for entry in metadata.entry_points(group="xclbin_build.commands", name=_FROM_MODEL.lstrip("-")):
        status: int = entry.load()(words)
        return status
    raise RecipeError(f"{_FROM_MODEL} needs fpga_dynamo, which is not installed: pip install fpga_dynamo")


def _info(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="xclbin-build info", description="Shows the contents of an xclbin.")
    parser.add_argument("file", type=Path, help="an xclbin made by xclbin-build")
    parser.add_argument("--json", action="store_true", help="print JSON, with the whole manifest")
    options = parse(parser, words)
    if options.json:
        print(json.dumps(summary(options.file), indent=1))
    else:
        show(options.file, Console())
    return 0


def _build(words: list[str]) -> int:
    parser = _parser()
    if vpp.names_sources(words):
        options, design, ignored = _sources(parser, words)
    else:
        options, ignored = parse(parser, words), ()
        _check_options(options)
        design = load_design(options.recipe, recipes.parse_compute_units(options.cu), options.platform)
    design = hardware.with_clock(design, options.clock)
    console = Console(stderr=True, quiet=options.quiet)
    if ignored:
        console.print(f"without effect here: {_plain(', '.join(ignored))}", highlight=False, soft_wrap=True)
    if options.sources_only:
        vitis.check_directory(options.sources_only)  # before the estimate, which takes half a minute
    else:
        check_output(options.output)
    _check_pragmas(design, options, console)
    fit_check = options.target not in EMULATED and not options.no_fit_check and not options.csynth
    if fit_check and design.platform.regions:
        fitting = check_fit(design)
        for words_of in [*fitting.fit.tight, *fitting.unknown]:
            console.print(_plain(words_of), highlight=False, soft_wrap=True)
    if options.sources_only:
        if options.target in EMULATED:
            raise RecipeError(
                f"--sources-only writes sources for Vitis: it requires --target hw or hw_emu, not {options.target}."
            )
        files = vitis.write_sources(design, options.target, options.sources_only)
        console.print(
            f"wrote {len(files)} files to {_plain(str(options.sources_only))}; build them there with ./build.sh"
        )
        return 0
    if options.target not in EMULATED:
        live = next((kernel.name for kernel in design.kernels if kernel.mailbox or kernel.auto_restart), None)
        if live is not None:
            raise RecipeError(
                f"kernel '{live}': 'mailbox' and 'auto_restart' are for the emulator; for --target {options.target} "
                "leave them out, and give Vitis its own settings."
            )
        return hardware.run(design, options, console)
    with shown(f"{printable(options.output)} (recipe {design.recipe.name})", quiet=options.quiet) as progress:
        output = build_design(
            design,
            options.target,
            options.output,
            isa=options.isa,
            plan=options.plan,
            progress=progress,
            sanitize=options.sanitize,
            uninitialized=options.uninitialized,
        )
    size, uuid = output.stat().st_size, read(output).uuid
    console.print(f"{_plain(str(output))}: {size} bytes, uuid {uuid}", highlight=False, soft_wrap=True)
    return 0


def _check_pragmas(design: Design, options: argparse.Namespace, console: Console) -> None:
    """Names mistakes in pragmas; a build for hardware, which takes hours, is refused."""
    found = pragma_lint.check_design(design)
    if found and options.target not in EMULATED and not options.no_pragma_check:
        more = f" There are {len(found) - 1} more." if len(found) > 1 else ""
        raise RecipeError(f"{found[0]}{more} Mend the pragma, or build with --no-pragma-check.")
    for finding in found:
        console.print(f"pragma: {_plain(str(finding))}", highlight=False, soft_wrap=True)


def _sources(parser: argparse.ArgumentParser, words: list[str]) -> tuple[argparse.Namespace, Design, tuple[str, ...]]:
    """The options, the design and what has no effect, of a command line that names sources as v++'s do."""
    for_sources = argparse.ArgumentParser(parents=[parser], add_help=False, prog=parser.prog)
    vpp.add_options(for_sources)
    for_sources.set_defaults(output=Path("torch.xclbin"), sanitize=True)
    found = vpp.parse(for_sources, words)
    if found.options.recipe is not None:
        raise RecipeError("--recipe and sources exclude each other: a recipe names its own sources.")
    _check_options(found.options)
    recipe = found.recipe.with_compute_units(recipes.parse_compute_units(found.options.cu))
    return found.options, design_of(recipe), found.ignored


def _check_options(options: argparse.Namespace) -> None:
    """Refuses an unknown target and options that others leave without effect; gives --output its default."""
    if options.target not in TARGETS:
        raise RecipeError(f"--target {options.target} is unknown; {did_you_mean(options.target, TARGETS)}")
    emulated = options.target in EMULATED
    for name, useless, why in (
        ("--isa", options.isa is not None and not emulated, f"--target {options.target} has no instruction set"),
        ("--plan", options.plan is not None and not emulated, f"--target {options.target} has no instruction set"),
        ("--output", options.output is not None and bool(options.sources_only), "--sources-only writes no xclbin"),
        (
            "--no-fit-check",
            options.no_fit_check and emulated,
            "only --target hw and hw_emu check whether a design fits",
        ),
        (
            "--uninitialized",
            options.uninitialized and options.target not in ("emu", "sw_emu"),
            "only the emulator finds such reads",
        ),
        ("--no-pragma-check", options.no_pragma_check and emulated, "only --target hw and hw_emu stop at a pragma"),
    ):
        if useless:
            raise RecipeError(f"{name} has no effect here: {why}; leave it out.")
    hardware.check_options(options, emulated)
    options.output = options.output or Path("torch.xclbin")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xclbin-build", description="Builds an xclbin from a recipe, or from the sources of kernels.",
        usage="xclbin-build [--recipe RECIPE | SOURCE... -k KERNEL ...] [options]", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "-t",
        "--target",
        default="emu",
        help="emu or sw_emu: the emulator; cycles: the cycle simulator; hw_emu or hw: Vitis (default: emu)",
    )
    parser.add_argument(
        "--recipe", help=f"{', '.join(recipes.names())}, or the path of a .toml (default: the platform's own)"
    )
    parser.add_argument(
        "--cu", action="append", default=[], metavar="KERNEL=N", help="compute units of a kernel; repeatable"
    )
    parser.add_argument(
        "-f", "--platform", help=f"{', '.join(platforms.names())}, or the path of a .toml (default: the recipe's)"
    )
    parser.add_argument("--isa", help="instruction set for the emulator, such as x86-64-v3 (default: this machine's)")
    parser.add_argument("--plan", help="instruction set for which tile sizes are planned (default: that of --isa)")
    parser.add_argument("-o", "--output", type=Path, help="default: torch.xclbin")
    parser.add_argument(
        "--sources-only", type=Path, metavar="DIR", help="write the sources for Vitis to this folder, do not run Vitis"
    )
    parser.add_argument(
        "--no-fit-check",
        action="store_true",
        help="build for a card even if the estimate says that the design does not fit",
    )
    parser.add_argument(
        "--no-pragma-check", action="store_true", help="build for a card even if a pragma has an unknown word or name"
    )
    parser.add_argument(
        "--sanitize",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="kernels of your own check array bounds, shifts and divisions on the emulator (default with sources)",
    )
    parser.add_argument(
        "--uninitialized",
        action="store_true",
        help="kernels of your own find reads of uninitialized variables on the emulator; slow, requires clang",
    )
    hardware.add_options(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    return parser


def _plain(text: str) -> str:
    """Text in which rich sees no markup."""
    return text.encode("utf-8", "backslashreplace").decode().replace("[", "\\[")
