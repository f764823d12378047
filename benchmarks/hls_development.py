"""The checker beside public reports that rules may be made by looking at: intervals of loops, and bursts.

    python -m benchmarks.hls_development --mirrors DIR

`hls_development.jsonl` has a line for each report: repo, commit, sources and top; part, clock_ns, flow ("vivado":
pointers without a pragma are memories); `loops`, each with module, name, interval and depth; `bursts`, each with what
its place is (`by`: an access or a loop at FILE:LINE, or a loop's `own` accesses), bundle, direction, and whether it is
a burst. DIR has a bare git repository of each, owner+name/repo; none of it is part of this project. None of the
repositories is one that `hls_loops` has.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.hls_loops import Row, checks_of, compared, extracted, report, share
from xclbin_build.check.bursts import Burst
from xclbin_build.check.loops import Check
from xclbin_build.errors import BuildError

REPORTS = Path(__file__).with_suffix(".jsonl")


def found_at(place: dict[str, Any], checks: Sequence[Check]) -> Burst | None:
    """What the checker has at a place: a burst, if one of the accesses is; None where it has no such access."""
    there: list[Burst] = []
    for one in checks:
        if place["by"] == "access":
            every = [burst for loop in one.loops for burst in loop.bursts] + one.bursts
            there += [burst for burst in every if place["place"] in burst.places]
        for loop in one.loops if place["by"] in ("loop", "own") else ():
            around = [line for _, line in loop.nest] if place["by"] == "loop" else []
            if place["place"] in {f"{Path(loop.file).name}:{line}" for line in (*around, loop.line)}:
                there += [burst for burst in loop.bursts if burst.bundle == place["bundle"]]
    there = [burst for burst in there if burst.write == place["write"]]
    return next((burst for burst in there if burst.inferred), there[0] if there else None)


Places = list[tuple[dict[str, Any], Burst | None]]


def measured(project: dict[str, Any], mirrors: Path) -> tuple[list[Row], Places, str]:
    """Of one report: loops, places of bursts, and why it could not be checked, if so."""
    where = f"{project['repo']}/{project['report']}"
    with tempfile.TemporaryDirectory() as folder:
        repository = mirrors / project["repo"].replace("/", "+") / "repo"
        if not repository.exists():
            return [], [], f"{where}: {repository} is not there"
        if not (repository / "HEAD").exists():
            repository /= ".git"
        root = extracted(repository, Path(folder), project["commit"])
        try:
            checks = checks_of(
                root,
                project | {"memories": project["flow"] == "vivado", "vitis": project["version"]},
                project["clock_ns"],
                project["part"],
            )
        except (BuildError, RecursionError) as error:
            return [], [], f"{where}: {str(error)[:300]}"
    rows = [dict(zip(("module", "loop", "final_ii", "depth"), loop, strict=True)) for loop in project["loops"]]
    return compared(where, rows, checks), [(place, found_at(place, checks)) for place in project["bursts"]], ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the shares; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hls_development", description=__doc__.split("\n")[0])
    parser.add_argument("--reports", type=Path, default=REPORTS)
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of bare repositories, owner+name/repo")
    parser.add_argument("--only", default="", help="reports whose repository or path has this in it")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--wrong", action="store_true", help="list loops and places that differ")
    options = parser.parse_args(arguments)
    lines = map(json.loads, options.reports.read_text().splitlines())
    projects = [line for line in lines if options.only in f"{line['repo']}/{line['report']}"]
    with ProcessPoolExecutor(options.jobs) as pool:
        results = list(pool.map(partial(measured, mirrors=options.mirrors), projects))
    rows = [row for some, _, _ in results for row in some]
    places = [place for _, some, _ in results for place in some]
    for _, _, note in results:
        if note:
            print(note)
    if options.wrong:
        for row in rows:
            if row.found != row.reported:
                print(f"{row.where} {row.module} {row.loop}: {row.reported}, found {row.found} {row.limit}")
        for project, (_, some, _) in zip(projects, results, strict=True):
            for place, found in some:
                if found is None or found.inferred != place["inferred"]:
                    way = "write" if place["write"] else "read"
                    ours = (found.inferred, found.why) if found else None
                    print(f"{project['repo']}/{project['report']} {place['place']} {way} {place['bundle']}: "
                          f"{place['inferred']} {place.get('number', '')}, found {ours}")  # fmt: skip
    used = {project["repo"] for project, (some, _, note) in zip(projects, results, strict=True) if not note}
    print(f"{len(used)} repositories")
    report("development", rows, [], wrong=False)
    known = [(place["inferred"], found.inferred) for place, found in places if found is not None]
    print(f"{len(places)} places of bursts, {len(known)} of them found")
    share("right", sum(reported == found for reported, found in known), len(known))
    for inferred, words in ((True, "  of those that reports infer"), (False, "  of those that reports refuse")):
        there = [found for reported, found in known if reported == inferred]
        share(words, there.count(inferred), len(there))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
