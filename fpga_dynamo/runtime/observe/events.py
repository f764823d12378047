"""What a trace records. Times are in seconds, on the clock of whoever reports them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class TaskEvent:
    """A task of an application on a PE."""

    application: int
    program: str
    task: str
    pe: str
    start: float
    stop: float
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CommandEvent:
    """A part of a task, such as one command of a PL launch; drawn inside the task in Chrome traces."""

    pe: str
    name: str
    start: float
    stop: float
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CountedCommand:
    """A command of such a launch on the compute unit `pe`, from its first cycle to its last."""

    pe: str
    name: str
    first: int
    last: int
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CountedEvent:
    """A launch on a cycle simulator, while it was simulated.

    ends: the cycle in which each command ends, of several compute units on all of them. peers: the compute units that
    shared it with `pe`.
    """

    pe: str
    task: str
    start: float
    stop: float
    cycles: int
    clock_hz: float
    ends: tuple[int, ...]
    commands: tuple[CountedCommand, ...]
    peers: tuple[str, ...] = ()


@dataclass(frozen=True)
class DecisionEvent:
    """One call of the policy: `queued` ready tasks were offered, `assigned` got a PE; `overhead` in seconds."""

    time: float
    policy: str
    queued: int
    assigned: int
    overhead: float


@dataclass(frozen=True)
class ApplicationEvent:
    """One execution of a program; `start` is when its first task started, `stop` when its last one ended.

    model: the name of the module's type, or of the function, whose graph the program is.
    """

    application: int
    program: str
    arrival: float
    start: float
    stop: float
    model: str = ""


Event = TaskEvent | CommandEvent | CountedEvent | DecisionEvent | ApplicationEvent
