"""The scheduler with real threads. Barriers prove that things run at the same time: without overlap they time out."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fpga_dynamo.runtime.scheduling.policies import Assignment, Policy, policy_names
from fpga_dynamo.runtime.scheduling.scheduler import Scheduler
from fpga_dynamo.runtime.task import Frame, ProcessingElement, ReadyTask, Task, TaskGraph
from tests.runtime.systems import PATIENCE, eventually, host, nothing, single, threads_of, unit


@pytest.mark.parametrize("policy", policy_names())
def test_one_task_runs_in_the_callers_thread(policy: str) -> None:
    scheduler = Scheduler([unit("fast", 0), unit("fast", 1)], policy)
    seen = []
    graph = single(lambda pe, frame: seen.append((threading.get_ident(), pe.resource, frame.values)), "fast")
    for number in range(5):
        scheduler.execute(graph, number)
    assert seen == [(threading.get_ident(), "fast", number) for number in range(5)]
    assert threads_of(scheduler) == []


def test_a_chain_stays_in_the_callers_thread() -> None:
    scheduler = Scheduler([host(name="chain host"), unit("chain")])
    seen = []

    def run(pe: ProcessingElement, frame: Frame) -> None:
        seen.append((pe.kind, threading.current_thread()))

    tasks = [Task(str(i), {("chain", "PS")[i % 2]: 1e-3}, run, (i - 1,) if i else ()) for i in range(6)]
    scheduler.execute(TaskGraph("chain", tasks))
    assert seen == [("PL", threading.current_thread()), ("PS", threading.current_thread())] * 3
    assert threads_of(scheduler) == []


def test_the_fast_path_honours_the_policys_choice() -> None:
    class Second(Policy):
        name = "second"

        def assign(
            self,
            ready: Sequence[ReadyTask],
            pes: Sequence[ProcessingElement],
            now: float,
            available: Mapping[ProcessingElement, float],
        ) -> list[Assignment]:
            return [(item, pes[1]) for item in ready]

    seen = []
    Scheduler([host(0), host(1), host(2)], Second()).execute(single(lambda pe, frame: seen.append(pe.name), "PS"))
    assert seen == ["PS1"]


def test_two_frames_overlap_on_two_compute_units_and_a_third_waits() -> None:
    scheduler = Scheduler([unit("overlap", 0), unit("overlap", 1)])
    barrier, lock, running, most, used = threading.Barrier(2), threading.Lock(), set(), [], set()

    def run(pe: ProcessingElement, frame: Frame) -> None:
        with lock:
            assert pe not in running
            running.add(pe)
            used.add(pe.name)
            most.append(len(running))
        barrier.wait(PATIENCE)
        time.sleep(0.002)
        with lock:
            running.remove(pe)

    graph = single(run, "overlap")
    with ThreadPoolExecutor(6) as callers:
        for future in [callers.submit(scheduler.execute, graph) for _ in range(12)]:
            future.result(PATIENCE)
    assert used == {"overlap_1", "overlap_2"}
    assert max(most) == 2 and len(most) == 12
    assert threads_of(scheduler) == []  # the callers served the units


@pytest.mark.parametrize("policy", policy_names())
def test_who_waits_for_a_busy_unit_runs_when_it_is_free(policy: str) -> None:
    scheduler = Scheduler([unit("busy")], policy)
    occupied, free, log = threading.Event(), threading.Event(), []

    def occupy(pe: ProcessingElement, frame: Frame) -> None:
        occupied.set()
        assert free.wait(PATIENCE)
        log.append("first")

    with ThreadPoolExecutor(2) as callers:
        first = callers.submit(scheduler.execute, single(occupy, "busy"))
        assert occupied.wait(PATIENCE)
        second = callers.submit(scheduler.execute, single(lambda pe, frame: log.append("second"), "busy"))
        dispatcher = scheduler._dispatcher
        eventually(lambda: dispatcher.ready or any(slot.queue for slot in dispatcher.slots.values()))
        free.set()
        first.result(PATIENCE)
        second.result(PATIENCE)
    assert log == ["first", "second"]


def test_tasks_of_one_frame_overlap() -> None:
    scheduler = Scheduler([host(name="fork host"), unit("fork")])
    barrier, threads = threading.Barrier(2), []

    def run(pe: ProcessingElement, frame: Frame) -> None:
        threads.append(threading.current_thread())
        barrier.wait(PATIENCE)

    tasks = [Task("left", {"PS": 1e-3}, run), Task("right", {"fork": 1e-3}, run)]
    tasks.append(Task("join", {"PS": 1e-3}, nothing, (0, 1)))
    for _ in range(3):
        scheduler.execute(TaskGraph("diamond", tasks))
    assert threads.count(threading.current_thread()) == 3
    assert len(threads_of(scheduler)) <= 2  # threads are reused
    assert all(thread.daemon for thread in threads_of(scheduler))


@st.composite
def dags(draw: st.DrawFn) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    count = draw(st.integers(1, 12))
    kinds = [draw(st.sampled_from([("PS",), ("conv",), ("PS", "conv")])) for _ in range(count)]
    before = [tuple(draw(st.sets(st.integers(0, max(i - 1, 0)), max_size=3))) if i else () for i in range(count)]
    return list(zip(kinds, before, strict=True))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(dags(), min_size=1, max_size=3), st.sampled_from(policy_names()), st.integers(0, 1000))
def test_random_graphs_from_eight_threads(
    shapes: list[list[tuple[tuple[str, ...], tuple[int, ...]]]], policy: str, seed: int
) -> None:
    pes = [host(0), host(1), unit("conv", 0), unit("conv", 1)]
    occupied = {pe: threading.Lock() for pe in pes}
    generator = random.Random(seed)

    def make(index: int, kinds: tuple[str, ...], before: tuple[int, ...]) -> Task:
        seconds = generator.choice([0, 0, 1e-4, 5e-4])

        def run(pe: ProcessingElement, frame: Frame) -> None:
            assert occupied[pe].acquire(blocking=False), "two tasks on one PE"
            assert pe.resource in kinds
            assert all(frame.values[other] == 1 for other in before), "a dependency was not done"
            if seconds:
                time.sleep(seconds)
            frame.values[index] += 1
            occupied[pe].release()

        return Task(f"t{index}", dict.fromkeys(kinds, 1e-4), run, before)

    graphs = [TaskGraph(f"g{n}", [make(i, *task) for i, task in enumerate(shape)]) for n, shape in enumerate(shapes)]

    def call(number: int) -> Any:
        graph = graphs[number % len(graphs)]
        done = [0] * len(graph.tasks)
        scheduler.execute(graph, done)
        return done

    with Scheduler(pes, policy) as scheduler, ThreadPoolExecutor(8) as callers:
        for future in [callers.submit(call, number) for number in range(16)]:
            assert set(future.result(PATIENCE)) == {1}
        assert not scheduler._dispatcher.busy and not scheduler._dispatcher.ready


def test_torch_state_of_the_caller_is_applied_everywhere() -> None:
    scheduler = Scheduler([host(0), host(1)])
    barrier, states = threading.Barrier(2), []

    def run(pe: ProcessingElement, frame: Frame) -> None:
        barrier.wait(PATIENCE)
        autocast = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu")
        states.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast))

    def seen() -> Any:
        states.clear()
        scheduler.execute(graph)
        assert len(states) == 2 and states[0] == states[1]
        return states[0]

    graph = TaskGraph("g", [Task(name, {"PS": 1e-3}, run) for name in "ab"])
    assert seen() == (True, False, False)
    with torch.no_grad():
        assert seen() == (False, False, False)
    with torch.inference_mode():
        assert seen() == (False, True, False)
        with torch.enable_grad():
            assert seen() == (torch.is_grad_enabled(), True, False)
    with torch.autocast("cpu", dtype=torch.float16):
        assert seen() == (True, False, torch.float16)
    assert seen() == (True, False, False)  # the worker is as it was


@pytest.mark.parametrize("policy", policy_names())
@pytest.mark.parametrize("inner_tasks", [1, 3])
def test_a_task_may_execute_a_graph_on_the_pe_that_it_holds(policy: str, inner_tasks: int) -> None:
    scheduler, log = Scheduler([host()], policy), []

    def log_in(pe: ProcessingElement, frame: Frame) -> None:
        log.append("in")

    inner = TaskGraph("in", [Task(f"i{i}", {"PS": 1e-3}, log_in) for i in range(inner_tasks)])

    def run(pe: ProcessingElement, frame: Frame) -> None:
        scheduler.execute(inner)
        log.append("out")

    with ThreadPoolExecutor(2) as callers:
        for graph in (single(run, "PS"), TaskGraph("two", [Task(name, {"PS": 1}, run) for name in "ab"])):
            for future in [callers.submit(scheduler.execute, graph) for _ in range(2)]:
                future.result(PATIENCE)
    assert log.count("out") == 6 and log.count("in") == 6 * inner_tasks
    assert not scheduler._dispatcher.busy


def test_profiler_ranges() -> None:
    from torch.profiler import ProfilerActivity, profile

    scheduler, graph = Scheduler([unit("conv")]), single(nothing, "conv")
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        scheduler.execute(graph)
    assert "fpga_dynamo::launch" in [event.name for event in profiler.events()]


def test_an_empty_graph_is_done_at_once() -> None:
    Scheduler([host()]).execute(TaskGraph("empty", []))


@pytest.mark.parametrize("policy", policy_names())
def test_a_unit_that_is_added_runs_tasks(policy: str) -> None:
    ran: list[str] = []

    def run(pe: ProcessingElement, frame: Frame) -> None:
        ran.append(pe.name)

    guest = ProcessingElement("fir_1", "PL", "fir", variant="fir of another xclbin")
    with Scheduler([unit("fir", 0), host(0)], policy) as scheduler:
        scheduler.execute(TaskGraph("before", [Task("own", {"fir": 1e-4}, run)]))
        added = scheduler.add(guest)
        scheduler.execute(TaskGraph("behind", [Task("guest", {guest.resource: 1e-4}, run)]))
        scheduler.execute(TaskGraph("own", [Task("own", {"fir": 1e-4}, run)]))
        scheduler.execute(TaskGraph("host", [Task("host", {"PS": 1e-4}, run)]))
    assert added.name == "fir_1@2" and added.resource == guest.resource
    assert ran == ["fir_1", "fir_1@2", "fir_1", "PS0"]
