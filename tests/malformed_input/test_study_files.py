"""Systems, workloads, sweeps, task graphs, arrivals and results with one wrong value, for every command of a study."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fpga_dynamo.tools.cli import main
from fpga_dynamo.tools.soc import report
from tests.malformed_input.mutations import mutants, run, to_toml
from tests.marks import EXTENDED

GRAPH: dict[str, Any] = {
    "format": "fpga_dynamo task graph",
    "version": 1,
    "name": "two",
    "granularity": "kernel",
    "source": "by hand",
    "tasks": [
        {
            "name": "first",
            "layer": "fft",
            "kernel": "fft",
            "shapes": {"inputs": [[2, 4]], "outputs": [[2, 4]]},
            "seconds": {"a53": 1e-3, "fft": 1e-4},
            "basis": {"a53": "measured"},
            "memory": 64,
            "from_host": 64,
            "to_host": 64,
            "dependencies": [],
        },
        {"name": "second", "seconds": {"a53": 1e-3}, "dependencies": [{"task": "first", "bytes": 32}]},
    ],
}
SYSTEM: dict[str, Any] = {
    "name": "small",
    "classes": {"u74": {"clock": 1.5e9, "speed": 1.9, "busy_watts": 0.6, "idle_watts": 0.1}},
    "cpus": {"a53": 2, "u74": 1, "x86": {"count": 1, "clock": 1.5e9, "busy_watts": 0.5, "idle_watts": 0.1}},
    "accelerators": {"fft": [{"count": 1}, {"count": 1, "clock": 150e6}]},
    "transfer": {"latency": 1e-5, "bandwidth": 4e9, "channels": 2, "resident": False},
    "scheduler": {"policy": "least_work", "decision": "native", "period": 0.0},
}
WORKLOAD: dict[str, Any] = {
    "rate": 200.0,
    "instances": 20,
    "seeds": 1,
    "spread": 0.1,
    "tail": 0.1,
    "application": [
        {"graph": "graph.json", "share": 3.0, "deadline": 5e-3, "arrivals": "poisson", "name": "one"},
        {"graph": "graph.json", "arrivals": {"bursts": 2}, "name": "three"},
        {"graph": "graph.json", "arrivals": {"trace": "times.txt"}, "name": "two"},
    ],
}
SWEEP: dict[str, Any] = {
    "name": "grid",
    "system": SYSTEM,
    "workload": {key: value for key, value in WORKLOAD.items() if key != "rate"},
    "policies": ["least_work", "eft"],
    "rates": [100, 200],
    "grid": {"cpus.a53": [1, 2], "scheduler.decision": ["native", {"round": 1e-6}]},
}
EVERY = [pytest.param(13), pytest.param(1, marks=EXTENDED)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "graph.json").write_text(json.dumps(GRAPH))
    (tmp_path / "system.toml").write_text(to_toml(SYSTEM))
    (tmp_path / "workload.toml").write_text(to_toml(WORKLOAD))
    (tmp_path / "times.txt").write_text("0.001\n0.002\n")
    return tmp_path


def _written(document: dict[str, Any], every: int) -> Iterator[tuple[str, str]]:
    for what, changed in mutants(document, every):
        try:
            yield what, to_toml(changed)
        except ValueError:
            continue


def _soc_run(folder: Path) -> list[str]:
    return ["soc", "run", str(folder / "system.toml"), str(folder / "workload.toml"), "--virtual"]


@pytest.mark.parametrize("every", EVERY)
def test_each_field_of_a_task_graph(every: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = ["--trace", str(folder / "trace.json"), "--gantt", str(folder / "gantt.svg")]
    for number, (what, graph) in enumerate(mutants(GRAPH, every)):
        (folder / "graph.json").write_text(json.dumps(graph))
        run(main, _soc_run(folder) + (trace if number % 7 == 0 else []), capsys, what)


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("name", ["system", "workload"])
def test_each_field_of_a_system_and_a_workload(
    name: str, every: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for what, text in _written({"system": SYSTEM, "workload": WORKLOAD}[name], every):
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
        run(main, _soc_run(folder), capsys, what)


@pytest.mark.parametrize("every", [pytest.param(31), pytest.param(2, marks=EXTENDED)])
def test_each_field_of_a_sweep(every: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for what, text in _written(SWEEP, every):
        (folder / "sweep.toml").write_text(text, encoding="utf-8")
        shutil.rmtree(folder / "out", ignore_errors=True)
        run(main, ["soc", "sweep", str(folder), "--out", str(folder / "out")], capsys, what)


@pytest.mark.parametrize("every", [pytest.param(41, marks=EXTENDED), pytest.param(2, marks=EXTENDED)])
def test_each_field_of_the_results_of_a_sweep(
    every: int, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures are drawn of the sound results only: a drawing takes seconds."""
    out = folder / "out"
    (folder / "sweep.toml").write_text(to_toml(SWEEP), encoding="utf-8")
    assert run(main, ["soc", "sweep", str(folder), "--out", str(out)], capsys, "a sound sweep") == 0
    assert run(main, ["soc", "report", str(out)], capsys, "sound results") == 0
    monkeypatch.setattr(report, "FIGURES", ())
    for name in ("study.json", "gantt.json"):
        text = (out / name).read_text()
        for what, document in mutants(json.loads(text), every):
            (out / name).write_text(json.dumps(document))
            run(main, ["soc", "report", str(out)], capsys, f"{name}: {what}")
            if name == "study.json" and every == 2:
                run(main, ["soc", "sweep", str(folder), "--out", str(out)], capsys, f"{name}: {what}")
        (out / name).write_text(text)
    for name in ("runs.csv", "applications.csv"):
        header, *rows = (out / name).read_text().splitlines()
        for column in range(len(header.split(","))):
            for value in ("", "x", "nan", "1e400", "-1", '"a\nb"', "\N{GREEK SMALL LETTER ALPHA}"):
                cells = rows[0].split(",")
                cells[column] = value
                (out / name).write_text("\n".join([header, ",".join(cells), *rows[1:]]) + "\n")
                run(main, ["soc", "report", str(out)], capsys, f"{name}: {header.split(',')[column]}: {value}")
                if every > 2:
                    break
        (out / name).write_text("\n".join([header, *rows]) + "\n")


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"{", b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5000, b"a = " + b"[" * 100_000, b"nan", b"\0",
     b"null", b'"x"', b"a = " + b"9" * 5000, b"a.b" + b".c" * 2_000 + b" = 1"],
    ids=lambda content: repr(content[:6]),
)  # fmt: skip
@pytest.mark.parametrize("name", ["graph.json", "system.toml", "workload.toml", "times.txt", "sweep.toml"])
def test_a_file_that_is_something_else(
    name: str, content: bytes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "sweep.toml").write_text(to_toml(SWEEP), encoding="utf-8")
    (folder / name).write_bytes(content)
    command = ["soc", "sweep", str(folder), "--out", str(folder / "out")] if name == "sweep.toml" else _soc_run(folder)
    assert run(main, command, capsys, name) == 2 or (name, content) == ("times.txt", b"")
