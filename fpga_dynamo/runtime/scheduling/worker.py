"""Threads that serve processing elements when no caller does."""

from __future__ import annotations

import threading
from typing import Protocol

from fpga_dynamo._native import repeat
from fpga_dynamo.runtime.scheduling.dispatch import Occupation
from fpga_dynamo.runtime.scheduling.flight import taken_lock
from fpga_dynamo.runtime.task import ProcessingElement, ReadyTask


class Employer(Protocol):
    """A scheduler, as far as its workers know it."""

    def run_as(self, worker: Worker, slot: Occupation, item: ReadyTask) -> None: ...
    def worker_failed(self, worker: Worker, error: BaseException) -> None: ...


class Worker:
    """A thread that serves `pe`. Between tasks it has no reference to a scheduler, whose end it must not delay.

    inbox: the task that it has been given, until the task is accounted for.
    """

    __slots__ = ("_start", "dismissed", "inbox", "pe", "started", "wake")

    def __init__(self, pe: ProcessingElement) -> None:
        self.pe = pe
        self.inbox: tuple[Employer, Occupation, ReadyTask] | None = None
        self.wake = taken_lock()
        self.dismissed = False
        self.started = False
        self._start = [True]  # a list, as pop() is one step: either the thread begins, or it is called off

    def start(self) -> None:
        """Raises RuntimeError if the system has no more threads."""
        # The loop is native code, which no exception leaves.
        name = f"fpga_dynamo {self.pe.name}"
        threading.Thread(target=repeat, args=(_serve, _fail, self), name=name, daemon=True).start()

    def rouse(self) -> None:
        """Has the thread look into its inbox."""
        if self.wake.locked():
            self.wake.release()

    def dismiss(self) -> None:
        """Ends the thread as soon as it has nothing to do."""
        self.dismissed = True
        self.rouse()

    def calls_off(self) -> bool:
        """Whether the thread has not begun; then it never will."""
        return self._claims()

    def begins(self) -> bool:
        """Called by the thread: whether it is wanted."""
        self.started = self.started or self._claims()
        return self.started

    def _claims(self) -> bool:
        try:
            return self._start.pop()
        except IndexError:
            return False


def _serve(worker: Worker) -> bool:
    if not worker.begins():
        return False
    worker.wake.acquire()
    if worker.inbox is None:
        return not worker.dismissed
    scheduler, slot, item = worker.inbox
    scheduler.run_as(worker, slot, item)
    return True


def _fail(worker: Worker, error: BaseException) -> None:
    if worker.inbox is not None:
        worker.inbox[0].worker_failed(worker, error)
