"""EFT: earliest finish time."""

from __future__ import annotations

from fpga_dynamo.runtime.scheduling.policies.base import Assignment, Available, PEs, Policy, Ready, register_policy


@register_policy
class EarliestFinishTime(Policy):
    """Ready queue in order, each task to the PE where it finishes first, given those before it (CEDR's EFT)."""

    name = "eft"
    indifferent = True

    def in_order(self, ready: Ready, pes: PEs) -> Ready:
        """The order in which the tasks choose."""
        return ready

    def assign(self, ready: Ready, pes: PEs, now: float, available: Available) -> list[Assignment]:
        if len(ready) == 1:
            return [(ready[0], self.earliest_finish(ready[0].task, pes, now, available)[1])]
        planned = dict(available)
        assignments: list[Assignment] = []
        for item in self.in_order(ready, pes):
            finish, pe = self.earliest_finish(item.task, pes, now, planned)
            planned[pe] = finish
            assignments.append((item, pe))
        return assignments
