"""Task graphs as data: JSON and back, what is refused, CPU classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fpga_dynamo.runtime.application import (
    CPU_CLASSES,
    Application,
    ApplicationError,
    ApplicationTask,
    Edge,
    from_json,
    load,
    save,
    scaled_seconds,
    schema,
    to_json,
)


def correlator() -> Application:
    return Application(
        "correlator",
        [
            ApplicationTask(
                "chirp",
                {"x86": 90e-6, "fft": 12e-6},
                layer="fft",
                kernel="fft",
                inputs=((256,),),
                outputs=((256,),),
                memory=4096,
                from_host=2048,
                basis={"x86": "measured", "fft": "cycles at 300 MHz"},
            ),
            ApplicationTask("echo", {"x86": 90e-6, "fft": 12e-6}),
            ApplicationTask("product", {"x86": 10e-6}, (Edge(0, 2048), Edge(1, 2048)), to_host=2048),
        ],
        granularity="op",
        source="made up",
    )


def test_json_and_back(tmp_path: Path) -> None:
    application = correlator()
    assert load(save(application, tmp_path / "graph.json")) == application
    assert to_json(application)["tasks"][2]["dependencies"] == [
        {"task": "chirp", "bytes": 2048},
        {"task": "echo", "bytes": 2048},
    ]


def test_tasks_of_one_name_refer_to_each_other_by_number() -> None:
    tasks = [ApplicationTask("conv", {"x86": 1.0}), ApplicationTask("conv", {"x86": 1.0}, (Edge(0, 8),))]
    application = Application("twice", tasks)
    assert to_json(application)["tasks"][1]["dependencies"] == [{"task": 0, "bytes": 8}]
    assert from_json(to_json(application)) == application


def test_the_schema_takes_what_is_written() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="the schema is checked where jsonschema is installed")
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(to_json(correlator()), schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**to_json(correlator()), "tasks": [{"name": "free", "seconds": {}}]}, schema())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": "a poem"}, "not a task graph"),
        ({"version": 7}, "version 7"),
        ({"name": None}, "'name'"),
        ({"granularity": "atom"}, "granularity"),
        ({"tasks": ["fft"]}, "task 0 must be an object"),
        ({"tasks": [{"name": "a", "seconds": {}}]}, "so it cannot run"),
        ({"tasks": [{"name": "a", "seconds": {"x86": -1}}]}, "must be from 0 to"),
        ({"tasks": [{"name": "a", "seconds": {"x86": "fast"}}]}, "must be a finite number"),
        ({"tasks": [{"name": "a", "seconds": {"x86": 1}, "colour": 1}]}, "unknown key 'colour'"),
        ({"tasks": [{"name": "a", "seconds": {"x86": 1}, "dependencies": ["b"]}]}, "not an earlier task"),
        ({"tasks": [{"name": "a", "seconds": {"x86": 1}, "dependencies": [0]}]}, "topological order"),
        ({"tasks": [{"name": "a", "seconds": {"x86": 1}, "memory": -1}]}, "'memory' must be"),
        ({"tasks": [{"name": "a", "seconds": {"x86": 1}, "shapes": {"inputs": ["x"]}}]}, "task 0 ('a')"),
        ({"tasks": [{"name": "a", "seconds": {"x86": 1}, "shapes": []}]}, "task 0 ('a')"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ApplicationError) as caught:
        from_json({**to_json(correlator()), **change})
    assert sentence in str(caught.value)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "half.json").write_text(json.dumps(to_json(correlator()))[:50])
    for name in ("half.json", "missing.json"):
        with pytest.raises(ApplicationError, match=name):
            load(tmp_path / name)


def test_seconds_of_another_cpu_class() -> None:
    assert scaled_seconds({"x86": 1.0, "fft": 0.1}, "x86") == 1.0
    slow, slower = (scaled_seconds({"x86": 1.0}, name) for name in ("a72", "a53"))
    assert slow is not None and slower is not None and 2 < slow < slower < 8
    assert scaled_seconds({"a53": 1.0}, "a53", clock=CPU_CLASSES["a53"].clock / 2) == pytest.approx(2.0)
    assert scaled_seconds({"fft": 1.0}, "a53") is None
    with pytest.raises(ApplicationError, match="did you mean 'a53'"):
        scaled_seconds({"x86": 1.0}, "a35")


def test_critical_path_and_dot() -> None:
    application = correlator()
    assert application.critical_path() == pytest.approx(22e-6)
    dot = application.to_dot()
    assert dot.startswith('digraph "correlator"') and '0 -> 2 [label="2 KiB"]' in dot and "fft 12 us" in dot
