"""When instances of an application are injected into a simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Protocol

from fpga_dynamo.errors import OptionError


class Arrivals(Protocol):
    """A source of arrival times, in seconds from the start of the simulation."""

    def times(self, generator: random.Random) -> list[float]:
        """The arrival times of all instances; whatever is random about them comes from `generator`."""
        ...


class At:
    """Arrivals at given times."""

    def __init__(self, *times: float) -> None:
        check_times(times)
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


def check_times(times: Sequence[float]) -> None:
    """Raises OptionError for an invalid time: negative, infinite or NaN."""
    wrong = [time for time in times if not _is_time(time)]
    if wrong:
        raise OptionError(f"arrival times must be finite numbers >= 0, not {wrong[0]!r}")


def _is_time(time: object) -> bool:
    return isinstance(time, Real) and 0 <= float(time) < math.inf


def _check(interval_is_valid: bool, count: int, start: float, interval: str) -> None:
    if not (interval_is_valid and isinstance(count, int) and count >= 0 and _is_time(start)):
        raise OptionError(f"no arrivals can be made from {interval} s, count {count} and start {start} s")
