"""Masks of attention in 8 bits: what is masked weighs nothing, and what is not keeps its bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

pytest.importorskip("torchao")

from torchao.quantization.pt2e import move_exported_model_to_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

from fpga_dynamo.quantize import FPGAQuantizer, compare, quantize
from tests.quantize.test_on_card import runs_whole

LEAST = torch.finfo(torch.float32).min
WITHOUT_A_MASK_DB = 30.0
"""Of such layers, with float scales; with a mask among what the scales had to cover they had 5."""


class Attention(nn.Module):
    def __init__(self, mask: float | None, whole: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))
        self.mask, self.whole = mask, whole

    def forward(self, x: Tensor) -> Tensor:
        n, rows, features = x.shape
        q, k, v = (layer(x).view(n, rows, 4, 8).transpose(1, 2) for layer in self.layers[:3])
        if self.mask is None:
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mask = torch.full((rows, rows), self.mask).triu(1)
            scores = q @ k.transpose(-1, -2) / math.sqrt(8)
            y = (scores + (mask.repeat(n, 4, 1, 1) if self.whole else mask)).softmax(-1) @ v
        result: Tensor = self.layers[3](y.transpose(1, 2).reshape(n, rows, features))
        return result


def attention(mask: float | None, whole: bool = False) -> tuple[nn.Module, list[Tensor]]:
    torch.manual_seed(0)
    return Attention(mask, whole).eval(), [torch.randn(2, 17, 32) for _ in range(3)]


def ratio(model: nn.Module, graph: Callable[[Tensor], Tensor], inputs: list[Tensor]) -> float:
    with torch.no_grad():
        exact, ours = (torch.cat([run(x) for x in inputs]) for run in (model, graph))
    return 10 * math.log10(float(exact.square().sum() / (exact - ours).square().sum()))


each_mask = pytest.mark.parametrize(
    ("mask", "whole"),
    [(None, False), (-100.0, False), (-1e9, False), (LEAST, False), (LEAST, True), (-math.inf, True)],
    ids=["causal", "-100", "-1e9", "least", "least, of the scores' shape", "infinite, of the scores' shape"],
)


@each_mask
def test_a_mask_takes_no_bits(mask: float | None, whole: bool) -> None:
    model, inputs = attention(mask, whole)
    assert ratio(model, quantize(model, inputs, progress=False), inputs) > WITHOUT_A_MASK_DB


@pytest.mark.parametrize("scales", ["float", "pow2"])
def test_a_mask_takes_no_bits_in_training(scales: Any) -> None:
    model, inputs = attention(None)
    graph = torch.export.export(model, (inputs[0],)).module()
    prepared = prepare_qat_pt2e(graph, FPGAQuantizer(scales, training=True))
    for _ in range(2):
        prepared(inputs[0])
    move_exported_model_to_eval(prepared)
    converted = convert_pt2e(prepared)
    assert ratio(model, converted, inputs[:1]) > WITHOUT_A_MASK_DB - 5


def test_masked_attention_is_one_launch_of_integers() -> None:
    runs_whole(*attention(None))
    runs_whole(*attention(LEAST, True))


@pytest.mark.parametrize("scales", ["float", "pow2"])
def test_whatever_a_mask_adds_nothing_is_left_of_what_it_masks(scales: Any) -> None:
    results = []
    for mask, whole in [(-40.0, False), (-100.0, True), (LEAST, False), (-math.inf, True)]:
        model, inputs = attention(mask, whole)
        graph = quantize(model, inputs, scales, progress=False)
        (softmax,) = (node for node in graph.graph.nodes if node.target is torch.ops.aten.softmax.int)
        scores = softmax.args[0].args[0].args[0]  # behind a rounding
        assert all("dequantize" in str(operand.target) for operand in scores.all_input_nodes)
        with torch.no_grad():
            results.append(torch.cat([graph(x) for x in inputs]))
    assert all(torch.equal(result, results[0]) for result in results)


def scores_in_8_bits(graph: GraphModule) -> bool:
    """Whether both operands of the sum that the softmax reads are."""
    (softmax,) = (node for node in graph.graph.nodes if node.target is torch.ops.aten.softmax.int)
    scores = softmax.args[0].args[0].args[0]
    return all("dequantize" in str(operand.target) for operand in scores.all_input_nodes)


def test_a_constant_that_leaves_weight_is_a_bias_with_a_scale() -> None:
    model, inputs = attention(-5.0)
    graph = quantize(model, inputs, progress=False)
    assert scores_in_8_bits(graph)
    assert ratio(model, graph, inputs) > WITHOUT_A_MASK_DB


def test_a_constant_that_masks_some_scores_and_leaves_weight_to_others_stays_in_float32() -> None:
    class Distances(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            places = torch.arange(9.0)
            scores = x @ x.transpose(-1, -2) - 10 * (places[:, None] - places).abs()
            result: Tensor = scores.softmax(-1) @ x
            return result

    graph = quantize(Distances().eval(), [torch.randn(2, 9, 16)], progress=False)
    adds = [node for node in graph.graph.nodes if node.target is torch.ops.aten.sub.Tensor]
    assert not all("dequantize" in str(operand.target) for operand in adds[-1].all_input_nodes)


def test_a_product_adds_a_bias_that_sequences_share() -> None:
    torch.manual_seed(0)

    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.randn(1, 3, 5, 5))

        def forward(self, x: Tensor) -> Tensor:
            return (x @ x.transpose(-1, -2) + self.bias).softmax(-1)

    runs_whole(Biased().eval(), [torch.randn(4, 3, 5, 8) for _ in range(2)])


def test_rows_that_are_masked_throughout_set_no_range() -> None:
    class Padded(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return (x + mask).softmax(-1)

    torch.manual_seed(0)
    mask = torch.zeros(4, 1, 6)
    mask[0] = LEAST
    inputs = [(torch.randn(4, 6, 6), mask)]
    graph = quantize(Padded(), inputs, progress=False)
    with torch.no_grad():
        torch.testing.assert_close(graph(*inputs[0])[1:], Padded()(*inputs[0])[1:], atol=0.02, rtol=0)


def test_compare_tells_of_the_products_of_attention() -> None:
    model, inputs = attention(None)
    layers = {layer.name: layer for layer in compare(model, quantize(model, inputs, progress=False), inputs).layers}
    products = [layer for layer in layers.values() if layer.operator == "matmul"]
    assert len(products) == 2 and all(layer.macs for layer in products)
    assert not any(math.isnan(layer.own_db) or math.isnan(layer.total_db) for layer in layers.values())
    (softmax,) = (layer for layer in layers.values() if layer.operator == "softmax")
    assert softmax.own_db > WITHOUT_A_MASK_DB


def test_products_of_attention_may_stay_in_float() -> None:
    model, inputs = attention(None)

    everything = quantize(model, inputs, progress=False)
    kept = [layer.name for layer in compare(model, everything, inputs).layers if layer.operator == "matmul"]
    graph = quantize(model, inputs, keep_float=kept, progress=False)
    assert ratio(model, graph, inputs) > ratio(model, everything, inputs)
    for node in graph.graph.nodes:
        if node.name in kept:
            assert not any("quantize" in str(user.target) for user in node.users)
