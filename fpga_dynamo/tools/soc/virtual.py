"""A workload on a system in virtual time, by the native simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fpga_dynamo import _native
from fpga_dynamo.runtime.observe.trace import ApplicationEvent, DecisionEvent, TaskEvent, TraceRecorder
from fpga_dynamo.runtime.task import ProcessingElement
from fpga_dynamo.tools.soc.bounds import least_response
from fpga_dynamo.tools.soc.system import DecisionCost, System
from fpga_dynamo.tools.soc.tables import StudyError
from fpga_dynamo.tools.soc.workload import Arrivals, Workload

NATIVE_POLICIES = ("simple", "random", "met", "eft", "etf", "heft_rt", "least_work")
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """What a run gave, in virtual or in real time. Times in seconds."""

    applications: Sequence[str]
    arrivals: Arrivals
    started: Array = field(repr=False)
    """Of each arrival: when its first task started."""
    ended: Array = field(repr=False)
    busy: Mapping[str, float]
    """Seconds that each processing element ran a task, by its name."""
    end: float
    deciding: float
    """Seconds of scheduling, all rounds together."""
    rounds: int
    assignments: int
    most_waiting: int
    joules: float
    least_mean_response: float
    """No scheduler gives a lower mean response; see `bounds`."""
    trace: TraceRecorder | None = field(default=None, repr=False, compare=False)

    @property
    def responses(self) -> Array:
        return self.ended - self.arrivals.times

    def responses_of(self, application: int) -> Array:
        return self.responses[np.array(self.arrivals.which) == application]

    @property
    def span(self) -> float:
        """From the first arrival to the end."""
        return self.end - float(self.arrivals.times[0]) if len(self.arrivals.times) else 0.0


def energy(system: System, busy: Mapping[str, float], span: float) -> float:
    """Joules: every PE draws its idle power all the time, and what it draws more while it runs a task."""
    active = sum(busy[name] * (unit.busy_watts - unit.idle_watts) for name, unit in system.pes)
    return active + system.watts_idle * span


def processing_elements(system: System) -> list[ProcessingElement]:
    """The system's PEs as the scheduler knows them."""
    elements = []
    seen: dict[str, int] = {}
    for name, unit in system.pes:
        index = seen[unit.kind] = seen.get(unit.kind, -1) + 1
        if unit.is_cpu:
            elements.append(ProcessingElement(name, "PS", index=index, variant=unit.kind))
        else:
            elements.append(ProcessingElement(name, "PL", unit.of, index, variant=unit.kind))
    return elements


def simulate(
    system: System,
    workload: Workload,
    policy: str | None = None,
    rate: float | None = None,
    seed: int = 0,
    *,
    decision: DecisionCost | None = None,
    period: float | None = None,
    trace: bool = False,
    arrivals: Arrivals | None = None,
) -> Run:
    """Runs the workload; what is not given is what the system and the workload say. The same arguments, the same run."""
    policy = policy or system.policy
    if policy not in NATIVE_POLICIES:
        raise StudyError(f"no policy {policy!r} in virtual time: known are {', '.join(NATIVE_POLICIES)}")
    compiled = [system.compiled(application) for application in workload.applications]
    arrivals = arrivals or workload.arrivals(rate or workload.rate, seed)
    cost = decision or system.decision
    out = _native.simulate(
        system.model,
        [one.model for one in compiled],
        arrivals.times.tolist(),
        arrivals.which,
        policy,
        seed,
        [cost.round, cost.evaluation, cost.assignment, system.period if period is None else period],
        workload.spread,
        workload.tail,
        trace,
    )
    busy = dict(zip((name for name, _ in system.pes), out["busy"].tolist(), strict=True))
    first = float(arrivals.times[0]) if len(arrivals.times) else 0.0
    end = max(float(out["end"]), first)
    names = [application.name for application in workload.applications]
    return Run(
        names,
        arrivals,
        out["started"],
        out["ended"],
        busy,
        end,
        out["deciding"],
        out["rounds"],
        out["assignments"],
        out["most_waiting"],
        energy(system, busy, end - first),
        least_response(system, compiled, workload.shares, arrivals.times, arrivals.which),
        _trace(system, workload, arrivals, out, policy) if trace else None,
    )


def _trace(
    system: System, workload: Workload, arrivals: Arrivals, out: Mapping[str, Any], policy: str
) -> TraceRecorder:
    recorder = TraceRecorder(origin=0.0)
    recorder.declare(processing_elements(system))
    applications, pes = workload.applications, [name for name, _ in system.pes]
    columns = (out[f"task_{name}"].tolist() for name in ("instance", "index", "pe", "start", "stop"))
    for instance, index, pe, start, stop in zip(*columns, strict=True):
        application = applications[arrivals.which[int(instance)]]
        name = application.tasks[int(index)].name
        recorder.add(TaskEvent(int(instance) + 1, application.name, name, pes[int(pe)], start, stop))
    columns = (out[f"round_{name}"].tolist() for name in ("time", "seconds", "queued", "assigned"))
    for time, seconds, queued, assigned in zip(*columns, strict=True):
        recorder.add(DecisionEvent(time, policy, int(queued), int(assigned), seconds))
    rows = zip(arrivals.times.tolist(), arrivals.which, out["started"].tolist(), out["ended"].tolist(), strict=True)
    for number, (arrival, which, start, stop) in enumerate(rows, start=1):
        recorder.add(ApplicationEvent(number, applications[which].name, arrival, start, stop))
    return recorder
