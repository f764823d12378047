"""The run-time scheduler: executes task graphs of many callers on the processing elements (PEs) of one system.

A PE runs one task at a time; who serves it while it does is a separate matter. The caller of `execute` serves PEs with
tasks of its own frame while it waits, so that a graph of one task runs in the caller's thread without a hand-over.
What runs beside that is given to threads that belong to PEs, made when first needed. A policy sees a task when somebody
could run it: short tasks of a frame (see `flight.HAND_OVER`) come before it one by one, when the caller can run them.

An exception can end a call between any two bytecodes. So all state changes in a native critical section; after an
exception inside, `_repair` makes it again from what is written by one assignment each: who has which task in the inbox,
and which tasks are done. A caller's departure is noticed by native code, too.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from fpga_dynamo._native import bypass, critical_section, run_frame
from fpga_dynamo.runtime.observe import trace
from fpga_dynamo.runtime.observe.events import DecisionEvent
from fpga_dynamo.runtime.scheduling.dispatch import Dispatcher, Occupation
from fpga_dynamo.runtime.scheduling.flight import Flight, taken_lock
from fpga_dynamo.runtime.scheduling.policies import Assignment, Policy, make_policy
from fpga_dynamo.runtime.scheduling.worker import Worker
from fpga_dynamo.runtime.task import Frame, ProcessingElement, ReadyTask, SchedulerError, Task, TaskGraph
from fpga_dynamo.runtime.torch_state import TorchState, profiler_range
from fpga_dynamo.torch_internals.tensors import profiling

_schedulers: weakref.WeakSet[Scheduler] = weakref.WeakSet()
_LEFT = SchedulerError("the caller of this graph was interrupted")


def _dismiss(idle: dict[ProcessingElement, list[Worker]]) -> None:
    for workers in idle.values():
        while workers:
            workers.pop().dismiss()


class Scheduler:
    """Executes task graphs on `pes` as `policy` (a name or an object) says; callable from any number of threads.

    After a fork the child's scheduler starts afresh, with no task in flight.
    """

    def __init__(self, pes: Iterable[ProcessingElement], policy: str | Policy = "adaptive") -> None:
        self._dispatcher = Dispatcher(pes, make_policy(policy))
        self._section = critical_section(weakref.WeakMethod(self._repair))
        self._flights: dict[Flight, None] = {}
        self._workers: dict[Worker, None] = {}
        self._adopted: tuple[Occupation, ReadyTask] | None = None  # the direct call in the books
        self._idle: dict[ProcessingElement, list[Worker]] = {pe: [] for pe in self.pes}
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

    def add(self, wanted: ProcessingElement) -> ProcessingElement:
        """One more PE: `wanted`, or one like it with another name if a PE has that name already."""
        return self._section(self._add, wanted)

    def _add(self, wanted: ProcessingElement) -> ProcessingElement:
        names = {pe.name for pe in self.pes}
        own = (f"{wanted.name}@{number}" for number in itertools.count(2))
        name = wanted.name if wanted.name not in names else next(name for name in own if name not in names)
        pe = wanted if name == wanted.name else replace(wanted, name=name)
        self._idle[pe] = []
        self._dispatcher.add(pe)
        return pe

    def close(self) -> None:
        """End the idle threads and refuse further graphs; frames in flight end normally."""
        self._section(self._close)

    def _close(self) -> None:
        if not self._closed:
            self.bypass.enter()  # forever
        self._closed = True
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
        if self._closed:
            raise SchedulerError("the scheduler is closed: make a new one")
        self._dispatcher.check(graph)
        flight = Flight(graph, values, perf_counter(), self._generation)
        run_frame(self.bypass, self._fly, self._leave, flight)

    def observe(self, task: Task, pe: ProcessingElement, seconds: Iterable[float]) -> None:
        """Tells the policy what `task` took when direct calls ran it on `pe`."""
        self._section(self._observe, task, pe, seconds)

    def _observe(self, task: Task, pe: ProcessingElement, seconds: Iterable[float]) -> None:
        for value in seconds:
            self._dispatcher.policy.observe(task, pe, value)

    def _fly(self, flight: Flight) -> None:
        if len(flight.graph.tasks) == 1 and not (trace.recorders or profiling()):
            if self._section(self._begin_alone, flight):
                assert flight.inbox is not None
                self._run_in_place(*flight.inbox)
                return
        else:
            flight.torch_state = TorchState.capture()
            self._section(self._begin, flight)
        self._await(flight)

    def _begin(self, flight: Flight) -> None:
        self._adopt()
        self._flights[flight] = None
        flight.helping = True
        flight.kept = flight.roots()
        self._offer(flight, flight.arrival)
        self._settle(flight)

    def _begin_alone(self, flight: Flight) -> bool:
        """Whether the frame's only task is to run in the calling thread at once."""
        dispatcher = self._dispatcher
        if dispatcher.ready:
            self._begin(flight)
            return False
        self._adopt()
        self._flights[flight] = None
        item = ReadyTask(flight, 0)
        try:
            placed = dispatcher.place(item, flight.arrival)
        except Exception as error:  # the policy's fault
            self._fail(flight, error)
            return False
        if isinstance(placed, Occupation):
            flight.inbox = placed, item
            dispatcher.start(placed, item, flight.arrival)
            return True
        flight.helping = True
        self._carry_out_alone(item, placed, flight.arrival)
        return False

    def _carry_out_alone(self, item: ReadyTask, assignments: Sequence[Assignment], now: float) -> None:
        self._dispatcher.ready[item] = None
        for slot in self._dispatcher.carry_out(assignments, now):
            self._hand_over(slot)

    def _adopt(self) -> None:
        """Enter the direct call that runs, if there is one, into the books: its PE is busy until it ends."""
        call = self.bypass.call
        if call is None or self.bypass.adopted:
            return
        (graph, pe, *_), started = call
        slot, item = self._dispatcher.slots[pe], ReadyTask(Frame(graph, None, started), 0)
        self._adopted = slot, item
        if self.bypass.adopt(self._section, self._end_adopted):
            self._dispatcher.occupy(slot, item, started)

    def _end_adopted(self) -> None:
        now = perf_counter()
        if self._adopted is not None and self._dispatcher.release(*self._adopted, now):
            self._hand_over(self._adopted[0])
        self._adopted = None
        self._advance(now)

    def _run_in_place(self, slot: Occupation, item: ReadyTask) -> None:
        """Run the frame's only task in the calling thread, with nothing between the task and its caller."""
        item.thread = threading.get_ident()
        started = perf_counter()
        item.task.run(slot.pe, item.frame)
        self._section(self._end_alone, slot, item, started, perf_counter())

    def _end_alone(self, slot: Occupation, item: ReadyTask, started: float, stopped: float) -> None:
        dispatcher, flight = self._dispatcher, item.frame
        assert isinstance(flight, Flight)
        flight.done[0] = 1
        flight.inbox = None
        del self._flights[flight]
        if dispatcher.release(slot, item, stopped):
            self._hand_over(slot)
        dispatcher.policy.observe(item.task, slot.pe, stopped - started)
        if dispatcher.ready:
            self._advance(stopped)

    def _leave(self, flight: Flight, error: BaseException) -> None:
        """The caller leaves because of `error`: other threads end what they run of the frame, and start no more."""
        if flight in self._flights:
            self._section(self._withdraw, flight)
        flight.error = _LEFT  # the traceback of another one refers to the frame, and so would keep its values alive

    def _withdraw(self, flight: Flight) -> None:
        flight.error = flight.error or _LEFT
        flight.inbox = None
        self._repair()

    def worker_failed(self, worker: Worker, error: BaseException) -> None:
        """A thread could not run or account for the task in its inbox."""
        self._section(self._give_up, worker, error)

    def _give_up(self, worker: Worker, error: BaseException) -> None:
        if worker.inbox is not None:
            frame = worker.inbox[2].frame
            frame.error = frame.error or error
            worker.inbox = None
            self._repair()

    def _repair(self) -> None:
        """Makes the books again; may itself be interrupted and called again.

        Everything that is not done and that nobody has in the inbox is put before the policy again.
        """
        running: dict[Occupation, ReadyTask] = {}
        executing: dict[Flight, set[int]] = {flight: set() for flight in self._flights}
        for flight in list(executing):
            if flight.inbox is not None:
                if flight.done[flight.inbox[1].index]:
                    flight.inbox = None
                else:
                    self._count(*flight.inbox, running, executing)
        for worker in list(self._workers):
            if worker.calls_off():
                worker.inbox = None
                del self._workers[worker]
            elif worker.inbox is not None:
                _, slot, item = worker.inbox
                assert isinstance(item.frame, Flight)
                if item.frame.done[item.index]:
                    worker.inbox = None
                else:
                    self._count(slot, item, running, executing)
        if self._adopted is not None and self.bypass.adopted:
            running[self._adopted[0]] = self._adopted[1]
        ready = [item for flight, indices in executing.items() for item in flight.restore(indices)]
        for flight in executing:
            flight.helping = flight.inbox is None
            self._settle(flight)
        for pe, idle in self._idle.items():
            idle[:] = [worker for worker in self._workers if worker.pe is pe and worker.inbox is None]
        if self._closed:
            _dismiss(self._idle)
        now = perf_counter()
        self._dispatcher.restore(running, ready, now)
        self._advance(now)
        for flight in executing:
            flight.rouse()
        for worker in self._workers:
            if worker.inbox is not None:
                worker.rouse()

    @staticmethod
    def _count(
        slot: Occupation, item: ReadyTask, running: dict[Occupation, ReadyTask], executing: dict[Flight, set[int]]
    ) -> None:
        assert isinstance(item.frame, Flight)
        executing.setdefault(item.frame, set()).add(item.index)
        if not item.lent:
            running[slot] = item

    def _await(self, flight: Flight) -> None:
        """Serve the frame's tasks and wait for those that others serve, until the frame is over."""
        try:
            self._help(flight)
        except BaseException:  # an exception from a signal handler; tasks' own are in flight.error
            self._section(self._withdraw, flight)
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
            elif self._section(self._is_to_wait, flight):
                assert flight.wake is not None
                flight.wake.acquire()
            elif flight.inbox is None:
                return

    def _is_to_wait(self, flight: Flight) -> bool:
        """Whether the caller has to wait for other threads; else it has a task, or the frame is over."""
        if flight.generation != self._generation and flight.tasks_left:
            flight.error = SchedulerError(
                f"the process forked while {flight.graph.name!r} ran: the remaining tasks run in the parent process"
            )
            return False
        if flight.inbox is None and not flight.over:
            flight.helping = True
            self._lend()
        if flight.inbox is not None or flight.over:
            return False
        flight.wake = flight.wake or taken_lock()
        return True

    def _lend(self) -> None:
        """Free the PEs that this thread holds, for it is about to wait inside a task, perhaps for those very PEs.

        Only a task that itself executes a graph comes here holding a PE; it goes on without it afterwards.
        """
        thread = threading.get_ident()
        held = [slot for slot in self._dispatcher.busy if slot.running is not None and slot.running.thread == thread]
        for slot in held:
            assert slot.running is not None
            slot.running.lent = True
            if self._dispatcher.release(slot, slot.running, perf_counter()):
                self._hand_over(slot)
        if held:
            self._advance(perf_counter())

    def run_as(self, worker: Worker, slot: Occupation, item: ReadyTask) -> None:
        """Called by a worker's thread with what is in its inbox."""
        self._run(slot, item, worker)

    def _run(self, slot: Occupation, item: ReadyTask, worker: Worker | None = None) -> None:
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
        try:
            self._section(self._complete, slot, item, worker, started, stopped, error)
        finally:
            del error

    def _complete(
        self,
        slot: Occupation,
        item: ReadyTask,
        worker: Worker | None,
        started: float | None,
        stopped: float,
        error: BaseException | None,
    ) -> None:
        dispatcher, flight = self._dispatcher, item.frame
        assert isinstance(flight, Flight)
        if error is not None:
            flight.error = flight.error or error
        else:
            flight.done[item.index] = 1
        if worker is None:
            flight.inbox = None
            flight.helping = True
        else:
            worker.inbox = None
            if self._closed:
                worker.dismiss()
            else:
                self._idle[slot.pe].append(worker)
        flight.running -= 1
        if dispatcher.release(slot, item, stopped):
            self._hand_over(slot)
        if started is not None:
            flight.first_start = min(started, flight.first_start or started)
            if trace.recorders:
                trace.task(item, slot.pe, started, stopped)
        if error is not None:
            self._drop(flight)
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
        self._settle(flight)

    def _offer(self, flight: Flight, now: float) -> None:
        """Put what can be run of the frame's ready tasks before the policy, and have it assign them.

        While what it was shown leaves the caller idle, it is shown more.
        """
        while True:
            try:
                offers = flight.offers(now, self._expected_seconds)
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

    def _expected_seconds(self, item: ReadyTask) -> float:
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
            placed = dispatcher.place(item, now)
        except Exception as error:
            self._fail(flight, error)
            return
        if isinstance(placed, Occupation):
            dispatcher.start(placed, item, now)
            self._hand_over(placed)
        else:
            self._carry_out_alone(item, placed, now)

    def _advance(self, now: float) -> None:
        """Have the policy assign what is ready, and hand over what starts."""
        dispatcher = self._dispatcher
        waiting = len(dispatcher.ready)
        if not waiting:
            return
        begun = perf_counter() if trace.recorders else 0.0
        try:
            assignments = dispatcher.propose(now)
            dispatcher.estimate(assignments)
        except Exception as error:  # the policy's fault: nobody could run these tasks, so their frames end
            for frame in {item.frame for item in dispatcher.ready}:
                assert isinstance(frame, Flight)
                self._fail(frame, error)
            return
        started = dispatcher.carry_out(assignments, now)
        if trace.recorders and begun:
            assigned = waiting - len(dispatcher.ready)
            event = DecisionEvent(begun, dispatcher.policy.name, waiting, assigned, perf_counter() - begun)
            trace.report(event)
        for slot in started:
            self._hand_over(slot)

    def _hand_over(self, slot: Occupation) -> None:
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
            flight.rouse()
            return
        idle = self._idle[slot.pe]
        if idle:
            worker = idle.pop()
            worker.inbox = self, slot, item
            worker.rouse()
            return
        # A thread of the PE may be blocked in a task that lent the PE out; then this makes another one.
        worker = Worker(slot.pe)
        worker.inbox = self, slot, item
        self._workers[worker] = None
        worker.rouse()
        try:
            worker.start()
        except RuntimeError as error:  # no more threads: the system's limit, or the interpreter is about to end
            worker.inbox = None
            del self._workers[worker]
            flight.running -= 1
            if self._dispatcher.release(slot, item, perf_counter()):
                self._hand_over(slot)
            self._fail(flight, error)
            self._advance(perf_counter())

    def _fail(self, flight: Flight, error: BaseException) -> None:
        if flight.error is None:
            flight.error = error
            self._drop(flight)
        self._settle(flight)

    def _drop(self, flight: Flight) -> None:
        flight.kept.clear()
        self._dispatcher.drop(flight)

    def _settle(self, flight: Flight) -> None:
        """Takes a frame that is over out of the books."""
        if flight.over:
            self._flights.pop(flight, None)
            flight.rouse()

    def _restart_in_child(self) -> None:
        """The threads, and whoever held the lock, did not come along: start over."""
        self._section.reset()
        self._generation += 1
        self._flights.clear()
        self._workers.clear()
        self._adopted = None
        self.bypass.reset()
        self._dispatcher.abandon()
        self._dispatcher = Dispatcher(self._dispatcher.pes, self._dispatcher.policy)
        self._idle.update({pe: [] for pe in self.pes})


def _after_fork() -> None:
    for scheduler in list(_schedulers):
        scheduler._restart_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
