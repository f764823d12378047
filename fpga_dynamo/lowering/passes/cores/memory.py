"""Pass: where each buffer of a segment lies in the arena.

The arena is [status | outputs | inputs | temporaries]: status and outputs come back in one transfer, inputs go in one.
Temporaries share memory: a buffer's place is free again after the last command that uses it. No command works in place,
because cores may compute a tile twice. A group of streams counts as one moment, as its commands may run in parallel.

The better result of two planners is used. The first is best fit over a free list in the order of the commands. The
second places the largest buffer first, each at the lowest place that is free during its life ("greedy by size":
Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020). It takes quadratic time, so it runs
only for a limited number of buffers.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fpga_dynamo.ir.command import Command
from fpga_dynamo.ir.launch import MemoryPlan
from fpga_dynamo.ir.sizes.size import value
from fpga_dynamo.ir.view import Buffer, Role

STATUS_BEATS = 1
"""What the status record takes."""

BY_SIZE_BUFFERS = 512
"""Most temporaries that are placed by size; the time for as many is some 20 ms."""


def plan_memory(commands: Sequence[Command], inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> MemoryPlan:
    """Places every arena buffer of `commands`; `inputs` and `outputs` keep their order and are never shared."""
    places: dict[Buffer, int] = {}
    cursor = STATUS_BEATS
    for buffer in outputs:
        places[buffer] = cursor
        cursor += beats_of(buffer)
    output_end = cursor
    for buffer in inputs:
        places[buffer] = cursor
        cursor += beats_of(buffer)
    base = cursor
    steps = _moments(commands)
    last_use = {buffer: i for i, moment in enumerate(steps) for buffer in moment.uses}
    free = _FreeList(base)
    live, most = 0, 0
    for i, moment in enumerate(steps):
        for buffer in moment.writes:
            if buffer not in places:
                places[buffer] = free.take(beats_of(buffer))
                live += beats_of(buffer)
        most = max(most, live)
        for buffer in moment.uses:
            if buffer.role is Role.TEMPORARY and last_use[buffer] == i and buffer in places:
                free.give(places[buffer], beats_of(buffer))
                live -= beats_of(buffer)
    top = free.top
    if top > base + most:
        by_size = _by_size(steps, last_use, base)
        if by_size is not None and by_size[1] < top:
            places.update(by_size[0])
            top = by_size[1]
    return MemoryPlan(places, top, output_end, output_end, base, base + most)


@dataclass(frozen=True)
class _Moment:
    """What is used at the same time: by one command, or by all of a group of streams."""

    uses: Sequence[Buffer]
    writes: Sequence[Buffer]


def _moments(commands: Sequence[Command]) -> list[_Moment]:
    found = []
    i = 0
    while i < len(commands):
        group = commands[i : i + 1 + commands[i].group]
        uses = dict.fromkeys(buffer for command in group for buffer in command.uses)
        writes = dict.fromkeys(buffer for command in group for buffer in command.writes)
        found.append(_Moment(tuple(uses), tuple(writes)))
        i += len(group)
    return found


def beats_of(buffer: Buffer) -> int:
    """Beats that a buffer takes in the arena, where its size changes from call to call at the hints."""
    return value(buffer.beats)


def stacking(commands: Sequence[Command], places: Mapping[Buffer, int]) -> dict[Buffer, list[Buffer]]:
    """For each temporary, from the lowest up: the temporaries below it that it must stay above at any sizes.

    These links order any two buffers that live at once, the lower one first. A buffer is linked with its neighbours
    when its life begins. When it ends, the two buffers next to it are linked.
    """
    steps = _moments(commands)
    last_use = {buffer: i for i, moment in enumerate(steps) for buffer in moment.uses}
    below: dict[Buffer, dict[Buffer, None]] = {}
    alive: list[tuple[int, int, Buffer]] = []

    def link(place: int) -> None:
        if 0 < place < len(alive):
            below[alive[place][2]][alive[place - 1][2]] = None

    for i, moment in enumerate(steps):
        for buffer in moment.writes:
            if buffer.role is Role.TEMPORARY and buffer not in below:
                below[buffer] = {}
                entry = (places[buffer], buffer.id, buffer)
                place = bisect.bisect(alive, entry[:2], key=lambda e: e[:2])
                alive.insert(place, entry)
                link(place)
                link(place + 1)
        for buffer in moment.uses:
            if buffer in below and last_use[buffer] == i:
                place = bisect.bisect_left(alive, (places[buffer], buffer.id), key=lambda e: e[:2])
                del alive[place]
                link(place)
    return {buffer: list(below[buffer]) for buffer in sorted(below, key=lambda b: places[b])}


def _by_size(
    steps: Sequence[_Moment], last_use: Mapping[Buffer, int], base: int
) -> tuple[dict[Buffer, int], int] | None:
    """Places of the temporaries and the end of the arena; None if there are too many."""
    first_use: dict[Buffer, int] = {}
    for i, moment in enumerate(steps):
        for buffer in moment.writes:
            if buffer.role is Role.TEMPORARY:
                first_use.setdefault(buffer, i)
    if len(first_use) > BY_SIZE_BUFFERS:
        return None
    offsets: dict[Buffer, int] = {}
    placed: list[tuple[int, int, int, int]] = []  # begin, end in memory; first, last command; by begin
    top = base
    for buffer in sorted(first_use, key=lambda b: (-beats_of(b), first_use[b])):
        first, last, size = first_use[buffer], last_use[buffer], beats_of(buffer)
        start = base
        for begin, end, born, dead in placed:
            if born <= last and first <= dead:
                if begin - start >= size:
                    break
                start = max(start, end)
        offsets[buffer] = start
        bisect.insort(placed, (start, start + size, first, last))
        top = max(top, start + size)
    return offsets, top


class _FreeList:
    """Free blocks below a growing top, merged with their neighbours."""

    def __init__(self, base: int) -> None:
        self.top = base
        self._starts: list[int] = []
        self._sizes: dict[int, int] = {}

    def take(self, size: int) -> int:
        fitting = [(self._sizes[s], s) for s in self._starts if self._sizes[s] >= size]
        if fitting:
            length, start = min(fitting)
            self._remove(start)
            if length > size:
                self._insert(start + size, length - size)
            return start
        start = self.top
        if self._starts and self._starts[-1] + self._sizes[self._starts[-1]] == self.top:  # extend the last block
            start = self._starts[-1]
            self._remove(start)
        self.top = start + size
        return start

    def give(self, start: int, size: int) -> None:
        place = bisect.bisect(self._starts, start)
        if place < len(self._starts) and start + size == self._starts[place]:
            following = self._starts[place]
            size += self._sizes[following]
            self._remove(following)
        if place and self._starts[place - 1] + self._sizes[self._starts[place - 1]] == start:
            before = self._starts[place - 1]
            size += self._sizes[before]
            self._remove(before)
            start = before
        self._insert(start, size)

    def _insert(self, start: int, size: int) -> None:
        bisect.insort(self._starts, start)
        self._sizes[start] = size

    def _remove(self, start: int) -> None:
        del self._starts[bisect.bisect_left(self._starts, start)]
        del self._sizes[start]
