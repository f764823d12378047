"""An exception at any bytecode of the scheduler: the next call is as if nothing had been, and nothing stays taken."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from fpga_dynamo.runtime.observe import trace
from fpga_dynamo.runtime.scheduling.scheduler import Scheduler
from fpga_dynamo.runtime.task import Frame, ProcessingElement, Task, TaskGraph
from tests.runtime.systems import PATIENCE, eventually, host, unit

PACKAGE = "/fpga_dynamo/"
STEP = 5
"""Every which bytecode `make test` tries; the extended test tries all."""


class Injection:
    """A trace function that raises `error` at the bytecode `place` of the package's code."""

    def __init__(self, error: type[BaseException], place: int) -> None:
        self.error = error
        self.place = place
        self.count = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Injection | None:
        if event == "call" and PACKAGE not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self.count += 1
            if self.count == self.place:
                raise self.error
        return self

    @property
    def came(self) -> bool:
        return self.count >= self.place

    def around(self, call: Callable[[], object]) -> None:
        sys.settrace(self)
        try:
            call()
        except BaseException as error:
            if not isinstance(error, self.error):
                raise
        finally:
            sys.settrace(None)


def in_time(work: Callable[[], None]) -> None:
    """Runs `work` on a thread of its own: what waits for ever fails the test."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20 * PATIENCE)
    assert not thread.is_alive(), "a call waits for ever"
    if failed:
        raise failed[0]


def system(shape: str) -> tuple[Scheduler, TaskGraph]:
    def add(pe: ProcessingElement, frame: Frame) -> None:
        frame.values.append(pe.kind)

    card, ps = {"conv": 1e-5}, {"PS": 1e-5}
    tasks = {
        "alone": [Task("card", card, add)],
        "mixed": [Task("card", card, add), Task("host", ps, add, (0,)), Task("again", card, add, (1,))],
        "wide": [Task("a", {"PS": 1.0}, add), Task("b", {"PS": 1.0}, add), Task("card", card, add, (0, 1))],
    }[shape]
    return Scheduler([unit("conv"), host(0), host(1)]), TaskGraph(shape, tasks)


def is_idle(scheduler: Scheduler) -> bool:
    books = scheduler._dispatcher
    return not (books.busy or books.ready or scheduler._flights or any(w.inbox for w in scheduler._workers))


def walk(shape: str, error: type[BaseException], step: int, recorded: bool = False) -> None:
    scheduler, graph = system(shape)
    places = 0

    def call() -> None:
        values: list[str] = []
        if recorded:
            with trace.TraceRecorder():
                scheduler.execute(graph, values)
        else:
            scheduler.execute(graph, values)

    def work() -> None:
        nonlocal places
        while True:
            injection = Injection(error, 1 + places * step)
            injection.around(call)
            if not injection.came:
                return
            places += 1
            values: list[str] = []
            scheduler.execute(graph, values)
            assert len(values) == len(graph.tasks)
            eventually(lambda: is_idle(scheduler))
            assert scheduler.bypass.call is None
            assert not trace.recorders

    in_time(work)
    assert places > 100 / step


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
@pytest.mark.parametrize("shape", ["alone", "mixed", "wide"])
def test_an_exception_at_a_bytecode_leaves_nothing_behind(shape: str, error: type[BaseException]) -> None:
    walk(shape, error, STEP * (1 if error is KeyboardInterrupt else 7))


def test_an_exception_at_a_bytecode_of_a_recorded_call_leaves_nothing_behind() -> None:
    walk("mixed", KeyboardInterrupt, 7 * STEP, recorded=True)


@pytest.mark.parametrize("error", [pytest.param(e, marks=pytest.mark.slow) for e in (KeyboardInterrupt, MemoryError)])
@pytest.mark.parametrize("shape", ["alone", "mixed", "wide"])
def test_an_exception_at_every_bytecode_leaves_nothing_behind(shape: str, error: type[BaseException]) -> None:
    walk(shape, error, 1)


STORM = """
import os, signal, threading, time, torch, fpga_dynamo
w = torch.randn(64, 64) / 8
def function(x):
    y = torch.relu(x @ w)
    return torch.relu(torch.special.bessel_j0(y) @ w)
compiled = torch.compile(function, backend="fpga", options={"partition": "greedy"})
x = torch.randn(32, 64)
with torch.no_grad():
    expected = function(x)
    compiled(x), compiled(x)
    over = False
    def storm():
        pause = 1e-4
        while not over:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(pause)
            pause = 1e-4 + (pause * 7.3) % 3e-3
    caught = armed = 0
    def interrupt(*_):  # not while the loop below counts
        global armed
        if armed:
            armed = 0
            raise KeyboardInterrupt
    signal.signal(signal.SIGINT, interrupt)
    def step():
        global armed
        armed = 1
        with fpga_dynamo.trace():
            compiled(x)
        compiled(x)
        armed = 0
    thread = threading.Thread(target=storm, daemon=True)
    thread.start()
    while caught < 600:
        try:
            step()
        except KeyboardInterrupt:
            caught += 1
    armed, over = 0, True
    torch.testing.assert_close(compiled(x), expected, rtol=1e-4, atol=1e-4)
print("whole")
"""


@pytest.mark.parametrize("attempt", [pytest.param(i, marks=pytest.mark.slow) for i in range(3)])
def test_a_storm_of_interrupts(attempt: int) -> None:
    done = subprocess.run([sys.executable, "-c", STORM], capture_output=True, text=True, timeout=600)
    assert done.stdout.split() == ["whole"], done.stderr[-3000:]
