from __future__ import annotations

import json
import struct
import threading
from pathlib import Path

import pytest

from fpga_dynamo.runtime.observe import trace
from fpga_dynamo.runtime.observe.trace import ApplicationEvent, CommandEvent, TaskEvent, TraceRecorder
from fpga_dynamo.runtime.scheduling.scheduler import Scheduler
from fpga_dynamo.runtime.task import Frame, ProcessingElement, Task, TaskGraph
from tests.marks import EXTENDED
from tests.runtime.systems import host, nothing, single, unit


def record(runs: int = 3) -> TraceRecorder:
    scheduler = Scheduler([host(name="PS0"), unit("conv"), unit("conv", 1)], "eft")

    def run(pe: ProcessingElement, frame: Frame) -> None:
        now = trace.perf_counter()
        trace.report(CommandEvent(pe.name, "conv2d", now, now, {"macs": 9}))

    launch = Task("launch", {"conv": 1e-3}, run, arguments={"commands": 12, "bytes": 4096})
    graph = TaskGraph("net", [launch, Task("post", {"PS": 1e-3}, nothing, (0,))])
    with TraceRecorder() as recorder:
        for _ in range(runs):
            scheduler.execute(graph)
    scheduler.execute(graph)  # not recorded
    return recorder


def test_tasks_decisions_and_applications_are_recorded() -> None:
    recorder = record()
    assert [(event.program, event.task) for event in recorder.tasks] == [("net", "launch"), ("net", "post")] * 3
    assert {(event.task, event.pe) for event in recorder.tasks} == {("launch", "conv_1"), ("post", "PS0")}
    assert all(event.arguments == {"commands": 12, "bytes": 4096} for event in recorder.tasks if event.task == "launch")
    applications = recorder.applications
    assert len({event.application for event in applications}) == 3
    assert {event.application for event in recorder.tasks} == {event.application for event in applications}
    for application in applications:
        mine = [event for event in recorder.tasks if event.application == application.application]
        assert application.arrival <= application.start == mine[0].start
        assert mine[0].stop <= mine[1].start <= mine[1].stop <= application.stop
    assert [(event.queued, event.assigned, event.policy) for event in recorder.decisions] == [(1, 1, "eft")] * 6
    assert all(0 < event.overhead < 1 for event in recorder.decisions)


def test_a_traced_one_task_graph_still_runs_in_the_callers_thread() -> None:
    scheduler, seen = Scheduler([unit("conv")]), []
    with TraceRecorder() as recorder:
        scheduler.execute(single(lambda pe, frame: seen.append(threading.current_thread()), "conv"))
    assert seen == [threading.current_thread()]
    assert [event.task for event in recorder.tasks] == ["launch"]


def test_a_failed_task_is_recorded_too() -> None:
    def divide(pe: ProcessingElement, frame: Frame) -> None:
        _ = 1 / 0

    scheduler = Scheduler([unit("conv")])
    with TraceRecorder() as recorder, pytest.raises(ZeroDivisionError):
        scheduler.execute(single(divide, "conv"))
    assert [event.task for event in recorder.tasks] == ["launch"]


def test_recorders_nest_and_end() -> None:
    scheduler, graph = Scheduler([host()]), single(nothing, "PS")
    with TraceRecorder() as outer:
        scheduler.execute(graph)
        with TraceRecorder() as inner:
            scheduler.execute(graph)
    scheduler.execute(graph)
    assert (len(outer.tasks), len(inner.tasks)) == (2, 1)
    assert trace.recorders == ()


def test_chrome_json(tmp_path: Path) -> None:
    recorder = record()
    data = json.loads(recorder.save(tmp_path / "trace.json").read_text())
    events = data["traceEvents"]
    for event in events:
        assert {"ph", "name", "pid", "tid"} <= event.keys()
        assert event["ph"] in "MXbe"
        if event["ph"] == "X":
            assert event["ts"] >= 0 and event["dur"] >= 0 and isinstance(event["args"], dict)
        if event["ph"] in "be":
            assert event["cat"] == "application" and event["ts"] >= 0
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert [name for (pid, _), name in sorted(rows.items()) if pid == 1] == ["PS0", "conv_1", "conv_2"]
    launches = [event for event in events if event["name"] == "launch"]
    assert {rows[event["pid"], event["tid"]] for event in launches} == {"conv_1"}
    assert launches[0]["args"]["bytes"] == 4096 and launches[0]["args"]["program"] == "net"
    commands = [event for event in events if event.get("cat") == "command"]
    assert [event["args"] for event in commands] == [{"macs": 9}] * 3
    inside = zip(commands, launches, strict=True)
    assert all(a["ts"] <= c["ts"] <= a["ts"] + a["dur"] and a["tid"] == c["tid"] for c, a in inside)
    begins, ends = ([e["id"] for e in events if e["ph"] == phase] for phase in "be")
    assert sorted(begins) == sorted(ends) and len(begins) == 3


def synthetic(tasks: int, programs: int, pes: int = 4) -> TraceRecorder:
    recorder = TraceRecorder(origin=0.0)
    recorder.declare([host(0), host(1), unit("sequencer", 0), unit("sequencer", 1)][:pes])
    rows = recorder.rows
    free = [0.0] * pes
    for number in range(tasks):
        program, row = f"program {number % programs}", number * 7 % pes
        seconds = (0.5 + number * 37 % 11 / 5) * 1e-3
        recorder.add(TaskEvent(number, program, f"task {number}", rows[row], free[row], free[row] + seconds))
        recorder.add(ApplicationEvent(number, program, free[row], free[row], free[row] + seconds))
        free[row] += seconds * 1.1
    return recorder


@pytest.mark.parametrize(
    ("tasks", "programs"), [(0, 1), (1, 1), (2, 2), pytest.param(2000, 3, marks=EXTENDED), (200, 40)]
)
def test_gantt_is_a_png_with_colours(tmp_path: Path, tasks: int, programs: int) -> None:
    from matplotlib.image import imread

    path = synthetic(tasks, programs).gantt(tmp_path / "gantt.png")
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and 800 < width < 3000 and 200 < height < 1500
    pixels = imread(path)[..., :3].reshape(-1, 3)
    coloured = (pixels.max(1) - pixels.min(1) > 0.3).mean()
    assert coloured > 0.1 if tasks else coloured == 0
