"""The memory behind the ports, as the timeline has it: so many lines in a period, whoever asks."""

from __future__ import annotations

from .cycles import PAGE, with_turnaround


class Bank:
    """A memory that moves so many lines a cycle at most, whoever asks, in whatever order; a port may move fewer."""

    _CYCLES = 128
    """Of a period, of which is known how many lines pass in it."""

    def __init__(self, lines_per_cycle: float, port: float) -> None:
        self._port, self._most = port, lines_per_cycle * self._CYCLES
        self._moved: list[float] = []
        self._directions: list[int] = []
        self._next: list[int] = []  # of a period that is full, a later one that may not be

    def move(
        self,
        begin: float,
        lines: float,
        burst: float = PAGE,
        write: bool = False,
        least: float = 1.0,
        left: float = 0.0,
        turns: bool = True,
    ) -> float:
        """When `lines` that a port asks for from cycle `begin` on have passed.

        burst: lines of a burst. least: what a line costs at least. left: the part of the bank's time that others keep.
        turns: whether lines cost more where others go the other way.
        """
        at, end = begin, begin + lines / self._port
        while lines > 0:
            period = self._free(int(at // self._CYCLES))
            at = max(at, period * self._CYCLES)
            behind = (period + 1) * self._CYCLES
            # Of reads and writes that take turns each lies in another row.
            other = turns and self._directions[period] & (1 if write else 2)
            cost = max(least, with_turnaround(burst) if other else 1.0)
            self._directions[period] |= 2 if write else 1
            free = max(0.0, self._most * (1 - left) - self._moved[period])
            passes = min(lines, free / cost, (behind - at) * self._port)
            self._moved[period] += passes * cost
            if self._moved[period] >= self._most - 1e-6:
                self._next[period] = period + 1
            lines -= passes
            at = behind if lines > 1e-6 else at + max(passes / self._port, 0.0)
            if lines <= 1e-6:
                break
        return max(at, end)

    def _free(self, period: int) -> int:
        """The first period from this one on that is not full."""
        way = []
        while True:
            while len(self._moved) <= period:
                self._moved.append(0.0)
                self._directions.append(0)
                self._next.append(len(self._next))
            if self._next[period] == period:
                break
            way.append(period)
            period = self._next[period]
        for passed in way:
            self._next[passed] = period
        return period
