"""Real time: threads, the same policies; nothing is lost, nothing leaks, faults get a sentence."""

from __future__ import annotations

import gc
import os
import re
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fpga_dynamo.errors import OptionError
from fpga_dynamo.runtime.application import Application, ApplicationTask, Edge
from fpga_dynamo.runtime.scheduling.policies import LeastWork, make_policy
from fpga_dynamo.runtime.scheduling.realtime import RealTime, check_cores
from fpga_dynamo.runtime.task import Frame, ProcessingElement, SchedulerError, Task, TaskGraph
from fpga_dynamo.tools.cli import main
from fpga_dynamo.tools.soc.real import measured, overheads, run_real
from fpga_dynamo.tools.soc.system import System
from fpga_dynamo.tools.soc.workload import ArrivingApplication, Workload
from tests.runtime.systems import host, nothing, unit
from tests.soc.soc_kit import check


def diamond(run: Any = nothing) -> TaskGraph:
    tasks = [Task("a", {"PS": 1e-4, "conv": 1e-5}, run)]
    tasks += [Task(f"b{i}", {"PS": 1e-4, "conv": 1e-5}, run, (0,)) for i in range(3)]
    return TaskGraph("diamond", [*tasks, Task("c", {"PS": 1e-5}, run, (1, 2, 3))])


def paced() -> Workload:
    kinds = {"a53": 3e-3, "fft": 1e-3}
    tasks = [ApplicationTask("a", kinds), ApplicationTask("b", kinds, (Edge(0),)), ApplicationTask("c", kinds)]
    return Workload.of([ArrivingApplication(Application(name, tasks)) for name in ("x", "y")], instances=30)


@pytest.mark.parametrize("policy", ["simple", "met", "eft", "etf", "heft_rt", "adaptive", "least_work"])
def test_a_paced_run_is_a_valid_schedule(policy: str) -> None:
    system, workload = System({"cpus": {"a53": 2}, "accelerators": {"fft": 1}}), paced()
    run = run_real(system, workload, policy, rate=300.0, paced=True, trace=True)
    check(run, system, workload, exact=False)
    assert (run.responses >= 2e-3 * 0.99).all() and run.deciding > 0
    assert {event.program for event in run.trace.applications} == {"x", "y"}  # type: ignore[union-attr]


@pytest.mark.parametrize("policy", ["eft", "least_work"])
def test_ten_thousand_tasks_in_flight(policy: str) -> None:
    """2,000 instances of five tasks, all there before any of them runs."""
    gate, counted = threading.Event(), []

    def run(pe: ProcessingElement, frame: Frame) -> None:
        gate.wait()
        counted.append(1)

    ended: list[Any] = []
    with RealTime([host(0), host(1), unit("conv")], policy) as elements:
        graph = diamond(run)
        for _ in range(2000):
            elements.submit(graph, None, ended.append)
        assert elements.in_flight == 2000
        gate.set()
        assert elements.drain(120)
    assert len(counted) == 10000 and len(ended) == 2000
    assert all(one.error is None and one.tasks_left == 0 for one in ended)


def test_nothing_is_kept_of_instances_that_are_over() -> None:
    policy = LeastWork()
    with RealTime([host(0), unit("conv")], policy) as elements:
        graph = diamond()
        last = weakref.ref(graph)
        seen = [weakref.ref(elements.submit(graph, {"big": bytearray(10)}).graph) for _ in range(50)]
        assert elements.drain(30) and seen
        core = policy._core
        assert core is not None and not core.frames and not core.offered and core.native.frames() == 0
    del graph
    elements.__dict__.clear()
    for _ in range(3):
        gc.collect()
    assert last() is None and not core.graphs and not core.places


def test_a_failed_instance_leaves_the_policy_too() -> None:
    policy = LeastWork()

    def run(pe: ProcessingElement, frame: Frame) -> None:
        if frame.values == "bad":
            raise ValueError("no signal")
        time.sleep(1e-3)

    ended: list[Any] = []
    with RealTime([host(0)], policy) as elements:
        graph = TaskGraph("g", [Task(f"t{i}", {"PS": 1e-3}, run) for i in range(4)])
        for number in range(12):
            elements.submit(graph, "bad" if number % 3 == 0 else "good", ended.append)
        assert elements.drain(30)
    assert len(ended) == 12 and sum(isinstance(one.error, ValueError) for one in ended) == 4
    assert policy._core is not None
    assert not policy._core.frames and policy._core.native.frames() == 0 and policy._core.native.waiting() == 0


def test_a_fault_of_a_policy_ends_the_instances_and_not_the_process() -> None:
    class Broken(LeastWork):
        name = "broken"

        def assign(self, ready: Any, pes: Any, now: Any, available: Any) -> Any:
            return [(ready[0], "PS0")]

    ended: list[Any] = []
    with RealTime([host(0)], Broken()) as elements:
        elements.submit(diamond(), None, ended.append)
        assert elements.drain(10)
    assert isinstance(ended[0].error, SchedulerError) and "policy 'broken' gave" in str(ended[0].error)


def test_more_cores_than_this_process_may_use() -> None:
    usable = len(os.sched_getaffinity(0))
    assert len(check_cores(1)) == usable
    with pytest.raises(OptionError, match=f"{usable + 1} processor cores, but this process may use {usable}"):
        check_cores(usable + 1)


def test_tasks_that_run_are_measured_and_give_their_answer() -> None:
    given: list[Any] = []

    def product(kind: str, x: Any, y: Any) -> Any:
        given.append((kind, x + y))
        return x + y

    tasks = [ApplicationTask("a", {"x86": 1.0}, run=lambda kind: np.ones(3))]
    tasks += [ApplicationTask("b", {"x86": 1.0, "fft": 1.0}, run=lambda kind: np.ones(3))]
    tasks += [ApplicationTask("c", {"x86": 1.0}, (Edge(0), Edge(1)), run=product)]
    system = System({"cpus": {"x86": 1}, "accelerators": {"fft": 1}})
    known = measured(system, Application("sum", tasks))
    assert all(0 < min(task.seconds.values()) < 0.1 for task in known.tasks)
    assert known.tasks[1].basis == {"x86": "measured on this machine", "fft": "measured on this machine"}
    workload = Workload.of([ArrivingApplication(known)], instances=20)
    given.clear()
    run = run_real(system, workload, "least_work", rate=200.0)
    assert len(given) == len(run.ended) and all((value == 2).all() and kind == "x86" for kind, value in given)


def test_a_policy_of_ones_own_runs_in_real_time() -> None:
    system, workload = System({"cpus": {"a53": 2}, "accelerators": {"fft": 1}}), paced()
    run = run_real(system, workload, "tests.soc.test_sweep:Backwards", rate=300.0, paced=True, trace=True)
    check(run, system, workload, exact=False)


def test_bounds_beside_cores_of_this_machine_are_of_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The graph states an hour on a core; here its task takes microseconds."""
    (tmp_path / "system.toml").write_text("cpus.a53 = 1")
    row = 'program = "tests.soc.test_realtime:hour"'
    (tmp_path / "workload.toml").write_text(f"instances = 5\nrate = 500\n[[application]]\n{row}")
    assert main(["soc", "run", str(tmp_path / "system.toml"), str(tmp_path / "workload.toml"), "--real"]) == 0
    told = capsys.readouterr().out
    bound = re.search(r"lower bound of any scheduler: ([0-9.]+) ms", told)
    assert bound and float(bound[1]) < 1000
    assert "real time on this machine's cores" in told and "mJ" not in told


def hour() -> Application:
    return Application("hour", [ApplicationTask("a", {"a53": 3600.0}, run=lambda kind: None)])


def test_what_a_task_raises_is_raised() -> None:
    def fail(kind: str) -> None:
        raise ValueError("no signal")

    failing = Application("x", [ApplicationTask("a", {"x86": 1e-3}, run=fail)])
    workload = Workload.of([ArrivingApplication(failing)], instances=3)
    with pytest.raises(ValueError, match="no signal"):
        run_real(System({"cpus": {"x86": 1}}), workload, rate=1000.0)


@pytest.mark.parametrize("policy", ["eft", "least_work"])
def test_overheads_are_what_scheduling_costs_here(policy: str) -> None:
    """A decision and a waking thread take more than nothing; bounds are those of any machine, however busy."""
    cost, late = overheads(policy, tasks=50)
    assert cost.round + cost.assignment > 0 and min(cost.round, cost.assignment, late) >= 0
    assert 0 < cost.wake < 1 and cost.round + cost.assignment < 0.1 and late < 1
    assert cost.evaluation == cost.period == 0


@pytest.mark.slow
def test_soak() -> None:
    """Eight applications for $SOAK_SECONDS (20): none is lost, and memory does not grow."""
    seconds = float(os.environ.get("SOAK_SECONDS", "20"))
    system = System({"cpus": {"a53": 2}, "accelerators": {"fft": 1, "conv2d": 1}})
    kinds = ({"a53": 400e-6, "fft": 200e-6}, {"a53": 300e-6}, {"a53": 900e-6, "conv2d": 200e-6})
    sources = []
    for number in range(8):
        tasks = [
            ApplicationTask(f"t{i}", kinds[(i + number) % 3], (Edge(i - 1),) if i else ())
            for i in range(2 + number % 4)
        ]
        sources.append(ArrivingApplication(Application(f"app{number}", tasks)))
    elements_graphs = []
    policy = make_policy("least_work")
    from fpga_dynamo.tools.soc.graphs import task_graph
    from fpga_dynamo.tools.soc.outcome import processing_elements

    counts = {"in": 0, "out": 0}

    def done(instance: Any) -> None:
        assert instance.error is None
        counts["out"] += 1

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    with RealTime(processing_elements(system), policy) as elements:
        elements_graphs = [task_graph(system, source.application) for source in sources]
        end = time.perf_counter() + seconds
        half = 0
        while time.perf_counter() < end:
            elements.submit(elements_graphs[counts["in"] % 8], None, done)
            counts["in"] += 1
            time.sleep(2e-3)
            if not half and time.perf_counter() > end - seconds / 2:
                gc.collect()
                half = resident()
        assert elements.drain(60)
        gc.collect()
        assert resident() - half < 8 << 20
    assert counts["in"] == counts["out"] > seconds * 50
    assert policy._core.native.frames() == 0 and not policy._core.frames  # type: ignore[attr-defined]
