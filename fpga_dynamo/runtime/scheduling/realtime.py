"""Task graphs in real time without callers: whoever submits a graph goes on, and each PE has a thread that serves it.

`Scheduler` is for calls of models, whose caller waits and helps. Here instances arrive by thousands and nobody waits
for any of them, as in a study of a system under load; the dispatcher and the policies are the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any

from fpga_dynamo.errors import OptionError
from fpga_dynamo.runtime.observe.events import ApplicationEvent, DecisionEvent, TaskEvent
from fpga_dynamo.runtime.observe.trace import TraceRecorder
from fpga_dynamo.runtime.scheduling.dispatch import Dispatcher, Occupation
from fpga_dynamo.runtime.scheduling.flight import taken_lock
from fpga_dynamo.runtime.scheduling.policies import Policy, make_policy
from fpga_dynamo.runtime.task import Frame, ProcessingElement, ReadyTask, SchedulerError, TaskGraph

_PR_SET_TIMERSLACK = 29


class FrameInstance(Frame):
    """A frame that was submitted. `started` and `ended` are times of `time.perf_counter`, None until then."""

    __slots__ = ("done", "ended", "running", "started")

    def __init__(
        self, graph: TaskGraph, values: Any, arrival: float, done: Callable[[FrameInstance], None] | None
    ) -> None:
        super().__init__(graph, values, arrival)
        self.done = done
        self.started: float | None = None
        self.ended: float | None = None
        self.running = 0


def _count(item: ReadyTask) -> None:
    """Counts a task that starts."""
    assert isinstance(item.frame, FrameInstance)
    item.frame.running += 1


class RealTime:
    """Runs submitted graphs on `pes`, a thread for each, as `policy` says.

    cores: the CPUs that the threads of PS elements are pinned to, one each in turn; all threads go where they want if
    it is empty. recorder: gets the events of tasks, decisions and instances.
    """

    def __init__(
        self,
        pes: Iterable[ProcessingElement],
        policy: str | Policy,
        cores: Sequence[int] = (),
        recorder: TraceRecorder | None = None,
    ) -> None:
        self._dispatcher = Dispatcher(pes, make_policy(policy))
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._recorder = recorder
        if recorder is not None:
            recorder.declare(self._dispatcher.pes)
        self._closed = False
        self._submitted = 0
        self.in_flight = 0
        self.most_waiting = 0
        self.rounds = self.assignments = 0
        self.deciding = 0.0
        """Seconds of the policy and of what validates and carries out what it says."""
        self.busy = {pe.name: 0.0 for pe in self._dispatcher.pes}
        self._wakes = {slot: taken_lock() for slot in self._dispatcher.slots.values()}
        self._threads = []
        hosts = 0
        for slot in self._dispatcher.slots.values():
            core = None
            if slot.pe.kind == "PS" and cores:
                core, hosts = cores[hosts % len(cores)], hosts + 1
            thread = threading.Thread(target=self._serve, args=(slot, core), name=f"soc {slot.pe.name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def submit(
        self, graph: TaskGraph, values: Any = None, done: Callable[[FrameInstance], None] | None = None
    ) -> FrameInstance:
        """Injects an instance; `done` is called with it, by some thread, when it is over. Returns at once."""
        now = perf_counter()
        instance = FrameInstance(graph, values, now, done)
        with self._lock:
            if self._closed:
                raise SchedulerError("these processing elements are closed: make new ones")
            self._dispatcher.check(graph)
            self._submitted += 1
            instance.application = self._submitted
            self.in_flight += 1
            if not graph.tasks:
                self._over(instance, now)
                return instance
            self._dispatcher.ready.update(dict.fromkeys(instance.roots()))
            for slot in self._decide(now):
                self._wakes[slot].release()
        return instance

    def drain(self, timeout: float | None = None) -> bool:
        """Waits until no instance is in flight; False if that took longer than `timeout` seconds."""
        with self._idle:
            return self._idle.wait_for(lambda: self.in_flight == 0, timeout)

    def close(self) -> None:
        """Ends the threads, after the tasks that they run."""
        with self._lock:
            self._closed = True
        for wake in self._wakes.values():
            wake.release()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> RealTime:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _serve(self, slot: Occupation, core: int | None) -> None:
        _sharpen(core)
        wake = self._wakes[slot]
        while True:
            wake.acquire()
            item = slot.running
            while item is not None:
                error: BaseException | None = None
                started = perf_counter()
                try:
                    if item.frame.error is None:
                        item.task.run(slot.pe, item.frame)
                except BaseException as caught:
                    error = caught
                stopped = perf_counter()
                with self._lock:
                    item = self._complete(slot, item, started, stopped, error)
            if self._closed:
                return

    def _complete(
        self, slot: Occupation, item: ReadyTask, started: float, stopped: float, error: BaseException | None
    ) -> ReadyTask | None:
        """Accounts for a task and has the policy go on. Returns the next task of this slot."""
        dispatcher, instance = self._dispatcher, item.frame
        assert isinstance(instance, FrameInstance) and instance.application is not None
        self.busy[slot.pe.name] += stopped - started
        instance.running -= 1
        if instance.started is None or started < instance.started:
            instance.started = started
        if self._recorder is not None:
            name = item.task.name
            self._recorder.add(
                TaskEvent(instance.application, instance.graph.name, name, slot.pe.name, started, stopped)
            )
        follows = dispatcher.release(slot, item, stopped)
        if follows and slot.running is not None:
            _count(slot.running)
        if error is not None:
            self._fail(instance, error)
        elif instance.error is None:
            dispatcher.policy.observe(item.task, slot.pe, stopped - started)
            dispatcher.ready.update(dict.fromkeys(instance.finish(item.index)))
        if instance.running == 0 and (instance.tasks_left == 0 or instance.error is not None):
            self._over(instance, perf_counter())
        if dispatcher.ready:
            for other in self._decide(stopped):
                if other is slot:
                    follows = True
                else:
                    self._wakes[other].release()
        return slot.running if follows else None

    def _decide(self, since: float) -> list[Occupation]:
        """since: when there began to be something to decide on."""
        dispatcher = self._dispatcher
        waiting = len(dispatcher.ready)
        self.most_waiting = max(self.most_waiting, waiting)
        begun = perf_counter()
        try:
            started = dispatcher.decide(begun)
        except Exception as fault:  # the policy's: nobody could run these tasks, so their instances end
            for frame in {item.frame for item in dispatcher.ready}:
                assert isinstance(frame, FrameInstance)
                self._fail(frame, fault)
                if frame.running == 0:
                    self._over(frame, perf_counter())
            return []
        for slot in started:
            assert slot.running is not None
            _count(slot.running)
        took = perf_counter() - begun
        dispatcher.policy.decided(begun + took - since)
        assigned = waiting - len(dispatcher.ready)
        self.rounds += 1
        self.assignments += assigned
        self.deciding += took
        if self._recorder is not None:
            self._recorder.add(DecisionEvent(begun, dispatcher.policy.name, waiting, assigned, took))
        return started

    def _fail(self, instance: FrameInstance, error: BaseException) -> None:
        if instance.error is None:
            instance.error = error
            self._dispatcher.drop(instance)

    def _over(self, instance: FrameInstance, now: float) -> None:
        instance.ended = now
        self._dispatcher.policy.leave(instance)
        self.in_flight -= 1
        if self._recorder is not None and instance.application is not None:
            start = now if instance.started is None else instance.started
            self._recorder.add(
                ApplicationEvent(instance.application, instance.graph.name, instance.arrival, start, now)
            )
        if instance.done is not None:
            instance.done(instance)
        if self.in_flight == 0:
            self._idle.notify_all()


def usable_cores() -> list[int]:
    """The CPUs that this process may use (its affinity: taskset, cgroup's cpuset)."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def check_cores(wanted: int) -> list[int]:
    """CPUs for so many PS threads; OptionError if the process may not use as many."""
    cores = usable_cores()
    if wanted > len(cores):
        raise OptionError(
            f"the system has {wanted} processor cores, but this process may use {len(cores)}: in real time the "
            "processing elements would share cores; ask for fewer, or use paced tasks"
        )
    return cores


def _sharpen(core: int | None) -> None:
    """Pins the calling thread, and has its sleeps end when they should rather than up to 50 us later (Linux)."""
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    with contextlib.suppress(OSError, AttributeError):  # not Linux: sleeps are as they are
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
