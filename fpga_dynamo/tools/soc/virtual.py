"""A workload on a system in virtual time, by the native simulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fpga_dynamo._native import simulate as native_simulate
from fpga_dynamo.runtime.observe.trace import ApplicationEvent, DecisionEvent, TaskEvent, TraceRecorder
from fpga_dynamo.runtime.scheduling.decisions import DecisionCost
from fpga_dynamo.tools.soc.bounds import least_response
from fpga_dynamo.tools.soc.others import simulate_other
from fpga_dynamo.tools.soc.outcome import RunOutcome, energy, processing_elements
from fpga_dynamo.tools.soc.system import System
from fpga_dynamo.tools.soc.workload import Arrivals, Workload

NATIVE_POLICIES = ("simple", "random", "met", "eft", "etf", "heft_rt", "least_work", "edf", "llf")


def simulate(
    system: System,
    workload: Workload,
    policy: str | None = None,
    rate: float | None = None,
    seed: int = 0,
    *,
    decision: DecisionCost | None = None,
    trace: bool = False,
    arrivals: Arrivals | None = None,
    bound: bool = True,
) -> RunOutcome:
    """Runs the workload; what is not given is what the system and the workload say. Same arguments, same run.

    bound: whether to compute the lower bound of the mean response, which takes longer than a short run; else it is 0.
    """
    policy = system.policy if policy is None else policy
    compiled = [system.compiled(application) for application in workload.applications]
    arrivals = arrivals or workload.arrivals(workload.rate if rate is None else rate, seed)
    cost = decision or system.decision
    if policy not in NATIVE_POLICIES:
        return simulate_other(system, workload, policy, seed, cost, trace, arrivals)
    out = native_simulate(
        system.model,
        [one.model for one in compiled],
        arrivals.times.tolist(),
        arrivals.which,
        policy,
        seed,
        [cost.round, cost.evaluation, cost.assignment, cost.period, cost.wake],
        workload.spread,
        workload.tail,
        trace,
        workload.deadlines,
        system.transfer.channels,
    )
    busy = dict(zip((name for name, _ in system.pes), out["busy"].tolist(), strict=True))
    first = float(arrivals.times[0]) if len(arrivals.times) else 0.0
    end = max(float(out["end"]), first)
    names = [application.name for application in workload.applications]
    return RunOutcome(
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
        least_response(system, compiled, workload.shares, arrivals.times, arrivals.which) if bound else 0.0,
        [one.alone for one in compiled],
        workload.deadlines,
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
