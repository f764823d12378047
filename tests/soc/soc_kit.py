"""Random systems, applications and workloads, and what must be true of every run."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fpga_dynamo.runtime.application import Application, ApplicationTask, Edge
from fpga_dynamo.runtime.observe.events import TaskEvent
from fpga_dynamo.tools.soc.outcome import RunOutcome
from fpga_dynamo.tools.soc.system import System
from fpga_dynamo.tools.soc.workload import Arrivals, ArrivingApplication, Workload

KERNELS = ("conv2d", "fft")
SECONDS = st.sampled_from([5e-6, 10e-6, 13e-6, 40e-6, 100e-6, 370e-6])


@st.composite
def applications(draw: st.DrawFn, name: str = "app") -> Application:
    tasks = []
    for index in range(draw(st.integers(1, 9))):
        kernel = draw(st.sampled_from(["", *KERNELS]))
        seconds = {"a53": draw(SECONDS)}
        if kernel:
            seconds[kernel] = draw(SECONDS)
        before = draw(st.lists(st.integers(0, index - 1), max_size=3, unique=True)) if index else []
        edges = tuple(Edge(other, draw(st.sampled_from([0, 64, 40000]))) for other in before)
        tasks.append(ApplicationTask(f"t{index}", seconds, edges, kernel=kernel, from_host=64 * (not before)))
    return Application(name, tasks)


@st.composite
def systems(draw: st.DrawFn, resident: bool | None = None) -> System:
    cpus: dict[str, Any] = {"a53": draw(st.integers(1, 3))}
    if draw(st.booleans()):
        cpus["a72"] = 1
    accelerators: dict[str, Any] = {kernel: draw(st.integers(0, 2)) for kernel in KERNELS}
    if draw(st.booleans()):
        accelerators["fft"] = [{"count": 1}, {"count": 1, "clock": 100e6}]
    keep = draw(st.booleans()) if resident is None else resident
    channels = draw(st.sampled_from([{}, {"channels": 1}, {"channels": 2}])) if resident is None else {}
    costs = ["free", "native", "a53", {"round": 2e-6, "assignment": 1e-6}, {"period": 50e-6}, {"wake": 7e-6}]
    decision = draw(st.sampled_from(costs))
    return System(
        {
            "cpus": cpus,
            "accelerators": accelerators,
            "transfer": {"latency": 2e-6, "bandwidth": 4e9, "resident": keep, **channels},
            "scheduler": {"decision": decision},
        }
    )


@st.composite
def workloads(draw: st.DrawFn, spread: bool = True) -> Workload:
    count = draw(st.integers(1, 3))
    made = Workload.of(
        [
            ArrivingApplication(
                draw(applications(f"app{number}")),
                draw(st.sampled_from([1.0, 3.0])),
                draw(st.sampled_from(["poisson", "periodic", "bursts"])),
                draw(st.sampled_from([1, 4])),
                deadline=draw(st.sampled_from([math.inf, 50e-6, 400e-6])),
            )
            for number in range(count)
        ],
        rate=draw(st.sampled_from([500.0, 5000.0, 50000.0])),
        instances=draw(st.integers(1, 25)),
        spread=draw(st.sampled_from([0.0, 0.5])) if spread else 0.0,
        tail=draw(st.sampled_from([0.0, 0.1])) if spread else 0.0,
    )
    return made


def check(run: RunOutcome, system: System, workload: Workload, exact: bool = True) -> None:
    """Every instance ends, all tasks of it run once, after what they depend on, one at a time on a unit that can.

    exact: times are virtual, and without a spread a task takes what it should.
    """
    assert run.trace is not None
    arrivals: Arrivals = run.arrivals
    origin = run.trace.origin
    assert np.isfinite(run.ended).all() and (run.ended >= arrivals.times).all()
    by_instance: dict[int, dict[str, TaskEvent]] = defaultdict(dict)
    by_pe: dict[str, list[TaskEvent]] = defaultdict(list)
    for event in run.trace.tasks:
        assert event.task not in by_instance[event.application], "a task has run twice"
        by_instance[event.application][event.task] = event
        by_pe[event.pe].append(event)
    units = dict(system.pes)
    busy = dict.fromkeys(units, 0.0)
    for name, events in by_pe.items():
        events.sort(key=lambda event: event.start)
        for before, after in pairwise(events):
            assert before.stop <= after.start, "two tasks at once on one unit"
        busy[name] = sum(event.stop - event.start for event in events)
    for name, seconds in busy.items():
        assert abs(run.busy[name] - seconds) < 1e-9 + 1e-6 * seconds
    for number, which in enumerate(arrivals.which):
        application = workload.applications[which]
        ran = by_instance[number + 1]
        assert set(ran) == {task.name for task in application.tasks}, "a task was lost"
        for task in application.tasks:
            event = ran[task.name]
            least = units[event.pe].seconds(task)
            assert least is not None, "a unit ran what it cannot run"
            assert event.start - origin >= arrivals.times[number] - 1e-9
            if exact and not workload.spread and not workload.tail:
                assert event.stop - event.start >= least - 1e-12
            for edge in task.dependencies:
                assert ran[application.tasks[edge.task].name].stop <= event.start, "before what it depends on"
        assert max(event.stop for event in ran.values()) - origin <= run.ended[number] + 1e-9
