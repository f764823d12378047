"""ADAPTIVE: the default policy."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import ref

from fpga_dynamo.errors import OptionError
from fpga_dynamo.runtime.scheduling.policies.base import Assignment, Available, PEs, Policy, Ready, register_policy
from fpga_dynamo.runtime.task import ProcessingElement, Task


class _Record:
    """What is known of one task, by resource type."""

    __slots__ = ("missed", "patience", "seconds", "stated")

    def __init__(self, task: Task, patience: int) -> None:
        self.stated = {resource: task.seconds(resource) for resource in task.costs}
        self.seconds = dict(self.stated)  # the estimates
        self.missed = dict.fromkeys(task.costs, 0)  # runs elsewhere since the task last ran here
        self.patience = dict.fromkeys(task.costs, patience)  # such runs until what was measured is doubted

    def doubt(self, chosen: str) -> None:
        """After a run on `chosen`: grow doubts about measurements that keep the task from other resource types."""
        self.missed[chosen] = 0
        for other, stated in self.stated.items():
            if other != chosen and self.seconds[other] > stated:
                self.missed[other] += 1
                if self.missed[other] >= self.patience[other]:
                    self.missed[other] = 0
                    self.patience[other] *= 2
                    self.seconds[other] = stated


@register_policy
class Adaptive(Policy):
    """Earliest finish by estimates that follow what is measured, transfers included, in the order of upward ranks.

    - A task's estimate on a resource type starts as stated (cost + transfers) and follows the measured time by an
      exponential average with weight `smoothing`. One measurement counts as at most 4 times, at least a quarter of, the
      estimate, so that a cold first run does not spoil it.
    - An estimate that made the task go elsewhere would never be corrected again. So after `patience` runs elsewhere
      the stated time is believed again if it is the lower one; each time the patience doubles.
    - Order: arrival of the frame minus upward rank. Within a frame that is HEFT's order; between frames a rank counts
      as much as an equal time of waiting, so nothing starves.
    - A task is bound to a PE only when the PE is idle: no queue behind a PE suffers from a wrong estimate, and no PE
      keeps a gap for a task to come. Tasks that would finish earlier on a busy PE wait, and count in the plan.
    """

    name = "adaptive"
    indifferent = True
    CLIP = 4.0

    def __init__(self, smoothing: float = 0.25, patience: int = 64) -> None:
        super().__init__()
        if not 0 < smoothing <= 1:
            raise OptionError(f"policy 'adaptive': smoothing must be in (0, 1], not {smoothing}")
        if patience < 1:
            raise OptionError(f"policy 'adaptive': patience must be at least 1, not {patience}")
        self.smoothing = smoothing
        self.patience = patience
        # Records by id of the task, with a weak reference that removes them when the task goes, before its id can be
        # used again. (A WeakKeyDictionary says the same, but takes a quarter of the time of a launch.)
        self._records: dict[int, tuple[ref[Task], _Record]] = {}

    def _record(self, task: Task) -> _Record:
        entry = self._records.get(id(task))
        return entry[1] if entry is not None else self._new_record(task)

    def _new_record(self, task: Task) -> _Record:
        key, records = id(task), self._records
        record = _Record(task, self.patience)
        records[key] = (ref(task, lambda _: records.pop(key, None)), record)
        return record

    def estimates(self, task: Task) -> Mapping[str, float]:
        return self._record(task).seconds

    def observe(self, task: Task, pe: ProcessingElement, seconds: float) -> None:
        record = self._record(task)
        expected = record.seconds[pe.resource]
        if seconds > expected * self.CLIP > 0:
            seconds = expected * self.CLIP
        elif seconds < expected / self.CLIP:
            seconds = expected / self.CLIP
        record.seconds[pe.resource] = expected + self.smoothing * (seconds - expected)
        if len(record.seconds) > 1:
            record.doubt(pe.resource)

    def assign(self, ready: Ready, pes: PEs, now: float, available: Available) -> list[Assignment]:
        if len(ready) == 1:
            _, pe = self.earliest_finish(ready[0].task, pes, now, available)
            return [(ready[0], pe)] if available[pe] <= now else []
        idle = {pe for pe in pes if available[pe] <= now}
        planned = dict(available)
        assignments: list[Assignment] = []
        for item in sorted(ready, key=lambda item: item.frame.arrival - item.rank):
            if not idle:
                break
            finish, pe = self.earliest_finish(item.task, pes, now, planned)
            planned[pe] = finish
            if pe in idle:
                idle.remove(pe)
                assignments.append((item, pe))
        return assignments
