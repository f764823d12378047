"""A workload on a system in real time: an injector, a thread for each processing element, the scheduler's own policies.

What a task does is its `run`, if it has one and `paced` is not asked for. Else it is paced: it occupies its processing
element for as long as virtual time says, without using a processor for it. So a system of any size, at any speed, can
be tried against a real scheduler; what it computes is another matter.
"""

from __future__ import annotations

import math
import statistics
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from time import perf_counter, sleep
from typing import Any

import numpy as np

from fpga_dynamo.runtime.application import Application
from fpga_dynamo.runtime.observe.trace import TraceRecorder
from fpga_dynamo.runtime.scheduling.decisions import DecisionCost
from fpga_dynamo.runtime.scheduling.policies import Policy
from fpga_dynamo.runtime.scheduling.realtime import FrameInstance, RealTime, check_cores
from fpga_dynamo.runtime.task import ProcessingElement, Task, TaskGraph
from fpga_dynamo.tools.soc.bounds import least_response
from fpga_dynamo.tools.soc.graphs import can_run, pace, task_graph
from fpga_dynamo.tools.soc.others import find_policy
from fpga_dynamo.tools.soc.outcome import RunOutcome, energy, processing_elements
from fpga_dynamo.tools.soc.system import System
from fpga_dynamo.tools.soc.tables import StudyError
from fpga_dynamo.tools.soc.workload import Arrivals, Workload

PACE = 500e-6
"""Seconds of the tasks by which overheads are measured."""
PATIENCE = 60.0
"""Seconds without an end of any instance after which a run is given up."""


def run_real(
    system: System,
    workload: Workload,
    policy: str | Policy | None = None,
    rate: float | None = None,
    seed: int = 0,
    *,
    paced: bool = False,
    trace: bool = False,
    arrivals: Arrivals | None = None,
) -> RunOutcome:
    """Runs the workload in real time and waits for its end.

    StudyError for a system with `channels`, and if nothing ends any more. OptionError if tasks are to run on more
    processor cores than this process may use. What a task raises is raised here.
    """
    if system.transfer.channels:
        raise StudyError("real time does not support `channels` of [transfer]: leave it out")
    runs = not paced and all(can_run(application) for application in workload.applications)
    hosts = sum(unit.count for unit in system.units if unit.is_cpu)
    cores: Sequence[int] = check_cores(hosts) if runs else ()
    graphs = [task_graph(system, one.application, not runs, deadline=one.deadline) for one in workload.sources]
    arrivals = arrivals or workload.arrivals(rate or workload.rate, seed)
    recorder = TraceRecorder() if trace else None
    over = [math.nan] * len(arrivals.times)
    instances: list[FrameInstance | None] = [None] * len(over)
    failed: list[BaseException] = []
    policy = system.policy if policy is None else policy
    rule = find_policy(policy) if isinstance(policy, str) else policy
    with RealTime(processing_elements(system), rule, cores, recorder) as elements:
        origin = _inject(elements, graphs, arrivals, instances, failed)
        if recorder is not None:
            recorder.origin = origin
        left = elements.in_flight
        while not elements.drain(PATIENCE):
            if elements.in_flight == left:
                raise StudyError(
                    f"{left} instances have not ended, and no instance ended in the last {PATIENCE:g} s: giving up"
                )
            left = elements.in_flight
        if failed:
            raise failed[0]
    started = np.array([_since(one.started if one else None, origin) for one in instances])
    ended = np.array([_since(one.ended if one else None, origin) for one in instances])
    injected = np.array([_since(one.arrival if one else None, origin) for one in instances])
    names = [application.name for application in workload.applications]
    compiled = [system.compiled(application) for application in workload.applications]
    first, end = float(injected[0]) if len(injected) else 0.0, float(ended.max()) if len(ended) else 0.0
    busy = elements.busy
    return RunOutcome(
        names,
        Arrivals(injected, arrivals.which),
        started,
        ended,
        busy,
        end,
        elements.deciding,
        elements.rounds,
        elements.assignments,
        elements.most_waiting,
        energy(system, busy, end - first),
        least_response(system, compiled, workload.shares, arrivals.times, arrivals.which),
        [one.alone for one in compiled],
        workload.deadlines,
        recorder,
    )


def _since(time: float | None, origin: float) -> float:
    return math.nan if time is None else time - origin


def _inject(
    elements: RealTime,
    graphs: Sequence[TaskGraph],
    arrivals: Arrivals,
    instances: list[FrameInstance | None],
    failed: list[BaseException],
) -> float:
    """Submits each instance at its time, from a thread of its own. Returns the time that arrivals count from."""

    def done(instance: FrameInstance) -> None:
        instance.values = None  # results are not kept
        if instance.error is not None:
            failed.append(instance.error)

    origin = perf_counter() + 0.01

    def inject() -> None:
        for number, (time, which) in enumerate(zip(arrivals.times.tolist(), arrivals.which, strict=True)):
            ahead = origin + time - perf_counter()
            if ahead > 0:
                sleep(ahead)
            if failed:
                return
            instances[number] = elements.submit(graphs[which], {}, done)

    injector = threading.Thread(target=inject, name="soc injector", daemon=True)
    injector.start()
    injector.join()
    return origin


def measured(system: System, application: Application, repetitions: int = 5) -> Application:
    """The application with the seconds that its tasks take here: each runs alone on each kind of unit, medians.

    Needs tasks that can run. What cannot run on a kind raises what it raises.
    """
    if not can_run(application):
        raise StudyError(
            f"application {application.name!r} cannot run: its tasks have costs but no function to execute"
        )
    values: dict[int, Any] = {}
    tasks = []
    for index, task in enumerate(application.tasks):
        inputs = [values[edge.task] for edge in task.dependencies]
        seconds, basis = {}, {}
        for unit in system.units:
            if unit.seconds(task) is None:
                continue
            values[index] = task.run(unit.of, *inputs)
            samples = []
            for _ in range(repetitions):
                begun = perf_counter()
                values[index] = task.run(unit.of, *inputs)
                samples.append(perf_counter() - begun)
            seconds[unit.of], basis[unit.of] = statistics.median(samples), "measured on this machine"
        tasks.append(replace(task, seconds=seconds, basis=basis))
    return replace(application, tasks=tuple(tasks), source="measured on this machine")


def calibrated(system: System, workload: Workload) -> Workload:
    """The workload with the seconds that its tasks take here, by which policies then decide and bounds are computed.

    What a task graph states is for other hardware than the processor that runs the tasks.
    """
    sources = [replace(source, application=measured(system, source.application)) for source in workload.sources]
    return workload.with_sources(sources)


def overheads(policy: str = "eft", tasks: int = 600) -> tuple[DecisionCost, float]:
    """What the real-time scheduler costs here: of a decision, and the seconds that a paced task takes longer.

    Of a chain of tasks on one element: what is between two of them but the decision, and how much longer than asked
    each takes. Of lone tasks that come one by one to idle elements: what a thread takes to wake up. These are means:
    responses add them up, and a machine that is busy with other things is rarely but very late. Of all, and of
    instances with 1 to 32 tasks at once on four elements: a straight line through the median seconds of decisions by
    the tasks assigned.
    """
    pes = [ProcessingElement(f"pe{i}", "PS") for i in range(4)]
    chain = _paced_graph([(i - 1,) if i else () for i in range(tasks)])
    on_one = _record(policy, pes[:1], [chain])
    lone = _record(policy, pes, [_paced_graph([()])] * 60)
    wide = _record(policy, pes, [_paced_graph([()] * count) for count in (1, 2, 4, 8, 16, 32) for _ in range(6)])
    found: dict[int, list[float]] = defaultdict(list)
    for event in (*on_one.decisions, *lone.decisions, *wide.decisions):
        found[event.assigned].append(event.overhead)
    points = [(assigned, statistics.median(values)) for assigned, values in found.items() if assigned]
    slope = statistics.linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else 0.0
    slope = max(0.0, slope)
    decision = statistics.median(event.overhead for event in on_one.decisions)
    wakes = [task.start - one.time - one.overhead for one, task in zip(lone.decisions, lone.tasks, strict=True)]
    between = statistics.fmean(b.start - a.stop for a, b in pairwise(on_one.tasks))
    late = statistics.fmean(event.stop - event.start for event in on_one.tasks) - PACE
    cost = DecisionCost(round=max(0.0, decision - slope), assignment=slope, wake=max(0.0, statistics.fmean(wakes)))
    return cost, max(0.0, between - decision) + max(0.0, late)


def _paced_graph(dependencies: Sequence[tuple[int, ...]]) -> TaskGraph:
    run = pace({"PS": PACE})
    return TaskGraph("paced", [Task(f"t{i}", {"PS": PACE}, run, after) for i, after in enumerate(dependencies)])


def _record(policy: str, pes: Sequence[ProcessingElement], graphs: Sequence[TaskGraph]) -> TraceRecorder:
    """The events of graphs that run one after the other, with pauses, so that all threads sleep in between."""
    recorder = TraceRecorder()
    with RealTime(pes, policy, recorder=recorder) as elements:
        for graph in graphs:
            elements.submit(graph, {})
            elements.drain()
            sleep(2e-3)
    return recorder
