"""A system: processor cores by class, compute units by kernel, what transfers cost, and its scheduler.

As a table (a toml file, or the `system` of a sweep)::

    name = "three cores, two FFTs"
    [classes]                                 # CPU classes besides those of `runtime/application/classes.py`
    u74 = {clock = 1.5e9, speed = 1.9}        # of an a53; busy_watts, idle_watts (an a53's)
    [cpus]
    a53 = 3                                   # or {count = 3, clock = 1.5e9, busy_watts = 0.5, idle_watts = 0.1}
    [accelerators]
    conv2d = 1
    fft = [{count = 1}, {count = 1, clock = 150e6}]
    [transfer]
    latency = 10e-6                           # seconds of each transfer to or from the card
    bandwidth = 4e9                           # bytes a second, of each transfer
    channels = 1                              # transfers at once; the others wait in order (any number)
    resident = false                          # true: results stay in the card's memory until a core wants them
    [scheduler]
    policy = "least_work"
    decision = "native"                       # or "a53", "cedr", "free", {round = 1e-6, evaluation = 5e-9, ...}
    period = 0                                # seconds; 0: as soon as something has changed
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from fpga_dynamo._native import graph_model, system_model
from fpga_dynamo.runtime.application import (
    CPU_CLASSES,
    Application,
    ApplicationTask,
    CpuClass,
    cpu_class,
    scaled_seconds,
)
from fpga_dynamo.runtime.scheduling.decisions import DECISIONS, DecisionCost
from fpga_dynamo.tools.soc.tables import StudyError, known_keys, number, table, text, whole
from xclbin_build.schema import shown

SYSTEM_KEYS = ("name", "classes", "cpus", "accelerators", "transfer", "scheduler")
CLASS_KEYS = ("clock", "speed", "busy_watts", "idle_watts")
UNIT_KEYS = ("count", "clock", "busy_watts", "idle_watts")
TRANSFER_KEYS = ("latency", "bandwidth", "channels", "resident")
SCHEDULER_KEYS = ("policy", "decision", "period")
DECISION_KEYS = ("round", "evaluation", "assignment", "period", "wake")

ACCELERATOR_CLOCK = 300e6
"""Hz at which a kernel's seconds in a task graph hold."""
MOST_UNITS = 4096
KERNELS = ("conv2d", "mmult", "fft", "zip")
"""The kernels of the recipe "signal", which `task_graph` compiles for; a task graph may name others."""
SYNONYMS = {"gemm": "mmult", "matmul": "mmult", "conv": "conv2d", "ifft": "fft"}
ACCELERATOR_WATTS = 1.5, 0.3
"""Of a compute unit that runs, and of one that does not. Guesses; a system file can say better."""


@dataclass(frozen=True)
class UnitGroup:
    """Processing elements of one kind. `kind` is unique in a system; tasks state seconds for `of`."""

    kind: str
    of: str
    count: int
    is_cpu: bool
    slowdown: float = 1.0
    """Seconds here for one second of what tasks state for `of`."""
    busy_watts: float = 0.0
    idle_watts: float = 0.0
    classes: Mapping[str, CpuClass] = field(default_factory=dict, repr=False)
    """Those that tasks can state seconds for."""

    def seconds(self, task: ApplicationTask) -> float | None:
        """Seconds of `task` here, without transfers; None if it cannot run here."""
        if self.is_cpu:
            stated = scaled_seconds(task.seconds, self.of, classes=self.classes)
        else:
            stated = task.seconds.get(self.of)
        return None if stated is None else stated * self.slowdown


@dataclass(frozen=True)
class Transfer:
    latency: float = 10e-6
    bandwidth: float = 4e9
    channels: int = 0
    """Transfers at once; 0: any number."""
    resident: bool = False

    def seconds(self, size: float) -> float:
        return self.latency + size / self.bandwidth if size > 0 else 0.0


@dataclass(frozen=True)
class SimulatorInput:
    """An application on a system: what the simulator takes. Rows are tasks, columns the system's kinds."""

    application: Application
    model: Any = field(repr=False)
    stated: Sequence[Sequence[float]] = field(repr=False)
    """Seconds without transfers, -1 where a kind cannot run the task."""
    fixed: Sequence[Sequence[float]] = field(repr=False)
    """Seconds of transfers, whatever ran before."""

    @cached_property
    def totals(self) -> list[list[float]]:
        """Seconds with the transfers that cannot be avoided, infinite where a kind cannot run the task."""
        return [
            [cost + extra if cost >= 0 else math.inf for cost, extra in zip(*rows, strict=True)]
            for rows in zip(self.stated, self.fixed, strict=True)
        ]

    @cached_property
    def alone(self) -> float:
        """Seconds of its critical path, each task on the kind where it is fastest: no response is shorter."""
        ends: list[float] = []
        for task, row in zip(self.application.tasks, self.totals, strict=True):
            ends.append(min(row) + max((ends[edge.task] for edge in task.dependencies), default=0.0))
        return max(ends, default=0.0)


class System:
    """See the module. Raises StudyError for an invalid system."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        known_keys("system", description, SYSTEM_KEYS)
        self.name = text("system", description, "name", "")
        self.classes = {**CPU_CLASSES, **_own_classes(table("system", description, "classes"))}
        self.units: tuple[UnitGroup, ...] = tuple(
            [
                *_units("cpus", table("system", description, "cpus"), self.classes),
                *_units("accelerators", table("system", description, "accelerators"), None),
            ]
        )
        if sum(unit.count for unit in self.units) > MOST_UNITS:
            raise StudyError(f"a system has at most {MOST_UNITS:,} processing elements: give smaller counts")
        if not self.units:
            raise StudyError("a system needs at least one processing element: give [cpus] or [accelerators] a count")
        self.transfer = _transfer(table("system", description, "transfer"))
        scheduler = table("system", description, "scheduler")
        known_keys("scheduler", scheduler, SCHEDULER_KEYS)
        self.policy = text("scheduler", scheduler, "policy", "least_work")
        self.decision = decision_cost(scheduler.get("decision", "native"))
        if "period" in scheduler:
            self.decision = replace(self.decision, period=number("scheduler", scheduler, "period", 0.0))
        self.description = description
        self._compiled: dict[int, SimulatorInput] = {}

    def __reduce__(self) -> tuple[type[System], tuple[Mapping[str, Any]]]:
        """For another process, which makes the simulator's objects itself."""
        return System, (self.description,)

    @cached_property
    def pes(self) -> list[tuple[str, UnitGroup]]:
        """Each processing element's name, with its units."""
        return [(f"{unit.kind}_{i + 1}", unit) for unit in self.units for i in range(unit.count)]

    @cached_property
    def model(self) -> Any:
        kinds = [number for number, unit in enumerate(self.units) for _ in range(unit.count)]
        return system_model(kinds, [0 if unit.is_cpu else 1 for unit in self.units])

    @property
    def title(self) -> str:
        """Its name, or what it is made of."""
        return self.name or " + ".join(f"{unit.count} {unit.kind}" for unit in self.units)

    @property
    def watts_idle(self) -> float:
        return sum(unit.count * unit.idle_watts for unit in self.units)

    def unused(self, applications: Iterable[Application]) -> list[str]:
        """The kernels of accelerators that no task of the applications states seconds for.

        StudyError for one that is not a kernel of this project either: then the name is likely wrong.
        """
        known = {kind for application in applications for task in application.tasks for kind in task.seconds}
        unused = list(dict.fromkeys(unit.of for unit in self.units if not unit.is_cpu and unit.of not in known))
        for name in unused:
            if name not in KERNELS:
                kernels = sorted(known - set(self.classes)) or ["none"]
                near = SYNONYMS.get(name) or next(iter(get_close_matches(name, [*known, *KERNELS], n=1)), None)
                hint = f"did you mean {near!r}? " if near else ""
                raise StudyError(
                    f"accelerators: no task can use {name!r}: {hint}kernels that the tasks of this workload run on: "
                    f"{', '.join(kernels)}"
                )
        return unused

    def compiled(self, application: Application) -> SimulatorInput:
        """The application as this system's simulator has it; StudyError if no unit can run one of its tasks."""
        found = self._compiled.get(id(application))
        if found is None:
            found = self._compiled[id(application)] = self._compile(application)
        return found

    def _compile(self, application: Application) -> SimulatorInput:
        out_bytes = [task.to_host for task in application.tasks]
        for task in application.tasks:
            for edge in task.dependencies:
                out_bytes[edge.task] = max(out_bytes[edge.task], edge.bytes)
        stated, fixed, outward, crossing = [], [], [], []
        for index, task in enumerate(application.tasks):
            seconds = [unit.seconds(task) for unit in self.units]
            if all(cost is None for cost in seconds):
                raise StudyError(
                    f"task {task.name!r} of {application.name!r} runs on {' or '.join(sorted(task.kinds))}, but the "
                    f"system ({self.title}) has no such processing element"
                )
            stated.append([-1.0 if cost is None else cost for cost in seconds])
            if self.transfer.resident:
                out = self.transfer.seconds(task.to_host)
                moved = self.transfer.seconds(task.from_host) + out
                crossing += [self.transfer.seconds(edge.bytes) for edge in task.dependencies]
            else:
                inwards = task.from_host + sum(edge.bytes for edge in task.dependencies)
                out = self.transfer.seconds(out_bytes[index])
                moved = self.transfer.seconds(inwards) + out
                crossing += [0.0] * len(task.dependencies)
            fixed.append([0.0 if unit.is_cpu else moved for unit in self.units])
            outward += [0.0 if unit.is_cpu else out for unit in self.units]
        model = graph_model(
            self.model,
            [cost for row in stated for cost in row],
            [cost for row in fixed for cost in row],
            [[edge.task for edge in task.dependencies] for task in application.tasks],
            crossing,
            outward,
        )
        return SimulatorInput(application, model, stated, fixed)


def decision_cost(value: Any) -> DecisionCost:
    """A name out of DECISIONS, or a table of seconds."""
    if isinstance(value, str) and value in DECISIONS:
        return DECISIONS[value]
    if not isinstance(value, Mapping):
        known = ", ".join(DECISIONS)
        raise StudyError(f"the cost of decisions must be one of {known}, or a table of seconds, not {shown(value)}")
    known_keys("decision", value, DECISION_KEYS)
    return DecisionCost(*(number("decision", value, key, 0.0) for key in DECISION_KEYS))


def _transfer(values: Mapping[str, Any]) -> Transfer:
    known_keys("transfer", values, TRANSFER_KEYS)
    bandwidth = number("transfer", values, "bandwidth", Transfer.bandwidth)
    if bandwidth <= 0:
        raise StudyError("transfer: bandwidth must be greater than 0 bytes per second")
    resident = values.get("resident", False)
    if not isinstance(resident, bool):
        raise StudyError(f"transfer: resident must be true or false, not {shown(resident)}")
    channels = whole("transfer", values, "channels", 1, 1, MOST_UNITS) if "channels" in values else Transfer.channels
    return Transfer(number("transfer", values, "latency", Transfer.latency), bandwidth, channels, resident)


def _own_classes(described: Mapping[str, Any]) -> dict[str, CpuClass]:
    """The CPU classes that a system defines: a clock, and how fast a core is at it, relative to an a53 at its own."""
    usual, classes = CPU_CLASSES["a53"], {}
    for name in described:
        where, row = f"classes.{name}", table("classes", described, name)
        if name in CPU_CLASSES:
            raise StudyError(f"{where}: this class is built in: choose another name")
        known_keys(where, row, CLASS_KEYS)
        for key in ("clock", "speed"):
            if not number(where, row, key, 0.0):
                raise StudyError(f"{where} needs a {key} greater than 0")
        clock, speed = float(row["clock"]), float(row["speed"]) * usual.speed
        watts = [number(where, row, key, getattr(usual, key)) for key in ("busy_watts", "idle_watts")]
        classes[name] = CpuClass(name, name, clock, speed / clock * 1e6, *watts)
    return classes


def _units(where: str, counts: Mapping[str, Any], classes: Mapping[str, CpuClass] | None) -> list[UnitGroup]:
    """classes: those of processor cores; None for accelerators."""
    units: list[UnitGroup] = []
    for name, value in counts.items():
        variants = value if isinstance(value, list) else [value]
        for variant in variants:
            row: Mapping[str, Any] = variant if isinstance(variant, Mapping) else {"count": variant}
            known_keys(f"{where}.{name}", row, UNIT_KEYS)
            count = row.get("count", 1)
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise StudyError(f"{where}.{name}: a count must be a whole number >= 0, not {shown(count)}")
            if not count:
                continue
            if classes is not None:
                kind = cpu_class(name, classes)
                usual, watts = kind.clock, (kind.busy_watts, kind.idle_watts)
            else:
                usual, watts = ACCELERATOR_CLOCK, ACCELERATOR_WATTS
            clock = number(f"{where}.{name}", row, "clock", usual)
            if clock <= 0:
                raise StudyError(f"{where}.{name}: a clock must be greater than 0 Hz")
            label = name if clock == usual else f"{name}@{clock / 1e6:g}MHz"
            if label in {unit.kind for unit in units}:
                raise StudyError(f"{where}.{name} is given twice with the same clock: add up the counts")
            units.append(
                UnitGroup(
                    label,
                    name,
                    count,
                    classes is not None,
                    usual / clock,
                    number(f"{where}.{name}", row, "busy_watts", watts[0] * clock / usual),
                    number(f"{where}.{name}", row, "idle_watts", watts[1]),
                    classes or {},
                )
            )
    return units
