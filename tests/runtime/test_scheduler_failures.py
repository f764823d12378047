"""The scheduler when something goes wrong: tasks and policies that raise, no more threads, Ctrl-C."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import traceback
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fpga_dynamo.runtime.scheduling.policies import Adaptive, Assignment, Policy
from fpga_dynamo.runtime.scheduling.scheduler import Scheduler
from fpga_dynamo.runtime.task import Frame, ProcessingElement, ReadyTask, SchedulerError, Task, TaskGraph
from tests.runtime.systems import PATIENCE, eventually, host, nothing, single, unit


class Broken(Exception):
    pass


def fail(pe: ProcessingElement, frame: Frame) -> None:
    raise Broken("no luck")


def test_an_exception_reaches_the_caller_with_its_traceback() -> None:
    scheduler = Scheduler([host()])
    two = TaskGraph("two", [Task("a", {"PS": 1}, nothing), Task("b", {"PS": 1}, fail, (0,))])
    for graph in (single(fail, "PS"), two):
        with pytest.raises(Broken, match="no luck") as caught:
            scheduler.execute(graph)
        assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "fail"
        scheduler.execute(single(nothing, "PS"))  # the PE is free again


def test_an_exception_on_another_thread_ends_the_frame_when_its_running_tasks_are_done() -> None:
    scheduler = Scheduler([host(0), host(1)])
    failed, log = threading.Event(), []

    def wait(pe: ProcessingElement, frame: Frame) -> None:
        if threading.current_thread() is not caller:
            raise Broken("in a worker")
        failed.wait(0.05)
        log.append("the other one ended")

    def unreachable(pe: ProcessingElement, frame: Frame) -> None:
        log.append("unreachable")

    caller = threading.current_thread()
    tasks = [Task("a", {"PS": 1}, wait), Task("b", {"PS": 1}, wait), Task("c", {"PS": 1}, unreachable, (0,))]
    tasks += [Task("d", {"PS": 1}, unreachable, (1,))]
    with pytest.raises(Broken, match="in a worker") as caught:
        scheduler.execute(TaskGraph("g", tasks))
    assert log == ["the other one ended"]
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "wait"


def test_other_frames_go_on_when_one_fails() -> None:
    scheduler = Scheduler([host(0), host(1)], "eft")
    ok = TaskGraph("ok", [Task(str(i), {"PS": 1e-3}, lambda pe, frame: time.sleep(1e-3)) for i in range(8)])
    bad = TaskGraph("bad", [Task(str(i), {"PS": 1e-3}, fail if i == 3 else nothing) for i in range(8)])

    def call(graph: TaskGraph) -> Any:
        try:
            scheduler.execute(graph)
        except Broken:
            return "broken"
        return "done"

    with ThreadPoolExecutor(4) as callers:
        results = list(callers.map(call, [ok, bad] * 10, timeout=PATIENCE))
    assert results == ["done", "broken"] * 10
    assert not scheduler._dispatcher.busy


def test_a_failed_frame_leaves_nothing_behind() -> None:
    class Values:
        pass

    scheduler, values = Scheduler([host(0), host(1)]), Values()
    gone = weakref.ref(values)
    graph = TaskGraph("g", [Task("a", {"PS": 1}, fail), Task("b", {"PS": 1}, nothing)])
    gc.disable()  # no reference cycle keeps a frame's tensors until the next collection
    try:
        with pytest.raises(Broken):
            scheduler.execute(graph, values)
        del values
        eventually(lambda: gone() is None)
    finally:
        gc.enable()


def test_a_task_that_nothing_supports() -> None:
    with pytest.raises(SchedulerError, match=r"task 'launch' of 'single' runs on conv or gemm, but the .* are PS: add"):
        Scheduler([host()]).execute(single(nothing, "gemm", "conv"))


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda ready, pes: [], "assigned none of . ready tasks"),
        (lambda ready, pes: [(ready[0], pes[1])], "assigned task 't0' to 'conv_1'"),
        (lambda ready, pes: [(ready[0], pes[0])] * 2, "assigned a task twice"),
        (lambda ready, pes: 1 / 0, "division by zero"),
        (lambda ready, pes: None, "gave None: assign returns a list of"),
        (lambda ready, pes: {ready[0]: pes[0]}, "assign returns a list of"),
        (lambda ready, pes: [ready[0]], "in its list: a pair of one of the ready tasks and"),
        (lambda ready, pes: [(ready[0], None)], "in its list: a pair .* elements PS0, conv_1; leave out a task"),
        (lambda ready, pes: [(ready[0], "PS0")], "in its list: a pair of one of the ready tasks and"),
        (lambda ready, pes: [(ready[0], pes[0], 1.0)], "in its list: a pair of one of the ready tasks and"),
        (lambda ready, pes: [(ready[0], host())], "assigned task 't0' to 'PS0': the task must be ready and"),
    ],
)
def test_a_policy_that_breaks_the_contract_is_named_and_nobody_hangs(tasks: int, answer: Any, message: str) -> None:
    class Odd(Policy):
        name = "odd"
        odd = False

        def assign(
            self,
            ready: Sequence[ReadyTask],
            pes: Sequence[ProcessingElement],
            now: float,
            available: Mapping[ProcessingElement, float],
        ) -> list[Assignment]:
            return answer(ready, pes) if self.odd else [(item, pes[0]) for item in ready]

    policy = Odd()
    scheduler = Scheduler([host(), unit("conv")], policy)
    graph = TaskGraph("g", [Task(f"t{i}", {"PS": 1e-3}, nothing) for i in range(tasks)])
    policy.odd = True
    with pytest.raises((SchedulerError, ZeroDivisionError), match=message):
        scheduler.execute(graph)
    policy.odd = False
    scheduler.execute(graph)


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("seconds", [-1e-3, float("nan"), float("inf"), None])
def test_a_policy_that_expects_what_is_no_time(seconds: Any, tasks: int) -> None:
    class Odd(Policy):
        name = "odd"

        def estimates(self, task: Task) -> Mapping[str, float]:
            return {} if seconds is None else {"PS": seconds}

        def assign(
            self,
            ready: Sequence[ReadyTask],
            pes: Sequence[ProcessingElement],
            now: float,
            available: Mapping[ProcessingElement, float],
        ) -> list[Assignment]:
            return [(item, pes[0]) for item in ready]

    graph = TaskGraph("g", [Task(f"t{i}", {"PS": 1e-3}, nothing) for i in range(tasks)])
    scheduler = Scheduler([host()], Odd())
    with pytest.raises(
        SchedulerError, match=f"policy 'odd' estimates 't0' at {seconds} s on 'PS': estimates must give"
    ):
        scheduler.execute(graph)
    assert not scheduler._dispatcher.busy


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("hook", ["observe", "estimates"])
def test_a_policy_whose_other_methods_fail(hook: str, tasks: int) -> None:
    policy = Adaptive()
    scheduler = Scheduler([host(0), host(1)], policy)
    graph = TaskGraph("g", [Task(f"t{i}", {"PS": 1e-3}, nothing) for i in range(tasks)])

    def broken(*arguments: object) -> None:
        raise Broken(hook)

    setattr(policy, hook, broken)
    with pytest.raises(Broken, match=hook):
        scheduler.execute(graph)
    delattr(policy, hook)
    scheduler.execute(graph)
    assert not scheduler._dispatcher.busy


def test_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    scheduler = Scheduler([host(0), host(1)])
    graph = TaskGraph("g", [Task(f"t{i}", {"PS": 1e-3}, nothing) for i in range(6)])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            scheduler.execute(graph)
    scheduler.execute(graph)
    assert not scheduler._dispatcher.busy


def test_ctrl_c_while_the_caller_waits() -> None:
    scheduler, ended = Scheduler([host(0), host(1)]), []
    main = threading.current_thread()

    def run(pe: ProcessingElement, frame: Frame) -> None:
        if threading.current_thread() is not main:
            time.sleep(0.02)  # now the caller waits
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        scheduler.execute(TaskGraph("g", [Task(name, {"PS": 1}, run) for name in "ab"]))
    assert ended == [True]  # values are not in use any more
    scheduler.execute(single(nothing, "PS"))
    assert not scheduler._dispatcher.busy


def test_ctrl_c_inside_a_task() -> None:
    scheduler = Scheduler([host()])

    def run(pe: ProcessingElement, frame: Frame) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(PATIENCE)

    with pytest.raises(KeyboardInterrupt):
        scheduler.execute(single(run, "PS"))
    scheduler.execute(single(nothing, "PS"))
