"""A figure of ours held against published reports: how far these lie from it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Held:
    """Of `figures` reports a tenth says less than `low` times what was found, and a tenth more than `high` times."""

    low: float
    high: float
    figures: int

    def times(self, other: Held) -> Held:
        """The band of a product of two independent factors: widths add as squares of logarithms."""
        low = math.hypot(_below(self.low), _below(other.low))
        high = math.hypot(_below(1 / self.high), _below(1 / other.high))
        return Held(math.exp(-low), math.exp(high), min(self.figures, other.figures))


def _below(factor: float) -> float:
    return max(0.0, -math.log(factor))
