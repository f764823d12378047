"""ETF: earliest task first."""

from __future__ import annotations

import heapq

from fpga_dynamo.runtime.scheduling.policies.base import Assignment, Available, PEs, Policy, Ready, register_policy


@register_policy
class EarliestTaskFirst(Policy):
    """Again and again the (task, PE) of least finish time out of all ready tasks and PEs (CEDR's ETF).

    Finish times only grow as PEs fill up, so a heap entry is a lower bound: the entry at the top is the true minimum if
    computing it again gives the same value. Ties go to the older task, then to the first PE.
    """

    name = "etf"
    indifferent = True

    def assign(self, ready: Ready, pes: PEs, now: float, available: Available) -> list[Assignment]:
        planned = dict(available)
        heap = [(self.earliest_finish(item.task, pes, now, planned)[0], order) for order, item in enumerate(ready)]
        heapq.heapify(heap)
        assignments: list[Assignment] = []
        while heap:
            bound, order = heap[0]
            finish, pe = self.earliest_finish(ready[order].task, pes, now, planned)
            if finish > bound:
                heapq.heapreplace(heap, (finish, order))
                continue
            heapq.heappop(heap)
            planned[pe] = finish
            assignments.append((ready[order], pe))
        return assignments

    def evaluations(self, queued: int, pes: int) -> float:
        """CEDR's loop looks at all that is left for each task that it assigns."""
        return queued * (queued + 1) / 2 * pes
