"""How long operators take on a family of devices: nanoseconds of logic, and the latency of floating-point units.

`delays.toml` has both, as schedule reports give them. A unit comes with several latencies; Vitis HLS takes the shortest
of which a step fits into the period.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from .. import toml_table

_FILE = Path(__file__).with_suffix(".toml")
_SAME_CLOCK = 0.03
_MOST_CYCLES = 80


@dataclass(frozen=True)
class Logic:
    """Nanoseconds. adder, compare, ternary (an adder of three operands): for no bits, and for each bit. product: in one
    DSP, and in several. load, small_load: a port of a RAM, and of a small one of LUTs."""

    adder: tuple[float, float]
    compare: tuple[float, float]
    ternary: tuple[float, float]
    gate: float
    choice: float
    shift: float
    load: float
    small_load: float
    stream: float
    product: tuple[float, float]


@dataclass(frozen=True)
class FloatUnit:
    """A floating-point unit of so many cycles of latency: nanoseconds of a step, and the clock that it was reported
    at."""

    cycles: int
    delay_ns: float
    period_ns: float
    source: str


@dataclass(frozen=True)
class Family:
    name: str
    logic: Logic | None
    steps: dict[str, list[FloatUnit]]

    def unit(self, kind: str, clock_ns: float, period_ns: float) -> FloatUnit | None:
        """The unit of a kind for a clock, of whose period operators may fill `period_ns`; None if no report has one."""
        known = self.steps.get(kind)
        if not known:
            return None
        for step in known:
            if abs(step.period_ns / clock_ns - 1) < _SAME_CLOCK and step.delay_ns <= period_ns:
                return step
        for cycles in range(_MOST_CYCLES):
            delay = _between(known, cycles)
            if delay <= period_ns:
                nearest = min(known, key=lambda step: abs(step.cycles - cycles))
                return FloatUnit(cycles, delay, clock_ns, nearest.source)
        return None


def _between(known: list[FloatUnit], cycles: int) -> float:
    """Nanoseconds of a step at a latency of which no report may be: all steps together take about as long at each."""
    below = [step for step in known if step.cycles <= cycles]
    above = [step for step in known if step.cycles >= cycles]
    if below and above and below[-1].cycles < above[0].cycles:
        share = (cycles - below[-1].cycles) / (above[0].cycles - below[-1].cycles)
        whole = (1 - share) * _whole(below[-1]) + share * _whole(above[0])
    else:
        whole = _whole(above[0] if above else below[-1])
    return whole / (cycles + 1)


def _whole(step: FloatUnit) -> float:
    return step.delay_ns * (step.cycles + 1)


@functools.cache
def family(part: str) -> Family | None:
    """The family of a part, by its name and speed grade; None of what no report is of."""
    grade = re.search(r"-(\d)(?:L|LV|HP|MP|LP|M|H|I|E|C|Q)?(?:-\w+)?$", part, re.I)
    table = toml_table.load(_FILE)
    for entry in table.array("family"):
        grades = entry.get("grade", str)
        if re.match(entry.get("parts", str), part) and re.fullmatch(grades, grade[1] if grade else "1"):
            name = entry.get("name", str)
            return Family(name, _logic(entry), _steps(table, name))
    return None


def _logic(entry: toml_table.Table) -> Logic | None:
    if not entry.get("adder", list, []):
        return None
    pairs = {key: tuple(map(float, entry.get(key, list))) for key in ("adder", "compare", "ternary", "product")}
    numbers = {key: entry.get(key, float) for key in ("gate", "choice", "shift", "load", "small_load", "stream")}
    return Logic(**pairs, **numbers)  # type: ignore[arg-type]


def _steps(table: toml_table.Table, name: str) -> dict[str, list[FloatUnit]]:
    found: dict[str, list[FloatUnit]] = {}
    for entry in table.array("step"):
        if entry.get("family", str) == name:
            step = FloatUnit(
                entry.get("cycles", int), entry.get("delay_ns", float), entry.get("period_ns", float),
                entry.get("source", str),
            )  # fmt: skip
            found.setdefault(entry.get("unit", str), []).append(step)
    return {kind: sorted(steps, key=lambda step: step.cycles) for kind, steps in found.items()}
