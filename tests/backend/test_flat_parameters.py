"""`join_parameters`: an exported model with its parameters in one tensor for each dtype gives what it gave."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

import fpga_dynamo
from fpga_dynamo.errors import FpgaError
from fpga_dynamo.frontend.flat_parameters import JOINED
from fpga_dynamo.testing.quantised import RandomWeights, quantize, rounded
from tests.lowering.lowering_cases import programs_of
from tests.lowering.quantised_kit import I8, check


class Net(nn.Module):
    """With a tied weight, a counter that it writes to, and a transposed parameter."""

    counter: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.third = nn.Parameter(torch.randn(8, 8).t())
        self.norm = nn.BatchNorm1d(8)
        self.register_buffer("counter", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.counter.add_(1)
        return torch.relu(self.norm(self.second(self.first(x)))) @ self.third + self.counter


def exported(model: nn.Module, x: Tensor) -> GraphModule:
    found = torch.export.export(model.eval(), (x,)).module()
    assert isinstance(found, GraphModule)
    return found


def test_results_are_those_of_the_model() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 8)
    graph = exported(Net(), x)
    joined = fpga_dynamo.join_parameters(graph)
    with torch.no_grad():
        assert torch.equal(joined(x), graph(x))
        assert torch.equal(joined(x), graph(x))  # with the counter at 2


def test_one_buffer_holds_what_is_only_read() -> None:
    net = Net()
    joined = fpga_dynamo.join_parameters(exported(net, torch.randn(3, 8)))
    names = {name for name, _ in (*joined.named_parameters(), *joined.named_buffers())}
    alone = {"norm.num_batches_tracked"}  # the only one of int64
    assert names == {f"{JOINED}float32", "counter", "third"} | alone
    members = [net.first.weight, net.first.bias, net.second.bias, *net.norm.parameters(), *net.norm.buffers()]
    sizes = [tensor.numel() for tensor in members if tensor.dtype is torch.float32]
    assert sum(sizes) <= joined.get_buffer(f"{JOINED}float32").numel() < sum(sizes) + 16 * len(sizes)


class Cache(nn.Module):
    """Writes to rows of a buffer, and reads parts of another."""

    rows: Tensor
    halves: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("rows", torch.zeros(4, 8))
        self.register_buffer("halves", torch.randn(2, 8))

    def forward(self, x: Tensor) -> Tensor:
        self.rows[1:3] = self.layer(x)
        first, second = self.halves.chunk(2)
        return self.rows * first + second


def test_what_is_written_through_a_view_stays_a_buffer() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 8)
    graph = exported(Cache(), x)
    joined = fpga_dynamo.join_parameters(graph)
    assert {name for name, _ in joined.named_buffers()} == {"rows", f"{JOINED}float32"}
    with torch.no_grad():
        assert torch.equal(joined(x), graph(x))
        assert torch.equal(torch.compile(joined, backend="fpga")(x), torch.compile(graph, backend="fpga")(x))
        assert torch.equal(joined.get_buffer("rows"), graph.get_buffer("rows"))


def test_a_joined_model_can_be_joined_again() -> None:
    graph = exported(nn.Linear(8, 8), torch.randn(3, 8))
    joined = fpga_dynamo.join_parameters(graph)
    joined.register_buffer("shift", torch.ones(8))
    output = next(iter(joined.graph.find_nodes(op="output")))
    with joined.graph.inserting_before(output):
        shift = joined.graph.get_attr("shift")
        (result,) = output.args[0]
        output.args = ((joined.graph.call_function(torch.ops.aten.add.Tensor, (result, shift)),),)
    joined.recompile()
    again, x = fpga_dynamo.join_parameters(joined), torch.randn(3, 8)
    assert [name for name, _ in again.named_buffers()] == [f"{JOINED}float32_"]
    with torch.no_grad():
        assert torch.equal(again(x), graph(x) + 1)


def test_the_model_that_was_given_is_left_alone() -> None:
    x = torch.randn(3, 8)
    graph = exported(Net(), x)
    before, code = {name: tensor.clone() for name, tensor in graph.state_dict().items()}, graph.code
    fpga_dynamo.join_parameters(graph)
    assert graph.code == code
    assert all(torch.equal(before[name], tensor) for name, tensor in graph.state_dict().items())


def test_compiled_is_one_launch_with_few_inputs() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5))
    x = torch.randn(2, 3, 8, 8)
    joined = fpga_dynamo.join_parameters(exported(model, x))
    (program,) = programs_of(joined, x, strict=True)
    assert len(program.card_tasks) == 1
    assert len(program.graph.placeholders) == 2
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(joined, backend="fpga")(x), model(x))


def test_integers_are_eagers() -> None:
    torch.manual_seed(0)

    class Quantised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = RandomWeights(8, 4, 3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return quantize(nn.functional.conv2d(rounded(x, I8), self.weights(), self.weights.bias), I8)

    x = torch.randn(1, 4, 9, 9)
    joined = fpga_dynamo.join_parameters(exported(Quantised(), x))
    assert {name for name, _ in joined.named_buffers()} == {f"{JOINED}float32", "weights.integers", "weights.zeros"}
    check(joined, x)


def test_changed_parameters_count_at_the_next_call() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)), torch.randn(4, 8)
    joined = fpga_dynamo.join_parameters(exported(model, x))
    compiled = torch.compile(joined, backend="fpga")
    with torch.no_grad():
        before = compiled(x)
        joined.get_buffer(f"{JOINED}float32").mul_(-2)
        after = compiled(x)
        torch.testing.assert_close(after, joined(x))
    assert not torch.allclose(before, after)


def test_the_state_has_the_models_names() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 8)
    graph, other = exported(Net(), x), exported(Net(), x)
    joined = copy.deepcopy(fpga_dynamo.join_parameters(graph))
    state = joined.state_dict()
    assert state.keys() == graph.state_dict().keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in graph.state_dict().items())
    joined.load_state_dict(other.state_dict())
    graph.load_state_dict(joined.state_dict())
    with torch.no_grad():
        wanted = other(x)
        assert torch.equal(joined(x), wanted) and torch.equal(graph(x), wanted)


def test_the_state_of_a_model_that_was_joined_again_can_be_loaded() -> None:
    graph = exported(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3)), x := torch.randn(3, 8))
    again = fpga_dynamo.join_parameters(fpga_dynamo.join_parameters(graph))
    state = {name: 2 * tensor for name, tensor in again.state_dict().items()}
    again.load_state_dict(state)
    graph.load_state_dict({name: 2 * tensor for name, tensor in graph.state_dict().items()})
    with torch.no_grad():
        assert torch.equal(again(x), graph(x))


def test_a_part_of_the_state_may_be_missing_and_a_wrong_one_is_told() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 8)
    graph = exported(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)), x)
    joined = fpga_dynamo.join_parameters(graph)
    found = joined.load_state_dict({"0.bias": torch.ones(8)}, strict=False)
    assert set(found.missing_keys) == {"0.weight", "2.weight", "2.bias"} and not found.unexpected_keys
    with torch.no_grad():
        graph.get_parameter("0.bias").fill_(1)
        assert torch.equal(joined(x), graph(x))
    with pytest.raises(RuntimeError, match=r"Missing key\(s\) in state_dict: \"0.bias\""):
        joined.load_state_dict({name: tensor for name, tensor in graph.state_dict().items() if name != "0.bias"})
    with pytest.raises(RuntimeError, match=r"size mismatch for 0.bias"):
        joined.load_state_dict(graph.state_dict() | {"0.bias": torch.ones(9)})


def test_a_module_that_is_no_graph_is_refused() -> None:
    with pytest.raises(FpgaError, match=r"expects the graph of an exported model.*not Linear"):
        fpga_dynamo.join_parameters(nn.Linear(2, 2))
