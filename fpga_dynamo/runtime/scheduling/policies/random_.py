"""RANDOM: the ready queue in random order, then round robin. (The underscore keeps the standard module's name free.)"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from fpga_dynamo.runtime.scheduling.policies.base import Assignment, register_policy
from fpga_dynamo.runtime.scheduling.policies.simple import Simple
from fpga_dynamo.runtime.task import ProcessingElement, ReadyTask


@register_policy
class Random(Simple):
    """Shuffles the ready queue, then assigns as SIMPLE does (CEDR's RANDOM); reproducible for a given seed."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._generator = random.Random(seed)

    def assign(
        self,
        ready: Sequence[ReadyTask],
        pes: Sequence[ProcessingElement],
        now: float,
        available: Mapping[ProcessingElement, float],
    ) -> list[Assignment]:
        if len(ready) > 1:
            ready = self._generator.sample(ready, len(ready))
        return super().assign(ready, pes, now, available)
