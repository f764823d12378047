"""Scales that are known as the graph runs: dynamic quantisation of tensors and of rows, and torchao's int8 products."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import fpga_dynamo
from fpga_dynamo.torch_internals.quantized import decomposed
from tests.lowering.lowering_cases import GREEDY, programs_of
from tests.lowering.quantised_kit import RandomWeights, opcodes, strict


def chosen(x: torch.Tensor, how: str) -> torch.Tensor:
    """x, rounded to eight bits by a scale of its own, or one of each row."""
    if how == "rows":
        scale, zero = decomposed.choose_qparams_per_token(x, torch.int8)
    elif how == "rows with zero points":
        scale, zero = decomposed._choose_qparams_per_token_asymmetric_impl(x, torch.int8)
    if how.startswith("rows"):
        q = decomposed.quantize_per_token(x, scale, zero, -128, 127, torch.int8)
        return decomposed.dequantize_per_token(q, scale, zero, -128, 127, torch.int8, torch.float32)
    low, high, dtype = (0, 255, torch.uint8) if how == "uint8" else (-128, 127, torch.int8)
    choose = decomposed.choose_qparams_symmetric if how == "symmetric" else decomposed.choose_qparams
    scale, zero = choose(x, low, high, 2.0**-12, dtype)
    q = decomposed.quantize_per_tensor(x, scale, zero, low, high, dtype)
    return decomposed.dequantize_per_tensor(q, scale, zero, low, high, dtype)


each_way = pytest.mark.parametrize("how", ["uint8", "int8", "symmetric", "rows", "rows with zero points"])


class Linear(nn.Module):
    def __init__(self, how: str, depth: int, columns: int, *, bias: bool = True) -> None:
        super().__init__()
        self.how, self.weights = how, RandomWeights(columns, depth, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(chosen(x, self.how), self.weights(), self.weights.bias)


def close(model: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
    with torch.no_grad():
        expected = model(x)
    # Where a scale differs in its last bit, a number between two integers may go to the other one.
    torch.testing.assert_close(strict(model, x), expected, rtol=1e-5, atol=3e-3 * expected.abs().max().item())


@each_way
@pytest.mark.parametrize("size", [(1, 64), (5, 33), (2, 7, 48), (3, 2, 5, 20)])
def test_linear_layers(how: str, size: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    model, x = Linear(how, size[-1], 70), torch.randn(size) + 0.5
    close(model, x)
    found = opcodes(model, x)
    assert found.count("gemm_int8") == 1 and "gemm" not in found and found.count("quantize") == 1


@each_way
def test_one_scale_for_several_readers_and_no_bias(how: str) -> None:
    torch.manual_seed(0)
    first, second = RandomWeights(24, 32, bias=False), RandomWeights(40, 32)

    def run(x: torch.Tensor) -> torch.Tensor:
        real = chosen(x, how)
        a, b = nn.functional.linear(real, first()), torch.relu(nn.functional.linear(real, second(), second.bias))
        return torch.cat([a, b, real], -1)

    x = torch.randn(2, 6, 32)
    close(run, x)
    found = opcodes(run, x)
    assert found.count("gemm_int8") == 2 and found.count("quantize") == 1 and found.count("dequantize") == 1


@each_way
def test_numbers_are_rounded_as_in_eager(how: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 130) * 3 - 1
    close(lambda x: chosen(x, how), x)
    close(lambda x: chosen(x, how), torch.zeros(2, 3))


def test_a_scale_that_is_float64_stays_in_eager() -> None:
    grid = (-128, 127, torch.int8)

    def run(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
        return decomposed.quantize_per_tensor(x, scale, zero, *grid)

    x, scale, zero = torch.randn(4, 16), torch.tensor([0.1], dtype=torch.float64), torch.tensor([3])
    torch._dynamo.reset()
    with torch.no_grad():
        found = torch.compile(run, backend="fpga", options=GREEDY)(x, scale, zero)
    torch.testing.assert_close(found, run(x, scale, zero), rtol=0, atol=0)


def test_sizes_that_change() -> None:
    torch.manual_seed(0)
    model = Linear("rows", 24, 40)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="fpga", dynamic=True, options={**GREEDY, "strict": True})
    with torch.no_grad():
        for rows in (3, 8, 17):
            x = torch.randn(2, rows, 24)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-2)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 40)).eval()


def test_x86_dynamic_quantisation() -> None:
    pytest.importorskip("torchao")
    with contextlib.redirect_stderr(io.StringIO()):
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86
    torch.manual_seed(0)
    x = torch.randn(2, 5, 64)
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config(is_dynamic=True))
    prepared = prepare_pt2e(torch.export.export(mlp(), (x,)).module(), quantizer)
    prepared(x)
    of_integers(convert_pt2e(prepared), x)


def of_integers(model: Any, x: torch.Tensor) -> None:
    """One launch, whose products are of integers, and eager mode's results within a step of eight bits."""
    with torch.no_grad():
        expected = model(x)
        error = (strict(model, x) - expected).abs().max() / expected.abs().max()
        report = fpga_dynamo.explain(model, x, options=GREEDY)
    assert error < 0.01
    assert "1 PL launch(es) in 1 graph(s)" in str(report)
    products = [node for part in report.graphs for node in part.nodes if node.macs]
    assert len(products) == 2 and all(node.how.startswith("int8; ") for node in products)


def test_torchao_dynamic_activations() -> None:
    pytest.importorskip("torchao")
    with contextlib.redirect_stderr(io.StringIO()):
        from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_
    torch.manual_seed(0)
    model = mlp()
    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    of_integers(model, torch.randn(2, 17, 64))


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_torchao_weights_alone_lie_in_bytes(rows: int) -> None:
    pytest.importorskip("torchao")
    with contextlib.redirect_stderr(io.StringIO()):
        from torchao.quantization import Int8WeightOnlyConfig, quantize_
    torch.manual_seed(0)
    model, x = mlp(), torch.randn(rows, 64)
    quantize_(model, Int8WeightOnlyConfig())
    with torch.no_grad():
        torch.testing.assert_close(strict(model, x), model(x), rtol=1e-5, atol=1e-5)
    (task,) = (task for program in programs_of(model, x) for task in program.card_tasks)
    matrices = {buffer for command in task.commands if command.opcode == "gemm" for buffer in command.reads}
    stored = [buffer.element for buffer in matrices if buffer.in_weights and buffer.length >= 40 * 64]
    assert [element.name for element in stored] == ["I8", "I8"]


def test_explain_says_why_weights_alone_are_multiplied_as_real_numbers() -> None:
    integers, scale = torch.randint(-127, 128, (32, 64), dtype=torch.int8), torch.rand(32)

    def run(x: torch.Tensor) -> torch.Tensor:
        return (x @ integers.float().t()) * scale

    with torch.no_grad():
        (graph,) = fpga_dynamo.explain(run, torch.randn(3, 64), options=GREEDY).graphs
    (product,) = (node for node in graph.nodes if node.macs)
    assert product.how.startswith("float32, because an operand of the product is not int8 or uint8")


def test_int8_products_alone() -> None:
    torch.manual_seed(0)
    a, w = (torch.randint(-128, 128, size, dtype=torch.int8) for size in ((20, 40), (48, 40)))
    weight = nn.Parameter(w, requires_grad=False)
    torch.testing.assert_close(
        strict(lambda a: torch._int_mm(a, weight.t()) + 1, a), torch._int_mm(a, w.t()) + 1, rtol=0, atol=0
    )
    torch.testing.assert_close(
        strict(lambda a: torch._int_mm(a, weight.t()).float(), a), torch._int_mm(a, w.t()).float(), rtol=0, atol=0
    )
    torch.testing.assert_close(
        strict(lambda a, b: torch._int_mm(a, b).float(), a, w.t().contiguous()),
        torch._int_mm(a, w.t()).float(), rtol=0, atol=0,
    )  # fmt: skip
