"""What a counting card says of a launch, and traces in card time: a launch lasts its cycles divided by the clock.

A simulated launch takes thousands of times as long as it would on the card. So that a trace shows the card, its clock
is slowed down while such a launch is under way, by as much as makes the launch as long as its cycles say. All other
time is the host's own. What the host does meanwhile in other threads is shortened with it, and of launches that are
under way at once the one is right that is slowed down least.
"""

from __future__ import annotations

import bisect
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fpga_dynamo.runtime.observe.events import (
    ApplicationEvent,
    CommandEvent,
    CountedEvent,
    DecisionEvent,
    Event,
    TaskEvent,
)

_LAST = "store"
"""The process of an engine that ends a command."""


@dataclass(frozen=True)
class CardCount:
    """cycles: of a launch. ends: the cycle in which each of its commands ends, from its first process's begin on."""

    cycles: int
    clock_hz: float
    ends: tuple[int, ...]

    @property
    def seconds(self) -> float:
        return self.cycles / self.clock_hz


def card_count(counters: str) -> CardCount | None:
    """What a run's counters say; None if there are none."""
    if not counters:
        return None
    report = json.loads(counters)
    processes = {process["process"]: process for process in report["processes"]}
    begin = min((process["first"] for process in processes.values()), default=0)
    commands = processes[_LAST]["commands"] if _LAST in processes else ()
    ends = tuple(command["last"] - begin for command in commands if command["index"] >= 0)
    return CardCount(report["cycles"], report["clock_khz"] * 1e3, ends)


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
            # Copies and the reading of counters are the host's: the unit is busy while it is simulated.
            begin = min((c.start for c in inside), default=event.start)
            end = max((c.stop for c in inside), default=event.stop)
            told = _told(inside, event) if inside else event.arguments
            found.append(replace(event, start=clock(begin), stop=clock(end), arguments=told))
        else:
            found.append(replace(event, start=clock(event.start), stop=clock(event.stop)))
    return found


def _told(counted: Sequence[CountedEvent], event: TaskEvent) -> dict[str, object]:
    cycles, hertz = sum(c.cycles for c in counted), counted[0].clock_hz
    simulated = sum(c.stop - c.start for c in counted)
    figures = {"cycles": cycles, "clock_mhz": hertz / 1e6, "card_ms": cycles / hertz * 1e3, "simulated_s": simulated}
    return {**event.arguments, **figures}


def _commands(event: CountedEvent, clock: Callable[[float], float]) -> list[Event]:
    """As shares of the launch, whose end is that of the last process."""
    last = max((end for _, _, end, _ in event.commands), default=0)
    step = (event.stop - event.start) / max(event.cycles, last, 1)
    return [
        CommandEvent(
            event.pe,
            name,
            clock(event.start + begin * step),
            clock(event.start + end * step),
            {**arguments, "cycles": end - begin},
        )
        for name, begin, end, arguments in event.commands
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
