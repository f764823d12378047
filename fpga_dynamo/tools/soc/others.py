"""Policies that there are in Python only, a third party's among them, in virtual time: by the dispatcher's
simulator."""

from __future__ import annotations

import random

import numpy as np

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.runtime.scheduling.arrivals import At
from fpga_dynamo.runtime.scheduling.decisions import DecisionCost
from fpga_dynamo.runtime.scheduling.policies import Policy, make_policy
from fpga_dynamo.runtime.scheduling.simulate import simulate, stated_duration, varied_duration
from fpga_dynamo.tools.soc.bounds import least_response
from fpga_dynamo.tools.soc.graphs import task_graph
from fpga_dynamo.tools.soc.outcome import RunOutcome, energy, processing_elements
from fpga_dynamo.tools.soc.system import System
from fpga_dynamo.tools.soc.tables import StudyError
from fpga_dynamo.tools.soc.watchdog import limited
from fpga_dynamo.tools.soc.workload import Arrivals, Workload
from fpga_dynamo.tools.zoo import resolve


def find_policy(name: str) -> Policy:
    """A new object of a registered policy's name, or of the class that `module:Class` names; StudyError for neither."""
    try:
        return make_policy(resolve(name) if ":" in name else name)
    except FpgaError as error:
        raise StudyError(str(error)) from error


def simulate_other(
    system: System,
    workload: Workload,
    policy: str,
    seed: int,
    cost: DecisionCost,
    trace: bool,
    arrivals: Arrivals,
) -> RunOutcome:
    """See `virtual.simulate`; a decision is counted as a look at each pair of a ready task and a processing element.

    Durations that vary are drawn in the order of the tasks' starts, so they differ between policies.
    """
    if system.transfer.channels:
        raise StudyError(
            f"policy {policy!r} is implemented in Python only, which does not support `channels`: leave it out of "
            "[transfer], or choose a native policy"
        )
    if system.transfer.resident:
        raise StudyError(
            f"policy {policy!r} is implemented in Python only, which does not support resident data: set resident = "
            "false in [transfer], or choose a native policy"
        )
    if workload.tail:
        raise StudyError(
            f"policy {policy!r} is implemented in Python only, which does not support `tail`: leave it out"
        )
    graphs = [task_graph(system, one.application, deadline=one.deadline) for one in workload.sources]
    which = np.array(arrivals.which)
    sources = [At(*arrivals.times[which == number].tolist()) for number in range(len(graphs))]
    elements = processing_elements(system)
    duration = varied_duration(workload.spread) if workload.spread else stated_duration
    rule = find_policy(policy)
    with limited(rule):
        result = simulate(
            graphs, elements, rule, sources, seed=random.Random(seed).getrandbits(32), duration=duration, decision=cost
        )
    # Instances of one graph come in the order of their arrival.
    events = [iter([e for e in result.trace.applications if e.program == graph.name]) for graph in graphs]
    ordered = [next(events[number]) for number in arrivals.which]
    busy = dict.fromkeys((name for name, _ in system.pes), 0.0)
    for event in result.trace.tasks:
        busy[event.pe] += event.stop - event.start
    first = float(arrivals.times[0]) if len(ordered) else 0.0
    end = max((event.stop for event in ordered), default=0.0)
    decisions = result.trace.decisions
    count = len(elements)
    deciding = sum(cost.seconds(rule.evaluations(one.queued, count), one.assigned) for one in decisions)
    compiled = [system.compiled(application) for application in workload.applications]
    return RunOutcome(
        [graph.name for graph in graphs],
        arrivals,
        np.array([event.start for event in ordered]),
        np.array([event.stop for event in ordered]),
        busy,
        end,
        deciding,
        len(decisions),
        sum(one.assigned for one in decisions),
        max((one.queued for one in decisions), default=0),
        energy(system, busy, end - first),
        least_response(system, compiled, workload.shares, arrivals.times, arrivals.which),
        [one.alone for one in compiled],
        workload.deadlines,
        result.trace if trace else None,
    )
