"""One execution of a task graph while the scheduler has it, and how the thread that asked for it takes part.

What a flight and a worker hold in `inbox`, and which tasks are `done`, is written by one assignment each: all else can
be made from it again (see `Scheduler._repair`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from fpga_dynamo.runtime.scheduling.dispatch import Occupation
from fpga_dynamo.runtime.task import Frame, ReadyTask, TaskGraph
from fpga_dynamo.runtime.torch_state import TorchState

HAND_OVER = 200e-6
"""Seconds that must be gained by giving a task to another thread than its frame's caller.

Waking a thread takes tens of microseconds. Then both threads want the interpreter between any two operators, and who
asks for it may wait until the other one's switch interval is over: milliseconds, for tasks of microseconds.
"""


def taken_lock() -> threading.Lock:
    """What a thread parks at, until another one releases it."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class Flight(Frame):
    """A frame in flight, and how its caller takes part. Guarded by the scheduler's critical section."""

    __slots__ = (
        "busy_until",
        "done",
        "first_start",
        "generation",
        "helping",
        "inbox",
        "kept",
        "running",
        "torch_state",
        "wake",
    )
    torch_state: TorchState  # the caller's, set unless the caller is sure to run all tasks itself
    wake: threading.Lock | None  # taken while the caller waits; whoever is woken looks why

    def __init__(self, graph: TaskGraph, values: Any, arrival: float, generation: int) -> None:
        super().__init__(graph, values, arrival)
        self.generation = generation
        self.helping = False  # whether the caller runs the frame's next task
        self.kept: list[ReadyTask] = []  # ready, but not yet worth another thread: no policy has seen them
        self.busy_until = arrival  # when the caller is expected to be done with the task that it has
        self.inbox: tuple[Occupation, ReadyTask] | None = None  # what the caller is to run, until it is accounted for
        self.wake = None
        self.done = bytearray(self.tasks_left)  # 1 for each task that is done
        self.running = 0  # started and not completed tasks
        self.first_start: float | None = None

    @property
    def over(self) -> bool:
        return self.running == 0 and (self.tasks_left == 0 or self.error is not None)

    def rouse(self) -> None:
        """Has the caller look again, if it waits."""
        if self.wake is not None and self.wake.locked():
            self.wake.release()

    def restore(self, executing: set[int]) -> list[ReadyTask]:
        """Counts again what is done; returns the tasks that can be started, apart from those that some thread has."""
        tasks = self.graph.tasks
        self.running = len(executing)
        self.kept = []
        self.tasks_left = len(tasks) - sum(self.done)
        if self.dependencies_left is not None:
            self.dependencies_left = [sum(not self.done[d] for d in task.dependencies) for task in tasks]
        if self.error is not None:
            return []
        left = self.dependencies_left or [0] * len(tasks)
        free = [i for i, count in enumerate(left) if not count and not self.done[i] and i not in executing]
        return [ReadyTask(self, i) for i in free]

    def offers(self, now: float, expected: Callable[[ReadyTask], float]) -> list[ReadyTask]:
        """Takes those out of `kept` that a policy is to see now; `expected` gives the seconds that a task takes.

        That is one task if the caller can run it, and all by which another thread would gain: as much as the caller
        keeps them waiting, but no more than they and what follows them take.
        """
        if not self.kept or (self.helping and len(self.kept) == 1):
            offers, self.kept = self.kept, []
            return offers
        free, wait = self.helping, abs(self.busy_until - now)  # who is late is expected to be as late again
        kept: list[ReadyTask] = []
        offers = []
        for item in self.kept:
            if free:
                free, wait = False, expected(item)
            elif wait < HAND_OVER or max(expected(item), item.rank) < HAND_OVER:
                kept.append(item)
                continue
            offers.append(item)
        self.kept = kept
        return offers
