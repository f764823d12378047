"""Gantt charts, by what is in them: bars of a pixel and more, layers, cores, arrivals, parts of a trace."""

from __future__ import annotations

import itertools
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from torch import nn

import fpga_dynamo
from fpga_dynamo.runtime.observe import gantt
from fpga_dynamo.runtime.observe.trace import ApplicationEvent, CommandEvent, TaskEvent, TraceRecorder

GREEDY: dict[str, Any] = {"partition": "greedy"}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.bn1(self.conv1(x)) + x)


class Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(Block(), Block())
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.atan(self.head(self.layers(x).mean((2, 3))))


def texts(figure: Any) -> list[str]:
    """What is written into the bars."""
    return [text.get_text() for text in figure.axes[0].texts if "busy" not in text.get_text()]


def legend(figure: Any) -> list[str]:
    return [text.get_text() for one in figure.legends for text in one.get_texts()]


def rectangles(figure: Any) -> list[tuple[float, float, Any]]:
    """Begin and width of every bar in pixels, and its colour."""
    figure.canvas.draw()
    axes = figure.axes[0]
    found = []
    for collection in axes.collections:
        for path, colour in zip(collection.get_paths(), collection.get_facecolors().repeat(99, 0), strict=False):
            corners = axes.transData.transform(path.vertices)
            found.append((corners[:, 0].min(), np.ptp(corners[:, 0]), tuple(colour[:3])))
    return found


@pytest.fixture(scope="module")
def run() -> tuple[Chain, TraceRecorder]:
    """A model with a task on the PS, traced."""
    torch._dynamo.reset()
    model, x = Chain().eval(), torch.randn(1, 16, 16, 16)
    compiled = torch.compile(model, backend="fpga", options=GREEDY)
    with torch.no_grad():
        compiled(x)
        with fpga_dynamo.trace() as trace:
            compiled(x)
    return model, trace


def test_commands_know_their_layers(run: tuple[Chain, TraceRecorder]) -> None:
    layers = [event.arguments["layer"] for event in run[1].commands]
    assert {"layers.0.conv1", "layers.1.conv1", "head"} <= set(layers)


def test_a_model_is_drawn_by_layers_and_cores(run: tuple[Chain, TraceRecorder]) -> None:
    trace = run[1]
    names = {event.name for event in trace.commands}
    drawn = legend(gantt.render(trace))
    assert {f"core {name}" for name in names} <= set(drawn)
    assert f"{trace.tasks[0].program}: Chain" in drawn and "arrival" in drawn
    command = max(trace.commands, key=lambda event: event.stop - event.start)
    origin = min(event.arrival for event in trace.applications)
    begin, end = ((at - origin) * 1e3 for at in (command.start, command.stop))
    near = gantt.render(trace, begin, end)
    assert command.arguments["layer"] in texts(near)
    colours = {colour for _, _, colour in rectangles(gantt.render(trace))}
    assert len(colours) >= len(names) + 1, "one for each core, and the program's"


def test_a_task_on_the_ps_says_what_it_computes(run: tuple[Chain, TraceRecorder]) -> None:
    trace = run[1]
    (task,) = (event for event in trace.tasks if event.pe.startswith("ps"))
    assert task.arguments == {"nodes": 1, "ops": "atan"}
    origin = min(event.arrival for event in trace.applications)
    figure = gantt.render(trace, (task.start - origin) * 1e3, (task.stop - origin) * 1e3)
    assert f"{task.task}: atan" in texts(figure)


def test_explain_and_trace_have_the_same_names(run: tuple[Chain, TraceRecorder]) -> None:
    model, trace = run
    explained = fpga_dynamo.explain(model, torch.randn(1, 16, 16, 16), options=GREEDY)
    assert {graph.name for graph in explained.graphs} == {task.program for task in trace.tasks}
    named = set(re.findall(r" of (graph\d+\.\d+)", " ".join(n.how for g in explained.graphs for n in g.nodes)))
    assert named == {task.task for task in trace.tasks if "commands" in task.arguments}
    other = fpga_dynamo.explain(Chain().eval(), torch.randn(1, 16, 16, 16), options=GREEDY)
    assert not {graph.name for graph in other.graphs} & {graph.name for graph in explained.graphs}


def beside_a_long_one() -> TraceRecorder:
    """Three tasks of 1 us on the PE of one that takes 10 ms, and three on another."""
    trace = TraceRecorder(origin=0.0)
    trace.add(ApplicationEvent(1, "long", 0.0, 0.0, 0.01, "Long"))
    trace.add(TaskEvent(1, "long", "long.0", "one", 0.0, 0.010))
    for pe in ("one", "two"):
        for i, start in enumerate((0.001, 0.004, 0.0099999)):
            trace.add(ApplicationEvent(2 + i, "short", start - 1e-4, start, start + 1e-6, "Short"))
            trace.add(TaskEvent(2 + i, "short", f"short.{i}", pe, start, start + 1e-6))
    return trace


def test_short_tasks_are_seen_beside_a_long_one(tmp_path: Path) -> None:
    trace = beside_a_long_one()
    short = to_rgb(gantt.PALETTE[1][:3])
    bars = [bar for bar in rectangles(gantt.render(trace)) if np.allclose(bar[2], short)]
    assert len(bars) == 6 and all(width >= 1 for _, width, _ in bars)
    pixels = imread(trace.gantt(tmp_path / "short.png"))[..., :3]
    of_it = np.abs(pixels - np.array(short)).max(2) < 0.02
    in_both_rows = of_it[: len(of_it) * 2 // 3].any(0)
    assert np.diff(np.concatenate([[False], in_both_rows, [False]]).astype(int)).clip(0).sum() >= 3, "three in the PNG"


def test_arrivals_are_marked() -> None:
    figure = gantt.render(beside_a_long_one())
    figure.canvas.draw()
    marks = [line for line in figure.axes[0].lines if line.get_gid() == "arrival"]
    assert sorted({round(float(np.asarray(mark.get_xdata())[0]), 4) for mark in marks}) == [0.0, 0.9, 3.9, 9.8999]
    assert legend(figure) == ["long: Long", "short: Short", "arrival"]


def test_a_part_is_drawn() -> None:
    figure = gantt.render(beside_a_long_one(), begin=3.9995, end=4.0015)
    axes = figure.axes[0]
    assert axes.get_xlim() == (3.9995, 4.0015)
    widths = sorted(width for _, width, _ in rectangles(figure))
    assert len(widths) == 3 and widths[0] > 300, "half of the picture each"
    assert "short.1" in texts(figure) and "long.0" in texts(figure)
    for begin, end in ((11.0, None), (2.0, 1.0), (-3.0, -1.0)):
        with pytest.raises(ValueError, match="there is nothing to draw from"):
            gantt.render(beside_a_long_one(), begin, end)


def test_bars_that_follow_at_once_can_be_told_apart() -> None:
    trace = TraceRecorder(origin=0.0)
    trace.add(TaskEvent(1, "graph0", "graph0.0", "one", 0.0, 0.003))
    for i in range(3):
        layer = {"task": "graph0.0", "layer": f"layer{i}.conv"}
        trace.add(CommandEvent("one", "conv2d", i * 1e-3, (i + 1) * 1e-3, layer))
    figure = gantt.render(trace)
    assert sorted(texts(figure)) == [f"layer{i}.conv" for i in range(3)]
    commands = sorted(bar for bar in rectangles(figure) if not np.allclose(bar[2], gantt.PALETTE[0][:3]))
    assert len(commands) == 3
    assert all(a[0] + a[1] < b[0] - 0.5 for a, b in itertools.pairwise(commands))


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_name_says_the_format(tmp_path: Path, kind: str) -> None:
    path = beside_a_long_one().gantt(tmp_path / f"trace.{kind}", begin=0.5, end=5)
    start = path.read_bytes()[:8]
    assert start.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[kind])
    if kind == "png":
        assert struct.unpack(">II", path.read_bytes()[16:24])[0] > 800


def test_a_narrow_bar_has_its_whole_name_upright() -> None:
    trace = TraceRecorder(origin=0.0)
    trace.add(TaskEvent(1, "graph0", "graph0.0", "one", 0.0, 0.030))
    for i in range(30):
        at = {"task": "graph0.0", "layer": f"layer{i:02d}.0.conv1"}
        trace.add(CommandEvent("one", "conv2d", i * 1e-3, (i + 1) * 1e-3, at))
    figure = gantt.render(trace)
    assert sorted(texts(figure)) == [f"layer{i:02d}.0.conv1" for i in range(30)]
    figure.canvas.draw()
    written = sorted((t for t in figure.axes[0].texts if "conv" in t.get_text()), key=lambda t: t.get_text())
    extents = [text.get_window_extent() for text in written]
    assert all(a.x1 <= b.x0 for a, b in itertools.pairwise(extents)), "no text lies on another"
    row = figure.axes[0].transData.transform([(0, -0.5), (0, 0.5)])[:, 1]
    assert all(extent.height < abs(np.diff(row))[0] for extent in extents)
