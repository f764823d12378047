"""Interleaved measurement: all contestants take turns in one process, so that whatever slows the machine slows all.

A turn is some untimed calls and then one timed sample. The untimed ones last for `SETTLE` at least: a contestant's
threads keep spinning for a while after its last call, and its data has pushed the next one's out of the caches.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

SETTLE = 0.015
"""Seconds of untimed calls before each sample: longer than the thread pools of the peers spin after a call."""
SAMPLE = 0.002
"""Seconds that a sample lasts at least: calls of microseconds are timed in blocks."""
LEAST_ROUNDS = 5

Clock = Callable[[], float]


@dataclass(frozen=True)
class Timing:
    """Seconds a call: median and quartiles over the rounds; `calls` were timed together as one sample."""

    median: float
    lower: float
    upper: float
    rounds: int
    calls: int = 1

    @classmethod
    def of(cls, samples: Sequence[float], calls: int = 1) -> Timing:
        """Raises ValueError if there are no samples."""
        if not samples:
            raise ValueError("no samples were taken")
        if len(samples) == 1:
            return cls(samples[0], samples[0], samples[0], 1, calls)
        lower, median, upper = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(median, lower, upper, len(samples), calls)


@dataclass(frozen=True)
class SelfTimed:
    """A contestant that says itself how many seconds the part of a call took that counts."""

    call: Callable[[], float]


Contestant = Callable[[], object] | SelfTimed


@dataclass
class Measurement:
    """`timings` of those that got through, `failures` with a sentence of those that did not."""

    timings: dict[str, Timing] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


class _Turn:
    """One contestant, its samples so far, and how many calls make a sample."""

    def __init__(self, contestant: Contestant, clock: Clock) -> None:
        self._contestant = contestant
        self._clock = clock
        self._call = contestant.call if isinstance(contestant, SelfTimed) else contestant
        self.samples: list[float] = []
        self.calls = 1

    def warm_up(self, sample: float) -> None:
        """Calls it three times; the last one says how many calls a sample needs."""
        for _ in range(2):
            self._call()
        seconds = self._timed(self._call)
        self.calls = max(1, round(sample / max(seconds, 1e-7)))

    def take(self, settle: float) -> None:
        began = self._clock()
        self._call()
        while self._clock() - began < settle:
            self._call()
        if isinstance(self._contestant, SelfTimed):
            self.samples.append(statistics.fmean(self._contestant.call() for _ in range(self.calls)))
        else:
            self.samples.append(self._timed(self._block) / self.calls)

    def _block(self) -> None:
        call = self._call
        for _ in range(self.calls):
            call()

    def _timed(self, call: Callable[[], object]) -> float:
        began = self._clock()
        call()
        return self._clock() - began


def interleave(
    contestants: Mapping[str, Contestant],
    seconds: float,
    *,
    least_rounds: int = LEAST_ROUNDS,
    settle: float = SETTLE,
    sample: float = SAMPLE,
    clock: Clock = perf_counter,
) -> Measurement:
    """Times the contestants in turns until `seconds` have passed and `least_rounds` have been made.

    Who begins changes from round to round. A contestant that raises leaves the race; the others go on.
    """
    measurement = Measurement()
    turns = {name: _Turn(contestant, clock) for name, contestant in contestants.items()}

    def attempt(name: str, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:
            measurement.failures[name] = describe(error)
            del turns[name]

    for name in list(turns):
        attempt(name, lambda turn=turns[name]: turn.warm_up(sample))  # type: ignore[misc]
    began, made = clock(), 0
    while turns and (made < least_rounds or clock() - began < seconds):
        for name in _rotated(list(turns), made):
            attempt(name, lambda turn=turns[name]: turn.take(settle))  # type: ignore[misc]
        made += 1
    measurement.timings = {name: Timing.of(turn.samples, turn.calls) for name, turn in turns.items()}
    return measurement


def _rotated(names: list[str], by: int) -> Iterator[str]:
    start = by % len(names)
    return iter(names[start:] + names[:start])


def describe(error: BaseException) -> str:
    """An exception in one line of a table."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]
