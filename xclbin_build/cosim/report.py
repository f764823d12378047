"""The report of a co-simulation, as JSON and for people."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ..errors import RecipeError
from .simulate import Settings, Simulated

RESTS_ON = (
    "Schedules of loops are estimated from clang's LLVM IR, and no synthesis has confirmed them. FIFOs have registered "
    "flags: an element can be read in the cycle behind its write."
)


def document(done: Simulated, settings: Settings) -> dict[str, Any]:
    """What was found. cycles: from the start of the first call to the end of the last one, null on a deadlock.
    cycles_min, cycles_max: with the shortest and the longest answers of memory.

    Raises RecipeError if the test bench has not called the top function.
    """
    found = done.found
    if not found:
        ended = f", and ended with status {done.status}" if done.status else ""
        raise RecipeError(f"the test bench has not called '{settings.top}'{ended}.")
    least, most = found.get("memory_range", (None, None))
    cycles = found.get("cycles")
    calls = found.get("calls", [])
    notes = list(done.notes)
    if found["accesses_without_stage"]:
        notes.append(
            f"{found['accesses_without_stage']} accesses to streams are not in the schedule: reads count in the first "
            "cycle of an iteration, writes in its last one"
        )
    if found["asks_states"]:
        notes.append("the design asks for states of FIFOs, so other depths may change what it does: simulate them")
    return {
        "top": settings.top,
        "clock_ns": round(settings.clock_ns, 3),
        "bench_status": done.status,
        "cycles": cycles,
        "cycles_min": least,
        "cycles_max": most,
        "calls": [{"start": start, "end": end, "latency": end - start} for start, end in calls],
        "interval": _interval(calls),
        "deadlock": found["deadlock"],
        "cycles_any_depth": found.get("cycles_any_depth"),
        "processes": found["processes"],
        "fifos": found["fifos"],
        "notes": notes,
        "rests_on": RESTS_ON,
    }


def _interval(calls: list[list[int]]) -> float | None:
    """Mean cycles between the starts of calls."""
    return None if len(calls) < 2 else (calls[-1][0] - calls[0][0]) / (len(calls) - 1)


def text(found: dict[str, Any], width: int) -> str:
    """The report for people, in lines of at most `width` characters but for notes."""
    file = io.StringIO()
    _show(found, Console(file=file, width=width, highlight=False))
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def _show(found: dict[str, Any], console: Console) -> None:
    if found["deadlock"]:
        _show_deadlock(found["deadlock"], console)
    else:
        span = f" ({found['cycles_min']:,} to {found['cycles_max']:,} by memory)"
        span = span if found["cycles_min"] != found["cycles_max"] else ""
        time = found["cycles"] * found["clock_ns"] / 1000
        console.print(f"{found['top']}: {found['cycles']:,} cycles{span}, {time:,.2f} us at {found['clock_ns']:g} ns")
        if found["interval"] is not None:
            latency = sum(call["latency"] for call in found["calls"]) / len(found["calls"])
            count, interval = len(found["calls"]), found["interval"]
            console.print(f"{count} calls: latency {latency:,.1f}, interval {interval:,.1f} cycles")
    _show_processes(found["processes"], console)
    _show_fifos(found, console)
    for note in found["notes"]:
        console.print(f"note: {note}", soft_wrap=True, markup=False)


def _show_deadlock(deadlock: dict[str, Any], console: Console) -> None:
    console.print("deadlock: these processes wait for each other")
    for wait in deadlock["cycle"]:
        state = f"is full (depth {wait['depth']})" if wait["waits_to"] == "write" else "is empty"
        other = f", {'read' if wait['waits_to'] == 'write' else 'written'} by {wait['other'] or 'nobody'}"
        place = f" [{Path(wait['file']).name}:{wait['line']}]" if wait["line"] else ""
        text = f"  {wait['process']} waits to {wait['waits_to']} '{wait['fifo']}', which {state}{other}{place}"
        console.print(text, soft_wrap=True, markup=False)
    if deadlock["resolved_by"] is None:
        console.print("no depth of a FIFO resolves it")
    else:
        depths = ", ".join(f"'{name}' {depth}" for name, depth in deadlock["resolved_by"].items())
        console.print(f"resolved by depths: {depths} (then {deadlock['cycles_then']:,} cycles)", soft_wrap=True)


def _show_processes(processes: list[dict[str, Any]], console: Console) -> None:
    if not processes:
        return
    table = Table(box=None, pad_edge=False)
    for name in ("process", "runs", "start", "end", "busy"):
        table.add_column(name, justify="left" if name == "process" else "right")
    table.add_column("waits")
    for each in processes:
        spans = each["spans"]
        waits = ", ".join(f"{wait['to']} {wait['for']} {wait['cycles']:,}" for wait in each["waits"])
        first, last = (f"{spans[0][0]:,}", f"{spans[-1][1]:,}") if spans else ("-", "-")
        table.add_row(each["name"], f"{each['runs']:,}", first, last, f"{each['busy']:,}", waits)
    console.print(table)


def _show_fifos(found: dict[str, Any], console: Console) -> None:
    if not found["fifos"]:
        return
    table = Table(box=None, pad_edge=False)
    for name in ("FIFO", "depth", "most held", "smallest depth", "elements"):
        table.add_column(name, justify="left" if name == "FIFO" else "right")
    for each in found["fifos"]:
        smallest = "-" if each["smallest_depth"] is None else str(each["smallest_depth"])
        table.add_row(each["name"], str(each["depth"]), str(each["occupancy"]), smallest, f"{each['elements']:,}")
    console.print(table)
    best = found["cycles_any_depth"]
    if best is not None and best < found["cycles"]:
        console.print(f"with FIFOs of any depth: {best:,} cycles")
