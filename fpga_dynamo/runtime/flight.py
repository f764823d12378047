"""One execution of a task graph while the scheduler has it, and how the thread that asked for it takes part."""

from __future__ import annotations

import threading
from typing import Any

from .dispatch import Slot
from .task import Frame, TaskGraph
from .torch_state import TorchState


def taken_lock() -> threading.Lock:
    """What a thread parks at, until another one releases it."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class Flight(Frame):
    """A frame in flight, and how its caller takes part. All but `wake` is guarded by the scheduler's lock."""

    __slots__ = ("first_start", "generation", "helping", "inbox", "parked", "running", "torch_state", "wake")
    torch_state: TorchState  # the caller's, set unless the caller is sure to run all tasks itself
    wake: threading.Lock  # taken; released once for each time that `parked` is reset

    def __init__(self, graph: TaskGraph, values: Any, arrival: float, generation: int) -> None:
        super().__init__(graph, values, arrival)
        self.generation = generation
        self.helping = False  # the caller takes the frame's next task
        self.inbox: Slot | None = None  # the slot that the caller is to serve
        self.parked = False  # the caller waits for `wake`
        self.running = 0  # started and not completed tasks
        self.first_start: float | None = None

    @property
    def over(self) -> bool:
        return self.running == 0 and (self.tasks_left == 0 or self.error is not None)
