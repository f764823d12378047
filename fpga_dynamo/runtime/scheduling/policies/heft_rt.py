"""HEFT_RT: the run-time variant of HEFT."""

from __future__ import annotations

from fpga_dynamo.runtime.scheduling.policies.base import PEs, Ready, comparisons, register_policy
from fpga_dynamo.runtime.scheduling.policies.eft import EarliestFinishTime
from fpga_dynamo.runtime.task import ReadyTask


@register_policy
class HeftRuntime(EarliestFinishTime):
    """Ready tasks by mean cost over the types of PE that support them, longest first, then EFT (CEDR's HEFT_RT)."""

    name = "heft_rt"

    def in_order(self, ready: Ready, pes: PEs) -> Ready:
        def mean_cost(item: ReadyTask) -> float:
            types = {pe.resource for pe in self.supporting(item.task, pes)}
            return sum(item.task.costs[resource] for resource in types) / len(types)

        return sorted(ready, key=mean_cost, reverse=True)  # stable: the older of equal tasks comes first

    def evaluations(self, queued: int, pes: int) -> float:
        return super().evaluations(queued, pes) + comparisons(queued)
