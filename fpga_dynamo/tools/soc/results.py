"""The results of a sweep: its tables read back, means over seeds, saturation points and Pareto fronts."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from math import exp, inf, log
from pathlib import Path
from typing import Annotated, Any

from fpga_dynamo.tools.soc.rows import ApplicationRow, RunRow
from fpga_dynamo.tools.soc.statistics import Estimate, estimate, ratio
from fpga_dynamo.tools.soc.sweep import APPLICATIONS, RUNS, STUDY
from fpga_dynamo.tools.soc.system import System
from fpga_dynamo.tools.soc.tables import StudyError
from xclbin_build.documents import read_json
from xclbin_build.schema import Length, Range, Text, check, shown

SATURATED = 3.0
"""A system is saturated from the rate on at which the mean response is so many times the unloaded one."""
_TEXT = ("key", "policy", "application")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class _StudySystem:
    setting: dict[str, Any]
    title: Text
    description: dict[str, Any]


@dataclass(frozen=True)
class _StudyApplication:
    name: Text
    tasks: Annotated[int, Range(0, 2**62)]
    source: Text


@dataclass(frozen=True)
class _Study:
    """The fields of study.json."""

    name: Text
    systems: Annotated[list[_StudySystem], Length(1)]
    applications: list[_StudyApplication]
    workload: Text
    made_by: dict[str, Text]


@dataclass(frozen=True)
class Results:
    """study: what was asked; runs, applications: rows with numbers as numbers."""

    study: Mapping[str, Any]
    runs: Sequence[Row]
    applications: Sequence[Row]

    @property
    def policies(self) -> list[str]:
        return list(dict.fromkeys(row["policy"] for row in self.runs))

    @property
    def systems(self) -> list[int]:
        return sorted({int(row["system"]) for row in self.runs})

    def title(self, system: int) -> str:
        return str(self.study["systems"][system]["title"])

    def units(self, system: int) -> int:
        """Processing elements of a system."""
        total = 0
        for part in ("cpus", "accelerators"):
            for value in self.study["systems"][system]["description"].get(part, {}).values():
                for row in value if isinstance(value, list) else [value]:
                    total += row if isinstance(row, int) else row.get("count", 1)
        return total

    def curve(self, value: str | Callable[[Row], float], **where: Any) -> list[tuple[float, float]]:
        """(rate, mean of a column over seeds) of the runs in which the columns `where` have such values."""
        return [(rate, found.mean) for rate, found in self.estimates(value, **where)]

    def estimates(self, value: str | Callable[[Row], float], **where: Any) -> list[tuple[float, Estimate]]:
        """As `curve`, with the 95 % intervals over seeds."""
        found: dict[float, list[float]] = defaultdict(list)
        for row in self.runs:
            if all(row[key] == wanted for key, wanted in where.items()):
                found[row["rate"]].append(value(row) if callable(value) else row[value])
        return [(rate, estimate(values)) for rate, values in sorted(found.items())]

    @property
    def seeds(self) -> list[int]:
        return sorted({int(row["seed"]) for row in self.runs})

    def paired(self, policy: str, other: str) -> tuple[float, float, float] | None:
        """Mean response under `policy` over that under `other`, and its 95 % interval over seeds.

        Of each seed: the geometric mean over the systems and rates that both have runs of. None without common runs.
        """
        means = {(row["policy"], row["seed"], row["system"], row["rate"]): row["mean_ms"] for row in self.runs}
        sums: dict[float, list[float]] = defaultdict(list)
        for (name, seed, *place), mean in means.items():
            beside = means.get((other, seed, *place))
            if name == policy and beside and mean:
                sums[seed].append(log(mean / beside))
        if not sums:
            return None
        ratios = [exp(sum(logs) / len(logs)) for logs in sums.values()]
        return ratio(ratios, [1.0] * len(ratios))

    def application_estimates(self, application: str, column: str, **where: Any) -> list[tuple[float, Estimate]]:
        runs = {row["key"]: row["rate"] for row in self.runs if all(row[k] == v for k, v in where.items())}
        found: dict[float, list[float]] = defaultdict(list)
        for row in self.applications:
            if row["application"] == application and row["key"] in runs:
                found[runs[row["key"]]].append(row[column])
        return [(rate, estimate(values)) for rate, values in sorted(found.items())]

    def saturation(self, system: int, policy: str) -> float | None:
        """The rate from which on the system is saturated, between two rates of the sweep; None if it never is.

        Minus infinity if it is at the lowest rate already.
        """
        where = {"system": system, "policy": policy}
        unloaded = [row["unloaded_ms"] for row in self.runs if all(row[k] == v for k, v in where.items())]
        return saturation(self.curve("mean_ms", **where), unloaded[0]) if unloaded else None

    def richest(self) -> int:
        """The system with the highest capacity; the one of fewer units if several have it."""
        best = {int(row["system"]): float(row["capacity"]) for row in self.runs}
        return max(best, key=lambda system: (best[system], -self.units(system)))


def saturation(curve: Sequence[tuple[float, float]], unloaded: float) -> float | None:
    """See `Results.saturation`; the curve is (rate, mean response)."""
    if not curve:
        return None
    limit = SATURATED * unloaded
    if curve[0][1] >= limit:
        return -inf
    for (rate, low), (next_rate, high) in pairwise(curve):
        if high >= limit:
            return rate + (next_rate - rate) * (limit - low) / (high - low)
    return None


def pareto(points: Sequence[tuple[float, float]]) -> list[int]:
    """Numbers of those points than which no other is at most as large in both coordinates, by the first one."""
    order = sorted(range(len(points)), key=lambda i: points[i])
    front: list[int] = []
    least = float("inf")
    for i in order:
        if points[i][1] < least:
            least = points[i][1]
            front.append(i)
    return front


def load_results(folder: Path) -> Results:
    """Runs by system, policy, rate and seed, in whatever order they ended. StudyError if the folder has none."""
    try:
        study = read_json(folder / STUDY)
        check(study, _Study, "")
        for system in study["systems"]:
            System(system["description"])
        runs = _rows(folder / RUNS, RunRow, len(study["systems"]))
        applications = _rows(folder / APPLICATIONS, ApplicationRow, len(study["systems"]))
    except (OSError, ValueError, StudyError, csv.Error) as error:
        raise StudyError(f"there is no sweep in {folder} (`fpga-dynamo soc sweep ... --out`): {error}") from error
    if not runs:
        raise StudyError(f"the sweep in {folder} has no runs yet")
    runs.sort(key=lambda row: (row["system"], row["policy"], row["rate"], row["seed"]))
    return Results(study, runs, applications)


def _rows(path: Path, kind: type, systems: int) -> list[Row]:
    """The rows of a table. StudyError for a column that is missing and a cell that is no number of its column."""
    rows: list[Row] = []
    with path.open(newline="", encoding="utf-8") as file:
        for number, cells in enumerate(csv.DictReader(file), start=2):
            row: dict[str, Any] = {}
            for field in fields(kind):
                value = cells.get(field.name)
                where = f"line {number} of {path.name}: {field.name}"
                if value is None or not value.isprintable():
                    raise StudyError(f"{where} is {shown(value)}")
                row[field.name] = value if field.name in _TEXT else _figure(where, value)
            if not 0 <= row.get("system", 0) < systems or row.get("system", 0) % 1:
                raise StudyError(f"line {number} of {path.name}: system {row['system']:g} is not part of the study")
            rows.append(row)
    return rows


def _figure(where: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError as error:
        raise StudyError(f"{where} must be a number, not {shown(cell)}") from error
    if not 0 <= value < inf:
        raise StudyError(f"{where} must be a finite number >= 0, not {shown(cell)}")
    return value
