"""The state that scheduling decisions are made on: which PE runs what, what queues where, what is ready.

The threaded scheduler and the virtual-time simulation both drive a `Dispatcher`, so a policy sees the same in either.
It knows neither threads nor clocks: the caller passes the time, in seconds, and serialises the calls.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from fpga_dynamo.runtime.scheduling.policies import Assignment, Policy
from fpga_dynamo.runtime.task import Frame, ProcessingElement, ReadyTask, SchedulerError, TaskGraph

IDLE = float("-inf")  # when an idle PE became available does not matter, and "long ago" is right for every clock
LEAST_REMAINING = 1e-6  # seconds; keeps a busy PE's availability in the future


class Occupation:
    """A PE's occupation: the task that it runs and those that queue behind it."""

    __slots__ = ("backlog", "expected_end", "pe", "queue", "running")

    def __init__(self, pe: ProcessingElement) -> None:
        self.pe = pe
        self.running: ReadyTask | None = None
        self.expected_end = IDLE
        self.queue: deque[ReadyTask] = deque()
        self.backlog = 0.0  # sum of the queue's estimates, seconds


class Dispatcher:
    """Ready tasks, slots, and the policy that maps the ones to the others."""

    def __init__(self, pes: Iterable[ProcessingElement], policy: Policy) -> None:
        self.pes = tuple(pes)
        names = [pe.name for pe in self.pes]
        if not names:
            raise SchedulerError("a scheduler needs at least one processing element")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise SchedulerError(f"two processing elements are called {twice!r}: give each its own name")
        self.policy = policy
        self.slots = {pe: Occupation(pe) for pe in self.pes}
        self.ready: dict[ReadyTask, None] = {}  # an ordered set
        self.busy: dict[Occupation, None] = {}
        self._available = dict.fromkeys(self.pes, IDLE)
        self.available: Mapping[ProcessingElement, float] = MappingProxyType(self._available)
        self._resources = {pe.resource for pe in self.pes}
        self._first = {pe.resource: self.slots[pe] for pe in reversed(self.pes)}
        self._runnable: set[frozenset[frozenset[str]]] = set()

    def add(self, pe: ProcessingElement) -> None:
        """One more PE, whose name is not in use."""
        self.slots[pe] = slot = Occupation(pe)
        self._available[pe] = IDLE
        self._resources.add(pe.resource)
        self._first.setdefault(pe.resource, slot)
        self.pes = (*self.pes, pe)

    def check(self, graph: TaskGraph) -> None:
        """SchedulerError if no PE supports some task of `graph`."""
        if graph.requirements in self._runnable:
            return
        for task in graph.tasks:
            if self._resources.isdisjoint(task.resources):
                raise SchedulerError(
                    f"task {task.name!r} of {graph.name!r} runs on {' or '.join(sorted(task.resources))}, but the "
                    f"processing elements are {', '.join(sorted(self._resources))}: add one or lower the task elsewhere"
                )
        self._runnable.add(graph.requirements)

    def place(self, item: ReadyTask, now: float) -> Occupation | Sequence[Assignment]:
        """Where the policy puts `item`, asked about it alone while nothing else is ready.

        That is the slot to :meth:`start` it on, or what is to be applied once the item is in `ready`. Like `propose`
        this does not change which task is where, so that a policy's exception leaves everything as it was.
        """
        if self.busy:
            self._expect_overdue(now)
        elif self.policy.indifferent and len(item.task.resources) == 1:
            (resource,) = item.task.resources
            slot = self._first[resource]
            item.estimate = self._estimate(item, slot.pe)
            return slot
        assignments = self.policy.assign((item,), self.pes, now, self.available)
        if isinstance(assignments, list) and len(assignments) == 1 and isinstance(assignments[0], tuple):
            chosen, pe = assignments[0] if len(assignments[0]) == 2 else (None, None)
            found = self.slots.get(pe)
            if found is not None and found.running is None and chosen is item and pe.resource in item.task.costs:
                item.estimate = self._estimate(item, pe)
                return found
        self._validate(assignments, {item: None})
        self.estimate(assignments)
        return assignments

    def decide(self, now: float) -> list[Occupation]:
        """Let the policy assign ready tasks. Returns the idle slots that got a task to run; other tasks queue.

        What the policy raises, and a SchedulerError for what it must not do, come before any task is moved.
        """
        return self.apply(self.propose(now), now) if self.ready else []

    def propose(self, now: float) -> Sequence[Assignment]:
        """What the policy would assign of the ready tasks, found to be valid."""
        if self.busy:
            self._expect_overdue(now)
        assignments = self.policy.assign(tuple(self.ready), self.pes, now, self.available)
        self._validate(assignments, self.ready)
        return assignments

    def apply(self, assignments: Sequence[Assignment], now: float) -> list[Occupation]:
        """Carries out what `propose` gave. Returns the idle slots that got a task to run; other tasks queue."""
        self.estimate(assignments)
        return self.carry_out(assignments, now)

    def estimate(self, assignments: Sequence[Assignment]) -> None:
        """Asks the policy how long the tasks take where it has put them: the last of what its code does."""
        for item, pe in assignments:
            item.estimate = self._estimate(item, pe)

    def carry_out(self, assignments: Sequence[Assignment], now: float) -> list[Occupation]:
        """As `apply`, after `estimate`: nothing of the policy's runs."""
        started = []
        for item, pe in assignments:
            del self.ready[item]
            slot = self.slots[pe]
            if slot.running is None:
                self.start(slot, item, now)
                started.append(slot)
            else:
                slot.queue.append(item)
                slot.backlog += item.estimate
                self._available[pe] += item.estimate
        return started

    def _estimate(self, item: ReadyTask, pe: ProcessingElement) -> float:
        """The seconds that the policy expects of a task that it assigned."""
        seconds = self.policy.estimates(item.task).get(pe.resource)
        if seconds is None or not 0 <= seconds < math.inf:
            raise SchedulerError(
                f"policy {self.policy.name!r} estimates {item.task.name!r} at {seconds} s on {pe.resource!r}: "
                "estimates must give a finite number >= 0 for each resource type in the task's costs"
            )
        return seconds

    def _validate(self, assignments: Sequence[Assignment], ready: Mapping[ReadyTask, None]) -> None:
        """SchedulerError, with what a policy has to give, for anything else; what it is called with is well typed."""
        if not isinstance(assignments, (list, tuple)):
            raise SchedulerError(
                f"policy {self.policy.name!r} gave {assignments!r}: assign returns a list of (task, processing element)"
            )
        for pair in assignments:
            if not isinstance(pair, tuple) or [type(part) for part in pair] != [ReadyTask, ProcessingElement]:
                raise SchedulerError(
                    f"policy {self.policy.name!r} gave {pair!r} in its list: a pair of one of the ready tasks and one "
                    f"of the processing elements {', '.join(pe.name for pe in self.pes)}; leave out a task that should "
                    "wait"
                )
        for item, pe in assignments:
            if item not in ready or pe not in self.slots or pe.resource not in item.task.resources:
                raise SchedulerError(
                    f"policy {self.policy.name!r} assigned task {item.task.name!r} to {pe.name!r}: the task must be "
                    "ready and the processing element must belong to this scheduler and support the task"
                )
        if len(assignments) > 1 and len({item for item, _ in assignments}) < len(assignments):
            raise SchedulerError(f"policy {self.policy.name!r} assigned a task twice")
        if not assignments and not self.busy:
            raise SchedulerError(
                f"policy {self.policy.name!r} assigned none of {len(ready)} ready tasks while all processing "
                f"elements are idle"
            )

    def start(self, slot: Occupation, item: ReadyTask, now: float) -> None:
        """`item`, whose estimate is known, occupies the idle `slot` from now on."""
        slot.running = item
        slot.expected_end = now + item.estimate
        self.busy[slot] = None
        self._available[slot.pe] = slot.expected_end + slot.backlog

    def _expect_overdue(self, now: float) -> None:
        """A task that is late is expected to take as long again as it is late: busy PEs are never available now."""
        for slot in self.busy:
            remaining = slot.expected_end - now
            if remaining < LEAST_REMAINING:
                self._available[slot.pe] = now + max(-remaining, LEAST_REMAINING) + slot.backlog

    def occupy(self, slot: Occupation, item: ReadyTask, since: float) -> None:
        """`item` has been running on the idle `slot` since then, though no policy put it there."""
        item.estimate = self._estimate(item, slot.pe)
        self.start(slot, item, since)

    def release(self, slot: Occupation, item: ReadyTask, now: float) -> bool:
        """`item` no longer occupies `slot`. Returns whether the slot went on with the next task of its queue.

        Nothing happens if the slot was taken from the item before (see `Scheduler._lend`).
        """
        if slot.running is not item:
            return False
        if slot.queue:
            following = slot.queue.popleft()
            slot.backlog = slot.backlog - following.estimate if slot.queue else 0.0
            self.start(slot, following, now)
            return True
        slot.running = None
        del self.busy[slot]
        self._available[slot.pe] = IDLE
        return False

    def drop(self, frame: Frame) -> None:
        """Forget the tasks of `frame`, which failed, that do not run yet."""
        self.policy.leave(frame)
        self.ready = {item: None for item in self.ready if item.frame is not frame}
        for slot in self.busy:
            if any(item.frame is frame for item in slot.queue):
                slot.queue = deque(item for item in slot.queue if item.frame is not frame)
                slot.backlog = sum(item.estimate for item in slot.queue)
                self._available[slot.pe] = slot.expected_end + slot.backlog

    def restore(self, running: Mapping[Occupation, ReadyTask], ready: Iterable[ReadyTask], now: float) -> None:
        """Begins again with these tasks, whatever an exception has left half done; queued tasks are among `ready`."""
        self.busy.clear()
        for slot in self.slots.values():
            slot.queue.clear()
            slot.backlog = 0.0
            slot.running = None
            self._available[slot.pe] = IDLE
        for slot, item in running.items():
            self.start(slot, item, now)
        self.ready = dict.fromkeys(ready)
        self.policy.forget()

    def abandon(self) -> None:
        """Detach all running tasks, so that their release does nothing."""
        for slot in self.slots.values():
            slot.running = None
