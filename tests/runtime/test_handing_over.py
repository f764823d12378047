"""Which tasks of a frame the caller keeps to itself, and which other threads are given."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fpga_dynamo.runtime.scheduling.flight import HAND_OVER, Flight
from fpga_dynamo.runtime.scheduling.policies import Assignment, Policy, policy_names
from fpga_dynamo.runtime.scheduling.scheduler import Scheduler
from fpga_dynamo.runtime.task import Frame, ProcessingElement, ReadyTask, Task, TaskGraph
from tests.runtime.systems import PATIENCE, eventually, host, nothing, single, threads_of, unit

SHORT, LONG = HAND_OVER / 10, HAND_OVER * 10


def flight(*seconds: Any, before: Mapping[int, tuple[int, ...]] | None = None) -> Flight:
    """A frame of independent tasks that take so long; `before`: dependencies by index."""
    tasks = [Task(f"t{i}", {"PS": s}, nothing, (before or {}).get(i, ())) for i, s in enumerate(seconds)]
    made = Flight(TaskGraph("g", tasks), None, 0.0, 0)
    made.kept = made.roots()
    return made


def offered(flight: Flight, now: float = 0.0) -> list[int]:
    return [item.index for item in flight.offers(now, lambda item: flight.graph.durations[item.index])]


def test_an_idle_caller_is_offered_one_short_task_at_a_time() -> None:
    frame = flight(SHORT, SHORT, SHORT)
    frame.helping = True
    assert offered(frame) == [0]
    assert [item.index for item in frame.kept] == [1, 2]
    frame.helping, frame.busy_until = False, SHORT  # it runs task 0
    assert offered(frame) == []
    frame.helping = True
    assert offered(frame, SHORT) == [1]
    assert offered(frame, SHORT) == [2]  # of task 1 the policy made nothing


def test_long_tasks_are_offered_together() -> None:
    frame = flight(LONG, LONG, SHORT, LONG)
    frame.helping = True
    assert offered(frame) == [0, 1, 3]
    assert [item.index for item in frame.kept] == [2]


def test_a_short_task_waits_for_a_caller_who_will_soon_be_free_whatever_follows_it() -> None:
    frame = flight(SHORT, LONG, before={1: (0,)})
    frame.busy_until = HAND_OVER / 2
    assert offered(frame) == []
    frame.busy_until = 2 * HAND_OVER
    assert offered(frame) == [0]  # for what follows it could begin a good deal earlier


def test_a_caller_who_is_late_is_expected_to_be_as_late_again() -> None:
    frame = flight(LONG)
    frame.busy_until = 1.0
    assert offered(frame, 1.0 + HAND_OVER / 2) == []
    assert offered(frame, 1.0 + HAND_OVER * 2) == [0]


def test_a_longer_run_is_believed_step_by_step_and_a_shorter_one_at_once() -> None:
    graph = TaskGraph("g", [Task("a", {"PS": 1.0, "conv": 3.0}, nothing), Task("b", {"PS": 0.0}, nothing)])
    assert graph.durations == [1.0, 0.0]
    graph.lasted(0, 50.0)
    assert graph.durations[0] == 2.0
    graph.lasted(0, 50.0)
    assert graph.durations[0] == 4.0
    graph.lasted(0, 0.5)
    assert graph.durations[0] == 0.5
    graph.lasted(1, 7.0)
    assert graph.durations[1] == 7.0


@pytest.mark.parametrize("policy", policy_names())
def test_short_tasks_stay_in_the_callers_thread(policy: str) -> None:
    scheduler = Scheduler([unit("short", 0), unit("short", 1), host(0), host(1)], policy)
    seen = []

    def run(pe: ProcessingElement, frame: Frame) -> None:
        seen.append((pe.kind, threading.current_thread()))

    kinds = {0: "PS", 1: "PS", 2: "short", 3: "short", 4: "PS", 5: "PS", 6: "short"}
    before = {2: (0,), 3: (0, 1), 4: (2,), 5: (3,), 6: (4, 5)}
    tasks = [Task(f"t{i}", {kind: 1e-6}, run, before.get(i, ())) for i, kind in kinds.items()]
    for _ in range(5):
        scheduler.execute(TaskGraph("short", tasks))
    assert len(seen) == 5 * len(tasks)
    assert {thread for _, thread in seen} == {threading.current_thread()}
    assert threads_of(scheduler) == []
    assert not scheduler._dispatcher.busy and not scheduler._dispatcher.ready


@pytest.mark.parametrize("policy", ["adaptive", "eft", "simple"])
def test_tasks_that_turn_out_to_be_long_are_run_side_by_side(policy: str) -> None:
    scheduler = Scheduler([host(0, f"{policy} 0"), host(1, f"{policy} 1")], policy)
    threads = set()

    def run(pe: ProcessingElement, frame: Frame) -> None:
        threads.add(threading.current_thread())
        time.sleep(20 * HAND_OVER)

    graph = TaskGraph("g", [Task(name, {"PS": 1e-6}, run) for name in "ab"])
    scheduler.execute(graph)
    assert threads == {threading.current_thread()}
    for _ in range(20):  # 1e-6 seconds, and twice as much each time
        scheduler.execute(graph)
    assert len(threads) == 2


def test_a_policy_is_shown_a_short_task_when_the_caller_can_take_it() -> None:
    shown = []

    class Watching(Policy):
        name = "watching"

        def assign(
            self,
            ready: Sequence[ReadyTask],
            pes: Sequence[ProcessingElement],
            now: float,
            available: Mapping[ProcessingElement, float],
        ) -> list[Assignment]:
            shown.append([item.task.name for item in ready])
            return [(item, pes[i % 2]) for i, item in enumerate(ready)]

    for seconds, wanted in ((SHORT, [["a"], ["b"], ["c"]]), (LONG, [["a", "b"], ["c"]])):
        shown.clear()
        tasks = [Task("a", {"PS": seconds}, nothing), Task("b", {"PS": seconds}, nothing)]
        tasks.append(Task("c", {"PS": seconds}, nothing, (0, 1)))
        Scheduler([host(0), host(1)], Watching()).execute(TaskGraph("g", tasks))
        assert shown == wanted


def test_what_the_caller_cannot_have_does_not_keep_it_from_the_rest() -> None:
    """The frame's first task needs a unit that is busy; the others are short and need none."""
    scheduler = Scheduler([unit("taken"), host(0), host(1)])
    occupied, free, log = threading.Event(), threading.Event(), []

    def occupy(pe: ProcessingElement, frame: Frame) -> None:
        occupied.set()
        assert free.wait(PATIENCE)

    def run(pe: ProcessingElement, frame: Frame) -> None:
        log.append(pe.kind)

    tasks = [Task("card", {"taken": 1e-6}, run), Task("a", {"PS": 1e-6}, run), Task("b", {"PS": 1e-6}, run)]
    with ThreadPoolExecutor(2) as callers:
        first = callers.submit(scheduler.execute, single(occupy, "taken"))
        assert occupied.wait(PATIENCE)
        second = callers.submit(scheduler.execute, TaskGraph("g", tasks))
        eventually(lambda: log == ["PS", "PS"])
        free.set()
        first.result(PATIENCE)
        second.result(PATIENCE)
    assert log == ["PS", "PS", "PL"]


def test_short_tasks_hold_no_pe_while_the_caller_runs_another_one() -> None:
    """So that other callers can have it."""
    scheduler = Scheduler([host(0), host(1)])
    running, go, others = threading.Event(), threading.Event(), []

    def run(pe: ProcessingElement, frame: Frame) -> None:
        running.set()
        assert go.wait(PATIENCE)

    graph = TaskGraph("g", [Task(str(i), {"PS": 1e-6}, run) for i in range(3)])
    with ThreadPoolExecutor(1) as callers:
        call = callers.submit(scheduler.execute, graph)
        assert running.wait(PATIENCE)
        scheduler.execute(single(lambda pe, frame: others.append(pe.name), "PS"))
        go.set()
        call.result(PATIENCE)
    assert others == ["PS1"]


def test_a_failure_ends_the_frame_with_what_it_kept() -> None:
    scheduler, ran = Scheduler([host(0), host(1)]), []

    def fail(pe: ProcessingElement, frame: Frame) -> None:
        raise ValueError("no luck")

    tasks = [Task("a", {"PS": 1e-6}, fail), *(Task(str(i), {"PS": 1e-6}, lambda pe, f: ran.append(1)) for i in "bc")]
    for _ in range(2):
        with pytest.raises(ValueError, match="no luck"):
            scheduler.execute(TaskGraph("g", tasks))
    assert not ran and not scheduler._dispatcher.busy and not scheduler._dispatcher.ready
    scheduler.execute(single(nothing, "PS"))


def test_an_indifferent_policy_is_not_asked_about_a_lone_task_while_all_is_idle() -> None:
    asked = []

    class Asked(Policy):
        name = "asked"
        indifferent = True

        def assign(
            self,
            ready: Sequence[ReadyTask],
            pes: Sequence[ProcessingElement],
            now: float,
            available: Mapping[ProcessingElement, float],
        ) -> list[Assignment]:
            asked.append([item.task.name for item in ready])
            return [(item, self.earliest_finish(item.task, pes, now, available)[1]) for item in ready]

    scheduler, where = Scheduler([host(0), host(1), unit("c")], Asked()), []

    def run(pe: ProcessingElement, frame: Frame) -> None:
        where.append(pe.name)

    tasks = [
        Task("a", {"PS": 1e-6}, run),
        Task("b", {"c": 1e-6}, run, (0,)),
        Task("either", {"PS": 1, "c": 2}, run, (1,)),
    ]
    scheduler.execute(TaskGraph("g", tasks))
    assert asked == [["either"]]
    assert where == ["PS0", "c_1", "PS0"]
