"""`xclbin-build cosim`: cycles, deadlocks and FIFO depths of a design with its own test bench, without Vitis.

The sources are compiled as for `csim`, and run on simulated time. Loops take the schedule that `check` predicts, and
streams wait by their depths. The report has the cycles, what each process waits for, and the smallest depths.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .. import csim
from .. import platform as platforms
from ..arguments import positive_number
from ..command_line import parse
from ..errors import RecipeError
from ..hls import clang
from ..hls_project import HlsProject, load
from . import picture, report, trace
from .simulate import Settings, simulate

_CLOCK_NS = 1000 / 300
_WIDE = 200


def run(words: list[str]) -> int:
    """The command. Returns 0 if the bench passes, 1 on a deadlock, else the bench's status."""
    own, arguments = csim.divided(words)
    options = parse(_parser(), own)
    clang.find()
    project = _project(options, arguments)
    settings = _settings(options, project)
    with tempfile.TemporaryDirectory(prefix="cosim_") as folder:
        work = Path(folder).resolve()
        sys.stdout.flush()
        done = simulate(project, settings, work, output=sys.stderr if options.json else None)
    document = report.document(done, settings)
    if options.trace:
        options.trace.write_text(trace.events(document, settings.clock_ns))
    if options.html:
        options.html.write_text(picture.page(document, settings))
    if options.json:
        print(json.dumps(document, indent=1))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
        print(report.text(document, width), end="")
    return 1 if document["deadlock"] else done.status


def _settings(options: argparse.Namespace, project: HlsProject) -> Settings:
    top = options.top or project.top
    if not top:
        raise RecipeError("name the top function: -k TOP.")
    platform = platforms.load(options.platform) if options.platform else None
    usual = 1000 / platform.speeds["clock_mhz"] if platform else _CLOCK_NS
    part = options.part or (platform.part if platform else project.part)
    if project.clock_ns and not platform:
        usual = project.clock_ns
    return Settings(
        top, options.clock or usual, part, platform, options.flow, options.vitis or "", options.fifo_depths,
        options.timeout,
    )  # fmt: skip


def _project(options: argparse.Namespace, arguments: Sequence[str]) -> HlsProject:
    here = Path.cwd()
    described = [path for path in options.files if path.suffix in (".cfg", ".ini", ".tcl")]
    if len(described) > 1:
        raise RecipeError("give one .cfg file or Tcl script: a component has one test bench.")
    project = load(described[0])[0] if described else HlsProject(here)
    for path in options.files:
        if path not in described:
            project.add(str(here / path), bench=False)
    for path in options.tb:
        project.add(str(here / path), bench=True)
    more = [f"-I{here / folder}" for folder in options.include] + [f"-D{macro}" for macro in options.define]
    project.source_flags += more
    project.bench_flags += more
    project.arguments = list(arguments) or project.arguments
    if not project.sources and not project.bench:
        raise RecipeError("no sources: name C++ files, and their test bench with --tb.")
    if not any(csim.has_main(each.path) for each in [*project.bench, *project.sources]):
        raise RecipeError("no test bench: name a C++ file with main() behind --tb.")
    c = [each.path.name for each in project.sources if each.path.suffix == ".c"]
    if c:
        raise RecipeError(f"'{c[0]}' is C: its loops cannot be timed. Rename it to .cpp if it is C++ as well.")
    return project


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xclbin-build cosim", description=(__doc__ or "").splitlines()[0].split(": ", 1)[1],
        usage="xclbin-build cosim KERNEL.cpp [MORE.cpp...] -k TOP --tb TB.cpp [options] [-- ARGUMENT...]",
    )  # fmt: skip
    add = parser.add_argument
    add("files", nargs="*", type=Path, metavar="FILE", help="C++ sources of the design, or a component's .cfg")
    add("-k", "--top", metavar="TOP", help="the top function, whose calls are timed")
    add("--tb", type=Path, action="append", default=[], metavar="FILE", help="a file of the test bench: C++, or data")
    add("-I", "--include", action="append", default=[], metavar="DIR", help="a folder of headers")
    add("-D", "--define", action="append", default=[], metavar="NAME[=VALUE]", help="a macro")
    names = ", ".join(platforms.names())
    add("--platform", help=f"{names}, or the path of a .toml: part, clock, memory")
    add("--part", help="the FPGA, on which latencies of operators depend")
    add("--clock", type=positive_number, metavar="NS", help="clock period (default: the platform's, or 3.33)")
    add("--flow", choices=("vitis", "vivado"), help="as for check")
    add("--vitis", metavar="VERSION", help="version of Vitis HLS whose rules apply, as for check")
    add("--fifo-depths", action="store_true", help="search the smallest depths also where that takes long")
    add("--json", action="store_true", help="print JSON; the bench's output goes to standard error")
    add("--html", type=Path, metavar="FILE", help="write a page with a timeline")
    add("--trace", type=Path, metavar="FILE", help="write a timeline for Perfetto or chrome://tracing")
    add("--timeout", type=positive_number, metavar="S", help="end the test bench after so many seconds")
    return parser
