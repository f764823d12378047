"""When instances of an application are injected into a simulation."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Protocol


class Arrivals(Protocol):
    """A source of arrival times, in seconds from the start of the simulation."""

    def times(self, generator: random.Random) -> list[float]:
        """The arrival times of all instances; whatever is random about them comes from `generator`."""
        ...


class At:
    """Arrivals at given times."""

    def __init__(self, *times: float) -> None:
        if any(not time >= 0 for time in times):
            raise ValueError(f"arrival times must be >= 0, not {times}")
        self._times = sorted(times)

    def times(self, generator: random.Random) -> list[float]:
        return self._times


@dataclass(frozen=True)
class Periodic:
    """`count` arrivals every `period` seconds, the first at `start`; period 0 injects them all at once."""

    period: float
    count: int = 1
    start: float = 0.0

    def __post_init__(self) -> None:
        _check(self.period >= 0 and math.isfinite(self.period), self.count, self.start, f"period {self.period}")

    def times(self, generator: random.Random) -> list[float]:
        return [self.start + number * self.period for number in range(self.count)]


@dataclass(frozen=True)
class Exponential:
    """`count` arrivals at exponentially distributed intervals of mean `mean` seconds (a Poisson process)."""

    mean: float
    count: int = 1
    start: float = 0.0

    def __post_init__(self) -> None:
        _check(self.mean > 0 and math.isfinite(self.mean), self.count, self.start, f"mean interval {self.mean}")

    def times(self, generator: random.Random) -> list[float]:
        times = []
        time = self.start
        for _ in range(self.count):
            time += generator.expovariate(1.0 / self.mean)
            times.append(time)
        return times


def _check(interval_is_valid: bool, count: int, start: float, interval: str) -> None:
    if not (interval_is_valid and count >= 0 and start >= 0):
        raise ValueError(f"no arrivals can be made from {interval} s, count {count} and start {start} s")
