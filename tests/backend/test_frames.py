"""Frames that Dynamo runs in eager mode: an error under strict, a row with a reason in explain. And recurrent layers,
which Dynamo traces for this backend and no other."""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import fpga_dynamo
from tests.backend.backend_kit import GREEDY, assert_same_answer, counting, mlp, on_card

STRICT: dict[str, Any] = {**GREEDY, "strict": True}


def line_of(function: Callable[..., Any], text: str) -> int:
    """The line of the function's source that has `text`."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def refused(function: Callable[..., Any], *args: Any) -> str:
    """The sentence that a strict function is refused with."""
    compiled = torch.compile(function, backend="fpga", options=STRICT)
    with pytest.raises(fpga_dynamo.NotLoweredError) as error:
        compiled(*args)
    with pytest.raises(fpga_dynamo.NotLoweredError):
        compiled(*args)  # not only the first time
    return str(error.value)


class Recurrent(nn.Module):
    """A recurrent layer among others."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        width = layer.proj_size or layer.hidden_size
        self.first, self.layer = nn.Linear(8, 8), layer
        self.last = nn.Linear(width * (2 if layer.bidirectional else 1), 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        out, _ = self.layer(x)
        return torch.tanh(self.last(out))


class Transducer(nn.Module):
    """RNN-T: what has been heard and what has been said, in each combination."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True)
        self.said, self.predictor = nn.Embedding(10, 8), nn.LSTM(8, 16, batch_first=True)
        self.heard, self.joiner = nn.Linear(32, 16), nn.Linear(16, 10)

    def forward(self, sound: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        heard, _ = self.encoder(sound)
        said, _ = self.predictor(self.said(labels))
        joint = self.heard(heard).unsqueeze(2) + said.unsqueeze(1)
        return torch.log_softmax(self.joiner(torch.tanh(joint)), -1)


def with_nonzero(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    places = torch.nonzero(x > 0)
    return places + 1


def in_a_loop(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = x @ x
        if x.sum() > 0:
            x = x + 1
    return x


def with_print(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    print("between two graphs")
    return x + 1


# --- recurrent layers -------------------------------------------------------------------------------------------------

LAYERS = {
    "LSTM": nn.LSTM(8, 8),
    "LSTM, both ways": nn.LSTM(8, 9, 2, batch_first=True, bidirectional=True),
    "LSTM without biases": nn.LSTM(8, 9, bias=False),
    "LSTM with projections": nn.LSTM(8, 9, proj_size=5),
    "GRU": nn.GRU(8, 9, 2, bidirectional=True),
    "RNN": nn.RNN(8, 9, nonlinearity="relu"),
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_a_recurrent_layer_is_on_the_card_by_itself(layer: nn.RNNBase) -> None:
    model, x = Recurrent(layer).eval(), torch.randn(5, 3, 8)
    compiled = on_card(model, strict=True)
    assert_same_answer(compiled, model, x)
    with torch.no_grad(), counting() as grown:
        compiled(x)
    assert grown["pl_launches"] == 1 and grown["ps_nodes"] == 0
    assert torch._dynamo.config.allow_rnn is False


def test_one_that_is_compiled_by_itself() -> None:
    for layer in (nn.LSTM(8, 8), nn.GRU(8, 8)):
        compiled = on_card(layer.eval(), strict=True)
        assert_same_answer(lambda x, c=compiled: c(x)[0], layer_output(layer), torch.randn(4, 2, 8))


def layer_output(layer: nn.Module) -> nn.Module:
    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)[0]

    return First()


def test_a_transducer_is_wholly_on_the_card() -> None:
    model = Transducer().eval()
    inputs = torch.randn(2, 6, 8), torch.randint(10, (2, 4))
    assert_same_answer(on_card(model, strict=True), model, *inputs)
    explained = fpga_dynamo.explain(model, *inputs, options=GREEDY)
    assert explained.node_offload == explained.mac_offload == 1.0 and not explained.gaps and not explained.outside


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_gradients_of_a_recurrent_layer(layer: nn.RNNBase, training: bool) -> None:
    model, x = Recurrent(layer).train(training), torch.randn(5, 3, 8)
    compiled = on_card(model)
    model.zero_grad()
    compiled(x).square().sum().backward()
    mine = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    model(x).square().sum().backward()
    for grad, parameter in zip(mine, model.parameters(), strict=True):
        torch.testing.assert_close(grad, parameter.grad)
    assert_same_answer(compiled, model, x)  # and without gradients, in the same compiled model


def test_another_backend_has_dynamo_s_own_setting_meanwhile() -> None:
    """A thread that compiles for another backend while we compile sees no setting of ours."""
    seen: list[bool] = []

    def other(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        seen.append(torch._dynamo.config.allow_rnn)
        return gm

    taken: list[Any] = []

    def counted(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        taken.extend(node.target for node in gm.graph.nodes)
        return gm

    with torch.no_grad():
        on_card(Recurrent(nn.LSTM(8, 8)), strict=True)(torch.randn(3, 2, 8))
        thread = threading.Thread(target=lambda: torch.compile(lambda x: x + 1, backend=other)(torch.randn(3)))
        thread.start()
        thread.join()
        torch.compile(Recurrent(nn.GRU(8, 8)), backend=counted)(torch.randn(3, 2, 8))
    assert seen == [False]
    assert torch.nn.functional.linear in taken or torch._C._nn.linear in taken
    assert torch.gru not in taken, "the graph ends at the layer, as Dynamo has it"


def test_fullgraph_and_stances_have_recurrent_layers_too() -> None:
    x = torch.randn(3, 2, 8)
    model = Recurrent(nn.GRU(8, 9)).eval()
    whole = torch.compile(model, backend="fpga", options=STRICT, fullgraph=True)
    assert_same_answer(whole, model, x)
    with torch.no_grad(), pytest.raises(torch._dynamo.exc.Unsupported, match="RNN, GRU, or LSTM"):
        whole(torch.randn(300, 2, 8))
    torch._dynamo.reset()
    compiled = on_card(model)
    with torch.no_grad(), torch.compiler.set_stance("eager_then_compile"), counting() as grown:
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x))
    assert grown["pl_launches"] == 1


def test_long_and_packed_sequences_are_left_to_eager_with_a_reason() -> None:
    model = Recurrent(nn.GRU(8, 9)).eval()
    long = torch.randn(200, 1, 8)
    compiled = on_card(model)
    assert_same_answer(compiled, model, long)
    explained = fpga_dynamo.explain(model, long, options=GREEDY)
    assert any("GRU of 200 steps" in gap.reason for gap in explained.gaps), explained.gaps
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 2, 8), [3, 2])
    layer = nn.LSTM(8, 8).eval()
    with torch.no_grad():
        mine, theirs = on_card(layer)(packed)[0], layer(packed)[0]
    torch.testing.assert_close(mine.data, theirs.data)
    with torch.no_grad():
        assert "LSTM" in refused(layer, packed)
        assert_same_answer(on_card(layer_output(layer), strict=True), layer_output(layer), torch.randn(3, 2, 8))


def test_a_layer_is_unrolled_for_a_few_lengths_only() -> None:
    model = Recurrent(nn.GRU(8, 9)).eval()
    compiled = on_card(model)
    with counting() as first:
        for steps in range(2, 6):
            assert_same_answer(compiled, model, torch.randn(steps, 2, 8))
    assert first["graphs_compiled"] == first["pl_launches"] == 4
    explained = fpga_dynamo.explain(model, torch.randn(9, 2, 8), options=GREEDY)
    assert not explained.gaps
    for steps in range(6, 12):
        assert_same_answer(compiled, model, torch.randn(steps, 2, 8))


# --- strict -----------------------------------------------------------------------------------------------------------


def test_strict_refuses_a_skipped_frame_with_dynamo_s_reason() -> None:
    sentence = refused(in_a_loop, torch.randn(3, 3))
    line = line_of(in_a_loop, "x @ x")
    assert f"aten.mm.default at test_frames.py:{line} in in_a_loop runs in eager mode" in sentence
    assert ("skipped frame" in sentence and "graph break in" in sentence) or "loop" in sentence


def test_strict_refuses_a_recurrent_layer_that_stays_in_eager() -> None:
    sentence = refused(nn.LSTM(8, 8).eval(), torch.randn(3, 2, 8))
    assert "mkldnn_rnn_layer" in sentence and "torch.no_grad()" in sentence


def test_strict_refuses_what_runs_between_graphs() -> None:
    sentence = refused(with_nonzero, torch.randn(3, 3))
    line = line_of(with_nonzero, "torch.nonzero(")
    assert f"aten.nonzero.default at test_frames.py:{line} in with_nonzero runs in eager mode" in sentence
    assert f"graph break at test_frames.py:{line} in with_nonzero: Dynamic shape operator" in sentence


def test_strict_minds_no_graph_break_in_which_nothing_computes() -> None:
    x = torch.randn(3, 3)
    compiled = on_card(with_print, strict=True)
    for _ in range(3):
        with counting() as grown:
            torch.testing.assert_close(compiled(x), with_print(x))
        assert grown["pl_launches"] == 2


def test_strict_notices_a_gap_in_a_later_call() -> None:
    def function(x: torch.Tensor, other: bool) -> torch.Tensor:
        x = torch.relu(x)
        return torch.nonzero(x) if other else x + 1

    compiled, x = on_card(function, strict=True), torch.randn(3, 3)
    for _ in range(3):
        compiled(x, False)
    for _ in range(2):
        with pytest.raises(fpga_dynamo.NotLoweredError, match="nonzero"):
            compiled(x, True)
    torch.testing.assert_close(compiled(x, False), function(x, False))
    assert torch.randn(2).shape == (2,), "no dispatch mode is left behind"


def test_a_copy_of_a_strict_module_is_strict() -> None:
    compiled = on_card(mlp(4, 4).eval(), strict=True)
    x = torch.randn(2, 4)
    twin = copy.deepcopy(compiled)
    torch.testing.assert_close(twin(x), compiled(x))
    with pytest.raises(fpga_dynamo.NotLoweredError):
        copy.deepcopy(on_card(nn.LSTM(4, 4), strict=True))(torch.randn(2, 2, 4))


def test_strict_leaves_the_dispatcher_as_it_was() -> None:
    with pytest.raises(fpga_dynamo.NotLoweredError):
        on_card(in_a_loop, strict=True)(torch.randn(3, 3))
    assert torch._C._len_torch_dispatch_stack() == 0
    assert not torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.Python)
    assert torch.nn.Linear(2, 2)(torch.ones(1, 2)).shape == (1, 2)


# --- explain ----------------------------------------------------------------------------------------------------------


def test_explain_counts_a_skipped_frame_as_not_offloaded() -> None:
    explained = fpga_dynamo.explain(in_a_loop, torch.randn(4, 4), options=GREEDY)
    assert explained.node_offload == 0.0 and explained.mac_offload == 0.0 and explained.pl_launches == 0
    (product,) = (op for op in explained.outside if op.op == "aten.mm.default")
    line = line_of(in_a_loop, "x @ x")
    assert product.runs == 3 and product.macs == 3 * 4**3 and product.bytes == 3 * 64
    assert product.source == f"test_frames.py:{line} in in_a_loop"
    assert product.how.startswith("not offloaded: skipped frame")
    assert any(gap.kind == "skipped frame" and gap.function == "in_a_loop" for gap in explained.gaps)
    assert "skipped frame at test_frames.py" in str(explained) and "ran in eager mode outside every graph" in str(
        explained
    )


def test_explain_lists_graph_breaks_and_what_runs_in_them() -> None:
    explained = fpga_dynamo.explain(with_nonzero, torch.randn(4, 4), options=GREEDY)
    line = line_of(with_nonzero, "torch.nonzero(")
    assert [op.op for op in explained.outside] == ["aten.nonzero.default"]
    assert [(gap.kind, gap.line) for gap in explained.gaps] == [("graph break", line)]
    assert explained.gaps[0].reason.startswith("Dynamic shape operator")
    on_card = sum(n.place == "PL" for g in explained.graphs for n in g.nodes if n.computes)
    nodes = sum(n.computes for g in explained.graphs for n in g.nodes)
    assert explained.node_offload == on_card / (nodes + 1)
    harmless = fpga_dynamo.explain(with_print, torch.randn(4, 4), options=GREEDY)
    assert len(harmless.gaps) == 1 and not harmless.outside and harmless.node_offload == 1.0
    table = explained.to_dict()
    assert table["gaps"][0]["line"] == line and table["outside"][0]["op"] == "aten.nonzero.default"


def test_explain_of_a_recurrent_layer_with_gradients_is_honest() -> None:
    layer, x = nn.LSTM(8, 8), torch.randn(3, 2, 8)
    explained = fpga_dynamo.explain(layer, x, options=GREEDY)
    assert explained.mac_offload == 0.0 and explained.node_offload == 0.0
    (op,) = (op for op in explained.outside if "mkldnn_rnn_layer" in op.op)
    assert op.macs == 3 * 2 * (32 * 8 + 32 * 8)
    inference = fpga_dynamo.explain(layer.eval(), x, options=GREEDY)
    assert inference.mac_offload == 1.0 and inference.pl_launches == 1


def test_graphs_count_as_often_as_they_run() -> None:
    part = mlp(4, 4)

    def function(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = part(x)
            print()
            if x.sum() > 1e9:
                x = x + 1
        return x

    explained = fpga_dynamo.explain(function, torch.randn(2, 4), options=GREEDY)
    assert explained.pl_launches == sum(graph.launches * graph.runs for graph in explained.graphs)


class Stages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self.stages:
            x = stage(x)
        return torch.atan(x)


@pytest.mark.parametrize("by", ["op", "module", "reason"])
def test_sums(by: str) -> None:
    explained = fpga_dynamo.explain(Stages().eval(), torch.randn(4, 16), options=GREEDY, by=by)
    lines = str(explained).splitlines()
    assert lines[0].split()[0] == by and lines[-1].startswith("node offload 85.7%, MAC offload 100.0%")
    rows = {line.split("  ")[0]: line.split("  ")[1:] for line in lines[1:-1]}
    figures = {key: [cell.strip() for cell in cells if cell.strip()] for key, cells in rows.items()}
    expected = {
        "op": {"aten.addmm.default": ["3", "3", "3.07 k", "100%"], "aten.atan.default": ["1", "0"]},
        "module": {"stages.1.0": ["1", "1", "1.02 k", "100%"], "stages.2.1": ["1", "1"], "(none)": ["1", "0"]},
        "reason": {"sequencer: matmul": ["6", "6", "3.07 k", "100%"]},
    }[by]
    for key, cells in expected.items():
        assert figures[key][: len(cells)] == cells, figures
    assert len(rows) == {"op": 3, "module": 7, "reason": 2}[by] or by == "reason"


def test_sums_by_something_else_are_refused() -> None:
    with pytest.raises(fpga_dynamo.OptionError, match="one of node, op, module, reason, command, not 'layer'"):
        fpga_dynamo.explain(mlp(4, 2), torch.randn(2, 4), by="layer")
