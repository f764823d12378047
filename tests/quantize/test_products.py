"""Products in 8 bits in whatever way a model spells them: their share and bits, and a warning of the others."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fpga_dynamo
from fpga_dynamo.quantize import FPGAQuantizer, compare, mixed_precision, prepare, quantize
from fpga_dynamo.quantize.operators import PRODUCTS

SEQUENCE, IMAGE = (2, 16, 32), (2, 12, 8, 8)


class Function(nn.Module):
    """A function of an input and of parameters of these shapes."""

    def __init__(self, function: Callable[..., Tensor], *shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.function = function
        self.own = nn.ParameterList(torch.randn(shape) * 0.2 for shape in shapes)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *self.own)


class Layers(nn.Module):
    """A function of an input and of layers."""

    def __init__(self, function: Callable[..., Tensor], *layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *self.layers)


def conv1d_of_gpt2(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.addmm(b, x.view(-1, x.shape[-1]), w).view(*x.shape[:-1], -1).relu()


def experts(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    return torch.einsum("ebsh,ehk->ebsk", torch.einsum("bsk,ekh->ebsh", x, first).relu(), second).sum(0)


def pieces(x: Tensor, w: Tensor) -> Tensor:
    q, k, v = (F.linear(x, part) for part in w.chunk(3))
    return (q @ k.mT).softmax(-1) @ v


def grouped_heads(x: Tensor, q: nn.Module, k: nn.Module, v: nn.Module) -> Tensor:
    queries, keys, values = (layer(x).view(2, 16, -1, 8).transpose(1, 2) for layer in (q, k, v))
    return F.scaled_dot_product_attention(queries, keys, values, enable_gqa=True).transpose(1, 2).reshape(2, 16, 32)


def first_result(x: Tensor, layer: nn.Module) -> Tensor:
    return layer(x)[0]


def attention_of_others(x: Tensor, attention: nn.Module) -> Tensor:
    return attention(x, x.flip(1) * 1.5, x, need_weights=False)[0]


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "addmm": (lambda: Function(conv1d_of_gpt2, (32, 64), (64,)), SEQUENCE),
    "addmm of a residual": (lambda: Function(lambda x, w: torch.addmm(x[0], x[0], w).relu(), (32, 32)), SEQUENCE),
    "x @ w": (lambda: Function(lambda x, w: (x @ w).relu(), (32, 64)), SEQUENCE),
    "x @ w + b": (lambda: Function(lambda x, w, b: (x[0].mm(w) + b).relu(), (32, 64), (64,)), SEQUENCE),
    "x @ w.mT": (lambda: Function(lambda x, w: (x @ w.mT).relu(), (64, 32)), SEQUENCE),
    "w @ x": (lambda: Function(lambda x, w: (w @ x).relu(), (24, 16)), SEQUENCE),
    "x @ vector": (lambda: Function(lambda x, w: (x @ w).relu() + x[0].mv(w), (32,)), SEQUENCE),
    "one weight, both ways": (lambda: Function(lambda x, w: (x @ w).relu() + (x @ w.mT).relu(), (32, 32)), SEQUENCE),
    "einsum": (lambda: Function(lambda x, w: torch.einsum("bsk,khd->bhsd", x, w).relu(), (32, 4, 16)), SEQUENCE),
    "bmm": (lambda: Function(lambda x, w: x.bmm(w).relu(), (2, 32, 64)), SEQUENCE),
    "bmm of one matrix": (lambda: Function(lambda x, w: x.bmm(w.expand(2, 32, 64)).relu(), (1, 32, 64)), SEQUENCE),
    "baddbmm": (lambda: Function(lambda x, w, b: torch.baddbmm(b, x, w), (2, 32, 64), (2, 1, 64)), SEQUENCE),
    "experts": (lambda: Function(experts, (4, 32, 64), (4, 64, 32)), SEQUENCE),
    "LoRA": (lambda: Function(lambda x, w, a, b: F.linear(x, w + b @ a).relu(), (64, 32), (4, 32), (64, 4)), SEQUENCE),
    "pieces of a weight": (lambda: Function(pieces, (96, 32)), SEQUENCE),
    "grouped heads": (
        lambda: Layers(grouped_heads, nn.Linear(32, 32), nn.Linear(32, 16), nn.Linear(32, 16)),
        SEQUENCE,
    ),
    "attention, other keys": (
        lambda: Layers(attention_of_others, nn.MultiheadAttention(32, 4, batch_first=True)),
        SEQUENCE,
    ),
    "depthwise multiplier": (lambda: nn.Conv2d(12, 24, 3, padding=1, groups=12), IMAGE),
    "groups of 3": (lambda: nn.Conv2d(12, 16, 3, padding=1, groups=4), IMAGE),
    "groups of 2, strided": (lambda: nn.Conv2d(12, 18, 3, stride=2, groups=6), IMAGE),
    "three groups of 1": (lambda: Layers(lambda x, c: c(x[:, :3] * 1.5), nn.Conv2d(3, 6, 3, groups=3)), IMAGE),
    "transposed groups": (lambda: nn.ConvTranspose2d(12, 6, 2, stride=2, groups=6), IMAGE),
    "LSTM": (lambda: Layers(first_result, nn.LSTM(32, 24, batch_first=True, bidirectional=True)), SEQUENCE),
    "GRU": (lambda: Layers(first_result, nn.GRU(32, 24, 2, batch_first=True)), SEQUENCE),
    "RNN": (lambda: Layers(first_result, nn.RNN(32, 24, bias=False, nonlinearity="relu")), SEQUENCE),
}
RECURRENT = ("LSTM", "GRU", "RNN")
"""Their state is float32 arithmetic, whose error sometimes changes what is rounded."""

ERROR = 0.06
"""Norm of the difference to the float model over the norm of its result."""


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def share_of_int8(model: nn.Module, x: Tensor) -> float:
    """Of the multiplications that an input changes; those of a layer's first state are done once."""
    nodes = [node for graph in fpga_dynamo.explain(model, x).graphs for node in graph.nodes]
    counted = [node for node in nodes if "constant: evaluated once" not in node.how]
    return sum(node.macs for node in counted if node.how.startswith("int8")) / sum(node.macs for node in counted)


@pytest.mark.parametrize("name", MODELS)
def test_every_product_is_in_8_bits_with_eager_s_bits(name: str) -> None:
    make, shape = MODELS[name]
    model, data = make().eval(), [torch.randn(shape) for _ in range(4)]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*stay float32")
        quantized = quantize(model, data, "pow2", bias="int32", progress=False)
    with torch.no_grad():
        expected, exact = quantized(data[0]), model(data[0])
        result = torch.compile(quantized, backend="fpga")(data[0])
    if name in RECURRENT:
        assert (result - expected).norm() / expected.norm() < 0.01
    else:
        assert torch.equal(result, expected)
    assert (expected - exact).norm() / exact.norm() < ERROR
    assert share_of_int8(quantized, data[0]) == 1
    assert fpga_dynamo.explain(quantized, data[0]).pl_launches == 1


def computed_weight(x: Tensor, w: Tensor) -> Tensor:
    return F.linear(x.relu(), (x.mean((0, 1)) * w).view(4, 32))


@pytest.mark.parametrize(
    "function, shapes, left",
    [
        (lambda x, w, b: torch.addmm(b, x[0], w, beta=0.5), [(32, 8), (8,)], "aten.addmm.default has no 8-bit form"),
        (computed_weight, [(4, 32)], "its weight is computed in each call"),
    ],
)
def test_what_stays_in_float32_is_named_with_its_share(
    function: Callable[..., Any], shapes: list[tuple[int, ...]], left: str
) -> None:
    model, data = Function(function, *shapes).eval(), [torch.randn(SEQUENCE) for _ in range(2)]
    with pytest.warns(RuntimeWarning, match=rf"^100 % of the multiplications stay float32: .* \({left}\)$"):
        quantized = quantize(model, data, progress=False)
    with torch.no_grad():
        assert (quantized(data[0]) - model(data[0])).norm() / model(data[0]).norm() < ERROR


def test_a_long_sequence_stays_in_float32() -> None:
    model = Layers(first_result, nn.LSTM(32, 24, batch_first=True)).eval()
    with pytest.warns(RuntimeWarning, match=r"^100 % of .*aten.lstm.input has no 8-bit form"):
        quantize(model, [torch.randn(1, 200, 32)], progress=False)


def test_what_an_option_leaves_in_float32_is_no_surprise() -> None:
    model, data = nn.Sequential(nn.Linear(32, 8), nn.Linear(8, 8)).eval(), [torch.randn(SEQUENCE)]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*stay float32")
        quantize(model, data, keep_float=["0"], progress=False)
        quantize(model, data, capabilities=(), progress=False)


@pytest.mark.parametrize(
    "name, kept, operator",
    [
        ("addmm", "addmm", "aten.addmm.default"),
        ("x @ w + b", "mm", "aten.mm.default"),
        ("einsum", "einsum", "aten.einsum.default"),
        ("LSTM", "lstm", "aten.lstm.input"),
        ("LSTM", "layers.0", "aten.lstm.input"),
    ],
)
def test_a_product_that_is_kept_keeps_its_name_and_spelling(name: str, kept: str, operator: str) -> None:
    make, shape = MODELS[name]
    model, x = make().eval(), torch.randn(shape)
    quantized = quantize(model, [x], keep_float=[kept], progress=False)
    assert operator in {str(node.target) for node in quantized.graph.nodes}
    with torch.no_grad():
        torch.testing.assert_close(quantized(x), model(x), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", MODELS)
def test_compare_has_every_product(name: str) -> None:
    make, shape = MODELS[name]
    model, data = make().eval(), [torch.randn(shape) for _ in range(2)]
    quantized = quantize(model, data, progress=False)
    names = {node.name for node in quantized.graph.nodes if node.target in PRODUCTS and reads_activation(node)}
    compared = {layer.name: layer for layer in compare(model, quantized, data).layers}
    assert names and names <= compared.keys()
    assert all(compared[product].total_db > 20 for product in names)


def reads_activation(node: torch.fx.Node) -> bool:
    """Whether a product is of 8 bits: a recurrent layer's first one is of zeros."""
    return any("dequantize_per_tensor" in str(operand.target) for operand in node.all_input_nodes)


def test_mixed_precision_finds_rewritten_products_by_their_names() -> None:
    model, data = MODELS["addmm"][0]().eval(), [torch.randn(SEQUENCE) for _ in range(2)]
    wanted = [model(x).detach() for x in data]

    def score(candidate: Callable[[Tensor], Tensor]) -> float:
        return -max(float((candidate(x) - y).abs().max()) for x, y in zip(data, wanted, strict=True))

    chosen = mixed_precision(model, data, score, budget=1e-4, capabilities={"linear"}, progress=False)
    assert len(chosen.in_float) == 1 and chosen.before - chosen.after <= 1e-4


def test_weights_still_train_with_their_spelling() -> None:
    """In quantization-aware training the parameter itself, and no copy of it, gets the gradient."""
    x = torch.randn(SEQUENCE)
    graph = torch.export.export(Function(conv1d_of_gpt2, (32, 64), (64,)), (x,)).module()
    from torchao.quantization.pt2e.quantize_pt2e import prepare_qat_pt2e

    prepared = prepare_qat_pt2e(graph, FPGAQuantizer(training=True))
    prepared(x).sum().backward()
    gradients = {name: parameter.grad for name, parameter in prepared.named_parameters()}
    assert len(gradients) == 2 and all(gradient is not None for gradient in gradients.values())


def test_prepare_keeps_values() -> None:
    """Rewriting spellings changes no value: a prepared graph that observes is still the float model."""
    for name in ("einsum", "experts", "LSTM", "grouped heads", "pieces of a weight"):
        make, shape = MODELS[name]
        model, x = make().eval(), torch.randn(shape)
        graph = prepare(torch.export.export(model, (x,)).module(), FPGAQuantizer())
        with torch.no_grad():
            torch.testing.assert_close(graph(x), model(x))


def test_explain_counts_layers_with_packed_weights() -> None:
    """Those of ``torch.ao.quantization.quantize_dynamic`` run in eager mode, and so do their multiplications."""
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(64, 32)).eval(), {nn.Linear})
    explained = fpga_dynamo.explain(model, torch.randn(4, 64))
    assert explained.pl_launches == 0
    assert explained.mac_offload == 0
    assert "quantized.linear_dynamic.default" in str(explained) and "8.19 k" in str(explained)
