"""The result of a run of a workload on a system, in virtual or real time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fpga_dynamo.runtime.observe.trace import TraceRecorder
from fpga_dynamo.runtime.task import ProcessingElement
from fpga_dynamo.tools.soc.system import System
from fpga_dynamo.tools.soc.workload import Arrivals

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RunOutcome:
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
    alone: Sequence[float]
    """Of each application: seconds of its critical path."""
    deadlines: Sequence[float]
    """Of each application: seconds from an arrival; infinite without one."""
    trace: TraceRecorder | None = field(default=None, repr=False, compare=False)

    @property
    def responses(self) -> Array:
        return self.ended - self.arrivals.times

    @property
    def mean_response(self) -> float:
        return float(self.responses.mean()) if len(self.ended) else 0.0

    @property
    def late(self) -> npt.NDArray[np.bool_]:
        """Of each arrival: whether it ended after its deadline."""
        own = np.array(self.deadlines)[np.array(self.arrivals.which, dtype=int)]
        return self.responses > own * (1 + 1e-9)  # times are sums: one may end at its deadline to the last bit but some

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
