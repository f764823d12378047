"""The run-time scheduler: executes task graphs of many callers on the processing elements (PEs) of one system.

A PE runs one task at a time; who serves it while it does is a separate matter. The caller of `execute` serves PEs with
tasks of its own frame while it waits, so that a graph of one task runs in the caller's thread without a hand-over.
What runs beside that is given to threads that belong to PEs, made when first needed. A policy sees a task when somebody
could run it: short tasks of a frame (see `flight.HAND_OVER`) come before it one by one, as the caller can take them.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable
from functools import partial
from time import perf_counter
from typing import Any

from fpga_dynamo._native import bypass
from fpga_dynamo.runtime.observe import trace
from fpga_dynamo.runtime.scheduling.dispatch import Dispatcher, Slot
from fpga_dynamo.runtime.scheduling.flight import Flight, taken_lock
from fpga_dynamo.runtime.scheduling.policies import Policy, make_policy
from fpga_dynamo.runtime.task import Frame, ProcessingElement, ReadyTask, SchedulerError, Task, TaskGraph
from fpga_dynamo.runtime.torch_state import TorchState, profiler_range
from fpga_dynamo.torch_internals.tensors import profiling

_schedulers: weakref.WeakSet[Scheduler] = weakref.WeakSet()


class _Worker:
    """A thread that serves a PE when no caller does; `inbox` None asks it to end."""

    __slots__ = ("inbox", "wake")

    def __init__(self, name: str) -> None:
        self.inbox: tuple[Scheduler, Slot, ReadyTask] | None = None
        self.wake = taken_lock()
        threading.Thread(target=_serve, args=(self,), name=f"fpga_dynamo {name}", daemon=True).start()


def _serve(worker: _Worker) -> None:
    # A module function: a parked thread must not keep its scheduler alive.
    while True:
        worker.wake.acquire()
        if worker.inbox is None:
            return
        scheduler, slot, item = worker.inbox
        worker.inbox = None
        scheduler._run(slot, item, worker)
        del scheduler, slot, item


def _dismiss(idle: dict[ProcessingElement, list[_Worker]]) -> None:
    for workers in idle.values():
        while workers:
            workers.pop().wake.release()


class Scheduler:
    """Executes task graphs on `pes` as `policy` (a name or an object) says; callable from any number of threads.

    After a fork the child's scheduler starts afresh, with no task in flight.
    """

    def __init__(self, pes: Iterable[ProcessingElement], policy: str | Policy = "adaptive") -> None:
        self._dispatcher = Dispatcher(pes, make_policy(policy))
        self._lock = threading.Lock()
        self._idle: dict[ProcessingElement, list[_Worker]] = {pe: [] for pe in self.pes}
        self._generation = 0  # counts forks
        self._closed = False
        self.bypass = bypass()
        """By which direct calls (see direct.py) run a task while the scheduler has nothing to decide."""
        self._finalizer = weakref.finalize(self, _dismiss, self._idle)
        self._finalizer.atexit = False
        _schedulers.add(self)

    @property
    def pes(self) -> tuple[ProcessingElement, ...]:
        return self._dispatcher.pes

    @property
    def policy(self) -> Policy:
        return self._dispatcher.policy

    def close(self) -> None:
        """End the idle threads and refuse further graphs; frames in flight end normally."""
        with self._lock:
            self._closed = True
            self.bypass.enter()  # forever
            _dismiss(self._idle)

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def execute(self, graph: TaskGraph, values: Any = None) -> None:
        """Run all tasks of `graph` on one frame with `values`; returns when they are done.

        What a task raises ends the frame: no further task of it starts, and as soon as those that run are done the
        exception is raised here. SchedulerError if no PE supports a task.
        """
        self.bypass.enter()
        try:
            self._execute(graph, values)
        finally:
            self.bypass.leave()

    def observe(self, task: Task, pe: ProcessingElement, seconds: Iterable[float]) -> None:
        """Tells the policy what `task` took when direct calls ran it on `pe`."""
        with self._lock:
            for value in seconds:
                self._dispatcher.policy.observe(task, pe, value)

    def _execute(self, graph: TaskGraph, values: Any) -> None:
        arrival = perf_counter()
        flight = Flight(graph, values, arrival, self._generation)
        alone = len(graph.tasks) == 1 and not (trace.recorders or profiling())
        if not alone:
            flight.torch_state = TorchState.capture()
        slot: Slot | None = None
        try:
            with self._lock:
                if self._closed:
                    raise SchedulerError("the scheduler is closed: make a new one")
                dispatcher = self._dispatcher
                dispatcher.check(graph)
                self._adopt()
                if alone and not dispatcher.ready:
                    item = ReadyTask(flight, 0)
                    slot = dispatcher.offer(item, arrival)
                    flight.inbox = None if slot is None else (slot, item)
                    flight.helping = slot is None
                else:
                    flight.helping = True
                    flight.kept = flight.roots()
                    self._offer(flight, arrival)
            if slot is not None:
                self._run_in_place(slot, item, flight)
            else:
                self._await(flight)
        except BaseException as error:
            with self._lock:
                self._abort(flight, error)
            raise

    def _adopt(self) -> None:
        """Enter the direct call that runs, if there is one, into the books: its PE is busy until it ends."""
        call = self.bypass.call
        if call is None:
            return
        (graph, pe, *_), started = call
        slot, item = self._dispatcher.slots[pe], ReadyTask(Frame(graph, None, started), 0)
        if self.bypass.adopt(partial(self._end_adopted, slot, item)):
            self._dispatcher.occupy(slot, item, started)

    def _end_adopted(self, slot: Slot, item: ReadyTask) -> None:
        now = perf_counter()
        with self._lock:
            if self._dispatcher.release(slot, item, now):
                self._hand_over(slot)
            self._advance(now)

    def _run_in_place(self, slot: Slot, item: ReadyTask, flight: Flight) -> None:
        """Run the frame's only task in the calling thread, with nothing between the task and its caller."""
        item.thread = threading.get_ident()
        pe, task = slot.pe, item.task
        started = perf_counter()
        task.run(pe, flight)
        stopped = perf_counter()
        with self._lock:
            dispatcher = self._dispatcher
            dispatcher.policy.observe(task, pe, stopped - started)
            flight.inbox = None
            if dispatcher.release(slot, item, stopped):
                self._hand_over(slot)
            if dispatcher.ready:
                self._advance(stopped)

    def _abort(self, flight: Flight, error: BaseException) -> None:
        """Free what the frame still holds after an exception that left `execute`, be it from a signal handler."""
        now = perf_counter()
        self._fail(flight, error)
        if flight.over:
            flight.error = None  # its traceback refers to the frame: this cycle would keep the frame's values alive
        inbox, flight.inbox = flight.inbox, None
        if inbox is not None:
            slot, item = inbox
            if self._dispatcher.release(slot, item, now):
                self._hand_over(slot)
            self._advance(now)

    def _await(self, flight: Flight) -> None:
        """Serve the frame's tasks and wait for those that others serve, until the frame is over."""
        try:
            self._help(flight)
        except BaseException as interrupt:  # an exception from a signal handler; tasks' own are in flight.error
            with self._lock:
                flight.wake, flight.parked = taken_lock(), False
                self._fail(flight, interrupt)
            self._help(flight)  # running tasks still use the frame's values
            raise
        if trace.recorders:
            trace.application(flight, flight.first_start, perf_counter(), self.pes)
        if flight.error is not None:
            raise flight.error

    def _help(self, flight: Flight) -> None:
        while True:
            if flight.inbox is not None:
                self._run(*flight.inbox)
                continue
            with self._lock:
                if flight.generation != self._generation and flight.tasks_left:
                    flight.error = SchedulerError(
                        f"the process forked while {flight.graph.name!r} ran: its other tasks are in the parent process"
                    )
                    return
                if flight.inbox is None and not flight.over:
                    flight.helping = True
                    self._lend()
                if flight.inbox is not None:
                    continue
                if flight.over:
                    return
                if not flight.parked:
                    flight.wake, flight.parked = taken_lock(), True
            flight.wake.acquire()

    def _lend(self) -> None:
        """Free the PEs that this thread holds, for it is about to wait inside a task, perhaps for those very PEs.

        Only a task that itself executes a graph comes here holding a PE; it goes on without it afterwards.
        """
        thread = threading.get_ident()
        held = [slot for slot in self._dispatcher.busy if slot.running is not None and slot.running.thread == thread]
        for slot in held:
            assert slot.running is not None
            if self._dispatcher.release(slot, slot.running, perf_counter()):
                self._hand_over(slot)
        if held:
            self._advance(perf_counter())

    def _run(self, slot: Slot, item: ReadyTask, worker: _Worker | None = None) -> None:
        """Run `item` on `slot`'s PE, as `worker` or as the frame's caller, and account for it."""
        flight, task = item.frame, item.task
        assert isinstance(flight, Flight)
        item.thread = threading.get_ident()
        error: BaseException | None = None
        started: float | None = None
        if flight.error is None:
            started = perf_counter()
            try:
                if worker is None and not profiling():
                    task.run(slot.pe, flight)
                elif worker is None:
                    with profiler_range(task.name):
                        task.run(slot.pe, flight)
                else:
                    with flight.torch_state.applied(), profiler_range(task.name):
                        task.run(slot.pe, flight)
            except BaseException as caught:
                error = caught
        stopped = perf_counter()
        with self._lock:
            if worker is None:
                flight.inbox = None  # kept until here: after an interrupt it tells what the frame holds
                flight.helping = True
            elif self._closed:
                worker.wake.release()
            else:
                self._idle[slot.pe].append(worker)
            self._complete(slot, item, started, stopped, error)
        del error

    def _complete(
        self, slot: Slot, item: ReadyTask, started: float | None, stopped: float, error: BaseException | None
    ) -> None:
        dispatcher, flight = self._dispatcher, item.frame
        assert isinstance(flight, Flight)
        flight.running -= 1
        if dispatcher.release(slot, item, stopped):
            self._hand_over(slot)
        if started is not None:
            flight.first_start = min(started, flight.first_start or started)
            if trace.recorders:
                trace.task(item, slot.pe, started, stopped)
        if error is not None:
            self._fail(flight, error)
        elif flight.error is None:
            try:
                dispatcher.policy.observe(item.task, slot.pe, stopped - (started or stopped))
            except Exception as fault:
                self._fail(flight, fault)
            flight.graph.lasted(item.index, stopped - (started or stopped))
            flight.kept += flight.finish(item.index)
            if flight.generation != self._generation:
                flight.kept.clear()
        if flight.tasks_left == 0:
            dispatcher.policy.leave(flight)
        self._offer(flight, stopped)
        self._wake_if_due(flight)

    def _offer(self, flight: Flight, now: float) -> None:
        """Put what can be run of the frame's ready tasks before the policy, and have it assign them.

        While what it was shown leaves the caller idle, it is shown more.
        """
        while True:
            try:
                offers = flight.offers(now, self._expected)
            except Exception as error:  # the policy's fault
                self._fail(flight, error)
                offers = []
            if len(offers) == 1:
                self._propose(flight, offers[0], now)
            else:
                self._dispatcher.ready.update(dict.fromkeys(offers))
                self._advance(now)
            if not (flight.helping and flight.kept):
                return

    def _expected(self, item: ReadyTask) -> float:
        """Seconds that a task takes, as the policy or the last runs say, whichever is more."""
        stated = min(self._dispatcher.policy.estimates(item.task).values(), default=0.0)  # none: refused when assigned
        return max(stated, item.frame.graph.durations[item.index])

    def _propose(self, flight: Flight, item: ReadyTask, now: float) -> None:
        """Have the policy assign `item` and what else is ready."""
        dispatcher = self._dispatcher
        if dispatcher.ready or trace.recorders:
            dispatcher.ready[item] = None
            self._advance(now)
            return
        try:
            slot = dispatcher.offer(item, now)
        except Exception as error:
            self._fail(flight, error)
        else:
            if slot is not None:
                self._hand_over(slot)

    def _advance(self, now: float) -> None:
        """Have the policy assign what is ready, and hand over what starts."""
        dispatcher = self._dispatcher
        waiting = len(dispatcher.ready)
        if not waiting:
            return
        begun = perf_counter() if trace.recorders else 0.0
        try:
            started = dispatcher.decide(now)
        except Exception as error:  # the policy's fault: nobody could run these tasks, so their frames end
            for frame in {item.frame for item in dispatcher.ready}:
                assert isinstance(frame, Flight)
                self._fail(frame, error)
            return
        if trace.recorders and begun:
            assigned = waiting - len(dispatcher.ready)
            trace.decision(begun, dispatcher.policy.name, waiting, assigned, perf_counter() - begun)
        for slot in started:
            self._hand_over(slot)

    def _hand_over(self, slot: Slot) -> None:
        """Give a task that just started to its frame's caller if that one waits, else to a thread of the PE."""
        item = slot.running
        assert item is not None
        flight = item.frame
        assert isinstance(flight, Flight)
        flight.running += 1
        if flight.helping:
            flight.helping = False
            flight.inbox = slot, item
            flight.busy_until = slot.expected_end
            self._unpark(flight)
            return
        idle = self._idle[slot.pe]
        # A thread of the PE may be blocked in a task that lent the PE out; then this makes another one.
        try:
            worker = idle.pop() if idle else _Worker(slot.pe.name)
        except RuntimeError as error:  # no more threads: the system's limit, or the interpreter is about to end
            flight.running -= 1
            if self._dispatcher.release(slot, item, perf_counter()):
                self._hand_over(slot)
            self._fail(flight, error)
            self._advance(perf_counter())
            return
        worker.inbox = (self, slot, item)
        worker.wake.release()

    def _fail(self, flight: Flight, error: BaseException) -> None:
        if flight.error is None:
            flight.error = error
            flight.kept.clear()
            self._dispatcher.drop(flight)
        self._wake_if_due(flight)

    def _wake_if_due(self, flight: Flight) -> None:
        if flight.over:
            self._unpark(flight)

    @staticmethod
    def _unpark(flight: Flight) -> None:
        if flight.parked:
            flight.parked = False
            flight.wake.release()

    def _restart_in_child(self) -> None:
        """The threads, and whoever held the lock, did not come along: begin anew."""
        self._lock = threading.Lock()
        self._generation += 1
        self.bypass.reset()
        self._dispatcher.abandon()
        self._dispatcher = Dispatcher(self._dispatcher.pes, self._dispatcher.policy)
        self._idle.update({pe: [] for pe in self.pes})


def _after_fork() -> None:
    for scheduler in list(_schedulers):
        scheduler._restart_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
