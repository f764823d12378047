"""What a sweep writes beside its tables: schedules for the report's Gantt chart, and parquet files."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fpga_dynamo.tools.soc.rows import Point
from fpga_dynamo.tools.soc.sweep import APPLICATIONS, RUNS, Sweep
from fpga_dynamo.tools.soc.tables import StudyError
from fpga_dynamo.tools.soc.virtual import simulate
from xclbin_build import atomic_file
from xclbin_build.documents import DocumentError, read_json
from xclbin_build.schema import NotNegative, SchemaError, Text, check, shown

GANTT = "gantt.json"
SCHEDULES, MOST_TASKS = 6, 4000


def write_gantt(sweep: Sweep, folder: Path, without: Collection[str] = ()) -> Path:
    """Schedules of the largest system at the middle rate, one for each policy but those of `without`, which failed."""
    points = list(sweep.points())
    number = max(range(len(sweep.systems)), key=lambda n: (len(sweep.systems[n].pes), n))
    mine = [point for point in points if point.system == number]
    rates = sorted({point.rate for point in mine})
    middle = rates[len(rates) // 2]
    first: dict[str, Point] = {}
    for point in mine:
        if point.rate == middle and point.policy not in without:
            first.setdefault(point.policy, point)
    schedules = [_schedule(sweep, point) for point in list(first.values())[:SCHEDULES]]
    path = folder / GANTT
    atomic_file.write(path, json.dumps(schedules, separators=(",", ":")))
    return path


def _schedule(sweep: Sweep, point: Point) -> dict[str, Any]:
    system = sweep.systems[point.system]
    run = simulate(system, sweep.workload, point.policy, point.rate, point.seed, trace=True)
    assert run.trace is not None
    pes = {name: number for number, (name, _) in enumerate(system.pes)}
    applications = {name: number for number, name in enumerate(run.applications)}
    names: dict[str, int] = {}
    tasks = []
    for event in run.trace.tasks[:MOST_TASKS]:
        name = names.setdefault(event.task, len(names))
        start, stop = round(event.start * 1e3, 6), round(event.stop * 1e3, 6)
        tasks.append([pes[event.pe], start, stop, applications[event.program], name])
    title = f"{point.policy}, {point.rate:.4g}/s, {sweep.study['systems'][point.system]['title']}"
    return {
        "title": title,
        "pes": list(pes),
        "applications": list(applications),
        "names": list(names),
        "tasks": tasks,
    }


@dataclass(frozen=True)
class _Chart:
    """The fields of one schedule in gantt.json."""

    title: Text
    pes: list[Text]
    applications: list[Text]
    names: list[Text]
    tasks: list[list[NotNegative]]


def read_gantt(path: Path) -> Any:
    """The schedules that `write_gantt` wrote. StudyError for a file that is something else."""
    try:
        found = read_json(path)
        check(found, list[_Chart], "schedules")
        for chart in found:
            most = [len(chart[name]) for name in ("pes", "applications", "names")]
            for task in chart["tasks"]:
                if len(task) != 5 or any(task[i] >= n for i, n in zip((0, 3, 4), most, strict=True)):
                    raise SchemaError(f"a task is {shown(task)}")
    except (DocumentError, SchemaError) as error:
        raise StudyError(f"{path} is not a schedule of a sweep: {error}; run the sweep again") from error
    return found


def write_parquet(folder: Path, check: bool = False) -> None:
    """The tables as parquet files; StudyError without pyarrow. check: only see whether it is there."""
    try:
        import pyarrow.csv
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise StudyError("parquet files need pyarrow: pip install 'fpga_dynamo[soc]' (CSV files do not)") from error
    if check:
        return
    for name in (RUNS, APPLICATIONS):
        table = pyarrow.csv.read_csv(folder / name)
        with atomic_file.opened((folder / name).with_suffix(".parquet"), durable=True) as file:
            pyarrow.parquet.write_table(table, file)


__all__ = ["GANTT", "write_gantt", "write_parquet"]
