"""`task_graph`: granularities, what is stated, JSON, several graphs of a frame, measured seconds, wrong arguments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import torch
from torch import nn

from fpga_dynamo import OptionError, task_graph
from fpga_dynamo.runtime.application import (
    Application,
    ApplicationError,
    Result,
    from_json,
    load,
    save,
    schema,
    to_json,
    to_svg,
)


class Net(nn.Module):
    """Two branches that meet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.left = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.right = nn.Conv2d(8, 8, 1)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem(x))
        return self.head((self.left(x) + self.right(x)).mean((2, 3)))


X = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(2)
    return Net().eval()


def test_layers_are_tasks_with_their_names(net: nn.Module) -> None:
    graph = task_graph(net, X, granularity="layer", platform="u250", measure=False)
    names = [task.name for task in graph.tasks]
    assert {"stem", "left.0", "right"} <= set(names)
    stem = graph.tasks[names.index("stem")]
    assert (stem.kernel, stem.layer) == ("conv2d", "Conv2d aten.relu")
    assert stem.inputs == ((2, 3, 12, 12),)
    assert stem.from_host == X.nbytes
    assert [names[edge.task] for edge in graph.tasks[names.index("right")].dependencies] == [
        "stem",
        "left.0",
    ]  # it adds that
    assert graph.tasks[names.index("right")].dependencies[0].bytes == 2 * 8 * 12 * 12 * 4
    assert graph.tasks[-1].to_host == 2 * 5 * 4


def test_a_launch_is_one_task_where_one_kernel_has_everything(net: nn.Module) -> None:
    graph = task_graph(net, X, measure=False, options={"recipe": "single", "partition": "greedy"})
    (task,) = graph.tasks
    assert task.kernel == "sequencer"
    assert task.memory > X.nbytes
    with torch.no_grad():
        wanted = net(X)
    for kind in ("sequencer", "x86"):
        (result,) = task.run(kind)
        torch.testing.assert_close(result, wanted, rtol=1e-4, atol=1e-5)


def test_it_survives_json(net: nn.Module, tmp_path: Path) -> None:
    graph = task_graph(net, X, granularity="op", platform="zcu102", measure=False)
    jsonschema.validate(to_json(graph), schema())
    assert to_json(from_json(json.loads(json.dumps(to_json(graph))))) == to_json(graph)
    assert load(save(graph, tmp_path / "net.json")) == graph
    picture = ElementTree.fromstring(to_svg(graph))
    assert len(picture.findall("{*}path")) == sum(len(task.dependencies) for task in graph.tasks)
    assert len(picture.findall("{*}g")) == len(graph.tasks)
    assert graph.to_dot().count("->") == sum(len(task.dependencies) for task in graph.tasks)


def test_seconds_can_be_measured_here(net: nn.Module) -> None:
    graph = task_graph(net, X, granularity="layer")
    for task in graph.tasks:
        assert task.basis["x86"].startswith("measured")
        if task.kernel:
            assert task.basis[task.kernel] == "measured: the emulator, transfers included"
            assert task.seconds[task.kernel] > 0


def test_graphs_of_a_frame_follow_each_other() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x @ x
        torch._dynamo.graph_break()
        return y @ x

    graph = task_graph(broken, torch.randn(16, 16), granularity="op", measure=False)
    assert [len(task.dependencies) for task in graph.tasks] == [0, 1]
    x = torch.randn(16, 16)
    assert graph.tasks[1].run("mmult", graph.tasks[0].run("mmult"))[0].shape == x.shape


def test_wrong_arguments_are_named(net: nn.Module) -> None:
    with pytest.raises(OptionError, match="must be one of launch, layer, op, not 'node'"):
        task_graph(net, X, granularity="node")
    with pytest.raises(OptionError, match="unknown platform 'u251'"):
        task_graph(net, X, platform="u251")


def run_all(graph: Application) -> list[Any]:
    values: list[Any] = []
    for task in graph.tasks:
        values.append(task.run(task.kernel or "x86", *(values[edge.task] for edge in task.dependencies)))
    return values


def test_a_graph_does_not_depend_on_what_was_compiled_before() -> None:
    """Dynamo finds its code of an equal module again, and would compile nothing."""
    x = torch.randn(2, 16)
    made = [
        task_graph(nn.Sequential(nn.Linear(16, 8), nn.ReLU()), x, granularity=granularity, measure=False, name="x")
        for granularity in ("op", "op", "layer")
    ]
    assert made[0] == made[1] and made[0].tasks
    assert [len(graph.tasks) for graph in made] == [len(made[0].tasks)] * 3


def test_a_model_that_dynamo_skips_is_refused() -> None:
    class Skipped(nn.Module):
        @torch.compiler.disable
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    with pytest.raises(ApplicationError, match=r"no graph in 'Skipped'.*explain"):
        task_graph(Skipped(), X, measure=False)


class Views(nn.Module):
    """A view of a task's value, an input, part of an input, and what is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        y = self.linear(x)
        torch._dynamo.graph_break()
        return {"y": y.transpose(0, 1), "x": x, "part": x[1:], "z": (y + 1).unsqueeze(0), "number": 3}


def test_a_graph_says_which_values_are_results() -> None:
    x, model = torch.randn(2, 5, 16), Views().eval()
    graph = task_graph(model, x, granularity="op", measure=False)
    assert [result.shape for result in graph.results] == [(5, 2, 8), (2, 5, 16), (1, 5, 16), (1, 2, 5, 8)]
    assert [graph.results[number].task for number in (1, 2)] == [None, None]
    assert graph.results[3].task == len(graph.tasks) - 1
    with torch.no_grad():
        wanted = model(x)
    torch.testing.assert_close(graph.collect(run_all(graph)), wanted, rtol=1e-4, atol=1e-5)
    assert from_json(json.loads(json.dumps(to_json(graph)))).results == graph.results
    jsonschema.validate(to_json(graph), schema())


def test_a_view_behind_the_last_task_is_part_of_the_graph() -> None:
    x, model = torch.randn(2, 5, 16), nn.Linear(16, 8)
    graph = task_graph(model, x, granularity="op", measure=False)
    assert graph.results == (Result((2, 5, 8), 0, 0),)
    torch.testing.assert_close(graph.collect(run_all(graph)), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", [nn.Flatten(), nn.Identity()])
def test_a_model_of_views_is_a_graph_without_tasks(model: nn.Module) -> None:
    graph = task_graph(model, X, measure=False)
    assert graph.tasks == () and graph.results == (Result(tuple(model(X).shape)),)
    assert torch.equal(graph.collect([]), model(X))


def test_what_was_loaded_has_no_code_and_says_so(net: nn.Module) -> None:
    graph = from_json(to_json(task_graph(net, X, granularity="layer", measure=False)))
    with pytest.raises(ApplicationError, match="task 'stem' cannot run: it has costs but no code"):
        graph.tasks[0].run("x86", X)
    with pytest.raises(ApplicationError, match="application 'Net' cannot run"):
        graph.collect([])
    assert not graph.tasks[0].has_code
