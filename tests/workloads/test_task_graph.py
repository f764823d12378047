"""`task_graph`: granularities, what is stated, JSON, several graphs of a frame, measured seconds, wrong arguments."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
import torch
from torch import nn

from fpga_dynamo import OptionError, task_graph
from fpga_dynamo.runtime.application import from_json, load, save, schema, to_json, to_svg


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
        (result,) = task.run(kind)  # type: ignore[misc]
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
    assert graph.tasks[1].run("mmult", graph.tasks[0].run("mmult"))[0].shape == x.shape  # type: ignore[misc]


def test_wrong_arguments_are_named(net: nn.Module) -> None:
    with pytest.raises(OptionError, match="must be one of launch, layer, op, not 'node'"):
        task_graph(net, X, granularity="node")
    with pytest.raises(OptionError, match="unknown platform 'u251'"):
        task_graph(net, X, platform="u251")
