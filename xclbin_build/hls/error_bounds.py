"""Bounds of an estimate's error, from its comparison with published reports."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ErrorBounds:
    """A tenth of `figures` reports are below `low` times the estimate, and a tenth are above `high` times."""

    low: float
    high: float
    figures: int

    def times(self, other: ErrorBounds) -> ErrorBounds:
        """The band of a product of two independent factors: widths add as squares of logarithms."""
        low = math.hypot(_below(self.low), _below(other.low))
        high = math.hypot(_below(1 / self.high), _below(1 / other.high))
        return ErrorBounds(math.exp(-low), math.exp(high), min(self.figures, other.figures))


def _below(factor: float) -> float:
    return max(0.0, -math.log(factor))
