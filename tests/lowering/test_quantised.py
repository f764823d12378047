"""Operators of quantised graphs: int8 on the card, and eager mode's integers to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fpga_dynamo
from tests.lowering.lowering_cases import GREEDY
from tests.lowering.quantised_kit import (
    FINE,
    I8,
    POSITIVE,
    U8,
    Grid,
    Layer,
    RandomWeights,
    check,
    dequantize,
    opcodes,
    quantize,
    rounded,
    strict,
)

each_grid = pytest.mark.parametrize("source", [U8, I8], ids=("uint8", "int8"))


def convolving(**settings: Any) -> Callable[..., torch.Tensor]:
    rank = settings.pop("rank", 2)
    convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]
    return lambda x, w, b: convolve(x, w, b, **settings)


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "3x3": ((20, 5, 3, 3), (2, 5, 9, 8), {"padding": 1}),
    "3x3 of many channels": ((70, 33, 3, 3), (1, 33, 7, 6), {"padding": 1, "stride": 2}),
    "1x1": ((40, 24, 1, 1), (1, 24, 6, 7), {}),
    "1x1 of a pixel": ((20, 200, 1, 1), (1, 200, 1, 1), {}),
    "7x7 of three channels": ((16, 3, 7, 7), (1, 3, 20, 22), {"padding": 3, "stride": 2}),
    "dilated": ((20, 12, 3, 3), (1, 12, 9, 9), {"padding": 4, "dilation": 4}),
    "groups": ((24, 8, 3, 3), (1, 16, 8, 7), {"padding": 1, "groups": 2}),
    "depthwise": ((20, 1, 3, 3), (2, 20, 9, 7), {"padding": 1, "groups": 20}),
    "depthwise 5x5": ((32, 1, 5, 5), (1, 32, 9, 7), {"padding": 2, "stride": 2, "groups": 32}),
    "depthwise 1-D": ((20, 1, 5), (2, 20, 30), {"padding": 4, "dilation": 2, "groups": 20, "rank": 1}),
    "1-D": ((20, 12, 5), (2, 12, 30), {"padding": 2, "rank": 1}),
    "3-D": ((20, 3, 3, 3, 3), (1, 3, 4, 5, 6), {"padding": 1, "rank": 3}),
}


def layer(name: str, source: Grid, **weights: bool) -> tuple[Layer, torch.Tensor]:
    torch.manual_seed(0)
    size, image, settings = CONVOLUTIONS[name]
    return Layer(RandomWeights(*size, **weights), convolving(**settings), source), torch.randn(image)


@each_grid
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, source: Grid) -> None:
    model, x = layer(name, source)

    def run(x: torch.Tensor) -> torch.Tensor:
        return quantize(torch.relu(model(x)), POSITIVE)

    check(run, x)
    core = "depthwise_int8" if name.startswith("depthwise") else "conv2d_int8"
    assert opcodes(run, x) == ["quantize", core]


@each_grid
def test_a_convolution_without_bias_and_with_one_scale(source: Grid) -> None:
    model, x = layer("3x3", source, bias=False, per_tensor=True)
    check(lambda x: quantize(model(x), I8), x)


ENDINGS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nothing": lambda y: quantize(y, I8),
    "relu": lambda y: quantize(torch.relu(y), FINE),
    "relu6": lambda y: quantize(F.hardtanh(y, 0.0, 6.0), FINE),
    "limits between two integers": lambda y: quantize(torch.clamp(y, -0.7, 0.33), I8),
    "a table behind it": lambda y: quantize(F.hardswish(rounded(y, I8)), FINE),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_endings(name: str) -> None:
    model, x = layer("3x3", U8)
    check(lambda x: ENDINGS[name](model(x)), x)


@pytest.mark.parametrize("act", [F.gelu, F.silu, torch.sigmoid, F.hardswish])
def test_activations_that_are_no_limits_are_computed_in_floats(act: Callable[[torch.Tensor], torch.Tensor]) -> None:
    model, x = layer("3x3", U8)

    def run(x: torch.Tensor) -> torch.Tensor:
        return quantize(act(model(x)), FINE)

    with torch.no_grad():
        expected = run(x).int()
    found = strict(run, x).int()
    assert (found - expected).abs().max() <= 1
    assert opcodes(run, x) == ["quantize", "conv2d_int8"]


def test_results_that_stay_real_numbers() -> None:
    model, x = layer("3x3", U8)
    torch.testing.assert_close(strict(lambda x: torch.relu(model(x)), x), torch.relu(model(x)).detach())
    assert opcodes(lambda x: torch.relu(model(x)), x) == ["quantize", "conv2d_int8"]


@pytest.mark.parametrize("middle", [False, True], ids=("added to the sums", "added to integers"))
@pytest.mark.parametrize("last", [False, True], ids=("left", "right"))
def test_a_residual(middle: bool, last: bool) -> None:
    torch.manual_seed(0)
    model = Layer(RandomWeights(12, 12, 3, 3), convolving(padding=1), U8)

    def run(x: torch.Tensor) -> torch.Tensor:
        q = quantize(x, U8)
        y = model.function(dequantize(q, U8), model.weights(), model.weights.bias)
        y = rounded(y, I8) if middle else y
        other = dequantize(q, U8)
        return quantize(torch.relu(y + other if last else other + y), FINE)

    x = torch.randn(2, 12, 7, 6)
    check(run, x)
    assert opcodes(run, x) == ["quantize", "conv2d_int8"]


class Linear(nn.Module):
    def __init__(self, rows: int, columns: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weights = RandomWeights(columns, rows, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(rounded(x, U8), self.weights(), self.weights.bias)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", [(1, 300), (3, 33), (41, 600), (2, 3, 5, 24), (5, 7)])
def test_linear(size: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    model, x = Linear(size[-1], 70, bias=bias), torch.randn(size)

    def run(x: torch.Tensor) -> torch.Tensor:
        return quantize(torch.relu(model(x)), POSITIVE)

    check(run, x)
    assert opcodes(run, x) == ["quantize", "gemm_int8"]


def test_a_product_of_two_tensors() -> None:
    torch.manual_seed(0)

    def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return quantize(torch.bmm(rounded(a, U8), rounded(b, I8)), FINE)

    a, b = torch.randn(3, 9, 20) / 2, torch.randn(3, 20, 17) / 2
    check(run, a, b)
    check(lambda a, b: run(a, b.transpose(1, 2)), a, b.transpose(1, 2).contiguous())
    assert opcodes(run, a, b) == ["quantize", "quantize", "gemm_int8"]


ALONE: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], list[str]]] = {
    "max": (lambda x: F.max_pool2d(x, 3, 2, 1), ["pool_int8"]),
    "mean": (lambda x: quantize(x.mean((2, 3)), FINE), ["pool_int8"]),
    "mean that keeps": (lambda x: quantize(x.mean((-1, -2), keepdim=True), FINE), ["pool_int8"]),
    "average": (lambda x: quantize(F.avg_pool2d(x, 3, 2, 1), FINE), ["pool_int8"]),
    "average without padding": (
        lambda x: quantize(F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), FINE),
        ["pool_int8"],
    ),
    "adaptive": (lambda x: quantize(F.adaptive_avg_pool2d(x, (3, 7)), FINE), ["pool_int8"]),
    "averages that may be halves": (lambda x: quantize(F.avg_pool2d(x, (3, 4)), I8), ["pool"]),
    "another scale": (lambda x: quantize(x, FINE), ["lookup_int8"]),
    "a function": (lambda x: quantize(F.hardswish(x), FINE), ["lookup_int8"]),
    "a chain of functions": (lambda x: quantize(torch.sigmoid(x) * 2.0 + 1.0, U8), ["lookup_int8"]),
    "sum": (lambda x: quantize(torch.relu(x + x), I8), ["add_int8"]),
    "difference": (lambda x: quantize(rounded(F.relu(x), FINE) - x, I8), ["lookup_int8", "add_int8"]),
    "sum of pixels": (lambda x: quantize(x.sum((2, 3)), I8), ["pool_int8"]),
    "views": (lambda x: x.flatten(1)[:, 3:].unsqueeze(1), []),
    "zeros around it": (lambda x: F.pad(x, (1, 2, 0, 1)), []),
}


@each_grid
@pytest.mark.parametrize("name", ALONE)
def test_operators_between_integers(name: str, source: Grid) -> None:
    torch.manual_seed(0)
    function, expected = ALONE[name]
    x = torch.randn(2, 20, 9, 7)

    def run(x: torch.Tensor) -> torch.Tensor:
        return function(rounded(x, source))

    check(run, x)
    found = [opcode for opcode in opcodes(run, x) if opcode not in ("quantize", "dequantize")]
    assert found == expected


@each_grid
def test_integers_cross_as_bytes(source: Grid) -> None:
    dtype = source[2]
    x = torch.randint(*((0, 256) if dtype is torch.uint8 else (-128, 128)), (2, 20, 9, 7), dtype=dtype)
    check(lambda x: dequantize(x, source), x)
    model, _ = layer("1x1", source)

    def run(x: torch.Tensor) -> torch.Tensor:
        real = dequantize(x, source)[:, :24].contiguous()
        return quantize(model.function(real, model.weights(), model.weights.bias), I8)

    x = torch.randint(*((0, 256) if dtype is torch.uint8 else (-128, 128)), (2, 24, 9, 7), dtype=dtype)
    check(run, x)


@pytest.mark.parametrize("other", [U8, I8], ids=("one scale", "two scales"))
def test_images_side_by_side(other: Grid) -> None:
    torch.manual_seed(0)
    one, two = (Layer(RandomWeights(n, 8, 3, 3), convolving(padding=1)) for n in (16, 20))

    def run(x: torch.Tensor) -> torch.Tensor:
        a, b = rounded(torch.relu(one(x)), U8), rounded(torch.relu(two(x)), other)
        return quantize(torch.cat([a, b], 1), U8)

    check(run, torch.randn(1, 8, 6, 5))


def test_rounding_is_to_the_nearest_even_integer_and_nan_is_zero() -> None:
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 1e30, -1e30, torch.inf, -torch.inf, torch.nan, 0.49999997])
    grid: Grid = (1.0, 0, torch.int8)
    check(lambda x: quantize(x, grid), x)


def test_float_scales_are_within_one_step() -> None:
    torch.manual_seed(0)
    model, x = layer("3x3 of many channels", (0.0371, 120, torch.uint8))
    grid: Grid = (0.0513, -7, torch.int8)
    model.weights.scales.mul_(1.37)

    def run(x: torch.Tensor) -> torch.Tensor:
        return quantize(model(x), grid)

    with torch.no_grad():
        difference = (strict(run, x).int() - run(x).int()).abs()
    assert difference.max() <= 1 and difference.float().mean() < 1e-3


def test_weights_that_change_are_packed_again() -> None:
    model, x = layer("3x3", U8)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: quantize(model(x), I8), backend="fpga", options={**GREEDY, "strict": True})
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(x), quantize(model(x), I8), rtol=0, atol=0)
            model.weights.integers.neg_()
            model.weights.scales.mul_(2.0)


def test_weights_with_a_zero_point_run_in_eager() -> None:
    model, x = layer("3x3", U8)
    model.weights.zeros.fill_(3)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: quantize(model(x), I8), backend="fpga", options=GREEDY)
    before = fpga_dynamo.stats()["ps_fallbacks"]
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), quantize(model(x), I8), rtol=0, atol=0)
    assert fpga_dynamo.stats()["ps_fallbacks"] == before + 1


@pytest.mark.parametrize("size", [(12, 1, 1), (1,), (2, 1, 9, 7)])
def test_a_sum_that_is_broadcast_is_one_of_real_numbers(size: tuple[int, ...]) -> None:
    """As XNNPACK's quantizer leaves positions and constants: refused by the core for bytes, taken as element-wise."""
    torch.manual_seed(0)
    small = torch.randn(size)

    def run(x: torch.Tensor) -> torch.Tensor:
        return quantize(rounded(x, U8) + rounded(small, I8), FINE)

    check(run, torch.randn(2, 12, 9, 7))


def test_a_row_that_trains_is_no_constant_and_explain_says_what_to_do() -> None:
    torch.manual_seed(0)
    model, x = Layer(RandomWeights(24, 16), F.linear), torch.randn(5, 16)
    assert model.weights.bias is not None
    model.weights.bias = nn.Parameter(model.weights.bias.detach())
    (graph,) = fpga_dynamo.explain(model, x, options=GREEDY).graphs
    (product,) = (node for node in graph.nodes if node.macs)
    assert product.how.startswith("float32, because ") and "torch.no_grad()" in product.how
    with torch.no_grad():
        (graph,) = fpga_dynamo.explain(model, x, options=GREEDY).graphs
    (product,) = (node for node in graph.nodes if node.macs)
    assert product.how.startswith("int8; ")


def test_a_bias_of_a_convolution_that_trains_is_packed_again() -> None:
    model, x = layer("3x3", U8)
    assert model.weights.bias is not None
    model.weights.bias = nn.Parameter(model.weights.bias.detach())
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="fpga", options=GREEDY)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=0)
        with torch.no_grad():
            model.weights.bias.neg_()
