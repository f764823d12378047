"""The least mean response that any schedule has, for small cases, by OR-tools' CP-SAT.

A schedule here knows all arrivals beforehand and decides for free: no policy can do better, and none can know that
much. Transfers are those that a task has whatever ran before (`resident = false`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fpga_dynamo.tools.soc.system import SimulatorInput, System
from fpga_dynamo.tools.soc.tables import StudyError
from fpga_dynamo.tools.soc.workload import Arrivals

TICK = 1e-7
"""Seconds that the solver counts in; durations and arrivals are rounded to it."""
LARGEST = 400
"""Tasks, of all instances together: beyond that no proof is to be hoped for."""


@dataclass(frozen=True)
class Optimum:
    """Seconds. `proved`: no schedule has a lower mean response than `mean_response`; else none has one below
    `bound`."""

    mean_response: float
    bound: float
    proved: bool


def optimum(
    system: System,
    applications: Sequence[SimulatorInput],
    arrivals: Arrivals,
    seconds: float = 10.0,
    workers: int = 8,
) -> Optimum:
    """Searches for `seconds` at most. StudyError without OR-tools, for cases that are too large, or with crossings."""
    try:
        from ortools.sat.python import cp_model
    except ModuleNotFoundError as error:
        raise StudyError("optimal schedules need OR-tools: pip install 'fpga_dynamo[soc]'") from error
    count = sum(len(applications[which].application.tasks) for which in arrivals.which)
    if count > LARGEST:
        raise StudyError(f"an optimal schedule supports at most {LARGEST} tasks, not {count}")
    if system.transfer.resident:
        raise StudyError("optimal schedules require resident = false in [transfer]")

    # One after the other, each task where it is fastest: no schedule worth having ends later.
    starts = [_ticks(time) for time in arrivals.times.tolist()]
    horizon = max(starts, default=0) + sum(
        min(_ticks(cost) for cost in row if math.isfinite(cost))
        for which in arrivals.which
        for row in applications[which].totals
    )
    model = cp_model.CpModel()
    of_kind: list[list[Any]] = [[] for _ in system.units]
    ends = []
    for arrival, which in zip(starts, arrivals.which, strict=True):
        application = applications[which]
        done: list[Any] = []
        for task, row in zip(application.application.tasks, application.totals, strict=True):
            start, end = model.new_int_var(arrival, horizon, ""), model.new_int_var(arrival, horizon, "")
            choices = []
            for kind, cost in enumerate(row):
                if not math.isfinite(cost):
                    continue
                here = model.new_bool_var("")
                interval = model.new_optional_interval_var(start, _ticks(cost), end, here, "")
                of_kind[kind].append(interval)
                choices.append(here)
            model.add_exactly_one(choices)
            for edge in task.dependencies:
                model.add(start >= done[edge.task])
            done.append(end)
        last = model.new_int_var(arrival, horizon, "")
        model.add_max_equality(last, done)
        ends.append(last)
    for unit, intervals in zip(system.units, of_kind, strict=True):
        if unit.count == 1:
            model.add_no_overlap(intervals)
        else:
            model.add_cumulative(intervals, [1] * len(intervals), unit.count)
    model.minimize(sum(ends) - sum(starts))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise StudyError(f"no schedule was found in {seconds:g} s ({solver.status_name(status)}): give it more time")
    scale = TICK / max(len(starts), 1)
    return Optimum(solver.objective_value * scale, solver.best_objective_bound * scale, status == cp_model.OPTIMAL)


def _ticks(seconds: float) -> int:
    return round(seconds / TICK)
