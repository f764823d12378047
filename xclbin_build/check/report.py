"""A check as a table for people, and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from . import uncertainty
from .bursts import Burst
from .loops import NOT_PIPELINED, Loop
from .run import Checked, CheckedPart, requested_interval, slower

RESTS_ON = (
    "Initiation intervals, depths and bursts are estimated from clang's LLVM IR; no synthesis has confirmed them. "
    "Latencies of operators come from published reports at the nearest clock."
)


def document(checked: Checked) -> dict[str, Any]:
    """The check as JSON: `passes` (null where a part could not be checked), `misses`, and `parts` with their loops."""
    return {
        "passes": checked.passes,
        "misses": [
            {
                "kernel": miss.part.kernel,
                "part": miss.part.name,
                "loop": miss.loop.name,
                "ii": miss.loop.ii,
                "asked": miss.asked,
                "by": miss.by,
                "limit": miss.loop.limit or miss.loop.note,
            }
            for miss in checked.misses
        ],
        "pragmas": [asdict(finding) for finding in checked.pragmas],
        "parts": [_part(part) for part in checked.parts],
        "rests_on": RESTS_ON,
        "bounds_rest_on": uncertainty.RESTS_ON,
    }


def _part(part: CheckedPart) -> dict[str, Any]:
    found: dict[str, Any] = {"kernel": part.kernel, "name": part.name}
    if part.check is None:
        return found | {"note": part.note}
    return found | {
        "clock_ns": round(part.check.clock_ns, 3),
        "latency": part.check.latency,
        "latency_bounds": _bounds(uncertainty.of_latency, part.check.latency),
        "loops": [_loop(loop, part) for loop in part.check.loops],
        "functions": [_loop(loop, part) for loop in part.check.functions],
        "copies": [_burst(burst) for burst in part.check.bursts],
        "notes": part.check.notes,
        "operators": part.check.sources,
    }


def _bounds(of: Callable[[int], tuple[int, int]], figure: int | None) -> list[int] | None:
    return None if figure is None else list(of(figure))


def _burst(burst: Burst) -> dict[str, Any]:
    return {
        "port": burst.port,
        "bundle": burst.bundle,
        "direction": "write" if burst.write else "read",
        "burst": burst.inferred,
        "why_not": burst.why or None,
        "bytes": burst.bytes,
    }


def _loop(loop: Loop, part: CheckedPart) -> dict[str, Any]:
    by, asked = requested_interval(loop, part.contract)
    return {
        "name": loop.name,
        "in_loops": [name for name, _ in loop.nest],
        "labelled": loop.labelled,
        "file": loop.file,
        "line": loop.line,
        "inlined_through": list(loop.path),
        "pipelined": loop.pipelined,
        "ii": loop.ii,
        "ii_bounds": _bounds(uncertainty.of_interval, loop.ii),
        "asked": asked,
        "asked_by": by if asked is not None else None,
        "limited_by": loop.kind or None,
        "limit": loop.limit or None,
        "depth": loop.depth,
        "depth_bounds": _bounds(uncertainty.of_depth, loop.depth),
        "trips": list(loop.trips) if loop.trips else None,
        "latency": loop.latency,
        "latency_bounds": _bounds(uncertainty.of_latency, loop.latency),
        "bursts": [_burst(burst) for burst in loop.bursts],
        "note": loop.note or None,
    }


def show(checked: Checked, console: Console, *, every: bool = False) -> None:
    """Prints a table of the pipelined loops and functions, and what misses its contract. every: also loops that are not
    pipelined."""
    table = Table(box=None, pad_edge=False)
    for name in ("part", "loop or function", "line", "II", "asked", "depth", "iterations", "limited by"):
        table.add_column(name, justify="right" if name in ("line", "II", "asked", "depth", "iterations") else "left",
                         overflow="fold")  # fmt: skip
    for part in checked.parts:
        if part.check is None:
            table.add_row(part.name, "-", "", "?", "", "", "", f"not checked: {part.note}")
            continue
        for loop in part.check.rows:
            quiet = loop.note.startswith(NOT_PIPELINED) and requested_interval(loop, part.contract)[1] is None
            if loop.ii is None and not every and (not loop.note or quiet):
                continue
            _row(table, part, loop)
    console.print(table)
    for note in sorted({note for part in checked.parts if part.check for note in part.check.notes}):
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
    for finding in checked.pragmas:
        console.print(f"pragma: {finding}", highlight=False, markup=False, soft_wrap=True)
    rows = [row for part in checked.parts if part.check for row in part.check.rows if row.ii is not None]
    functions = sum(row.function for row in rows)
    what = f"{len(rows) - functions} pipelined loops" + (f" and {functions} pipelined functions" if functions else "")
    words = f"{what}, {len(checked.misses) or 'none'} with a larger II than required. {RESTS_ON}"
    console.print(words, highlight=False, soft_wrap=True)
    console.print(uncertainty.RESTS_ON, highlight=False, soft_wrap=True)


def _row(table: Table, part: CheckedPart, loop: Loop) -> None:
    _, asked = requested_interval(loop, part.contract)
    slow = asked is not None and slower(loop, asked)
    trips = "?" if loop.trips is None else "-".join(str(n) for n in dict.fromkeys(loop.trips))
    single = [
        f"{'write' if b.write else 'read'} of {b.port} is not a burst: {b.why}" for b in loop.bursts if not b.inferred
    ]
    words = "; ".join(word for word in (loop.limit, *single, loop.note) if word)
    ii = "[bold red]-[/]" if slow else "-"
    if loop.ii is not None:
        ii = (f"[bold red]{loop.ii}[/]" if slow else str(loop.ii)) + _band(uncertainty.of_interval(loop.ii))
    depth = f"{loop.depth}{_band(uncertainty.of_depth(loop.depth))}"
    place = f"{Path(loop.file).name}:{loop.line}" if loop.line else ""
    table.add_row(part.name, loop.name, place, ii, "" if asked is None else str(asked), depth,
                  "calls" if loop.function else trips,
                  words.replace("[", r"\["))  # fmt: skip


def _band(found: tuple[int, int]) -> str:
    low, high = found
    return "" if low == high else rf" \[{low}-{high}]"
