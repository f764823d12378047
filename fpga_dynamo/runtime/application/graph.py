"""An application: tasks, what each takes on each kind of unit that can run it, and the bytes on each edge."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from fpga_dynamo.errors import FpgaError

GRANULARITIES = ("launch", "layer", "op", "kernel")
"""What a task is: a launch of a command list, a layer (a module's call), an operator, or a call of one kernel."""


class ApplicationError(FpgaError):
    """An invalid task graph: the message names the application, the task and what is wrong."""


@dataclass(frozen=True)
class Edge:
    """What a task takes from an earlier one of the same application: `bytes` cross if the two run in two memories."""

    task: int
    bytes: int = 0


@dataclass(frozen=True)
class Result:
    """A value that the application gives: all or a view of what a task writes, or of one of its own inputs.

    task: None if no task writes it: an input, a constant, or what Python computes between two graphs of a model.
    output: which of the task's `outputs`.
    """

    shape: tuple[int, ...]
    task: int | None = None
    output: int = 0


@dataclass(frozen=True)
class NoCode:
    """Stands for the code of what has only costs, as in a graph that was loaded. Calling it raises ApplicationError."""

    what: str

    def __call__(self, *_: Any) -> Any:
        raise ApplicationError(
            f"{self.what} cannot run: it has costs but no code. JSON does not keep code; make the graph with "
            "fpga_dynamo.task_graph, or give its tasks `run`"
        )


@dataclass(frozen=True)
class ApplicationTask:
    """A unit of work that runs whole on one processing element.

    The attributes are those of a node of CEDR's DAGs, plus costs and sizes.
    """

    name: str
    seconds: Mapping[str, float]
    """By kind of unit: a CPU class ("x86", "a72", "a53", see `classes`) or the name of a kernel. Without transfers. A
    system's CPU of a class that is not named here takes the seconds of one that is, scaled."""
    dependencies: tuple[Edge, ...] = ()
    layer: str = ""
    """Type of the layer ("Conv2d"), of the operator ("aten.convolution"), or what the function is ("fft")."""
    kernel: str = ""
    """The kernel that runs it on the PL, "" if none does."""
    inputs: tuple[tuple[int, ...], ...] = ()
    outputs: tuple[tuple[int, ...], ...] = ()
    """Shapes."""
    memory: int = 0
    """Bytes that it needs while it runs: operands, results, weights."""
    from_host: int = 0
    """Bytes of operands that come from the outside (the application's inputs), in the host's memory."""
    to_host: int = 0
    """Bytes of results that the application gives, in the host's memory."""
    basis: Mapping[str, str] = field(default_factory=dict)
    """What the seconds of each kind of unit rest on: "measured", "cycles at 300 MHz", ..."""
    run: Callable[..., Any] = field(default=NoCode(""), compare=False, repr=False)
    """Does the work in real time: `run(kind, *inputs)` gives the results. Not part of the JSON; without code it raises
    ApplicationError.

    kind: the kind of unit that it was given to; inputs: the results of its dependencies, in their order.
    """

    def __post_init__(self) -> None:
        if not self.has_code:
            object.__setattr__(self, "run", NoCode(f"task {self.name!r}"))

    @property
    def has_code(self) -> bool:
        """Whether it can run, not only cost."""
        return not isinstance(self.run, NoCode)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of unit that can run it."""
        return frozenset(self.seconds)


@dataclass(frozen=True)
class Application:
    """A DAG of tasks in topological order. Raises ApplicationError for any other graph."""

    name: str
    tasks: tuple[ApplicationTask, ...]
    granularity: str = "kernel"
    source: str = ""
    """Where the figures come from, in a sentence."""
    results: tuple[Result, ...] = ()
    """The values that it gives, in order. Empty if nobody has said which."""
    collect: Callable[[Sequence[Sequence[Any]]], Any] = field(default=NoCode(""), compare=False, repr=False)
    """Makes the model's results of what `run` of each task gave, in the tasks' order. Not part of the JSON."""

    def __init__(
        self,
        name: str,
        tasks: Iterable[ApplicationTask],
        granularity: str = "kernel",
        source: str = "",
        results: Iterable[Result] = (),
        collect: Callable[[Sequence[Sequence[Any]]], Any] | None = None,
    ) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "tasks", tuple(tasks))
        object.__setattr__(self, "granularity", granularity)
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "results", tuple(results))
        none = NoCode(f"application {name!r}")
        object.__setattr__(self, "collect", none if collect is None or isinstance(collect, NoCode) else collect)
        if not name:
            raise ApplicationError("an application needs a name")
        if granularity not in GRANULARITIES:
            raise ApplicationError(
                f"application {name!r}: granularity must be one of {GRANULARITIES}, not {granularity!r}"
            )
        for index, task in enumerate(self.tasks):
            _check(self, index, task)
        for number, result in enumerate(self.results):
            if result.task is not None and not 0 <= result.task < len(self.tasks):
                raise ApplicationError(
                    f"application {name!r}: result {number} is of task {result.task}, but there are {len(self.tasks)} "
                    "tasks, numbered from 0"
                )

    @property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self.tasks]
        for index, task in enumerate(self.tasks):
            for edge in task.dependencies:
                found[edge.task].append(index)
        return tuple(map(tuple, found))

    def critical_path(self, seconds: Callable[[ApplicationTask], float] | None = None) -> float:
        """Length of the longest path, with each task's least seconds unless a function of the task is given."""
        of = seconds or (lambda task: min(task.seconds.values()))
        ends: list[float] = []
        for task in self.tasks:
            ends.append(of(task) + max((ends[edge.task] for edge in task.dependencies), default=0.0))
        return max(ends, default=0.0)

    def to_dot(self) -> str:
        """The graph in Graphviz's language."""
        lines = [f"digraph {_quoted(self.name)} {{", "  node [shape=box, fontname=Helvetica, fontsize=10];"]
        for index, task in enumerate(self.tasks):
            costs = "\n".join(f"{kind} {_time(seconds)}" for kind, seconds in task.seconds.items())
            lines.append(f"  {index} [label={_quoted(task.name + chr(10) + costs)}];")
        for index, task in enumerate(self.tasks):
            for edge in task.dependencies:
                label = f" [label={_quoted(_size(edge.bytes))}]" if edge.bytes else ""
                lines.append(f"  {edge.task} -> {index}{label};")
        return "\n".join([*lines, "}", ""])


def _check(application: Application, index: int, task: ApplicationTask) -> None:
    where = f"application {application.name!r}: task {index} ({task.name!r})"
    if not task.seconds:
        raise ApplicationError(f"{where} has no execution time for any kind of processing element, so it cannot run")
    for kind, seconds in task.seconds.items():
        if isinstance(seconds, bool) or not (isinstance(seconds, Real) and 0 <= seconds < math.inf):
            raise ApplicationError(f"{where}: seconds on {kind!r} must be a finite number >= 0, not {seconds!r}")
    seen = set()
    for edge in task.dependencies:
        if not 0 <= edge.task < index:
            raise ApplicationError(
                f"{where} depends on task {edge.task}: list each task after the tasks that it depends on (topological "
                "order)"
            )
        if edge.task in seen:
            raise ApplicationError(
                f"{where} depends twice on task {edge.task}: give one edge with the sum of the bytes"
            )
        seen.add(edge.task)
    sizes: Sequence[tuple[str, int]] = [
        *(("bytes of an edge", edge.bytes) for edge in task.dependencies),
        ("memory", task.memory),
        ("from_host", task.from_host),
        ("to_host", task.to_host),
    ]
    for what, value in sizes:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ApplicationError(f"{where}: {what} must be a whole number >= 0, not {value!r}")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def _size(count: int) -> str:
    return f"{count / 1024:.4g} KiB" if count >= 1024 else f"{count} B"
