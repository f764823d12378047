"""Task graphs as JSON, and the schema of it (`application.schema.json`, beside this file)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from fpga_dynamo.runtime.application.graph import Application, ApplicationError, ApplicationTask, Edge, Result
from xclbin_build import atomic_file
from xclbin_build.documents import DocumentError, read_json
from xclbin_build.schema import Name, NotNegative, Range, SchemaError, Text, check, shown

FORMAT, VERSION = "fpga_dynamo task graph", 1

_Bytes = Annotated[int, Range(0, 2**62)]
_Shape = list[Annotated[int, Range(0, 2**62)]]


@dataclass(frozen=True)
class _Shapes:
    inputs: list[_Shape] = field(default_factory=list)
    outputs: list[_Shape] = field(default_factory=list)


@dataclass(frozen=True)
class _TaskFields:
    """The fields of a task in the file."""

    name: Name
    seconds: dict[str, NotNegative]
    layer: Text = ""
    kernel: Text = ""
    shapes: _Shapes = field(default_factory=_Shapes)
    basis: dict[str, Text] = field(default_factory=dict)
    memory: _Bytes = 0
    from_host: _Bytes = 0
    to_host: _Bytes = 0
    dependencies: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class _GraphFields:
    name: Name
    tasks: list[Any]
    granularity: Literal["launch", "layer", "op", "kernel"] = "kernel"
    source: Text = ""
    results: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class _ResultFields:
    """The fields of a result in the file."""

    shape: _Shape
    task: Any = None
    output: _Bytes = 0


_TASK_KEYS = {each.name for each in fields(_TaskFields)}


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
    made = {
        "format": FORMAT,
        "version": VERSION,
        "name": application.name,
        "granularity": application.granularity,
        "source": application.source,
        "tasks": tasks,
    }
    if application.results:
        made["results"] = [_result_row(result, names if unique else None) for result in application.results]
    return made


def _result_row(result: Result, names: list[str] | None) -> dict[str, Any]:
    row: dict[str, Any] = {"shape": list(result.shape)}
    if result.task is not None:
        row |= {"task": result.task if names is None else names[result.task], "output": result.output}
    return row


def from_json(data: Any) -> Application:
    """The application that `to_json` gave. ApplicationError names what is wrong and where."""
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise ApplicationError(f"this is not a task graph: its key 'format' must be {FORMAT!r}")
    if data.get("version") != VERSION:
        found = shown(data.get("version"))
        raise ApplicationError(f"task graph of version {found}: this release reads version {VERSION}")
    name, rows = data.get("name"), data.get("tasks")
    if not isinstance(name, str) or not isinstance(rows, list):
        raise ApplicationError("a task graph has a 'name' (text) and 'tasks' (a list)")
    numbers: dict[str, int] = {}
    tasks = []
    for index, row in enumerate(rows):
        where = f"application {name!r}: task {index}"
        if not isinstance(row, dict) or not isinstance(row.get("name"), str):
            raise ApplicationError(f"{where} must be an object with a 'name'")
        try:
            check(row["name"], Name, "name")
            tasks.append(_task(f"{where} ({row['name']!r})", row, numbers))
        except SchemaError as error:
            raise ApplicationError(f"{where} ({row['name']!r}): {error}") from error
        numbers[row["name"]] = index
    try:
        check(data, _GraphFields, "")
    except SchemaError as error:
        raise ApplicationError(f"application {shown(name)}: {error}") from error
    results = [_result(name, number, row, numbers) for number, row in enumerate(data.get("results", []))]
    return Application(name, tasks, data.get("granularity", "kernel"), data.get("source", ""), results)


def _result(name: str, number: int, row: Any, numbers: Mapping[str, int]) -> Result:
    where = f"application {shown(name)}: result {number}"
    try:
        check(row, _ResultFields, "")
    except SchemaError as error:
        raise ApplicationError(f"{where}: {error}") from error
    task = row.get("task")
    if isinstance(task, str):
        if task not in numbers:
            raise ApplicationError(f"{where} is of task {shown(task)}, which does not exist")
        task = numbers[task]
    if task is not None and (isinstance(task, bool) or not isinstance(task, int)):
        raise ApplicationError(f"{where}: task must be a task's name or number, not {shown(task)}")
    return Result(tuple(row["shape"]), task, row.get("output", 0))


def _task(where: str, row: Mapping[str, Any], numbers: Mapping[str, int]) -> ApplicationTask:
    unknown = set(row) - _TASK_KEYS
    if unknown:
        known = ", ".join(sorted(_TASK_KEYS))
        raise ApplicationError(f"{where}: unknown key {sorted(unknown)[0]!r}; known are {known}")
    seconds, edges, shapes = row.get("seconds"), row.get("dependencies", []), row.get("shapes", {})
    if not isinstance(seconds, Mapping):
        raise ApplicationError(
            f"{where}: 'seconds' must be an object that maps a kind of processing element to seconds"
        )
    if not isinstance(edges, list) or not all(isinstance(edge, (Mapping, str, int)) for edge in edges):
        raise ApplicationError(f"{where}: 'dependencies' must be a list of {{'task': ..., 'bytes': ...}}")
    check(dict(row), _TaskFields, "")
    dependencies = []
    for edge in edges:
        before = edge.get("task") if isinstance(edge, Mapping) else edge
        size = edge.get("bytes", 0) if isinstance(edge, Mapping) else 0
        check(size, _Bytes, "dependencies.bytes")
        if isinstance(before, str):
            if before not in numbers:
                raise ApplicationError(f"{where} depends on {before!r}, which is not an earlier task")
            before = numbers[before]
        check(before, Annotated[int, Range(0, 2**31)], "dependencies.task")
        assert isinstance(before, int)
        dependencies.append(Edge(before, size))
    return ApplicationTask(
        name=row["name"],
        seconds=dict(seconds),
        dependencies=tuple(dependencies),
        layer=row.get("layer", ""),
        kernel=row.get("kernel", ""),
        inputs=tuple(map(tuple, shapes.get("inputs", []))),
        outputs=tuple(map(tuple, shapes.get("outputs", []))),
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
    """Reads what `save` wrote. ApplicationError for a file that is missing or has another format."""
    try:
        data = read_json(Path(path))
    except (DocumentError, ValueError) as error:
        raise ApplicationError(f"cannot read the task graph {os.fspath(path)!r}: {error}") from error
    return from_json(data)
