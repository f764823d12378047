"""SIMPLE: round robin."""

from __future__ import annotations

from fpga_dynamo.runtime.scheduling.policies.base import Assignment, Available, PEs, Policy, Ready, register_policy


@register_policy
class Simple(Policy):
    """Ready queue in order, each task to the next PE in rotation that supports it, busy or not (CEDR's SIMPLE)."""

    name = "simple"

    def __init__(self) -> None:
        super().__init__()
        self._next = 0  # position in `pes` where the search for the next task's PE starts

    def assign(self, ready: Ready, pes: PEs, now: float, available: Available) -> list[Assignment]:
        count = len(pes)
        assignments: list[Assignment] = []
        for item in ready:
            resources = item.task.resources
            for step in range(count):
                position = (self._next + step) % count
                if pes[position].resource in resources:
                    assignments.append((item, pes[position]))
                    self._next = (position + 1) % count
                    break
        return assignments
