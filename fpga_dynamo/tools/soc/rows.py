"""Of a sweep's runs, the rows of its tables, and the sentence on one that failed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fpga_dynamo.tools.soc.outcome import RunOutcome
from fpga_dynamo.tools.soc.statistics import is_steady
from fpga_dynamo.tools.soc.system import System


@dataclass(frozen=True)
class Point:
    """A run of a sweep. `key` tells it from all others, whatever the order."""

    key: str
    system: int
    """Number of the combination of the grid."""
    policy: str
    rate: float
    seed: int


@dataclass(frozen=True)
class RunRow(Point):
    """Times in ms, energy in J. See the fields of :class:`~fpga_dynamo.tools.soc.virtual.RunOutcome`."""

    instances: int
    capacity: float
    """Instances a second that the system can serve at most, in this mix."""
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    bound_ms: float
    """No scheduler gives a lower mean."""
    execution_ms: float
    """Mean of end minus start of the first task."""
    span_ms: float
    throughput: float
    """Instances a second, from the first arrival to the last end."""
    joules: float
    watts: float
    decisions: int
    us_a_decision: float
    """Mean seconds of scheduling for each task, in us."""
    deciding: float
    """Share of the time for which the scheduler works."""
    most_waiting: int
    busy_cpu: float
    """Mean share of the time for which a processor core runs a task."""
    busy_pl: float
    unloaded_ms: float
    """Mean response of the applications where each arrives alone, in the workload's mix, under this policy."""
    steady: int
    """1 if responses after the warm-up neither grow nor fall from batch to batch, else 0."""
    missed: float
    """Share of the instances with a deadline that ended after it; 0 if none has one."""


@dataclass(frozen=True)
class ApplicationRow:
    key: str
    application: str
    instances: int
    mean_ms: float
    p95_ms: float
    execution_ms: float
    alone_ms: float
    """Length of its critical path."""
    deadline_ms: float
    """From an arrival; 0 without one."""
    missed: float
    """Share of the instances that ended after their deadline."""


@dataclass(frozen=True)
class Failure:
    """A run that gave an error: a policy's, which other runs do not share."""

    point: Point
    title: str
    """Of its system."""
    why: str

    def __str__(self) -> str:
        point = self.point
        return f"run {point.key} failed ({point.policy}, {point.rate:g}/s, seed {point.seed}, {self.title}): {self.why}"


def rows(
    run: RunOutcome, system: System, point: Point, most: float, unloaded: float, warm_up: float
) -> tuple[RunRow, list[ApplicationRow]]:
    """What a run's tables say of it."""
    # What arrives first finds an empty system. It counts for what units did, and not for responses.
    first = int(len(run.ended) * warm_up)
    responses = run.responses[first:] * 1e3
    execution = (run.ended - run.started)[first:] * 1e3
    late = run.late[first:]
    which = np.array(run.arrivals.which, dtype=int)[first:]
    has_deadline = np.isfinite(np.array(run.deadlines)[which])
    span = run.span or 1.0
    p50, p95, p99 = np.percentile(responses, [50, 95, 99]) if len(responses) else (0.0, 0.0, 0.0)
    cpu = [run.busy[name] / span for name, unit in system.pes if unit.is_cpu]
    pl = [run.busy[name] / span for name, unit in system.pes if not unit.is_cpu]
    row = RunRow(
        **vars(point),
        instances=len(responses),
        capacity=most,
        mean_ms=float(responses.mean()) if len(responses) else 0.0,
        p50_ms=float(p50),
        p95_ms=float(p95),
        p99_ms=float(p99),
        bound_ms=run.least_mean_response * 1e3,
        execution_ms=float(execution.mean()) if len(execution) else 0.0,
        span_ms=run.span * 1e3,
        throughput=len(run.ended) / span,
        joules=run.joules,
        watts=run.joules / span,
        decisions=run.rounds,
        us_a_decision=run.deciding / max(run.assignments, 1) * 1e6,
        deciding=run.deciding / span,
        most_waiting=run.most_waiting,
        busy_cpu=float(np.mean(cpu)) if cpu else 0.0,
        busy_pl=float(np.mean(pl)) if pl else 0.0,
        unloaded_ms=unloaded * 1e3,
        steady=int(is_steady(responses)),
        missed=float(late[has_deadline].mean()) if has_deadline.any() else 0.0,
    )
    applications = []
    for number, name in enumerate(run.applications):
        own = responses[which == number]
        deadline = run.deadlines[number]
        if len(own):
            applications.append(
                ApplicationRow(
                    point.key,
                    name,
                    len(own),
                    float(own.mean()),
                    float(np.percentile(own, 95)),
                    float(execution[which == number].mean()),
                    run.alone[number] * 1e3,
                    deadline * 1e3 if math.isfinite(deadline) else 0.0,
                    float(late[which == number].mean()),
                )
            )
    return row, applications
