"""`xclbin-build csim`: a kernel with its own C++ test bench, without Vitis.

The sources are compiled as for the emulator: calls in a dataflow region are processes side by side with FIFOs of their
depth, and array bounds, shifts and divisions are checked. The test bench is compiled as it is, and its exit status is
the command's. It runs in a folder as deep below the component as Vitis' C simulation does, with copies of its data.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from hls_kernels import ROOT, SIM, STAND_INS

from . import dataflow, pragma_lint
from .command_line import parse, refuse
from .errors import RecipeError, ToolchainError
from .escape import cpp_string
from .hls_project import HlsProject, SourceFile, load
from .includes import files_of
from .toolchain import process
from .toolchain.compiler import find_compiler
from .toolchain.gxx import SANITIZE

FLAGS = ("-O1", "-g1", "-w", "-pthread", "-D__HLS_CSIM__=1", "-D__SIM_FPO__", "-ffp-contract=off")
_RUN = Path("csim/hls/csim/build")
"""Below the component, as Vitis has it: test benches name files as ../../../../data."""
_NOT_LINKED = ("csim", ".git", "hls", "logs")
_ENDED_BY_SIGNAL = 128


def run(words: list[str]) -> int:
    """The command. Returns the test bench's exit status; what cannot be done is a RecipeError or ToolchainError."""
    own, arguments = divided(words)
    parser = argparse.ArgumentParser(
        prog="xclbin-build csim", description=__doc__.splitlines()[0],
        usage="xclbin-build csim [FILE.cfg | SCRIPT.tcl | SOURCE...] [options] [-- ARGUMENT...]",
    )  # fmt: skip
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE",
                        help="a .cfg file, a Tcl script of Vitis HLS, or C++ sources of the kernel")  # fmt: skip
    parser.add_argument("--config", type=Path, help="the .cfg file of a component, as for vitis-run")
    parser.add_argument("--tb", type=Path, action="append", default=[], metavar="FILE",
                        help="a file of the test bench: C++, or data")  # fmt: skip
    parser.add_argument("-I", "--include", action="append", default=[], metavar="DIR", help="a folder of headers")
    parser.add_argument("-D", "--define", action="append", default=[], metavar="NAME[=VALUE]", help="a macro")
    parser.add_argument("--work-dir", type=Path, metavar="DIR", help="keep the build here (default: a temporary one)")
    parser.add_argument("--sanitize", action=argparse.BooleanOptionalAction, default=True,
                        help="check array bounds, shifts and divisions of the kernel (default)")  # fmt: skip
    parser.add_argument("--timeout", type=float, metavar="S", help="end the test bench after so many seconds")
    options = parse(parser, own)
    projects = _projects(options, arguments)
    status = 0
    for number, project in enumerate(projects):
        for finding in _findings(project):
            print(f"pragma: {finding}", file=sys.stderr)
        if options.work_dir:
            work = options.work_dir / str(number) if len(projects) > 1 else options.work_dir
            work.mkdir(parents=True, exist_ok=True)
            status = status or _simulate(project, work.resolve(), options.sanitize, options.timeout)
            continue
        with tempfile.TemporaryDirectory(prefix="csim_") as folder:
            status = status or _simulate(project, Path(folder).resolve(), options.sanitize, options.timeout)
    return status


def divided(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The command's own words, and those behind `--` for the test bench."""
    at = list(words).index("--") if "--" in words else len(words)
    return list(words[:at]), list(words[at + 1 :])


def _projects(options: argparse.Namespace, arguments: Sequence[str]) -> list[HlsProject]:
    """The components to simulate, one after the other."""
    files: list[Path] = list(options.files)
    described = [path for path in files if path.suffix in (".cfg", ".ini", ".tcl")]
    if options.config:
        described.append(options.config)
    if len(described) > 1:
        raise RecipeError("give one .cfg file or Tcl script: a component has one test bench.")
    here = Path.cwd()
    projects = load(described[0]) if described else [HlsProject(here)]
    more = [f"-I{here / folder}" for folder in options.include] + [f"-D{macro}" for macro in options.define]
    for project in projects:
        for path in files:
            if path not in described:
                project.add(str(here / path), bench=False)
        for path in options.tb:
            project.add(str(here / path), bench=True)
        project.source_flags += more
        project.bench_flags += more
        project.arguments = list(arguments) or project.arguments
    if not any(project.sources or project.bench for project in projects):
        raise RecipeError("no sources: name a .cfg file, a Tcl script, or C++ files and their test bench with --tb.")
    for project in projects:
        if not any(has_main(each.path) for each in [*project.bench, *project.sources]):
            raise RecipeError("no test bench: name a C++ file with main() behind --tb, or as tb.file of the .cfg file.")
    return projects


def has_main(path: Path) -> bool:
    return re.search(r"\bmain\s*\(", path.read_text(errors="replace")) is not None


def _findings(project: HlsProject) -> list[str]:
    files = [each.path for each in project.sources]
    return [str(found) for found in pragma_lint.check_files(files, sorted({path.parent for path in files}))]


def _simulate(project: HlsProject, work: Path, sanitize: bool, timeout: float | None) -> int:
    folders = [each.path.parent for each in [*project.sources, *project.bench]]
    flags = [*project.source_flags, *project.bench_flags, *(f for each in project.sources for f in each.flags)]
    named = [Path(flag[2:]) for flag in flags if flag.startswith("-I")]
    mirror = Mirror(work / "sources", [*folders, *named])
    mirror.stage([each.path for each in [*project.sources, *project.bench]])
    objects = []
    for number, (each, bench) in enumerate(units(project)):
        of_project = project.bench_flags if bench else project.source_flags
        checks = SANITIZE if sanitize and not bench else ()
        target = work / f"{number}_{each.path.stem}.o"
        compile_file(mirror, each, [*of_project, *each.flags, *checks], target)
        objects.append(str(target))
    own = work / "terminate.o"
    compiler = find_compiler().command
    call_compiler([*compiler, "-std=gnu++17", *FLAGS, "-c", str(SIM / "csim.cpp"), "-o", str(own)])
    program = work / "csim.exe"
    libraries = [word for word in project.link if word.startswith(("-l", "-L"))]
    checks = SANITIZE if sanitize else ()
    call_compiler([*compiler, *objects, str(own), "-o", str(program), *checks, *libraries, "-pthread"])
    return run_bench(program, project, work, timeout)


def units(project: HlsProject) -> Iterable[tuple[SourceFile, bool]]:
    """Each file to compile once, and whether it belongs to the test bench alone."""
    seen: set[Path] = set()
    for bench, files in ((False, project.sources), (True, project.bench)):
        for each in files:
            if each.path.resolve() not in seen:
                seen.add(each.path.resolve())
                yield each, bench


class Mirror:
    """Copies of a component's files, each below a folder by its whole path, with regions rewritten.

    A file is copied if it, or a header that it includes, has a dataflow region: then its own quotes find the copies.
    """

    def __init__(self, root: Path, folders: Sequence[Path], rewrite: Callable[[str], str] = dataflow.rewritten) -> None:
        self.root, self.folders, self._rewrite = root, folders, rewrite

    def stage(self, sources: Sequence[Path]) -> None:
        """Writes the copies of the sources, and of the headers that they include from folders of the component."""
        for path in files_of([path.resolve() for path in sources], self.folders):
            if not path.is_file():
                continue
            copy = self.of(path)
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
            changed = text if path.suffix == ".c" else self._rewrite(text)
            copy.parent.mkdir(parents=True, exist_ok=True)
            line = f"#line 1 {cpp_string(str(path))}\n"
            copy.write_text(line + changed, encoding="utf-8", errors="surrogateescape")

    def of(self, path: Path) -> Path:
        return self.root / path.resolve().relative_to("/")

    def flags(self, flags: Sequence[str]) -> list[str]:
        """Folders of headers, each behind that of its copies."""
        found = []
        for flag in flags:
            if flag.startswith("-I"):
                found.append(f"-I{self.of(Path(flag[2:]))}")
            found.append(flag)
        return found


def compile_file(
    mirror: Mirror, each: SourceFile, flags: Sequence[str], target: Path, *,
    header: Path = SIM / "dataflow_calls.hpp", copied: bool = True,
) -> None:  # fmt: skip
    """Compiles the copy of a file, or the file itself. header: what the code of regions needs."""
    parent = each.path.resolve().parent
    command = [*find_compiler().command, *FLAGS]
    if each.path.suffix == ".c":
        command += ["-x", "c", "-std=gnu11"]
    else:
        command += ["-std=gnu++17", "-include", str(header)]
    command += [*mirror.flags(flags), "-iquote", str(parent), f"-I{parent}", f"-I{ROOT}", "-isystem", str(STAND_INS)]
    call_compiler([*command, "-c", str(mirror.of(each.path) if copied else each.path), "-o", str(target)])


def call_compiler(command: Sequence[str]) -> None:
    finished = process.run(command, timeout=process.time_limit())
    if finished.status:
        lines = "\n".join(finished.output.splitlines()[:20])
        raise ToolchainError(f"the compiler rejected the sources:\n{lines}")


def run_bench(
    program: Path, project: HlsProject, work: Path, timeout: float | None, *, variables: Mapping[str, str] = {},
    output: IO[str] | None = None,
) -> int:  # fmt: skip
    """Runs the test bench in a folder as Vitis has it; its exit status. output: where its output goes, if not to that
    of the command."""
    component = work / "component"
    component.mkdir(exist_ok=True)
    for entry in project.folder.iterdir():
        link = component / entry.name
        if entry.name not in _NOT_LINKED and entry.resolve() not in (work, *work.parents) and not link.exists():
            link.symlink_to(entry.resolve())
    folder = component / _RUN
    folder.mkdir(parents=True, exist_ok=True)
    for path in project.data:
        if path.is_dir():
            shutil.copytree(path, folder / path.name, dirs_exist_ok=True)
        else:
            shutil.copy(path, folder / path.name)
    environment = {**os.environ, "UBSAN_OPTIONS": "print_stacktrace=0", **variables}
    try:
        status = subprocess.run(
            [str(program), *project.arguments],
            cwd=folder,
            env=environment,
            timeout=timeout,
            check=False,
            stdout=output,
        ).returncode
    except subprocess.TimeoutExpired:
        return refuse("xclbin-build csim", f"the test bench has not ended after {timeout:g} s; give more by --timeout.")
    if status < 0:
        print(f"xclbin-build csim: the test bench was ended by signal {-status}", file=sys.stderr)
        return _ENDED_BY_SIGNAL - status
    return status
