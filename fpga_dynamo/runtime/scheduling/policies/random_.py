"""RANDOM: the ready queue in random order, then round robin. (The underscore keeps the standard module's name free.)"""

from __future__ import annotations

import random

from fpga_dynamo.runtime.scheduling.policies.base import Assignment, Available, PEs, Ready, register_policy
from fpga_dynamo.runtime.scheduling.policies.simple import Simple


@register_policy
class Random(Simple):
    """Shuffles the ready queue, then assigns as SIMPLE does (CEDR's RANDOM); reproducible for a given seed."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._generator = random.Random(seed)

    def assign(self, ready: Ready, pes: PEs, now: float, available: Available) -> list[Assignment]:
        if len(ready) > 1:
            ready = self._generator.sample(ready, len(ready))
        return super().assign(ready, pes, now, available)
