"""The checker of loops beside published reports: latencies of small kernels as Vitis HLS gave them.

    python -m benchmarks.hls_check data_of_designs_kernels.json --half tune

The file is that of zedong-peng/ForgeHLS-benchmark (Vitis HLS 2023.2, xcu280, 10 ns), at commit 2bb0b96; it is no part
of this project. Designs are divided by a hash of their names; rules are made by looking at the tune half only. "Always
1" is what the same model gives if every initiation interval is taken as 1 or as the pragma asks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import track

from xclbin_build.check import frontend
from xclbin_build.check.loops import Check, check
from xclbin_build.errors import BuildError

SALT = "2026-11"
HALVES = ("tune", "judge")
WITHIN = 0.2


@dataclass(frozen=True)
class Row:
    """A design: cycles that the report gives, those of the checker, those with every interval 1; None: not known."""

    name: str
    reported: float
    found: float | None
    always_one: float | None
    why: str = ""


def half_of(name: str) -> str:
    """tune or judge."""
    return HALVES[hashlib.sha256(f"{SALT} {name}".encode()).digest()[0] % 2]


def measured(design: dict[str, Any]) -> Row:
    """Checks one design."""
    name = f"{design['source_name']}/{design['algo_name']}"
    reported = float(design["Worst-caseLatency"])
    with tempfile.TemporaryDirectory() as folder:
        for file in design["source_code"]:
            (Path(folder) / Path(file["file_name"]).name).write_text(file["file_content"])
        top = design["top_function_name"]
        sources = [p for p in sorted(Path(folder).iterdir()) if p.suffix in (".c", ".cpp", ".cc")]
        why = "no source"
        for path in sources:
            if top not in path.read_text():
                continue
            try:
                kernel = frontend.load(path, top, includes=[folder], clock_ns=float(design["TargetClockPeriod"]))
                kernel.part = design["Part"]
                found = check(kernel, memories=True)
                return Row(name, reported, found.latency, _always_one(found))
            except (BuildError, RecursionError) as error:
                why = str(error)[:120]
        return Row(name, reported, None, None, why)


def _always_one(found: Check) -> float | None:
    """The latency less what intervals above that of the pragma add, for loops that no other loop holds."""
    if found.latency is None:
        return None
    extra = 0
    for loop in found.loops:
        if loop.ii and loop.trips and loop.latency:
            extra += (loop.ii - (loop.target_ii or 1)) * max(0, loop.trips[1] - 1)
    return max(1, found.latency - extra)


def close(a: float | None, b: float) -> bool:
    """Whether a figure is within 20 % of a reported one, or within 2 cycles."""
    return a is not None and abs(a - b) <= max(WITHIN * b, 2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the shares; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hls_check", description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, help="data_of_designs_kernels.json")
    parser.add_argument("--half", choices=HALVES, default="tune")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--wrong", action="store_true", help="list the designs that are not within 20 %%")
    options = parser.parse_args(arguments)
    designs = [
        d
        for d in json.loads(options.data.read_text())
        if d.get("Worst-caseLatency") and half_of(f"{d['source_name']}/{d['algo_name']}") == options.half
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = list(track(pool.map(measured, designs), total=len(designs), description=options.half))
    known = [row for row in rows if row.found is not None]
    right = sum(close(row.found, row.reported) for row in rows)
    one = sum(close(row.always_one, row.reported) for row in rows)
    print(f"{options.half}: {len(rows)} designs, {len(known)} with a latency")
    print(f"within {WITHIN:.0%}: {right} of {len(rows)} ({right / len(rows):.0%}), of those with a latency ", end="")
    print(f"{right / max(1, len(known)):.0%}; always 1: {one / len(rows):.0%}")
    if options.wrong:
        for row in rows:
            if not close(row.found, row.reported):
                print(f"{row.name}: reported {row.reported:.0f}, found {row.found} {row.why}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
