"""0-D tensors of another dtype, beside tensors that the cores read: only the number falls back to eager mode."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import fpga_dynamo
from tests.lowering.lowering_cases import GREEDY

FLOAT64 = torch.float64
NUMBERS = [torch.tensor(1.37), torch.tensor(1.37, dtype=FLOAT64), torch.tensor(3), torch.tensor(1.37).half()]
FUNCTIONS: dict[str, Callable[[torch.Tensor, Any], torch.Tensor]] = {
    "multiply": operator.mul,
    "divide": operator.truediv,
    "compare": operator.gt,
    "choose": lambda x, v: torch.where(x > 0, x, v),
    "clamp": lambda x, v: x.clamp(max=v),
    "maximum": torch.maximum,
}
"""Those whose results in 16 bits have one right value; a sum may use more digits of the number than eager mode's."""


def on_host(function: Callable[..., Any], *inputs: Any) -> list[int]:
    """Numbers of elements of the results that eager mode computes."""
    graphs = fpga_dynamo.explain(function, *inputs, options=GREEDY).graphs
    return [node.bytes for graph in graphs for node in graph.nodes if node.computes and node.place == "PS"]


def check(function: Callable[..., Any], x: torch.Tensor, *others: Any, dynamic: bool | None = None) -> None:
    torch._dynamo.reset()
    result = torch.compile(function, backend="fpga", options=GREEDY, dynamic=dynamic)(x, *others)
    expected = function(x, *others)
    assert result.dtype is expected.dtype
    torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)
    assert max(on_host(function, x, *others), default=0) <= 8, "only the number"


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: str(number.dtype)[6:])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.uint8, torch.int32], ids=str)
def test_masked_fill(dtype: torch.dtype, number: torch.Tensor) -> None:
    x = torch.arange(60.0).view(4, 15).to(dtype)
    check(lambda x, v: x.masked_fill(x > 30, v), x, number, dynamic=dtype is torch.float16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64(name: str, dtype: torch.dtype) -> None:
    x = torch.cat([torch.randn(4, 15), torch.full((1, 15), 1.37)]).to(dtype)
    check(FUNCTIONS[name], x, torch.tensor(1.37, dtype=FLOAT64), dynamic=name == "choose")


@pytest.mark.parametrize("name", ["add", "sub"])
def test_sums_with_float64(name: str) -> None:
    check(getattr(operator, name), torch.randn(4, 15), torch.tensor(1.37, dtype=FLOAT64))


def test_numbers_of_numpy() -> None:
    check(lambda x, scale: x / scale, torch.randn(4, 15), np.float64(3.7))
    check(lambda x, low, high: x.clamp(low, high), torch.randn(4, 15), *map(torch.tensor, np.array([-0.5, 0.5])))


def test_what_makes_a_result_float64_is_left_to_eager() -> None:
    x, number = torch.arange(60, dtype=torch.int32), torch.tensor(1.37, dtype=FLOAT64)
    result = torch.compile(torch.mul, backend="fpga", options=GREEDY)(x, number)
    assert torch.equal(result, x * number) and result.dtype is FLOAT64
