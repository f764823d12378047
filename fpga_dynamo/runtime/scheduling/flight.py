"""One execution of a task graph while the scheduler has it, and how the thread that asked for it takes part."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from fpga_dynamo.runtime.scheduling.dispatch import Slot
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
    """A frame in flight, and how its caller takes part. All but `wake` is guarded by the scheduler's lock."""

    __slots__ = (
        "busy_until",
        "first_start",
        "generation",
        "helping",
        "inbox",
        "kept",
        "parked",
        "running",
        "torch_state",
        "wake",
    )
    torch_state: TorchState  # the caller's, set unless the caller is sure to run all tasks itself
    wake: threading.Lock  # taken; released once for each time that `parked` is reset

    def __init__(self, graph: TaskGraph, values: Any, arrival: float, generation: int) -> None:
        super().__init__(graph, values, arrival)
        self.generation = generation
        self.helping = False  # the caller takes the frame's next task
        self.kept: list[ReadyTask] = []  # ready, but not yet worth another thread: no policy has seen them
        self.busy_until = arrival  # when the caller is expected to be done with the task that it has
        self.inbox: tuple[Slot, ReadyTask] | None = None  # what the caller is to run, until it is accounted for
        self.parked = False  # the caller waits for `wake`
        self.running = 0  # started and not completed tasks
        self.first_start: float | None = None

    @property
    def over(self) -> bool:
        return self.running == 0 and (self.tasks_left == 0 or self.error is not None)

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
