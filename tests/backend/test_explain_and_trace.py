"""explain, stats, traces, dumps and devices(): every figure is held against one that was found another way."""

from __future__ import annotations

import inspect
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import fpga_dynamo
from fpga_dynamo.runtime.cards.card import open_card
from tests.backend.backend_kit import GREEDY, Net, counting, image, mlp, on_card


class Mixed(nn.Module):
    """Launch, eager, launch: no core has an arctangent."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = torch.atan(x)
        return torch.softmax(self.second(x), -1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.q(x) @ self.k(x).mT / 4, -1) @ self.v(x)


def flops(model: Any, *args: Any) -> int:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(*args)
    return counter.get_total_flops()


MODELS: dict[str, tuple[Any, Any]] = {
    "CNN": (Net, image),
    "MLP": (lambda: mlp(16, 32, 8), lambda: torch.randn(4, 16)),
    "mixed": (Mixed, lambda: torch.randn(4, 16)),
    "depthwise and strided": (
        lambda: nn.Sequential(nn.Conv2d(8, 8, 3, groups=8, padding=1), nn.Conv2d(8, 12, 3, stride=2), nn.ReLU()),
        lambda: torch.randn(2, 8, 9, 9),
    ),
    "attention": (Attention, lambda: torch.randn(2, 6, 16)),
}


@pytest.mark.parametrize("name", MODELS)
def test_figures_add_up(name: str) -> None:
    make, inputs = MODELS[name]
    model, x = make().eval(), inputs()
    explained = fpga_dynamo.explain(model, x, options=GREEDY)
    nodes = [node for graph in explained.graphs for node in graph.nodes if node.computes]
    on_pl = [node for node in nodes if node.place == "PL"]
    assert explained.node_offload == len(on_pl) / len(nodes)
    assert sum(node.macs for node in nodes) == flops(model, x) / 2
    assert explained.mac_offload == sum(node.macs for node in on_pl) / sum(node.macs for node in nodes)
    assert all(node.place in ("PL", "PS") and node.how for node in nodes)
    assert len({node.name for node in nodes}) == len(nodes)
    (graph,) = explained.graphs
    assert sum(graph.opcodes.values()) == graph.commands >= graph.launches == explained.pl_launches
    assert graph.live_bytes <= graph.arena_bytes
    compiled = on_card(model)
    with torch.no_grad(), counting() as grown:
        compiled(x)
    assert grown["pl_launches"] == explained.pl_launches
    assert grown["pl_commands"] == graph.commands
    assert grown["ps_nodes"] == len(nodes) - len(on_pl)


def test_a_node_s_row_has_its_op_its_reason_and_its_line() -> None:
    explained = fpga_dynamo.explain(Mixed().eval(), torch.randn(4, 16), options=GREEDY)
    source, first = inspect.getsourcelines(Mixed.forward)
    line = first + next(i for i, text in enumerate(source) if "atan" in text)
    (node,) = (node for node in explained.graphs[0].nodes if node.place == "PS" and node.computes)
    assert node.op == "aten.atan.default"
    assert node.how.startswith("no pattern matches aten.atan.default: no micro-operation computes this")
    assert node.source == f"test_explain_and_trace.py:{line} in forward"
    assert node.bytes == 4 * 32 * 4 and node.macs == 0
    (row,) = (row for row in str(explained).splitlines() if row.startswith("atan"))
    assert all(part in row for part in (node.op, "PS", "no pattern matches")), row
    assert f"explain_and_trace.py:{line}" in str(explained).replace("\n", "")
    (row,) = (row for row in str(explained).splitlines() if row.startswith("_softmax"))
    assert "PL" in row and "sequencer: softmax, command 1" in row
    assert explained.node_offload == 0.8 and explained.mac_offload == 1.0 and explained.pl_launches == 2


def test_commands_that_rows_name_are_all_but_the_copies_of_results() -> None:
    explained = fpga_dynamo.explain(Net().eval(), image(), options=GREEDY)
    (graph,) = explained.graphs
    named = set()
    for node in graph.nodes:
        found = re.search(r"command ([\d, ]+) of", node.how)
        named |= set(map(int, found[1].split(","))) if found else set()
    assert len(named) >= 3 and named < set(range(graph.commands))
    assert graph.commands - len(named) <= graph.layout_changes


def test_as_json() -> None:
    explained = fpga_dynamo.explain(Mixed().eval(), torch.randn(4, 16), options=GREEDY)
    table = json.loads(json.dumps(explained.to_dict()))
    assert table["node_offload"] == 0.8 and table["pl_launches"] == 2
    (graph,) = table["graphs"]
    assert [node["name"] for node in graph["nodes"]] == [node.name for node in explained.graphs[0].nodes]
    assert sum(node["computes"] for node in graph["nodes"]) == 5


def test_explain_leaves_compiled_models_alone() -> None:
    model, x = Mixed().eval(), torch.randn(4, 16)
    compiled = on_card(model)
    with torch.no_grad():
        before = compiled(x)
        fpga_dynamo.explain(model, x)
        fpga_dynamo.explain(compiled, x, options=GREEDY)
        fpga_dynamo.explain(Mixed(), x)
        with counting() as grown:
            assert torch.equal(compiled(x), before)
    assert grown["graphs_compiled"] == 0 and grown["weights_packed"] == 0
    assert torch.is_grad_enabled() and not model.training


def test_explaining_many_times_is_not_refused_by_dynamo() -> None:
    for n in range(1, 14):
        explained = fpga_dynamo.explain(mlp(4, n, 2).eval(), torch.randn(2, 4), options=GREEDY)
        assert explained.node_offload == 1.0 and len(explained.graphs) == 1


def test_verify_s_copies_are_no_layout_changes() -> None:
    model, x = Net().eval(), image()
    plain = fpga_dynamo.explain(model, x, options=GREEDY).graphs[0]
    verified = fpga_dynamo.explain(model, x, options={**GREEDY, "verify": True}).graphs[0]
    assert verified.commands >= plain.commands
    assert verified.layout_changes == plain.layout_changes


def test_training_mode_is_explained_as_such() -> None:
    model, x = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5)), torch.randn(4, 16)
    training = fpga_dynamo.explain(model, x, options=GREEDY).graphs[0]
    assert any("random numbers" in node.how for node in training.nodes)
    inference = fpga_dynamo.explain(model.eval(), x, options=GREEDY)
    assert inference.node_offload == 1.0 and not model.training


def test_a_function_and_a_graph_break_are_explained() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        torch._dynamo.graph_break()
        return torch.tanh(y)

    explained = fpga_dynamo.explain(function, torch.randn(3, 4), options=GREEDY)
    assert len(explained.graphs) == explained.graph_count == 2
    assert [node.op for graph in explained.graphs for node in graph.nodes] == ["aten.relu.default", "aten.tanh.default"]


def test_nothing_to_compute_is_no_offload_and_no_division_by_zero() -> None:
    explained = fpga_dynamo.explain(lambda x: x.t(), torch.randn(3, 4))
    assert explained.node_offload == 0.0 and explained.mac_offload == 1.0 and explained.pl_launches == 0
    assert "node offload" in str(explained)


# --- counters ---------------------------------------------------------------------------------------------------------


def test_counters_of_one_call() -> None:
    model, x = Mixed().eval(), torch.randn(4, 16)
    compiled = on_card(model)
    with torch.no_grad():
        with counting() as compiling:
            compiled(x)
        fpga_dynamo.reset_stats()
        assert set(fpga_dynamo.stats().values()) == {0}
        compiled(x)
    assert compiling["graphs_compiled"] == 1 and compiling["compile_seconds"] > 0
    assert compiling["weights_packed"] == 4, "two weights and two biases"
    assert fpga_dynamo.stats() == {
        "graphs_compiled": 0,
        "programs_loaded": 0,
        "traces_loaded": 0,
        "compile_seconds": 0,
        "pl_launches": 2,
        "pl_commands": 3,
        "ps_nodes": 1,
        "ps_fallbacks": 0,
        "bytes_to_device": 4 * (4 * 16 + 4 * 32),
        "bytes_from_device": 4 * (4 * 32 + 4 * 16),
        "weights_packed": 0,
        "card_cycles": 0,
        "card_seconds": 0,
        "internal_errors": 0,
    }


def test_stats_are_a_copy() -> None:
    fpga_dynamo.stats()["pl_launches"] = 10**9
    assert fpga_dynamo.stats()["pl_launches"] < 10**9


# --- traces -----------------------------------------------------------------------------------------------------------


def test_a_trace_of_a_run(tmp_path: Path) -> None:
    model, x = Mixed().eval(), torch.randn(4, 16)
    compiled = on_card(model)
    with torch.no_grad():
        compiled(x)
        with fpga_dynamo.trace() as trace:
            compiled(x), compiled(x)
        compiled(x)
    assert [event.task.split(".")[1] for event in trace.tasks] == ["0", "1", "2"] * 2
    assert [event.pe[:2] for event in trace.tasks] == ["se", "ps", "se"] * 2
    assert [event.arguments.get("commands") for event in trace.tasks] == [1, None, 2] * 2
    assert [event.arguments.get("macs") for event in trace.tasks] == [4 * 16 * 32, None, 4 * 32 * 16] * 2
    assert len(trace.applications) == 2
    spans = [(event.start, event.stop) for event in trace.tasks]
    assert all(a[0] < a[1] <= b[0] for a, b in itertools.pairwise(spans)), "each depends on the one before"

    saved = json.loads(trace.save(tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    bars = [event for event in saved if event["ph"] == "X" and event["cat"] not in ("decision", "command")]
    assert [bar["name"] for bar in bars] == [event.task for event in trace.tasks]
    assert all(bar["ts"] >= 0 and bar["dur"] > 0 for bar in bars)
    rows = {event["args"]["name"] for event in saved if event["name"] == "thread_name"}
    assert {event.pe for event in trace.tasks} <= rows
    assert {pe.name for pe in open_card(fpga_dynamo.Options()).pes} <= rows, "idle units have a row too"

    picture = trace.gantt(tmp_path / "trace.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n") and len(picture) > 5000


def test_a_trace_has_the_commands_inside_each_launch() -> None:
    model, x = Mixed().eval(), torch.randn(4, 16)
    compiled = on_card(model)
    with torch.no_grad():
        compiled(x)
        with fpga_dynamo.trace() as trace:
            compiled(x)
    names = [task.task for task in trace.tasks]
    launches = [task for task in trace.tasks if "commands" in task.arguments]
    assert [(c.arguments["task"], c.arguments["index"]) for c in trace.commands] == [
        (names[0], 0),
        (names[2], 0),
        (names[2], 1),
    ]
    for launch in launches:
        inside = [c for c in trace.commands if c.arguments["task"] == launch.task]
        assert launch.start < inside[0].start and inside[-1].stop < launch.stop
        assert all(c.pe == launch.pe and c.start < c.stop for c in inside)
        assert all(a.stop <= b.start for a, b in itertools.pairwise(inside)), "a barrier separates commands"
        assert sum(c.arguments["macs"] for c in inside) == launch.arguments["macs"]


def test_a_trace_that_is_over_records_nothing() -> None:
    compiled, x = on_card(lambda x: torch.relu(x) + 1), torch.randn(3, 4)
    compiled(x)
    with fpga_dynamo.trace() as trace:
        pass
    compiled(x)
    assert trace.events == []


def test_tasks_are_ranges_of_torch_s_profiler() -> None:
    compiled, x = on_card(Mixed().eval()), torch.randn(4, 16)
    with torch.no_grad():
        compiled(x)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            compiled(x)
    names = {event.name for event in profiler.events()}
    assert len([name for name in names if name.startswith("fpga_dynamo::graph")]) == 3


# --- dumps and devices ------------------------------------------------------------------------------------------------


def test_dump_dir(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "dump"
    with torch.no_grad():
        on_card(Mixed().eval(), dump_dir=folder)(torch.randn(4, 16))
    (graph,) = {path.name.split(".")[0] for path in folder.iterdir()}
    names = {f"{graph}.graph.py", f"{graph}.tasks.txt", f"{graph}.0.commands.txt", f"{graph}.2.commands.txt"}
    assert {path.name for path in folder.iterdir()} == names
    compile((folder / f"{graph}.graph.py").read_text(encoding="utf-8"), "graph", "exec")
    tasks = (folder / f"{graph}.tasks.txt").read_text(encoding="utf-8")
    assert f"{graph}.0 on kernel sequencer after []" in tasks
    assert f"{graph}.1 on PS after [0]" in tasks and "no pattern matches aten.atan.default" in tasks
    assert f"{graph}.2 on kernel sequencer after [1]" in tasks
    first = (folder / f"{graph}.0.commands.txt").read_text(encoding="utf-8").splitlines()
    assert len(first) == 1 and first[0].split()[:2] == ["0", "gemm"]
    assert all(f"{field}=" in first[0] for field in ("a", "b", "bias", "rows", "columns", "depth", "activation"))


def test_a_dump_dir_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match="file"):
        on_card(mlp(4, 2), dump_dir=tmp_path / "file")(torch.randn(2, 4))


def test_explaining_for_another_recipe_changes_nothing_for_what_is_compiled() -> None:
    model, x = mlp(16, 8).eval(), torch.randn(4, 16)
    compiled = on_card(model, strict=True)
    with torch.no_grad():
        compiled(x)
        explained = fpga_dynamo.explain(model, x, options={"recipe": "single", "partition": "greedy"})
        assert explained.pl_launches == 1
        with counting() as grown:
            torch.testing.assert_close(compiled(x), model(x))
    assert (grown["pl_launches"], grown["ps_fallbacks"], grown["graphs_compiled"]) == (1, 0, 0)
    on_card(mlp(4, 2).eval())(torch.randn(2, 4))
    assert fpga_dynamo.devices()[0].uuid == open_card(fpga_dynamo.Options()).target.uuid


def test_devices() -> None:
    compiled = on_card(mlp(4, 2).eval())  # its weights are on the card for as long as it lives
    compiled(torch.randn(2, 4))
    card = open_card(fpga_dynamo.Options())
    reports = fpga_dynamo.devices()
    assert [report.index for report in reports] == list(range(len(reports)))
    first = reports[0]
    assert first.driver == "emulated" and first.name and first.platform == "emu"
    assert first.uuid == card.target.uuid and first.xclbin == str(card.path) and Path(first.xclbin).is_file()
    assert first.compute_units == ("sequencer_1", "sequencer_2")
    assert first.memory_used == sum(bank["used"] for bank in first.banks)
    assert 0 < first.memory_used < first.memory_total == sum(bank["bytes"] for bank in first.banks)
    untouched = reports[5]
    assert (untouched.uuid, untouched.memory_used, untouched.compute_units) == ("", 0, ())
