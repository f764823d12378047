"""Processing elements and tasks that several tests use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from fpga_dynamo.runtime.scheduling.policies import Assignment
from fpga_dynamo.runtime.scheduling.scheduler import Scheduler
from fpga_dynamo.runtime.task import Frame, ProcessingElement, ReadyTask, Task, TaskGraph

PATIENCE = 20
"""Seconds until a test gives up on another thread."""


def threads_of(scheduler: Scheduler) -> list[threading.Thread]:
    """The threads that the scheduler has made for its PEs."""
    names = {f"fpga_dynamo {pe.name}" for pe in scheduler.pes}
    return [thread for thread in threading.enumerate() if thread.name in names]


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def host(index: int = 0, name: str | None = None) -> ProcessingElement:
    return ProcessingElement(name or f"PS{index}", "PS", index=index)


def unit(kernel: str, index: int = 0) -> ProcessingElement:
    return ProcessingElement(f"{kernel}_{index + 1}", "PL", kernel, index)


def nothing(pe: ProcessingElement, frame: Frame) -> None:
    pass


def ready(name: str, costs: Mapping[str, float], arrival: float = 0.0, **task: object) -> ReadyTask:
    """A one-task frame's task, ready."""
    graph = TaskGraph(name, [Task(name, costs, nothing, **task)])  # type: ignore[arg-type]
    return Frame(graph, None, arrival).roots()[0]


def named(assignments: Sequence[Assignment]) -> list[tuple[str, str]]:
    return [(item.task.name, pe.name) for item, pe in assignments]


def single(run: Callable[[ProcessingElement, Frame], None], *resources: str, name: str = "single") -> TaskGraph:
    return TaskGraph(name, [Task("launch", dict.fromkeys(resources, 1e-3), run)])


def topcuoglu() -> tuple[TaskGraph, list[ProcessingElement]]:
    """The ten tasks and three processors of Topcuoglu et al. (2002), figure 2, without the edges' communication."""
    costs = [
        (14, 16, 9), (13, 19, 18), (11, 13, 19), (13, 8, 17), (12, 13, 10),
        (13, 16, 9), (7, 15, 11), (5, 11, 14), (18, 12, 20), (21, 7, 16),
    ]  # fmt: skip
    dependencies = [(), (0,), (0,), (0,), (0,), (0,), (2,), (1, 3, 5), (1, 3, 4), (6, 7, 8)]
    tasks = [
        Task(f"T{number}", dict(zip(("p1", "p2", "p3"), map(float, row), strict=True)), nothing, before)
        for number, (row, before) in enumerate(zip(costs, dependencies, strict=True), start=1)
    ]
    return TaskGraph("topcuoglu", tasks), [ProcessingElement(name, "PL", name) for name in ("p1", "p2", "p3")]
