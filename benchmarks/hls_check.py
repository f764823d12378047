"""The checker of loops and the estimate beside published reports: latencies and resources of small kernels.

    python -m benchmarks.hls_check data_of_designs_kernels.json --half tune

As Vitis HLS gave them. The file is that of zedong-peng/ForgeHLS-benchmark (Vitis HLS 2023.2, xcu280, 10 ns), at commit
2bb0b96; it is no part of this project. Designs are divided by a hash of their names; rules are made by looking at the
tune half only. "Always 1" is what the same model gives if every initiation interval is taken as 1 or as the pragma
asks. Resources are counted at the checker's intervals; arrays that are parameters lie outside of a design.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.progress import track

from xclbin_build.check.loops import Check, check
from xclbin_build.errors import BuildError
from xclbin_build.estimate import source
from xclbin_build.hls import frontend
from xclbin_build.hls.operators import Operators
from xclbin_build.hls.resources import total

SALT = "2026-11"
HALVES = ("tune", "judge")
WITHIN = 0.2


@dataclass(frozen=True)
class Row:
    """A design: cycles that the report gives, those of the checker, those with every interval 1; None: not known.
    resources: by name, what the report gives and what the estimate."""

    name: str
    reported: float
    found: float | None
    always_one: float | None
    why: str = ""
    resources: dict[str, tuple[float, float]] = field(default_factory=dict)


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
                return Row(
                    name, reported, found.latency, _always_one(found), resources=_resources(design, kernel, found)
                )
            except (BuildError, RecursionError) as error:
                why = str(error)[:120]
        return Row(name, reported, None, None, why)


def _resources(design: dict[str, Any], kernel: frontend.Kernel, found: Check) -> dict[str, tuple[float, float]]:
    """Reported and estimated numbers of DSPs, RAMB18s, LUTs and registers."""
    operators = Operators(float(design["TargetClockPeriod"]), part=design["Part"], as_reported=True)
    intervals = {loop.header: loop.ii for loop in found.loops if loop.ii}
    parameters = {value for value, _ in kernel.function.parameters}
    parts = [
        replace(use, arrays={v: m for v, m in use.arrays.items() if v not in parameters}).resources(operators)
        for use in source.ResourceCount(kernel, operators).count(intervals).values()
    ]
    used = total(parts)
    ours = {"DSP": used.dsp, "BRAM_18K": 2 * used.bram36, "LUT": used.lut, "FF": used.ff}
    return {name: (float(design[name]), value) for name, value in ours.items()}


def near(name: str, reported: float, ours: float) -> bool:
    """DSP and BRAM within 20 % (or one), LUT and FF within a factor of 2 (or 50)."""
    if name in ("DSP", "BRAM_18K"):
        return abs(reported - ours) <= max(WITHIN * reported, 1)
    return abs(reported - ours) <= 50 or (reported > 0 and 0.5 <= ours / reported <= 2)


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


def spread(words: str, ratios: Sequence[float]) -> None:
    """Prints how far reports lie from what was found: what a tenth lies below, the median, and what a tenth lies above;
    the error bars of `check` and `estimate` are made of these."""
    if len(ratios) < 2:
        print(f"{words}: {len(ratios)} figures")
        return
    tenths = statistics.quantiles(ratios, n=10, method="inclusive")
    print(f"{words}: a tenth below {tenths[0]:.2f}, median {tenths[4]:.2f}, a tenth above {tenths[8]:.2f} ", end="")
    print(f"({len(ratios)} figures)")


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
    spread("latency reported / found", [row.reported / row.found for row in known if row.found and row.reported])
    for name in ("DSP", "BRAM_18K", "LUT", "FF"):
        both = [row.resources[name] for row in rows if row.resources]
        some = [pair for pair in both if pair[0] > 0]
        good, of_some = (sum(near(name, *pair) for pair in pairs) for pairs in (both, some))
        print(f"{name}: {good / max(1, len(both)):.0%} of {len(both)}, ", end="")
        print(f"{of_some / max(1, len(some)):.0%} of the {len(some)} that have any")
        spread(f"  {name} reported / ours", [report / ours for report, ours in both if report > 0 and ours > 0])
    if options.wrong:
        for row in rows:
            if not close(row.found, row.reported):
                print(f"{row.name}: reported {row.reported:.0f}, found {row.found} {row.why}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
