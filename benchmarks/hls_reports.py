"""Facts of public reports of Vitis HLS, for `hls_development.jsonl`: loops and places of bursts, and their sources.

    python -m benchmarks.hls_reports --mirrors DIR [--only NAME ...] > reports.jsonl

DIR has bare git repositories, owner+name/repo. Of each, the reports are taken whose sources are there: those that clang
reads, that have the top function, and in which every line and label that the report names is a loop's; and that no
directives beside the sources change. Of a top that several reports have, the one with the most loops counts, and of a
repository at most `--most` reports; with `--variants` every summary that has its source in its own folder. What is
printed are figures, names and lines; nothing of the sources.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from benchmarks.hls_loops import extracted
from xclbin_build.errors import BuildError
from xclbin_build.flow import csynth_text
from xclbin_build.hls.translation import compile_sources

_MOST_SOURCES = 12
_MOST_INCLUDES = 4
_SOURCES = (".cpp", ".c", ".cc", ".cxx")
_LOG = re.compile(r"(?:vitis_hls|solution\w*|hls_compile\w*|hls_run_tcl)\.log$")
_MADE = re.compile(r"(?:^|/)(?:sim|csim|impl|syn|\.autopilot)/|\.autopilot|_pre\.cpp")  # by the tools
_TARGET_CLOCK = re.compile(r"<TargetClockPeriod>([\d.]+)<")
_LOOP = re.compile(r"VITIS_LOOP_(\d+)_\d+")


@dataclass
class Report:
    """What a report says, and hints of where its sources lie. includes: folders of headers that lie elsewhere."""

    path: str
    top: str
    version: str
    part: str
    clock_ns: float = 0.0
    flow: str = "vivado"
    loops: list[tuple[str, str, int, int]] = field(default_factory=list)
    bursts: list[dict[str, Any]] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)


class Repository:
    """A bare repository at its newest commit."""

    def __init__(self, mirror: Path) -> None:
        self.path = mirror if (mirror / "HEAD").exists() else mirror / ".git"
        self._git = ["git", "-C", str(self.path)]
        self.commit = self._run("rev-parse", "HEAD").strip()
        self.files = self._run("ls-tree", "-r", "--name-only", "-z", "HEAD").split("\0")

    def _run(self, *arguments: str) -> str:
        found = subprocess.run([*self._git, *arguments], capture_output=True, check=True)
        return found.stdout.decode(errors="replace")

    def text(self, path: str) -> str:
        return self._run("show", f"HEAD:{path}")


def summary(repository: Repository, path: str) -> Report | None:
    """A synthesis summary, csynth.rpt."""
    said = csynth_text.parse(repository.text(path))
    if said is None:
        return None
    clock = _clock(repository, path, said.top)
    return Report(path, said.top, said.version, said.part, clock, said.flow, said.loops, said.bursts)


def _clock(repository: Repository, path: str, top: str) -> float:
    for name, clock in ((f"{top}_csynth.rpt", csynth_text.AP_CLK), ("csynth.xml", _TARGET_CLOCK)):
        beside = str(PurePosixPath(path).with_name(name))
        if beside in repository.files and (found := clock.search(repository.text(beside))):
            return float(found[1])
    folders = [str(folder) for folder in PurePosixPath(path).parents][:5]
    for file in repository.files:
        name = PurePosixPath(file).name
        script = file.endswith((".tcl", ".cfg")) or _LOG.search(name)
        if script and str(PurePosixPath(file).parent) in folders and (period := _period(repository.text(file))):
            return period
    return 0.0


def _period(text: str) -> float:
    """Nanoseconds of the clock that a script or a log asks for."""
    if found := re.search(r"create_clock\s[^\n]*?-period\s+\"?([\d.]+)\s*(ns|MHz)?", text, re.I):
        return 1000 / float(found[1]) if (found[2] or "").lower() == "mhz" else float(found[1])
    if found := re.search(r"with a period of ([\d.]+)\s*ns|^clock=([\d.]+)(?:ns)?\s*$", text, re.M):
        return float(found[1] or found[2])
    return 0.0


def log(repository: Repository, path: str) -> Report | None:
    """The log of a synthesis; of several in one, the last."""
    text = repository.text(path)
    runs = re.split(r"(?=Running: open_solution|\n\S* ?Vitis HLS - High-Level)", text)
    runs = [run for run in runs if "Final II" in run]
    if not runs:
        return None
    last = runs[-1]
    tops = re.findall(r"set_top\s+(?:-name\s+)?[{\"]?(\w+)|syn\.top=(\w+)", text) or _project_top(repository, path)
    parts = r"(?:Setting target device to|set_part)\s+['{\"]*([\w-]+)"
    part = re.findall(parts, last) or re.findall(parts, text)
    version = re.search(r"\bv(20\d\d\.\d)|/(20\d\d\.\d)/bin", text)
    if not tops or not part or not version:
        return None
    flow = "vitis" if re.search(r"flow_target[ =]+'?vitis", text) else "vivado"
    top = next(name for name in tops[-1] if name)
    found = Report(path, top, version[1] or version[2], part[-1], _period(last) or _period(text), flow)
    module = ""
    for line in last.splitlines():
        if name := re.search(r"-- Implementing module '([^']+)'", line):
            module = name[1]
        elif loop := re.search(r"Final II = (\d+), Depth = (\d+), loop '([^']+)'", line):
            found.loops.append((module, loop[3], int(loop[1]), int(loop[2])))
    found.hints = re.findall(r"Analyzing design file '([^']+)'", text)
    return found


def _project_top(repository: Repository, path: str) -> list[tuple[str]]:
    """The top function by the project's file, which lies beside the log or above it."""
    for folder in list(PurePosixPath(path).parents)[:3]:
        file = str(folder / "hls.app")
        if file in repository.files and (top := re.search(r'\btop="(\w+)"', repository.text(file))):
            return [(top[1],)]
    return []


def _named(name: str, lines: set[int], labels: set[str]) -> bool:
    """Whether a loop's name is that of loops that the sources have."""
    if any(int(line) not in lines for line in _LOOP.findall(name)):
        return False
    rest = [piece.strip("_") for piece in re.split(r"VITIS_LOOP_\d+_\d+", name) if piece.strip("_")]
    return all(_composed(piece, labels) for piece in rest)


def _composed(name: str, labels: set[str]) -> bool:
    """Whether a name is made of labels with _ between them."""
    return any(
        name == label or (name.startswith(f"{label}_") and _composed(name[len(label) + 1 :], labels))
        for label in labels
    )


def sources_of(report: Report, root: Path, files: Sequence[str]) -> list[str]:
    """The sources of a report, those nearest to it first tried; none if no choice has what the report names."""
    own_files = [file for file in files if not _MADE.search(file) and (root / file).exists()]
    code = [file for file in own_files if file.endswith(_SOURCES)]
    defined = re.compile(rf"\b{report.top}\s*\([^;{{}}]*\)\s*{{")
    texts = {file: (root / file).read_text(errors="replace") for file in code}
    own = [file for file in code if defined.search(texts[file])]
    folders = [str(folder) for folder in PurePosixPath(report.path).parents]
    own.sort(key=lambda file: next(n for n, f in enumerate(folders) if f == "." or file.startswith(f"{f}/")))
    hints = {PurePosixPath(hint).name for hint in report.hints}
    for top in own[:6]:
        beside = [file for file in code if PurePosixPath(file).parent == PurePosixPath(top).parent and file != top]
        beside = [file for file in beside if not re.search(r"\bmain\s*\(", texts[file])]
        choices = [[top, *(file for file in beside if PurePosixPath(file).name in hints)], [top], [top, *beside]]
        for choice in [one for n, one in enumerate(choices) if one not in choices[:n] and len(one) <= _MOST_SOURCES]:
            if _fits(report, choice, root):
                return choice
    return []


def _fits(report: Report, choice: Sequence[str], root: Path) -> bool:
    report.includes = []
    paths = [root / file for file in choice]
    own = [str(root), *sorted({str(path.parent) for path in paths})]
    for _ in range(_MOST_INCLUDES + 1):
        try:
            unit = compile_sources(*paths, includes=own + [str(root / one) for one in report.includes])
            unit.symbol_of(report.top)
            break
        except (BuildError, RecursionError, UnicodeDecodeError) as error:
            folder_of_it = _includes(str(error), root)
            if folder_of_it is None or folder_of_it in report.includes:
                return False
            report.includes.append(folder_of_it)
    else:
        return False
    lines = {loop.line for loop in unit.source.loops.values()}
    labels = {loop.label for loop in unit.source.loops.values() if loop.label}
    return all(_named(loop, lines, labels) for _, loop, _, _ in report.loops)


def _includes(error: str, root: Path) -> str | None:
    """The folder of the repository that a header lies in which clang has not found, if there is one only."""
    missing = re.search(r"'([^']+)' file not found", error)
    if not missing or PurePosixPath(missing[1]).is_absolute() or ".." in missing[1]:
        return None
    found = [path for path in root.rglob(PurePosixPath(missing[1]).name) if path.as_posix().endswith(f"/{missing[1]}")]
    folders = [path.as_posix().removesuffix(missing[1]).rstrip("/") for path in found]
    return str(Path(folders[0]).relative_to(root)) if len(folders) == 1 else None


def _without_names(report: Report) -> None:
    """Leaves out loops of which a report says no more than "Loop 1"."""
    report.loops = [loop for loop in report.loops if not re.fullmatch(r"Loop [\d.]+", loop[1])]


def _directed(repository: Repository, path: str) -> bool:
    """Whether pragmas of the report lie in no source, but in a script of the solution."""
    scripts = [str(folder / "directives.tcl") for folder in list(PurePosixPath(path).parents)[:3]]
    there = [path, *(script for script in scripts if script in repository.files)]
    return any(re.search(r"set_directive_(?!top)\w+", repository.text(file)) for file in there)


def facts(mirror: Path, most: int, variants: float = 0.0) -> list[dict[str, Any]]:
    """Of one repository, its reports with sources. variants: nanoseconds of the clock of reports that say none, if all
    count that have their source beside them."""
    try:
        repository = Repository(mirror / "repo")
    except subprocess.CalledProcessError:
        return []
    best: dict[str, Report] = {}
    for path in repository.files:
        name = PurePosixPath(path).name
        of_run = _LOG.search(name) and ".autopilot" not in path and not variants
        read = summary if name == "csynth.rpt" else log if of_run else None
        try:
            report = read(repository, path) if read else None
        except (subprocess.CalledProcessError, ValueError, IndexError):
            continue
        if report is None or not (report.clock_ns or variants):
            continue
        report.clock_ns = report.clock_ns or variants
        _without_names(report)
        if not report.loops or _directed(repository, path):
            continue
        key = path if variants else report.top
        before = best.get(key)
        if before is None or (len(report.loops), bool(report.bursts)) > (len(before.loops), bool(before.bursts)):
            best[key] = report
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        if best:
            extracted(repository.path, Path(folder), "HEAD")
        slow_first = sorted(best.values(), key=lambda one: -sum(loop[2] > 1 for loop in one.loops))
        for report in slow_first:
            if len(found) == most and not variants:
                break
            sources = sources_of(report, Path(folder), repository.files)
            beside = all(PurePosixPath(file).parent == PurePosixPath(report.path).parent for file in sources)
            if sources and (beside or not variants):
                found.append({
                    "repo": mirror.name.replace("+", "/", 1), "commit": repository.commit, "report": report.path,
                    "sources": sources, **({"includes": report.includes} if report.includes else {}),
                    "top": report.top, "flow": report.flow, "part": report.part,
                    "clock_ns": report.clock_ns, "version": report.version, "loops": report.loops,
                    "bursts": report.bursts,
                })  # fmt: skip
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each report; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hls_reports", description=__doc__.split("\n")[0])
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of bare repositories, owner+name/repo")
    parser.add_argument("--only", nargs="*", default=[], help="repositories, owner/name; all if none")
    parser.add_argument("--most", type=int, default=3, help="reports of a repository")
    parser.add_argument("--variants", type=float, default=0.0, metavar="NS",
                        help="every summary with its source beside it; NS: the clock, where none is said")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    mirrors = [path for path in sorted(options.mirrors.iterdir()) if (path / "repo").is_dir()]
    wanted = [path for path in mirrors if not options.only or path.name.replace("+", "/", 1) in options.only]
    with ProcessPoolExecutor(options.jobs) as pool:
        for some in pool.map(partial(facts, most=options.most, variants=options.variants), wanted):
            for one in some:
                print(json.dumps(one), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
