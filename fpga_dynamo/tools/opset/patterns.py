"""The patterns of each machine in the order in which they are asked, for `fpga-dynamo ops --patterns`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fpga_dynamo.lowering.ops.host import short
from fpga_dynamo.lowering.order import ENGINE_FLOATS, ENGINE_INT8
from fpga_dynamo.lowering.patterns import TABLE, Pattern
from fpga_dynamo.torch_internals.dispatch import OpOverload


def pattern_list() -> str:
    """For each machine a line a pattern: its place, its name, and the operators that it starts from."""
    machines: dict[str, Iterable[Pattern]] = {
        "cores": TABLE.patterns(),
        "int8 engine": (row.pattern for row in ENGINE_INT8),
        "bfloat16 and float32 engines": (row.pattern for row in ENGINE_FLOATS),
    }
    return "\n".join(f"{machine}:\n{_lines(patterns)}" for machine, patterns in machines.items())


def _lines(patterns: Iterable[Pattern]) -> str:
    return "".join(
        f"{place:4} {pattern.name:28} {', '.join(map(_name, pattern.anchors))}\n"
        for place, pattern in enumerate(patterns, 1)
    )


def _name(anchor: Any) -> str:
    return short(anchor) if isinstance(anchor, OpOverload) else getattr(anchor, "__name__", str(anchor))
