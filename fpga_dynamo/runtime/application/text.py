"""Task graphs as JSON, and the schema of it (`application.schema.json`, beside this file)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fpga_dynamo.runtime.application.graph import Application, ApplicationError, ApplicationTask, Edge
from xclbin_build import atomic_file

FORMAT, VERSION = "fpga_dynamo task graph", 1

_TASK_KEYS = {
    "name", "layer", "kernel", "shapes", "seconds", "basis", "memory", "from_host", "to_host", "dependencies",
}  # fmt: skip


def schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of what `to_json` gives."""
    text = Path(__file__).with_name("application.schema.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def to_json(application: Application) -> dict[str, Any]:
    """What `json.dumps` takes; tasks refer to each other by name if names are unique, else by number."""
    names = [task.name for task in application.tasks]
    unique = len(set(names)) == len(names)
    tasks = []
    for task in application.tasks:
        row: dict[str, Any] = {"name": task.name}
        if task.layer:
            row["layer"] = task.layer
        if task.kernel:
            row["kernel"] = task.kernel
        if task.inputs or task.outputs:
            row["shapes"] = {"inputs": [list(s) for s in task.inputs], "outputs": [list(s) for s in task.outputs]}
        row["seconds"] = dict(task.seconds)
        if task.basis:
            row["basis"] = dict(task.basis)
        row |= {key: value for key in ("memory", "from_host", "to_host") if (value := getattr(task, key))}
        row["dependencies"] = [
            {"task": names[edge.task] if unique else edge.task, "bytes": edge.bytes} for edge in task.dependencies
        ]
        tasks.append(row)
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": application.name,
        "granularity": application.granularity,
        "source": application.source,
        "tasks": tasks,
    }


def from_json(data: Any) -> Application:
    """The application that `to_json` gave. ApplicationError names what is wrong and where."""
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise ApplicationError(f"this is no task graph: its key 'format' must be {FORMAT!r}")
    if data.get("version") != VERSION:
        raise ApplicationError(f"task graph of version {data.get('version')!r}: this release reads version {VERSION}")
    name, rows = data.get("name"), data.get("tasks")
    if not isinstance(name, str) or not isinstance(rows, list):
        raise ApplicationError("a task graph has a 'name' (text) and 'tasks' (a list)")
    numbers: dict[str, int] = {}
    tasks = []
    for index, row in enumerate(rows):
        where = f"application {name!r}: task {index}"
        if not isinstance(row, Mapping) or not isinstance(row.get("name"), str):
            raise ApplicationError(f"{where} must be an object with a 'name'")
        try:
            tasks.append(_task(f"{where} ({row['name']!r})", row, numbers))
        except (TypeError, ValueError, AttributeError) as error:
            raise ApplicationError(f"{where} ({row['name']!r}): {error}") from error
        numbers[row["name"]] = index
    return Application(name, tasks, str(data.get("granularity", "kernel")), str(data.get("source", "")))


def _task(where: str, row: Mapping[str, Any], numbers: Mapping[str, int]) -> ApplicationTask:
    unknown = set(row) - _TASK_KEYS
    if unknown:
        known = ", ".join(sorted(_TASK_KEYS))
        raise ApplicationError(f"{where}: unknown key {sorted(unknown)[0]!r}; known are {known}")
    seconds, edges, shapes = row.get("seconds"), row.get("dependencies", []), row.get("shapes", {})
    if not isinstance(seconds, Mapping):
        raise ApplicationError(f"{where}: 'seconds' must be an object, kind of unit to seconds")
    if not isinstance(edges, list) or not all(isinstance(edge, (Mapping, str, int)) for edge in edges):
        raise ApplicationError(f"{where}: 'dependencies' must be a list of {{'task': ..., 'bytes': ...}}")
    dependencies = []
    for edge in edges:
        before = edge.get("task") if isinstance(edge, Mapping) else edge
        size = edge.get("bytes", 0) if isinstance(edge, Mapping) else 0
        if isinstance(before, str) and before not in numbers:
            raise ApplicationError(f"{where} depends on {before!r}, which is no task before it")
        dependencies.append(Edge(numbers[before] if isinstance(before, str) else int(before or 0), size))
    return ApplicationTask(
        name=row["name"],
        seconds=dict(seconds),
        dependencies=tuple(dependencies),
        layer=str(row.get("layer", "")),
        kernel=str(row.get("kernel", "")),
        inputs=tuple(tuple(map(int, shape)) for shape in shapes.get("inputs", [])),
        outputs=tuple(tuple(map(int, shape)) for shape in shapes.get("outputs", [])),
        memory=row.get("memory", 0),
        from_host=row.get("from_host", 0),
        to_host=row.get("to_host", 0),
        basis=dict(row.get("basis", {})),
    )


def save(application: Application, path: str | os.PathLike[str]) -> Path:
    """Writes the JSON; returns the path."""
    path = Path(path)
    atomic_file.write(path, json.dumps(to_json(application), indent=1) + "\n", durable=True)
    return path


def load(path: str | os.PathLike[str]) -> Application:
    """Reads what `save` wrote. ApplicationError for a file that is missing or is none."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ApplicationError(f"cannot read the task graph {os.fspath(path)!r}: {error}") from error
    return from_json(data)
