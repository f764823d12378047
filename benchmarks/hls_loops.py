"""The checker of loops beside published reports: initiation intervals of loops, and bursts, as Vitis HLS gave them.

    python -m benchmarks.hls_loops loops.jsonl --bursts bursts.jsonl --mirrors DIR --half tune

loops.jsonl has a line for each loop of a report: repo, path, module, loop, final_ii, clock_ns, part; bursts.jsonl one
for each message of the burst inference. DIR has a bare git repository of each, owner+name/repo; none of it is part of
this project. `hls_loops.toml` names the sources. Repositories are divided by a hash of their names; rules are made by
looking at the tune half only. Loops that a report names several times (instances of a template with the same figures)
count once.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.hls_check import HALVES, half_of, spread
from xclbin_build import toml_table
from xclbin_build.check.loops import Check, Loop, check
from xclbin_build.errors import BuildError
from xclbin_build.hls import frontend
from xclbin_build.hls.processes import Process, processes
from xclbin_build.hls.translation import compile_sources

PROJECTS = Path(__file__).with_suffix(".toml")
_SOURCES = (".c", ".cc", ".cpp", ".h", ".hh", ".hpp", ".inc", ".tcl", ".cfg")
_MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class Row:
    """A loop of a report, and the interval that the checker found: None where it found no such loop. depths: latency of
    an iteration that the report gives, and the checker's."""

    where: str
    module: str
    loop: str
    reported: int
    found: int | None
    limit: str = ""
    depths: tuple[int, int] | None = None


@dataclass
class Result:
    """Of one project. bursts: of each place of a report's messages, whether the report says burst, and the checker."""

    rows: list[Row] = field(default_factory=list)
    bursts: list[tuple[str, bool, bool]] = field(default_factory=list)
    note: str = ""


def extracted(repository: Path, to: Path, commit: str) -> Path:
    """The sources of a bare repository at a commit, in a folder of their own."""
    git = ["git", "-C", str(repository)]
    listing = subprocess.run([*git, "ls-tree", "-r", "-l", commit], capture_output=True, text=True, check=True).stdout
    wanted = []
    for line in listing.splitlines():
        about, _, path = line.partition("\t")
        _, _, blob, size = about.split()
        if path.endswith(_SOURCES) and ".autopilot" not in path and size.isdigit() and int(size) < _MOST_BYTES:
            wanted.append((blob, path))
    names = "\n".join(blob for blob, _ in wanted).encode()
    data = subprocess.run([*git, "cat-file", "--batch"], input=names, capture_output=True, check=True).stdout
    at = 0
    for _, path in wanted:
        end = data.index(b"\n", at)
        head = data[at:end].split()
        length = int(head[2]) if head[1] == b"blob" else -1
        file = to / path
        if length >= 0 and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data[end + 1 : end + 1 + length])
        at = end + 1 + length + 1
    return to


def checks_of(folder: Path, project: dict[str, Any], clock_ns: float, part: str) -> list[Check]:
    """The project's top, or the processes of its dataflow region."""
    for name, declaration in project.get("absent", {}).items():
        if not (folder / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"{declaration}\n")
    files = [folder / name for name in project["sources"] if (folder / name).is_file()]
    if not files:
        raise BuildError(f"none of {', '.join(project['sources'])}")
    includes = [str(folder / name) for name in ("", *project.get("includes", []))]
    unit = compile_sources(*files, includes=includes + sorted({str(file.parent) for file in files}))
    found = []
    symbol = unit.symbol_of(project["top"])
    memories, latency = project.get("memories", False), project.get("latency")
    for process in processes(unit, project["top"]) or [Process(symbol)]:
        try:
            kernel = frontend.analyse_kernel(
                unit, process.symbol, clock_ns=clock_ns, pragmas=process.pragmas, passed=process.passed,
                memories=memories, vitis=project.get("vitis", ""),
            )  # fmt: skip
        except BuildError:
            continue
        kernel.part = part
        found.append(check(kernel, memories=memories, latency=latency).of(process))
    return found


def named(checks: Iterable[Check]) -> dict[str, list[tuple[Loop, tuple[str, ...]]]]:
    """Pipelined loops by the names that reports have: their own, or those of loops that flatten, put together."""
    found: dict[str, list[tuple[Loop, tuple[str, ...]]]] = defaultdict(list)
    for one in checks:
        for loop in one.loops:
            if loop.ii is None:
                continue
            for name in _joined(loop):
                found[name].append((loop, loop.path))
    return found


def _joined(loop: Loop) -> list[str]:
    """Names that a report may have for a loop: its own, and that with those of loops around it before it. Of four loops
    and more that become one, reports leave out the second from outside ("ID_KW_OW" of ID, KH, KW and OW)."""
    outer = [name for name, _ in loop.nest]
    names = [[*outer[start:], loop.name] for start in range(len(outer) + 1)]
    return ["_".join(name) for name in names + [[name[0], *name[2:]] for name in names if len(name) > 3]]


def measured(project: dict[str, Any], rows: list[dict[str, Any]], bursts: list[dict[str, Any]], root: Path) -> Result:
    """Checks one project, and compares."""
    result = Result()
    clock, part = float(rows[0]["clock_ns"]), rows[0]["part"]
    project = project | {"vitis": rows[0].get("vitis") or ""}
    where = f"{project['repo'].partition('/')[2]}/{project['log']}"
    try:
        checks = checks_of(root, project, clock, part)
    except (BuildError, RecursionError) as error:
        checks, result.note = [], f"{where}: {str(error)[:200]}"
    result.rows = compared(where, rows, checks)
    result.bursts = [
        (f"{where} {place}", yes, ours)
        for place, yes, ours in burst_sites(bursts, checks, {row["loop"] for row in rows})
    ]
    return result


def compared(where: str, rows: Iterable[dict[str, Any]], checks: Iterable[Check]) -> list[Row]:
    """The loops of one report, each beside the checker's. What is named several times with one figure counts once."""
    loops = named(checks)
    found: list[Row] = []
    seen = set()
    for row in rows:
        key = (re.sub(r"_\d+(?=_|$)|\d+$", "", row["module"]), row["loop"], row["final_ii"])
        if key in seen:
            continue
        seen.add(key)
        loop = _match(row, loops)
        ii, limit = (loop.ii, loop.limit) if loop else (None, "")
        depths = (int(row["depth"]), loop.depth) if loop and row.get("depth") else None
        found.append(Row(where, row["module"], row["loop"], row["final_ii"], ii, limit, depths))
    return found


def _match(row: dict[str, Any], loops: dict[str, list[tuple[Loop, tuple[str, ...]]]]) -> Loop | None:
    candidates = loops.get(row["loop"], [])
    module = row["module"].removeprefix("grp_")  # of an instance
    beside = [loop for loop, path in candidates if any(module.startswith(name) for name in path if name)]
    beside = beside or [loop for loop, _ in candidates]
    return next((loop for loop in beside if loop.ii == row["final_ii"]), beside[0] if beside else None)


def burst_sites(
    messages: Sequence[dict[str, Any]], checks: Sequence[Check], known: set[str]
) -> list[tuple[str, bool, bool]]:
    """Loops with accesses to a port: the line and direction, whether the report has a burst there, and the checker.

    Reports name the loop that a burst goes on in, which may be one around that of the access; where they name none,
    there is no burst. Loops are known by their labels, those without one by FILE:LINE. Left out is a report of which a
    message names no loop (older versions), and a loop that the report does not know at all. known: names that it has.
    """
    said: dict[str, bool] = {}  # of each place that a message names, whether the checker has seen an access there
    for message in messages:
        words = message["message"]
        place = re.search(r"burst (read|write)s? .*?in loop '([^']*)'\s?\(([^()\s]*?):(\d+):\d+\) has been", words)
        if place:
            line = f"{Path(place[3]).name}:{place[4]}"
            name = line if place[2] == "anonymous" or place[2].startswith("VITIS_LOOP") else place[2]
            said[f"{name} {place[1]}"] = False
    if any(" in loop '" not in message["message"] for message in messages):
        return []
    found: dict[str, tuple[bool, bool]] = {}
    for loop in (loop for one in checks for loop in one.loops):
        for burst in loop.bursts:
            way = "write" if burst.write else "read"
            file = Path(loop.file).name
            nest = [(loop.name, loop.line), *reversed(loop.nest)]
            names = [f"{file}:{line}" if name.startswith("VITIS_LOOP") else name for name, line in nest]
            places = [f"{name} {way}" for name in names]
            there = [place for place in places if place in said]
            if not there and not any(name in known for name in _joined(loop)):
                continue
            said |= dict.fromkeys(there, True)
            before = found.get(f"{places[0]} {burst.port}", (False, False))
            found[f"{places[0]} {burst.port}"] = (bool(there), burst.inferred or before[1])
    for burst in (burst for one in checks for burst in one.bursts):
        way = "write" if burst.write else "read"
        for line in burst.places:
            if f"{line} {way}" in said:
                said[f"{line} {way}"] = True
                found[f"{line} {way}"] = (True, burst.inferred)
    sites = [(place, reported, ours) for place, (reported, ours) in found.items()]
    return sites + [(place, True, False) for place, seen in said.items() if not seen]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the shares; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hls_loops", description=__doc__.split("\n")[0])
    parser.add_argument("loops", type=Path, help="loops.jsonl")
    parser.add_argument("--bursts", type=Path, help="bursts.jsonl")
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of bare repositories, owner+name/repo")
    parser.add_argument("--half", choices=HALVES, default="tune")
    parser.add_argument("--only", default="", help="projects whose name has this in it")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--wrong", action="store_true", help="list the loops whose interval differs")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        tasks = _tasks(options, Path(folder))
        with ProcessPoolExecutor(options.jobs) as pool:
            futures = [pool.submit(partial(measured, *task)) for task in tasks]
            results = [future.result() for future in futures]
    for result in results:
        if result.note:
            print(result.note)
    rows = [row for result in results for row in result.rows]
    if options.wrong:
        for row in rows:
            if row.found != row.reported:
                print(f"{row.where[-40:]} {row.module} {row.loop}: {row.reported}, found {row.found} {row.limit}")
    report(options.half, rows, [burst for result in results for burst in result.bursts], wrong=options.wrong)
    return 0


def report(half: str, rows: list[Row], bursts: list[tuple[str, bool, bool]], *, wrong: bool) -> None:
    known = [row for row in rows if row.found is not None]
    slow = [row for row in known if row.reported > 1]
    fast = [row for row in known if row.reported == 1]
    print(f"{half}: {len(rows)} loops, {len(known)} of them found")
    share("II exact", sum(row.found == row.reported for row in known), len(known))
    share("  of those with II > 1", sum(row.found == row.reported for row in slow), len(slow))
    share("  of those with II > 1 flagged", sum((row.found or 0) > 1 for row in slow), len(slow))
    share("false alarms (II 1, found > 1)", sum((row.found or 0) > 1 for row in fast), len(fast))
    share("always 1", len(fast), len(known))
    of_one = [row.reported for row in known if row.found == 1]
    share("II found 1 and reported 1", of_one.count(1), len(of_one))
    spread("II reported / found, found > 1", [row.reported / row.found for row in known if row.found and row.found > 1])
    depths = [row.depths for row in known if row.depths and row.depths[1] > 0]
    share("depth within 20 % or 2", sum(abs(a - b) <= max(0.2 * a, 2) for a, b in depths), len(depths))
    spread("depth reported / found", [a / b for a, b in depths])
    if bursts:
        share("bursts right", sum(yes == found for _, yes, found in bursts), len(bursts))
        share(
            "  of those that reports infer", sum(found for _, yes, found in bursts if yes), sum(y for _, y, _ in bursts)
        )
        if wrong:
            print(*(f"{place}: {yes}" for place, yes, found in bursts if yes != found), sep="\n")


def share(name: str, part: int, whole: int) -> None:
    print(f"{name}: {part} of {whole}" + (f" ({part / whole:.0%})" if whole else ""))


def _tasks(options: argparse.Namespace, folder: Path) -> list[tuple[dict[str, Any], list[Any], list[Any], Path]]:
    rows = [row for line in options.loops.read_text().splitlines() if "loop" in (row := json.loads(line))]
    rows = [row for row in rows if row["kind"] == "loop"]
    lines = options.bursts.read_text().splitlines() if options.bursts else []
    messages = [message for line in lines if "message" in (message := json.loads(line))]
    tasks = []
    for project in _table():
        repo = project["repo"]
        if half_of(repo) != options.half or options.only not in f"{repo}/{project['log']}":
            continue
        mirror = options.mirrors / repo.replace("/", "+") / "repo"
        if not mirror.exists():
            print(f"{repo}: {mirror} is not there; left out")
            continue
        commit = project["commit"]
        root = extracted(mirror, folder / repo / commit, commit)
        own = [row for row in rows if row["repo"] == repo]
        paths = {row["path"] for row in own if _of(project, row["path"])}
        for group in _projects(project, paths, root):
            here = [row for row in own if row["path"] in group["paths"]]
            said = [m for m in messages if m["repo"] == repo and m["path"] in group["paths"]]
            if here:
                tasks.append((group, here, said, root / group["folder"]))
    return tasks


def _table() -> list[dict[str, Any]]:
    found = []
    for entry in toml_table.load(PROJECTS).array("project"):
        project: dict[str, Any] = {key: entry.get(key, str) for key in ("repo", "log")}
        project |= {"sources": entry.get("sources", list), "top": entry.get("top", str, "")}
        project |= {"memories": entry.get("memories", bool, False), "commit": entry.get("commit", str, "HEAD")}
        found.append(project | {"absent": entry.get("absent", dict, {})})
    return found


def _of(project: dict[str, Any], path: str) -> bool:
    return fnmatch(path, project["log"]) if "*" in project["log"] else path.startswith(project["log"])


def _projects(project: dict[str, Any], paths: set[str], root: Path) -> list[dict[str, Any]]:
    """A project, or, of a pattern, one for each folder."""
    if "*" not in project["log"]:
        return [project | {"paths": paths, "folder": "."}]
    found = []
    for path in sorted(paths):
        own = Path(path).parent
        top = re.search(r"set_top\s+\{?(\w+)", (root / own / "run_hls.tcl").read_text())
        if top:
            found.append(project | {"paths": {path}, "folder": str(own), "top": top[1], "log": path})
    return found


if __name__ == "__main__":
    raise SystemExit(main())
