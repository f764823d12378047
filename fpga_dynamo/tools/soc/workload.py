"""A workload: applications, and when instances of them arrive.

As a table (a toml file, or the `workload` of a sweep)::

    rate = 200                  # instances a second, of all applications together (100)
    until = 2.0                 # seconds of arrivals; or instances = 400
    seeds = 3                   # how often, with other random numbers; or a list of them
    warm_up = 0.1               # share of the instances, the first to arrive, that figures leave out (0)
    spread = 0.0                # sigma of a log-normal factor on every task's seconds
    [[application]]
    graph = "doppler.json"      # a task graph; or model = "resnet18"; or program = "module:callable"
    platform = "zcu102"         # of a model: what its seconds are modelled for (zcu102); measure = true measures them
    share = 3                   # of the rate, beside the other applications' shares (1)
    deadline = 5e-3             # seconds from an arrival by which the instance should end (none)
    arrivals = "poisson"        # "periodic"; {bursts = 10} at once, apart as Poisson says; {trace = "times.txt"}

A program gives a task graph (an Application). A model is one that `fpga-dynamo run` takes, `module:callable` among
them; see `models` for its seconds. A trace is a file with an arrival's seconds in each line; rates do not change it.
"""

from __future__ import annotations

import copy
import heapq
import itertools
import math
import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fpga_dynamo.runtime.application import Application, load
from fpga_dynamo.tools.soc.tables import StudyError, known_keys, number, text, whole
from xclbin_build.documents import DocumentError, read_text
from xclbin_build.schema import MOST, shown

KEYS = ("rate", "until", "instances", "seeds", "warm_up", "spread", "tail", "application")
APPLICATION_KEYS = (
    "graph", "model", "program", "name", "share", "arrivals", "granularity", "platform", "measure", "deadline"
)  # fmt: skip
_OF_MODELS = ("granularity", "platform", "measure")
_SOURCES = ("graph", "model", "program")
RATE = 100.0
"""Instances a second, where nobody says; the commands say so then."""
INSTANCES = 300
"""Of all applications together, where a workload says neither `until` nor `instances`."""
MOST_WARM_UP = 0.9
"""Share of a run's instances."""
MOST_INSTANCES, MOST_SEEDS, MOST_SIGMA = 10_000_000, 10_000, 10.0
"""Of a run; of a sweep; of the logarithm of a task's seconds, whose factor then is e^10 at one sigma."""


@dataclass(frozen=True)
class ArrivingApplication:
    """An application and how its instances arrive."""

    application: Application
    share: float = 1.0
    kind: str = "poisson"
    burst: int = 1
    trace: tuple[float, ...] = ()
    deadline: float = math.inf
    """Seconds from an arrival by which the instance should end."""


@dataclass(frozen=True)
class Arrivals:
    """Sorted times, seconds, and the number of the application that arrives at each."""

    times: npt.NDArray[np.float64]
    which: list[int]


class Workload:
    """See the module. `folder`: what paths are relative to. Raises StudyError for an invalid workload."""

    def __init__(self, description: Mapping[str, Any], folder: Path = Path()) -> None:
        known_keys("workload", description, KEYS)
        rows = description.get("application", [])
        if not isinstance(rows, list) or not rows:
            raise StudyError("a workload needs at least one [[application]]")
        values = {key: value for key, value in description.items() if key != "application"}
        self._take([_source(number_, row, folder) for number_, row in enumerate(rows)], values)

    def _take(self, sources: list[ArrivingApplication], description: Mapping[str, Any]) -> None:
        self.sources = sources
        names = [source.application.name for source in self.sources]
        for name in names:
            if names.count(name) > 1:
                raise StudyError(f"two applications are called {name!r}: give one of them another `name`")
        self.rate = number("workload", description, "rate", RATE)
        self.has_rate = "rate" in description
        self.until = number("workload", description, "until", math.nan) if "until" in description else None
        if self.until is not None and "instances" in description:
            raise StudyError("workload: give until (seconds) or instances (how many), not both")
        self.instances = whole("workload", description, "instances", INSTANCES, 1, MOST_INSTANCES)
        self.seeds = _seeds(description)
        self.warm_up = number("workload", description, "warm_up", 0.0, MOST_WARM_UP)
        self.spread = number("workload", description, "spread", 0.0, MOST_SIGMA)
        self.tail = number("workload", description, "tail", 0.0, MOST_SIGMA)

    @classmethod
    def of(cls, sources: Sequence[ArrivingApplication], **values: Any) -> Workload:
        """A workload of sources that are there already; values: as in a table, but for the applications."""
        made = cls.__new__(cls)
        made._take(list(sources), values)
        return made

    def with_sources(self, sources: Sequence[ArrivingApplication]) -> Workload:
        """The same workload of other applications."""
        made = copy.copy(self)
        made.sources = list(sources)
        return made

    @property
    def applications(self) -> list[Application]:
        return [source.application for source in self.sources]

    @property
    def shares(self) -> list[float]:
        return [source.share for source in self.sources]

    @property
    def deadlines(self) -> list[float]:
        """By application, seconds from the arrival of an instance; infinite without one."""
        return [source.deadline for source in self.sources]

    def arrivals(self, rate: float, seed: int) -> Arrivals:
        """Those of all applications, `rate` a second together. The same arguments give the same times.

        As many as `instances` says (fewer only if all are traces, which end), or all before `until`.
        """
        if rate <= 0:
            raise StudyError(f"the rate of a workload must be greater than 0 instances per second, not {rate:g}")
        total = sum(self.shares)
        if self.until is not None and rate * self.until > MOST_INSTANCES:
            raise StudyError(
                f"{rate:g} instances per second for {self.until:g} seconds are more than {MOST_INSTANCES:,} instances: "
                "give a lower rate or a smaller `until`"
            )
        streams = [
            _stream(index, source, rate * source.share / total, random.Random(f"{seed}/{source.application.name}"))
            for index, source in enumerate(self.sources)
        ]
        merged = heapq.merge(*streams)
        if self.until is None:
            found = list(itertools.islice(merged, self.instances))
        else:
            found = list(itertools.takewhile(lambda arrival: arrival[0] < (self.until or 0.0), merged))
        return Arrivals(np.array([time for time, _ in found]), [index for _, index in found])


def _seeds(description: Mapping[str, Any]) -> list[int]:
    """`seeds`: how many, or a list of them."""
    seeds = description.get("seeds", 1)
    if not isinstance(seeds, list):
        return list(range(whole("workload", description, "seeds", 1, 1, MOST_SEEDS)))
    if not 1 <= len(seeds) <= MOST_SEEDS:
        raise StudyError(f"workload: seeds must be a list of 1 to {MOST_SEEDS:,} numbers, not of {len(seeds)}")
    return [whole("workload", {"seeds": seed}, "seeds", 0, 0, 2**63 - 1) for seed in seeds]


def _stream(
    index: int, source: ArrivingApplication, rate: float, generator: random.Random
) -> Iterator[tuple[float, int]]:
    """Times of a source's arrivals, ascending, each with the source's number; only a trace ends."""
    if source.kind == "trace":
        yield from ((time, index) for time in source.trace)
    elif source.kind == "periodic":
        # Each application at a phase of its own: all at once would be bursts.
        phase = generator.random() / rate
        yield from ((phase + count / rate, index) for count in itertools.count())
    else:
        time = 0.0
        while True:
            time += generator.expovariate(rate / source.burst)
            yield from itertools.repeat((time, index), source.burst)


def _source(index: int, row: Any, folder: Path) -> ArrivingApplication:
    where = f"application {index + 1}"
    if not isinstance(row, Mapping):
        raise StudyError(f"{where} must be a table with one of {', '.join(_SOURCES)}, not {shown(row)}")
    known_keys(where, row, APPLICATION_KEYS)
    given = [key for key in _SOURCES if key in row]
    if len(given) != 1:
        raise StudyError(f"{where} has {' and '.join(given) or 'no source'}: give one of {', '.join(_SOURCES)}")
    for key in (given[0], "name", "granularity", "platform"):
        if key in row and not text(where, row, key, ""):
            raise StudyError(f"{where}: {key} is empty; give a name or leave it out")
    extra = [key for key in _OF_MODELS if key in row]
    if extra and given[0] != "model":
        raise StudyError(f"{where}: {extra[0]} requires a model, and this is a {given[0]}")
    application = _application(where, given[0], row[given[0]], row, folder)
    if "name" in row:
        application = replace(application, name=row["name"])
    share = number(where, row, "share", 1.0)
    if share <= 0:
        raise StudyError(f"{where}: a share must be greater than 0")
    deadline = number(where, row, "deadline", MOST) if "deadline" in row else math.inf
    if deadline <= 0:
        raise StudyError(f"{where}: a deadline must be greater than 0 seconds")
    kind, burst, trace = _arrivals(where, row.get("arrivals", "poisson"), folder)
    return ArrivingApplication(application, share, kind, burst, trace, deadline)


def _arrivals(where: str, arrivals: Any, folder: Path) -> tuple[str, int, tuple[float, ...]]:
    """Their kind, the size of a burst, and the times of a trace."""
    if arrivals in ("poisson", "periodic"):
        return str(arrivals), 1, ()
    if isinstance(arrivals, Mapping) and set(arrivals) == {"bursts"}:
        return "bursts", whole(where, arrivals, "bursts", 1, 1, MOST_INSTANCES), ()
    if isinstance(arrivals, Mapping) and set(arrivals) == {"trace"}:
        return "trace", 1, _trace(where, folder / text(where, arrivals, "trace", ""))
    raise StudyError(
        f"{where}: arrivals must be 'poisson', 'periodic', {{bursts = N}} or {{trace = FILE}}, not {shown(arrivals)}"
    )


def _trace(where: str, path: Path) -> tuple[float, ...]:
    try:
        times = [float(line) for line in read_text(path).split()]
    except DocumentError as error:
        raise StudyError(f"{where}: cannot read arrivals from {path}: {error}") from error
    except ValueError as error:
        words = str(error)[:100]
        raise StudyError(f"{where}: cannot read arrivals from {path}, a number in each line: {words}") from error
    if any(not 0 <= time < math.inf for time in times):
        raise StudyError(f"{where}: {path} has an arrival that is not a finite number of seconds >= 0")
    return tuple(sorted(times))


def _application(where: str, kind: str, name: str, row: Mapping[str, Any], folder: Path) -> Application:
    if kind == "graph":
        return load(folder / name)
    if kind == "program":
        from fpga_dynamo.tools.zoo import called

        for place in (os.fspath(folder), os.getcwd()):
            if place not in sys.path:
                sys.path.insert(0, place)
        made = called(name)
        if not isinstance(made, Application):
            raise StudyError(f"{where}: {name} gives {type(made).__name__}, not an Application")
        return made
    from fpga_dynamo.tools.soc.models import graph_of_model

    return graph_of_model(where, name, row, folder)
