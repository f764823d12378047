"""EFT: earliest finish time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fpga_dynamo.runtime.scheduling.policies.base import Assignment, Policy, register_policy
from fpga_dynamo.runtime.task import ProcessingElement, ReadyTask


@register_policy
class EarliestFinishTime(Policy):
    """Ready queue in order, each task to the PE where it finishes first, given those before it (CEDR's EFT)."""

    name = "eft"
    indifferent = True

    def in_order(self, ready: Sequence[ReadyTask], pes: Sequence[ProcessingElement]) -> Sequence[ReadyTask]:
        """The order in which the tasks choose."""
        return ready

    def assign(
        self,
        ready: Sequence[ReadyTask],
        pes: Sequence[ProcessingElement],
        now: float,
        available: Mapping[ProcessingElement, float],
    ) -> list[Assignment]:
        if len(ready) == 1:
            return [(ready[0], self.earliest_finish(ready[0].task, pes, now, available)[1])]
        planned = dict(available)
        assignments: list[Assignment] = []
        for item in self.in_order(ready, pes):
            finish, pe = self.earliest_finish(item.task, pes, now, planned)
            planned[pe] = finish
            assignments.append((item, pe))
        return assignments
