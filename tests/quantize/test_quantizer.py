"""FPGAQuantizer and quantize: what is annotated, with which scales, and what is refused."""

from __future__ import annotations

import copy
import math
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("torchao")

from torchao.quantization.pt2e import move_exported_model_to_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

from fpga_dynamo.errors import OptionError
from fpga_dynamo.quantize import FPGAQuantizer, compare, quantize, round_biases
from tests.quantize.digits import BATCH, digits

BATCHES = ({0: torch.export.Dim("batch")},)


def counts(graph: torch.fx.GraphModule) -> Counter[str]:
    """Operators of a graph by their names."""
    return Counter(str(node.target).split(".")[-2] for node in graph.graph.nodes if node.op == "call_function")


def codes(graph: torch.fx.GraphModule) -> list[tuple[float, int]]:
    """Scale and zero point of each quantize_per_tensor."""
    return [
        (node.args[1], node.args[2])
        for node in graph.graph.nodes
        if node.op == "call_function" and "quantize_per_tensor" in str(node.target)
    ]


def weights(graph: torch.fx.GraphModule) -> list[tuple[Tensor, Tensor]]:
    """int8 weights and their scales."""
    found = []
    for node in graph.graph.nodes:
        if node.op == "call_function" and "dequantize_per_channel" in str(node.target):
            found.append(tuple(getattr(graph, str(argument.target)) for argument in node.args[:2]))
    return found


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm(self.first(x)))
        return torch.relu(self.second(y) + x)


def residual_inputs() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(2, 8, 6, 6, generator=generator) for _ in range(3)]


def test_a_residual_block_is_two_steps() -> None:
    graph = quantize(Residual().eval(), residual_inputs(), progress=False)
    found = counts(graph)
    # The input, the first step's result, the second's: nothing between a product and what its command ends with.
    assert found["quantize_per_tensor"] == 3
    assert found["batch_norm"] == 0
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.conv2d.default:
            assert not any("quantize" in str(user.target) for user in node.users)


@pytest.mark.parametrize(
    ("product", "annotated"),
    [
        (lambda x, scale: x * torch.sigmoid(x), True),
        (lambda x, scale: x * torch.sigmoid(x.mean((2, 3), keepdim=True)), True),
        (lambda x, scale: x * torch.sigmoid(x.mean(1, keepdim=True)), True),
        (lambda x, scale: x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1), False),
        (lambda x, scale: x * scale, False),
        (lambda x, scale: x * x, False),
        (lambda x, scale: x * 0.5, False),
    ],
    ids=["tensors", "channels", "pixels", "norm", "parameter", "square", "number"],
)
def test_which_multiplications_are_annotated(product: Any, annotated: bool) -> None:
    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.scale = nn.Conv2d(4, 8, 3), nn.Parameter(torch.ones(8, 8, 8))

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = product(self.conv(x), self.scale)
            return result

    graph = quantize(Product().eval(), [torch.randn(1, 4, 10, 10)], progress=False)
    (node,) = (node for node in graph.graph.nodes if node.target is torch.ops.aten.mul.Tensor)
    around = [*node.all_input_nodes, *node.users]
    assert all("quantize" in str(other.target) for other in around) == annotated


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x, scale: x * scale, torch.ops.aten.mul.Tensor),
        (lambda x, scale: x - torch.sigmoid(x), torch.ops.aten.sub.Tensor),
        (lambda x, scale: x.sum((2, 3)), torch.ops.aten.sum.dim_IntList),
    ],
    ids=["a parameter of each channel", "a difference", "a sum"],
)
def test_what_else_reads_and_writes_8_bits(function: Any, operator: object) -> None:
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.scale = nn.Conv2d(4, 8, 3), nn.Parameter(torch.rand(8, 1, 1))

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = function(torch.relu(self.conv(x)), self.scale)
            return result

    graph = quantize(Layers().eval(), [torch.randn(1, 4, 10, 10)], progress=False)
    (node,) = (node for node in graph.graph.nodes if node.target is operator)
    read = [arg for arg in node.all_input_nodes if arg.op != "get_attr"]
    assert all("quantize" in str(other.target) for other in (*read, *node.users))


def test_moves_keep_the_scale_of_their_operand() -> None:
    class Moves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(4, 8, 3)

        def forward(self, x: Tensor) -> Tensor:
            y = self.conv(x)
            return torch.cat([nn.functional.max_pool2d(y, 2), y[:, :, ::2, ::2]], 1).flatten(1)

    graph = quantize(Moves().eval(), [torch.randn(1, 4, 10, 10)], progress=False)
    found = codes(graph)
    assert len(set(found)) == 2, "the input's, and one for the convolution and all that moves its elements"
    assert len(found) > 3


@pytest.mark.parametrize(
    "layer", [nn.ConvTranspose1d(8, 4, 3), nn.ConvTranspose2d(8, 4, 3), nn.ConvTranspose3d(8, 4, 2)]
)
@pytest.mark.parametrize("scales", ["float", "pow2"])
def test_transposed_convolutions_have_scales_of_output_channels(scales: Any, layer: nn.Module) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 8, *[5] * (layer.weight.dim() - 2))  # type: ignore[operator]
    graphs = [quantize(layer.eval(), [x], scales, progress=False)]
    exported = torch.export.export(layer.train(), (x,)).module()
    prepared = prepare_qat_pt2e(exported, FPGAQuantizer(scales, training=True))
    prepared(x)
    move_exported_model_to_eval(prepared)
    for graph in (*graphs, convert_pt2e(prepared)):
        ((weight, found),) = weights(graph)
        assert weight.shape[:2] == (8, 4) and found.shape == (4,)


@pytest.mark.parametrize("layer", [nn.Conv1d(4, 8, 3, padding="same"), nn.Conv2d(4, 8, 4, padding="same")])
def test_convolutions_with_padding_by_name_are_annotated(layer: nn.Module) -> None:
    graph = quantize(layer.eval(), [torch.randn(1, 4, *[6] * (layer.weight.dim() - 2))], progress=False)  # type: ignore[operator]
    assert [weight.dtype for weight, _ in weights(graph)] == [torch.int8]


@pytest.mark.parametrize("model", ["residual", "digits"])
def test_powers_of_two_clip_nothing_that_float_scales_do_not(model: str) -> None:
    network: nn.Module
    if model == "residual":
        network, inputs = Residual().eval(), residual_inputs()
    else:
        network, inputs = digits().model, digits().calibration[:2]
    fine, coarse = (quantize(network, inputs, scales, progress=False) for scales in ("float", "pow2"))
    assert len(codes(fine)) == len(codes(coarse)) > 0
    for (scale, _), (power, zero) in zip(codes(fine), codes(coarse), strict=True):
        assert math.frexp(power)[0] == 0.5, f"{power} is no power of two"
        assert power >= scale * 0.5 and -128 <= zero <= 127
    for (_, scales), (_, powers) in zip(weights(fine), weights(coarse), strict=True):
        assert torch.all(torch.frexp(powers)[0] == 0.5)
        assert torch.all((powers >= scales) & (powers < 2 * scales))


def test_eager_of_powers_of_two_does_not_depend_on_the_order_of_summation() -> None:
    """What makes the bits of pow2 well defined: reversing the channels changes no sum."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Conv2d(32, 16, 3), nn.ReLU()).eval()
    inputs = [torch.randn(1, 32, 12, 12)]
    graph = quantize(model, inputs, "pow2", bias="int32", progress=False)
    node = next(node for node in graph.graph.nodes if node.target is torch.ops.aten.conv2d.default)
    values: dict[str, Any] = {}

    class Keep(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            values[n.name] = super().run_node(n)
            return values[n.name]

    with torch.no_grad():
        Keep(graph).run(inputs[0], enable_io_processing=False)
        data, weight, bias = (values[argument.name] for argument in node.args[:3])
        exact = torch.nn.functional.conv2d(data.double(), weight.double(), bias.double())
        assert torch.equal(torch.nn.functional.conv2d(data, weight, bias).double(), exact)
        assert torch.equal(torch.nn.functional.conv2d(data.flip(1), weight.flip(1), bias).double(), exact)


def test_int32_biases_are_in_units_of_the_sums() -> None:
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 16, 4)).eval()
    inputs = [torch.randn(2, 3, 6, 6)]
    graph = quantize(model, inputs, bias="int32", progress=False)
    by_type = Counter(weight.dtype for weight, _ in weights(graph))
    assert by_type == {torch.int8: 2, torch.int32: 2}
    with torch.no_grad():
        torch.testing.assert_close(graph(*inputs), model(*inputs), atol=0.05, rtol=0.05)


def test_attention_is_products_and_a_softmax_in_8_bits() -> None:
    torch.manual_seed(3)
    layer = nn.TransformerEncoderLayer(32, 2, 64, activation="gelu", batch_first=True).eval()
    inputs = [torch.randn(2, 7, 32) for _ in range(3)]
    graph = quantize(layer, inputs, progress=False)
    found = counts(graph)
    assert found["scaled_dot_product_attention"] == 0 and found["matmul"] == 2 and found["softmax"] == 1
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.matmul.default:
            assert all("dequantize" in str(argument.target) for argument in node.args)
            assert node.args[1].args[2] == 0, "keys and values have no zero point"
    with torch.no_grad():
        error = (graph(*inputs[:1]) - layer(*inputs[:1])).square().mean()
        assert float(error) < 1e-3 * float(layer(*inputs[:1]).square().mean())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [None, torch.bool, torch.float32])
def test_attention_taken_apart_is_attention(causal: bool, mask: torch.dtype | None) -> None:
    if causal and mask is not None:
        pytest.skip("the operator takes one of the two")

    class Attention(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor, m: Tensor | None = None) -> Tensor:
            return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m, is_causal=causal)

    from fpga_dynamo.quantize.attention import take_apart

    torch.manual_seed(4)
    inputs = [torch.randn(2, 3, rows, 8) for rows in (5, 6, 6)]
    if mask is torch.bool:
        inputs.append(torch.rand(2, 1, 5, 6) > 0.3)
    elif mask is not None:
        inputs.append(torch.randn(5, 6))
    graph = torch.export.export(Attention(), tuple(inputs)).module()
    take_apart(graph)
    assert not any("scaled_dot" in str(node.target) for node in graph.graph.nodes)
    torch.testing.assert_close(graph(*inputs), Attention()(*inputs))


def test_what_is_kept_in_float_is_not_annotated() -> None:
    model, inputs = Residual().eval(), residual_inputs()
    everything = quantize(model, inputs, progress=False)
    part = quantize(model, inputs, keep_float=["first"], progress=False)
    assert len(weights(everything)) == 2 and len(weights(part)) == 1
    with pytest.raises(OptionError, match="'third'"):
        quantize(model, inputs, keep_float=["third"], progress=False)


def test_capabilities_limit_what_is_annotated() -> None:
    model, inputs = digits().model, digits().calibration[:1]
    graph = quantize(model, inputs, capabilities={"convolution"}, progress=False)
    assert len(weights(graph)) == 2
    with pytest.raises(OptionError, match="unknown convolutions"):
        FPGAQuantizer(capabilities={"convolutions"})


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.parametrize("scales", ["float", "pow2"])
def test_digits_after_training_and_in_training(scales: Any) -> None:
    task = digits()
    exact = task.score(task.model)
    assert exact > 94
    graph = quantize(task.model, task.calibration, scales, progress=False, dynamic_shapes=BATCHES)
    assert abs(task.score(graph) - exact) <= 0.5
    model = copy.deepcopy(task.model).train()
    exported = torch.export.export(model, (task.images[:BATCH],), dynamic_shapes=BATCHES).module()
    prepared = prepare_qat_pt2e(exported, FPGAQuantizer(scales, training=True))
    torch.manual_seed(5)
    task.train(prepared, 1, 2e-4)
    move_exported_model_to_eval(prepared)
    trained = convert_pt2e(prepared)
    assert task.score(trained) >= exact - 0.5
    if scales == "pow2":
        assert all(math.frexp(scale)[0] == 0.5 for scale, _ in codes(trained))


def test_bad_options_are_one_sentence() -> None:
    with pytest.raises(OptionError, match="scales='pow3'"):
        FPGAQuantizer("pow3")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="bias='int16'"):
        FPGAQuantizer(bias="int16")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="calibration is empty"):
        quantize(nn.Linear(2, 2), [], progress=False)
    with pytest.raises(OptionError, match="got int"):
        quantize(nn.Linear(2, 2), [3], progress=False)


def test_other_mistakes_are_one_sentence_too() -> None:
    model, x = nn.Linear(2, 2), torch.randn(3, 2)
    with pytest.raises(OptionError, match=r"pass \['linear'\]"):
        FPGAQuantizer(keep_float="linear")
    with pytest.raises(OptionError, match=r"pass \['linear'\]"):
        FPGAQuantizer(capabilities="linear")
    for calibration in (x, {"input": x}, 3):
        with pytest.raises(OptionError, match=f"got an? {type(calibration).__name__}"):
            quantize(model, calibration, progress=False)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="item 1 produces non-finite values"):
        quantize(model, [x, x * math.nan], progress=False)
    with pytest.raises(OptionError, match=r"the model is bfloat16; .* pass model.float\(\)"):
        quantize(nn.Linear(2, 2).bfloat16(), [x.bfloat16()], progress=False)
    with pytest.raises(OptionError, match="got a Linear"):
        round_biases(model)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="got a Linear"):
        compare(model, model, [x])  # type: ignore[arg-type]


def test_biases_become_whole_units_of_the_sums() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 5)).eval()
    images = [torch.randn(2, 3, 8, 8) for _ in range(2)]
    graph = quantize(model, images, "pow2", progress=False)
    before = [p.detach().clone() for name, p in graph.named_parameters() if "bias" in name]
    assert round_biases(graph) == 2 and round_biases(graph) == 0
    after = [p for name, p in graph.named_parameters() if "bias" in name]
    for given, rounded in zip(before, after, strict=True):
        assert 0 < (given - rounded).abs().max() < 2.0**-8
        assert torch.equal(rounded * 2.0**24, (rounded * 2.0**24).round())
