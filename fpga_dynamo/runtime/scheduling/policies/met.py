"""MET: minimum execution time."""

from __future__ import annotations

from fpga_dynamo.runtime.scheduling.policies.base import Assignment, Available, PEs, Policy, Ready, register_policy


@register_policy
class MinimumExecutionTime(Policy):
    """Each task to the resource type of least cost, whose instances take turns, busy or not (CEDR's MET)."""

    name = "met"

    def __init__(self) -> None:
        super().__init__()
        self._turns: dict[str, int] = {}  # resource type -> tasks given to it so far

    def assign(self, ready: Ready, pes: PEs, now: float, available: Available) -> list[Assignment]:
        assignments: list[Assignment] = []
        for item in ready:
            task = item.task
            candidates = self.supporting(task, pes)
            resource = min(candidates, key=lambda pe: task.costs[pe.resource]).resource
            instances = [pe for pe in candidates if pe.resource == resource]
            turn = self._turns.get(resource, 0)
            self._turns[resource] = turn + 1
            assignments.append((item, instances[turn % len(instances)]))
        return assignments
