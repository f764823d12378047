"""HEFT_RT: the run-time variant of HEFT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..task import ProcessingElement, ReadyTask
from .base import register_policy
from .eft import Assignment, EarliestFinishTime


@register_policy
class HeftRuntime(EarliestFinishTime):
    """Ready tasks by mean cost over the supporting PEs, longest first, then EFT (CEDR's HEFT_RT)."""

    name = "heft_rt"
    indifferent = True

    def assign(
        self,
        ready: Sequence[ReadyTask],
        pes: Sequence[ProcessingElement],
        now: float,
        available: Mapping[ProcessingElement, float],
    ) -> list[Assignment]:
        def mean_cost(item: ReadyTask) -> float:
            candidates = self.supporting(item.task, pes)
            return sum(item.task.costs[pe.resource] for pe in candidates) / len(candidates)

        if len(ready) > 1:
            # A stable sort: the older of equal tasks comes first.
            ready = sorted(ready, key=mean_cost, reverse=True)
        return super().assign(ready, pes, now, available)
