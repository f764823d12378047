"""The checker's bursts beside places of public reports that were looked at when its rules were made.

    python -m benchmarks.hls_bursts burst_places.jsonl --mirrors DIR

burst_places.jsonl has a line for each place of a report: repo, commit, sources, top, flow, part, whether it is a burst
(`inferred`) and, if not, the reason. `by` says what the place is: an access (FILE:LINE), a loop (FILE:LINE of its head,
by bundle), or a verdict about all accesses of a small program. DIR has a bare git repository of each, owner+name/repo;
none of it is part of this project. None of the repositories is one that `hls_loops` judges by.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.hls_loops import checks_of, extracted, share
from xclbin_build.check.bursts import Burst
from xclbin_build.check.loops import Check
from xclbin_build.errors import BuildError

_CLOCK_NS = 4.0  # bursts do not depend on it


def _bursts(one: Check) -> list[Burst]:
    """Of its loops, and of what lies in none."""
    return [burst for loop in one.loops for burst in loop.bursts] + one.bursts


def found_at(place: dict[str, Any], checks: Sequence[Check]) -> bool | None:
    """Whether the checker has a burst at a place; None where it has no such access."""
    if place["by"] == "verdict":
        all_of_them = [burst for one in checks for burst in _bursts(one)]
        return bool(all_of_them) and all(burst.inferred for burst in all_of_them)
    there: list[Burst] = []
    for one in checks:
        if place["by"] == "access":
            there += [burst for burst in _bursts(one) if place["place"] in burst.places]
        for loop in one.loops if place["by"] == "loop" else ():
            lines = {line for _, line in (*loop.nest, (loop.name, loop.line))}
            if place["place"] in {f"{Path(loop.file).name}:{line}" for line in lines}:
                there += [burst for burst in loop.bursts if burst.bundle == place["bundle"]]
    there = [burst for burst in there if burst.write == place["write"]]
    return any(burst.inferred for burst in there) if there else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the shares; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hls_bursts", description=__doc__.split("\n")[0])
    parser.add_argument("places", type=Path, help="burst_places.jsonl")
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of bare repositories, owner+name/repo")
    parser.add_argument("--only", default="", help="repositories whose name has this in it")
    parser.add_argument("--wrong", action="store_true", help="list the places that differ")
    options = parser.parse_args(arguments)
    projects: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for line in options.places.read_text().splitlines():
        place = json.loads(line)
        if options.only in place["repo"]:
            key = tuple(place[name] for name in ("repo", "commit", "report", "top", "part", "flow"))
            projects[key + tuple(place["sources"])].append(place)
    right: list[tuple[bool, bool | None]] = []
    with tempfile.TemporaryDirectory() as folder:
        for (repo, commit, report, top, part, flow, *sources), places in projects.items():
            root = Path(folder) / repo / commit
            if not root.exists():
                extracted(options.mirrors / repo.replace("/", "+") / "repo", root, commit)
            project = {"sources": sources, "top": top, "memories": flow == "vivado"}
            try:
                checks = checks_of(root, project, _CLOCK_NS, part)
            except (BuildError, RecursionError) as error:
                print(f"{repo} {report}: {str(error)[:200]}")
                continue
            for place in places:
                found = found_at(place, checks)
                right.append((place["inferred"], found))
                if options.wrong and found != place["inferred"]:
                    way = "write" if place["write"] else "read"
                    print(f"{repo} {place['place']} {way} {place['port']}: {place['inferred']}, found {found}")
    known = [(reported, found) for reported, found in right if found is not None]
    print(f"{len(right)} places, {len(known)} of them found")
    share("right", sum(reported == found for reported, found in known), len(known))
    for inferred, words in ((True, "  of those that reports infer"), (False, "  of those that reports refuse")):
        share(words, sum(found == inferred for reported, found in known if reported == inferred),
              sum(reported == inferred for reported, _ in known))  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
