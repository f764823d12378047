"""Intervals and a test of steady state: what a mean of simulated runs may be said to be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
import numpy.typing as npt

_QUANTILES = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042
)  # fmt: skip
"""Of Student's t, 97.5 %, for 1, 2, ... degrees of freedom."""

BATCHES = 10
DRIFT = 3.355
"""Student's t, 99.5 %, for the eight degrees of freedom of a line through ten batches."""
LEAST_GROWTH = 0.1
"""Of the mean response, from the first to the last batch: less is no drift that matters."""


@dataclass(frozen=True)
class Estimate:
    """A mean and the half width of its 95 % interval; None of a single value, which has no interval."""

    mean: float
    half: float | None = None

    @property
    def low(self) -> float:
        return self.mean - (self.half or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.half or 0.0)


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and 95 % interval of independent values, by Student's t."""
    mean, count = fmean(values), len(values)
    if count < 2:
        return Estimate(mean)
    return Estimate(mean, _quantile(count - 1) * stdev(values) / math.sqrt(count))


def ratio(values: Sequence[float], others: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean of pairs' ratios, and its 95 % interval. The interval of one pair is the mean itself.

    A pair has the same arrivals: what these add to both cancels, so the interval is narrower than those of the means.
    """
    found = estimate([math.log(value / other) for value, other in zip(values, others, strict=True)])
    return math.exp(found.mean), math.exp(found.low), math.exp(found.high)


def is_steady(responses: npt.NDArray[np.float64]) -> bool:
    """Whether responses, in the order of arrival, neither grow nor fall from batch to batch (99 %, two-sided).

    Too few to tell (under four a batch) count as not steady.
    """
    if len(responses) < 4 * BATCHES:
        return False
    means = np.array([part.mean() for part in np.array_split(responses, BATCHES)])
    steps = np.arange(BATCHES) - (BATCHES - 1) / 2
    slope = float(steps @ means / (steps @ steps))
    rest = means - means.mean() - slope * steps
    error = math.sqrt(float(rest @ rest) / (BATCHES - 2) / float(steps @ steps))
    grown = abs(slope) * (BATCHES - 1) > LEAST_GROWTH * float(means.mean())
    return not (grown and abs(slope) > DRIFT * error)


def _quantile(degrees: int) -> float:
    return _QUANTILES[degrees - 1] if degrees <= len(_QUANTILES) else 1.96 + 2.4 / degrees
