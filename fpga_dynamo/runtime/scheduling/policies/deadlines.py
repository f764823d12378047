"""EDF and LLF: policies for frames with deadlines."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

from fpga_dynamo.runtime.scheduling.policies.base import (
    Assignment,
    Available,
    PEs,
    Policy,
    Ready,
    comparisons,
    register_policy,
)
from fpga_dynamo.runtime.task import ReadyTask, Task, TaskGraph, upward_ranks


@register_policy
class EarliestDeadlineFirst(Policy):
    """The task with the earliest deadline chooses first, and takes the PE where it ends first, transfers included.

    It is assigned if that PE is idle. Else the PE is reserved for this round, and the task stays ready, so that a more
    urgent one can still come before it. Tasks without a deadline come last, oldest first.
    """

    name = "edf"
    indifferent = True

    def urgency(self, item: ReadyTask) -> float:
        """Seconds: the less, the more urgent."""
        return item.frame.deadline

    def estimates(self, task: Task) -> Mapping[str, float]:
        return {resource: task.seconds(resource) for resource in task.costs}

    def assign(self, ready: Ready, pes: PEs, now: float, available: Available) -> list[Assignment]:
        planned = dict(available)
        assignments: list[Assignment] = []
        for item in sorted(ready, key=self.urgency):  # stable: the older of equal tasks comes first
            finish, pe = self.earliest_finish(item.task, pes, now, planned)
            if planned[pe] <= now:
                assignments.append((item, pe))
            planned[pe] = finish
        return assignments

    def evaluations(self, queued: int, pes: int) -> float:
        return super().evaluations(queued, pes) + comparisons(queued)


@register_policy
class LeastLaxityFirst(EarliestDeadlineFirst):
    """As EDF, by the laxity: seconds to spare if all that follows runs at once on the PEs where it is fastest."""

    name = "llf"
    indifferent = True

    def __init__(self) -> None:
        super().__init__()
        self._remaining: WeakKeyDictionary[TaskGraph, tuple[float, ...]] = WeakKeyDictionary()

    def urgency(self, item: ReadyTask) -> float:
        graph = item.frame.graph
        paths = self._remaining.get(graph)
        if paths is None:
            paths = self._remaining[graph] = upward_ranks(graph.tasks, graph.successors, min)
        return item.frame.deadline - paths[item.index]  # less the time now, which is the same for all
