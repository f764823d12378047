"""A timeline of a co-simulation for Perfetto and chrome://tracing."""

from __future__ import annotations

import json
from typing import Any


def events(found: dict[str, Any], clock_ns: float) -> str:
    """Chrome's trace format: a thread for each process, with its runs and its waits; times in microseconds."""
    scale = clock_ns / 1000
    made: list[dict[str, Any]] = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": found["top"]}}]
    for number, each in enumerate(found["processes"], 1):
        made.append({"ph": "M", "pid": 1, "tid": number, "name": "thread_name", "args": {"name": each["name"]}})
        for begin, end in each["spans"]:
            made.append(_span(each["name"], number, begin, end, scale))
        for begin, end, thing, way in each["stalls"]:
            what = f"waits for {thing}" if way == "memory" else f"waits to {way} {thing}"
            made.append(_span(what, number, begin, end, scale))
    return json.dumps({"traceEvents": made, "displayTimeUnit": "ns"})


def _span(name: str, thread: int, begin: int, end: int, scale: float) -> dict[str, Any]:
    times = {"ts": begin * scale, "dur": (end - begin) * scale, "args": {"cycle": begin, "cycles": end - begin}}
    return {"ph": "X", "pid": 1, "tid": thread, "name": name, **times}
