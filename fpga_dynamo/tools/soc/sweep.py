"""Sweeps: systems x policies x rates x seeds in virtual time, on all cores, resumable.

As a table (`sweep.toml`)::

    system = "system.toml"             # or a table, see `system`
    workload = "workload.toml"         # or a table, see `workload`
    policies = ["eft", "least_work"]   # the system's alone, if absent
    rates = [100, 200, 400]            # instances a second; or loads = [0.5, 0.9], shares of what the system can serve
    [grid]                             # every combination of these is a system
    "cpus.a53" = [1, 2, 3]
    "accelerators.fft" = [0, 1]
    "scheduler.decision" = ["native", "a53"]

The results are `runs.csv` (a row for each run) and `applications.csv` (a row for each run and application) in a folder,
beside `study.json`, which says what was asked and what the runs were made by. A sweep that was interrupted goes on
where it was; what was made by another version of the package or another policy's code, or of another system or
workload, is made again.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.runtime.application import from_json, to_json
from fpga_dynamo.tools.executor import Executor, Threads, WorkerDiedError, as_ended
from fpga_dynamo.tools.soc.bounds import capacity
from fpga_dynamo.tools.soc.others import find_policy
from fpga_dynamo.tools.soc.provenance import digest, made_again, made_by, of_policy
from fpga_dynamo.tools.soc.result_files import Table, prune
from fpga_dynamo.tools.soc.rows import ApplicationRow, Failure, Point, RunRow, rows
from fpga_dynamo.tools.soc.system import System
from fpga_dynamo.tools.soc.tables import StudyError, known_keys, read, table, text
from fpga_dynamo.tools.soc.virtual import NATIVE_POLICIES, simulate
from fpga_dynamo.tools.soc.workload import Arrivals, Workload
from xclbin_build import atomic_file
from xclbin_build.documents import DocumentError, read_json
from xclbin_build.schema import MOST, shown

MOST_SYSTEMS = 100_000
KEYS = ("name", "system", "workload", "policies", "rates", "loads", "grid")
RUNS, APPLICATIONS, STUDY = "runs.csv", "applications.csv", "study.json"


class Sweep:
    """See the module. Raises StudyError for an invalid sweep."""

    def __init__(self, description: Mapping[str, Any], folder: Path = Path()) -> None:
        known_keys("sweep", description, KEYS)
        self.name = text("sweep", description, "name", "sweep")
        system = _table_or_file("system", description, folder)
        grid = table("sweep", description, "grid")
        axes = []
        for axis, values in grid.items():
            if not isinstance(values, list) or not values:
                raise StudyError(f"grid: {axis!r} needs a list of values, not {shown(values)}")
            axes.append([(axis, value) for value in values])
        if math.prod(map(len, axes)) > MOST_SYSTEMS:
            raise StudyError(f"grid: more than {MOST_SYSTEMS:,} combinations; leave out some values")
        self.settings = [dict(combination) for combination in itertools.product(*axes)]
        self.systems: list[System] = []
        kept = []
        for setting in self.settings:
            changed = copy.deepcopy(dict(system))
            for axis, value in setting.items():
                _set(changed, axis, value)
            self.systems.append(System(changed))
            kept.append(changed)
        self.workload = Workload(_table_or_file("workload", description, folder), folder)
        policies = description.get("policies")
        if policies is not None and not (isinstance(policies, list) and policies and all(map(_is_name, policies))):
            raise StudyError(f"sweep: policies must be a list of names, not {shown(policies)}")
        self.policies: list[str] | None = policies
        if "rates" in description and "loads" in description:
            raise StudyError("sweep: give rates (instances a second) or loads (shares of the capacity), not both")
        for name in ("rates", "loads"):
            values = description.get(name, [1.0])
            if not isinstance(values, list) or not values or not all(_is_positive(value) for value in values):
                raise StudyError(f"sweep: {name} must be a list of numbers > 0, not {shown(values)}")
        self.rates: list[float] | None = description.get("rates")
        self.loads: list[float] | None = description.get("loads")
        for policy in dict.fromkeys(self.policies or [system.policy for system in self.systems]):
            if policy not in NATIVE_POLICIES:
                find_policy(policy)
        self.notes = self._notes()
        self._capacities: dict[int, float] = {}
        self._unloaded: dict[tuple[int, str], float] = {}
        self.study: dict[str, Any] = {
            "name": self.name,
            "systems": [
                {"setting": setting, "title": _title(setting, one), "description": what}
                for setting, one, what in zip(self.settings, self.systems, kept, strict=True)
            ],
            "applications": [
                {"name": one.name, "tasks": len(one.tasks), "source": one.source} for one in self.workload.applications
            ],
            "workload": self._workload_text(),
            "made_by": made_by(self.policies or [one.policy for one in self.systems]),
        }

    def __getstate__(self) -> dict[str, Any]:
        """For another process. Of tasks that is what they cost, as in JSON: their code may not fit into a message."""
        sources = [replace(one, application=from_json(to_json(one.application))) for one in self.workload.sources]
        return {**vars(self), "workload": self.workload.with_sources(sources)}

    def _notes(self) -> list[str]:
        """Sentences on what the description leaves open, or states to no effect."""
        unused = dict.fromkeys(name for system in self.systems for name in system.unused(self.workload.applications))
        found = [f"no task of the workload runs on the accelerator {name!r}" for name in unused]
        if self.rates is None and self.loads is None and not self.workload.has_rate:
            found.append(f"no rates, loads or rate given: {self.workload.rate:g} instances per second")
        return found

    def capacity(self, number: int) -> float:
        found = self._capacities.get(number)
        if found is None:
            system = self.systems[number]
            compiled = [system.compiled(application) for application in self.workload.applications]
            found = self._capacities[number] = capacity(system, compiled, self.workload.shares)
        return found

    def points(self) -> Iterable[Point]:
        for number, system in enumerate(self.systems):
            if self.rates is not None:
                rates = self.rates
            elif self.loads is not None:
                rates = [load * self.capacity(number) for load in self.loads]
            else:
                rates = [self.workload.rate]
            for rate, policy, seed in itertools.product(rates, self.policies or [system.policy], self.workload.seeds):
                asked = [self.study["systems"][number], policy, rate, seed]
                made = of_policy(self.study["made_by"], policy)
                key = digest(json.dumps(asked, sort_keys=True, default=str), self.study["workload"], *made)
                yield Point(key, number, policy, rate, seed)

    def _workload_text(self) -> str:
        workload = self.workload
        sources = [
            (source.application, source.share, source.kind, source.burst, source.trace, source.deadline)
            for source in workload.sources
        ]
        return digest(
            repr(sources), repr((workload.until, workload.instances, workload.warm_up, workload.spread, workload.tail))
        )

    def made_again(self, out: Path) -> str:
        """A sentence on the runs in `out` that were asked for before and have to be made again; empty if none has."""
        try:
            old = read_json(out / STUDY)
        except DocumentError:
            return ""
        places = {
            point.key: (self.settings[point.system], point.policy, float(f"{point.rate:.9g}"), point.seed)
            for point in self.points()
        }
        return made_again(old, self.study, out / RUNS, places)

    def run(self, point: Point) -> tuple[RunRow, list[ApplicationRow]]:
        system = self.systems[point.system]
        run = simulate(system, self.workload, point.policy, point.rate, point.seed)
        most, unloaded = self.capacity(point.system), self.unloaded(point.system, point.policy)
        return rows(run, system, point, most, unloaded, self.workload.warm_up)

    def attempt(self, point: Point) -> tuple[RunRow, list[ApplicationRow]] | Failure:
        """As `run`, but an error is a result: a policy's code may raise anything, also what no process can pass on."""
        try:
            return self.run(point)
        except Exception as error:
            name, why = type(error).__name__, " ".join(str(error).split())
            kind = "" if isinstance(error, FpgaError) and why else f"{name}: " if why else name
            return Failure(point, self.study["systems"][point.system]["title"], kind + why)

    def unloaded(self, number: int, policy: str) -> float:
        """Mean response, in seconds, of applications that arrive alone in the middle of a period of decisions."""
        found = self._unloaded.get((number, policy))
        if found is None:
            system, workload = self.systems[number], self.workload
            total = 0.0
            for index, share in enumerate(workload.shares):
                arrival = Arrivals(np.array([system.decision.period / 2]), [index])
                total += share * simulate(system, workload, policy, arrivals=arrival, bound=False).mean_response
            found = self._unloaded[number, policy] = total / sum(workload.shares)
        return found


def load_sweep(path: Path) -> Sweep:
    """The sweep of a file, or of `sweep.toml` in a folder."""
    path = path / "sweep.toml" if path.is_dir() else path
    return Sweep(read(path), path.parent)


def run_sweep(
    sweep: Sweep, out: Path, executor: Executor | None = None, progress: Callable[[int, int], None] | None = None
) -> tuple[int, list[Failure]]:
    """Runs what is not in `out` yet. Returns how many runs that was, and those that failed, by policy.

    executor: where, left at the end; else threads on all usable cores. A row is in `runs.csv` only if those of its
    applications are written. In the end rows are in the order of the sweep's points, wherever they were made. A run
    that failed is in no table, so the next call runs it again.
    """
    out.mkdir(parents=True, exist_ok=True)
    atomic_file.write(out / STUDY, json.dumps(sweep.study, indent=1, default=str) + "\n")
    points = list(sweep.points())
    order = [point.key for point in points]
    done = set(prune(out / RUNS, order))
    prune(out / APPLICATIONS, done)
    left = [point for point in points if point.key not in done]
    failures: list[Failure] = []
    count = 0
    if progress:
        progress(len(points) - len(left), len(points))
    with (
        Table(out / RUNS, RunRow) as runs,
        Table(out / APPLICATIONS, ApplicationRow) as applications,
        executor or Threads(usable_cores()) as hosts,
        closing(as_ended(hosts, sweep.attempt, left)) as ended,
    ):
        for point, future in ended:
            try:
                outcome = future.result()
            except WorkerDiedError as error:
                outcome = Failure(point, sweep.study["systems"][point.system]["title"], str(error))
            if isinstance(outcome, Failure):
                failures.append(outcome)
            else:
                row, parts = outcome
                applications.write(parts)
                runs.write([row])
                count += 1
            if progress:
                progress(len(points) - len(left) + count + len(failures), len(points))
    prune(out / RUNS, order)
    prune(out / APPLICATIONS, order)
    return count, sorted(failures, key=lambda one: (one.point.policy, one.point.system, one.point.rate, one.point.seed))


def usable_cores() -> int:
    return len(os.sched_getaffinity(0))


def _table_or_file(key: str, description: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """A table, or that of the file that is named."""
    value = description.get(key)
    if isinstance(value, str):
        return read(folder / value)
    if isinstance(value, Mapping):
        return value
    raise StudyError(f"sweep: {key} must be a table or the name of a toml file, not {shown(value)}")


def _set(description: dict[str, Any], axis: str, value: Any) -> None:
    *parents, last = axis.split(".")
    for name in parents:
        description = description.setdefault(name, {})
        if not isinstance(description, dict):
            raise StudyError(f"grid: {axis!r} is not a path of keys in a system")
    if not last:
        raise StudyError(f"grid: {axis!r} is not a path of keys in a system")
    description[last] = value


def _title(setting: Mapping[str, Any], system: System) -> str:
    return ", ".join(f"{axis.rpartition('.')[2]} {value}" for axis, value in setting.items()) or system.title


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= MOST


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value) and value.isprintable()
