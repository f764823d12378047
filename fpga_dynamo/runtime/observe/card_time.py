"""What a cycle simulator says of a launch, and traces in card time: a launch lasts its cycles divided by the clock.

A simulated launch takes thousands of times as long as it would on the card. So the clock of a trace runs slower during
such a launch: the launch then lasts as long as its cycles say. All other time is host time. Work of other host threads
during the launch is shortened with it. Of launches that overlap, only the one with the least slow-down is shown right.
"""

from __future__ import annotations

import bisect
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fpga_dynamo.runtime.observe.events import (
    ApplicationEvent,
    CommandEvent,
    CountedEvent,
    DecisionEvent,
    Event,
    TaskEvent,
)

_LAST = "store"
"""The process of an engine that ends a command; of several units that of each, behind its name and a slash."""


@dataclass(frozen=True)
class CardCount:
    """cycles: of a launch. units: of each unit the cycle in which each command ends that it has a part of, by the
    command's index, from the begin of the launch's first process on."""

    cycles: int
    clock_hz: float
    units: tuple[Mapping[int, int], ...]

    @property
    def ends(self) -> tuple[int, ...]:
        """When each command has ended on all units, and with it those before."""
        count = 1 + max((index for unit in self.units for index in unit), default=-1)
        last = (max(unit.get(index, 0) for unit in self.units) for index in range(count))
        return tuple(itertools.accumulate(last, max))

    @property
    def seconds(self) -> float:
        return self.cycles / self.clock_hz


def card_count(counters: str) -> CardCount | None:
    """What a run's counters say; None for a run without counters."""
    return count_of(json.loads(counters)) if counters else None


def count_of(report: Mapping[str, Any]) -> CardCount:
    """What a report of the simulator says (hls_kernels/sim/counters.hpp)."""
    processes = {process["process"]: process for process in report["processes"]}
    begin = min((process["first"] for process in processes.values()), default=0)
    last = [name for name in processes if name.rpartition("/")[2] == _LAST]
    units = tuple(
        {command["index"]: command["last"] - begin for command in processes[name]["commands"] if command["index"] >= 0}
        for name in sorted(last, key=lambda name: (len(name), name))  # engine_2 before engine_10
    )
    return CardCount(report["cycles"], report["clock_khz"] * 1e3, units)


def in_card_time(events: Sequence[Event]) -> list[Event]:
    """The events with counted launches as long as on the card, and their commands as events of their own."""
    counted = [event for event in events if isinstance(event, CountedEvent)]
    if not counted:
        return list(events)
    clock = _clock(counted)
    of_task: dict[tuple[str, str], list[CountedEvent]] = defaultdict(list)
    for launch in counted:
        of_task[launch.pe, launch.task].append(launch)
    found: list[Event] = []
    for event in events:
        if isinstance(event, CountedEvent):
            found += _commands(event, clock)
        elif isinstance(event, ApplicationEvent):
            times = clock(event.arrival), clock(event.start), clock(event.stop)
            found.append(replace(event, arrival=times[0], start=times[1], stop=times[2]))
        elif isinstance(event, DecisionEvent):
            begin = clock(event.time)
            found.append(replace(event, time=begin, overhead=clock(event.time + event.overhead) - begin))
        elif isinstance(event, TaskEvent):
            inside = [c for c in of_task[event.pe, event.task] if event.start <= c.start and c.stop <= event.stop]
            # Copies and the reading of counters are host time: the unit is busy while it is simulated.
            begin = min((c.start for c in inside), default=event.start)
            end = max((c.stop for c in inside), default=event.stop)
            told = _card_arguments(inside, event) if inside else event.arguments
            shown = replace(event, start=clock(begin), stop=clock(end), arguments=told)
            found.append(shown)
            found += [replace(shown, pe=peer) for launch in inside for peer in launch.peers]
        else:
            found.append(replace(event, start=clock(event.start), stop=clock(event.stop)))
    return found


def _card_arguments(counted: Sequence[CountedEvent], event: TaskEvent) -> dict[str, object]:
    cycles, hertz = sum(c.cycles for c in counted), counted[0].clock_hz
    simulated = sum(c.stop - c.start for c in counted)
    figures = {"cycles": cycles, "clock_mhz": hertz / 1e6, "card_ms": cycles / hertz * 1e3, "simulated_s": simulated}
    return {**event.arguments, **figures}


def _commands(event: CountedEvent, clock: Callable[[float], float]) -> list[Event]:
    """As shares of the launch, whose end is that of the last process."""
    last = max((command.last for command in event.commands), default=0)
    step = (event.stop - event.start) / max(event.cycles, last, 1)
    return [
        CommandEvent(
            command.pe,
            command.name,
            clock(event.start + command.first * step),
            clock(event.start + command.last * step),
            {**command.arguments, "cycles": command.last - command.first},
        )
        for command in event.commands
    ]


def _clock(counted: Sequence[CountedEvent]) -> Callable[[float], float]:
    """From the host's seconds to those of the trace, which are the same until the first counted launch begins."""
    bounds = sorted({time for event in counted for time in (event.start, event.stop)})
    steps: dict[float, list[tuple[int, float]]] = defaultdict(list)
    for event in counted:
        speed = event.cycles / event.clock_hz / max(event.stop - event.start, 1e-9)
        steps[event.start].append((1, speed))
        steps[event.stop].append((-1, speed))
    active: list[float] = []
    shown, speeds = [bounds[0]], []
    for begin, end in itertools.pairwise(bounds):
        for way, speed in steps[begin]:
            (active.append if way > 0 else active.remove)(speed)
        speeds.append(max(active, default=1.0))
        shown.append(shown[-1] + (end - begin) * speeds[-1])
    speeds.append(1.0)

    def clock(time: float) -> float:
        i = bisect.bisect_right(bounds, time) - 1
        return time if i < 0 else shown[i] + (time - bounds[i]) * speeds[i]

    return clock
