"""An application as the runtime's scheduler takes it: a graph of tasks that do something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from time import sleep

from fpga_dynamo.runtime.application import Application, ApplicationTask
from fpga_dynamo.runtime.task import Frame, ProcessingElement, Task, TaskGraph
from fpga_dynamo.tools.soc.system import System


def can_run(application: Application) -> bool:
    """Whether its tasks have something to do, not only costs."""
    return all(task.has_code for task in application.tasks)


def task_graph(
    system: System, application: Application, paced: bool = True, extra: float = 0.0, deadline: float = inf
) -> TaskGraph:
    """paced: tasks only wait as long as they should take. extra: seconds that each task is said to take longer.

    deadline: seconds from the arrival of an instance by which it should end.
    """
    compiled = system.compiled(application)
    of = {unit.kind: unit.of for unit in system.units}
    tasks = []
    for index, task in enumerate(application.tasks):
        costs, transfers = {}, {}
        for unit, cost, moved in zip(system.units, compiled.stated[index], compiled.fixed[index], strict=True):
            if cost >= 0:
                costs[unit.kind] = cost + extra
                if moved:
                    transfers[unit.kind] = moved
        if paced or not task.has_code:
            run = pace({kind: cost + transfers.get(kind, 0.0) for kind, cost in costs.items()})
        else:
            run = _work(index, task, of)
        dependencies = tuple(edge.task for edge in task.dependencies)
        tasks.append(Task(task.name, costs, run, dependencies, transfers))
    return TaskGraph(application.name, tasks, application.name, deadline)


def pace(seconds: Mapping[str, float]) -> Callable[[ProcessingElement, Frame], None]:
    """A task that waits, by the type of its processing element."""

    def run(pe: ProcessingElement, frame: Frame) -> None:
        sleep(seconds[pe.resource])

    return run


def _work(index: int, task: ApplicationTask, of: Mapping[str, str]) -> Callable[[ProcessingElement, Frame], None]:
    work = task.run
    before = [edge.task for edge in task.dependencies]

    def run(pe: ProcessingElement, frame: Frame) -> None:
        frame.values[index] = work(of[pe.resource], *(frame.values[other] for other in before))

    return run
