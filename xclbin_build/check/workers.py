"""Checks functions in parallel processes: half of the time is clang's, the other half is Python's."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from ..errors import BuildError
from ..hls.processes import Process
from ..hls.translation import Compiled
from .inlining import check_function
from .loops import Check

PROCESSORS = os.cpu_count() or 1


@dataclass(frozen=True)
class CheckTask:
    """A function of a source that clang has read. memories, inferred: as for `loops.check`. vitis: the version whose
    rules count, "" for the newest."""

    unit: Compiled
    process: Process
    clock_ns: float
    part: str
    memories: bool
    inferred: bool
    vitis: str = ""

    def run(self) -> Check | str:
        """The result, or the reason why the function could not be checked."""
        try:
            return check_function(
                self.unit, self.process, clock_ns=self.clock_ns, part=self.part, memories=self.memories,
                inferred=self.inferred, vitis=self.vitis,
            )  # fmt: skip
        except BuildError as error:
            return str(error)


_tasks: Sequence[CheckTask] = ()
"""All tasks, in a worker process: it inherits them, because the IR of a source may have tens of megabytes."""


def run_tasks(tasks: Sequence[CheckTask]) -> list[Check | str]:
    """The result of each task, in the order of the tasks."""
    if len(tasks) < 2 or PROCESSORS < 2:
        return [task.run() for task in tasks]
    # Large sources first: one of them alone at the end would leave the other processors idle.
    order = sorted(range(len(tasks)), key=lambda n: -len(tasks[n].unit.raw))
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(PROCESSORS, context, initializer=_inherit, initargs=(tasks,)) as pool:
        found = dict(zip(order, pool.map(_run, order), strict=True))
    return [found[number] for number in range(len(tasks))]


def _inherit(tasks: Sequence[CheckTask]) -> None:
    global _tasks
    _tasks = tasks


def _run(number: int) -> Check | str:
    return _tasks[number].run()
