"""What the scheduler schedules: processing elements, tasks, their graph, and one execution of the graph (a frame)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal

from fpga_dynamo.errors import FpgaError

PS = "PS"
"""The resource type of the host's threads; every other resource type is the name of a kernel."""


class SchedulerError(FpgaError):
    """A graph cannot be scheduled on these processing elements, or a policy broke its contract."""


@dataclass(frozen=True, eq=False)
class ProcessingElement:
    """A place where one task runs at a time: a host thread (kind "PS") or a compute unit of a kernel (kind "PL").

    Compared by identity: two elements described alike are still two pieces of hardware.
    """

    name: str
    kind: Literal["PS", "PL"]
    kernel: str | None = None
    index: int = 0
    variant: str = field(default="", repr=False)
    """What tells it from others of its kind or kernel for which tasks state other costs, such as a class of cores."""
    resource: str = field(init=False, repr=False)
    """Resource type under which tasks state their costs: the variant if there is one, "PS", or the kernel's name."""

    def __post_init__(self) -> None:
        if self.kind not in ("PS", "PL"):
            raise ValueError(f"processing element {self.name!r}: kind must be 'PS' or 'PL', not {self.kind!r}")
        if (self.kind == "PL") != bool(self.kernel) or self.kernel == PS:
            raise ValueError(
                f"processing element {self.name!r}: a PL element must name its kernel (other than 'PS'), and a PS "
                "element must not"
            )
        object.__setattr__(self, "resource", self.variant or self.kernel or PS)


@dataclass(frozen=True, eq=False)
class Task:
    """A unit of work that runs whole on one processing element.

    `costs` maps each resource type that can run the task to its estimated seconds, without transfers;
    `transfer_seconds` maps resource types to the seconds that moving operands and results adds there (0 if absent).
    `run(pe, frame)` does the work; it includes the transfers and returns when the results are usable.
    `dependencies` are indices of tasks in the same graph. `arguments` go into trace events (commands, bytes ...).
    """

    name: str
    costs: Mapping[str, float]
    run: Callable[[ProcessingElement, Frame], None]
    dependencies: tuple[int, ...] = ()
    transfer_seconds: Mapping[str, float] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    resources: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.costs:
            raise ValueError(
                f"task {self.name!r}: costs is empty: name at least one resource type that can run the task"
            )
        for what, seconds in (("cost", self.costs), ("transfer time", self.transfer_seconds)):
            for resource, value in seconds.items():
                if not (isinstance(value, Real) and 0 <= value < math.inf):
                    raise ValueError(f"task {self.name!r}: {what} on {resource!r} must be finite and >= 0, not {value}")
        object.__setattr__(self, "costs", dict(self.costs))
        object.__setattr__(self, "transfer_seconds", dict(self.transfer_seconds))
        object.__setattr__(self, "dependencies", tuple(dict.fromkeys(self.dependencies)))
        object.__setattr__(self, "resources", frozenset(self.costs))

    def seconds(self, resource: str) -> float:
        """Estimated seconds on `resource` with transfers."""
        return self.costs[resource] + self.transfer_seconds.get(resource, 0.0)


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """A DAG of tasks in topological order, made once per program and executed many times.

    Only `durations` changes. model: the name of the model or application, "" if unknown. deadline: seconds from the
    arrival of a frame by which it should end, for the policies that consider it.
    """

    name: str
    tasks: tuple[Task, ...]
    model: str
    deadline: float
    successors: tuple[tuple[int, ...], ...] = field(init=False, repr=False)
    dependency_counts: tuple[int, ...] = field(init=False, repr=False)
    roots: tuple[int, ...] = field(init=False, repr=False)
    ranks: tuple[float, ...] = field(init=False, repr=False)
    """Upward ranks, seconds: see `upward_ranks`."""
    requirements: frozenset[frozenset[str]] = field(init=False, repr=False)
    """The distinct sets of resource types of the tasks: a scheduler needs one element out of each set."""
    durations: list[float] = field(init=False, repr=False)
    """Seconds that each task takes, as its runs say (see `lasted`); least stated seconds before the first one."""

    def __init__(self, name: str, tasks: Sequence[Task], model: str = "", deadline: float = math.inf) -> None:
        if not deadline > 0:
            raise ValueError(f"graph {name!r}: deadline must be greater than 0 seconds, not {deadline!r}")
        successors: list[list[int]] = [[] for _ in tasks]
        for index, task in enumerate(tasks):
            for dependency in task.dependencies:
                if not 0 <= dependency < index:
                    raise ValueError(
                        f"graph {name!r}: task {index} ({task.name!r}) depends on {dependency}, but list each task "
                        "after the tasks that it depends on (topological order)"
                    )
                successors[dependency].append(index)
        values = {
            "name": name,
            "model": model,
            "deadline": deadline,
            "tasks": tuple(tasks),
            "successors": tuple(map(tuple, successors)),
            "dependency_counts": tuple(len(task.dependencies) for task in tasks),
            "roots": tuple(index for index, task in enumerate(tasks) if not task.dependencies),
            "ranks": upward_ranks(tasks, successors),
            "requirements": frozenset(task.resources for task in tasks),
            "durations": [min(map(task.seconds, task.costs)) for task in tasks],
        }
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def lasted(self, index: int, seconds: float) -> None:
        """Notes what a run of task `index` took: less is believed at once, more at twice as much a run at most."""
        known = self.durations[index]
        self.durations[index] = min(seconds, 2 * known) if known else seconds


def _mean(values: Collection[float]) -> float:
    return sum(values) / len(values)


def upward_ranks(
    tasks: Sequence[Task],
    successors: Sequence[Sequence[int]],
    weight: Callable[[Collection[float]], float] = _mean,
) -> tuple[float, ...]:
    """HEFT's upward rank, rank(i) = w(i) + max over successors j of rank(j), in seconds (Topcuoglu et al., 2002).

    w(i) is the weight of the task's seconds, transfers included, over its resource types: in HEFT their mean. Our
    transfers belong to tasks rather than to edges, hence no edge term.
    """
    ranks = [0.0] * len(tasks)
    for index in reversed(range(len(tasks))):
        task = tasks[index]
        seconds = [task.seconds(resource) for resource in task.costs]
        ranks[index] = weight(seconds) + max((ranks[successor] for successor in successors[index]), default=0.0)
    return tuple(ranks)


class Frame:
    """One execution of a `TaskGraph`: the values that its tasks read and write, and what is still to be done.

    `values` is whatever the caller of `Scheduler.execute` handed over; tasks that run at the same time share it.
    """

    __slots__ = ("application", "arrival", "dependencies_left", "error", "graph", "tasks_left", "values")

    def __init__(self, graph: TaskGraph, values: Any, arrival: float) -> None:
        self.graph = graph
        self.values = values
        self.arrival = arrival
        self.application: int | None = None  # id in traces, given when the frame is first traced
        self.error: BaseException | None = None
        self.tasks_left = len(graph.tasks)
        # One-task graphs, the common case, never look at the counters.
        self.dependencies_left = list(graph.dependency_counts) if self.tasks_left > 1 else None

    @property
    def deadline(self) -> float:
        """When it should have ended, on the clock of `arrival`; infinite without a deadline."""
        return self.arrival + self.graph.deadline

    def roots(self) -> list[ReadyTask]:
        return [ReadyTask(self, index) for index in self.graph.roots]

    def finish(self, index: int) -> list[ReadyTask]:
        """Mark task `index` as done; returns the tasks that this made ready."""
        self.tasks_left -= 1
        counters = self.dependencies_left
        if counters is None:
            return []
        ready = []
        for successor in self.graph.successors[index]:
            counters[successor] -= 1
            if counters[successor] == 0:
                ready.append(ReadyTask(self, successor))
        return ready


class ReadyTask:
    """A task of a frame whose dependencies are met: what policies assign to processing elements."""

    __slots__ = ("estimate", "frame", "index", "lent", "task", "thread")

    def __init__(self, frame: Frame, index: int) -> None:
        self.frame = frame
        self.index = index
        self.task = frame.graph.tasks[index]
        self.estimate = 0.0  # seconds that the policy expected when it assigned the task
        self.thread: int | None = None  # the thread that runs it
        self.lent = False  # it waits inside, and has given its processing element up

    @property
    def rank(self) -> float:
        """Upward rank in its graph, seconds."""
        return self.frame.graph.ranks[self.index]

    def __repr__(self) -> str:
        return f"<ReadyTask {self.task.name} of {self.frame.graph.name}>"
