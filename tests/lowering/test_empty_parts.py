"""Joins of which some parts have no elements, as the first update of a cache: they keep nothing on the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import fpga_dynamo
from tests.lowering.lowering_cases import GREEDY

X, W = torch.randn(2, 16, 32), torch.randn(32, 32)
IMAGE = torch.randn(2, 8, 5, 5).contiguous(memory_format=torch.channels_last)
Function = Callable[[Tensor], Tensor]

JOINS: dict[str, tuple[Function, Tensor]] = {
    "first update of a cache": (lambda x: torch.cat([torch.tensor([]), x @ W], -2), X),
    "its second form": (lambda x: torch.cat([x @ W, x.new_zeros(2, 0, 32)], 1) * 2, X),
    "two with elements": (lambda x: torch.cat([x @ W, torch.empty(0), x], -1), X),
    "an input": (lambda x: torch.cat([torch.empty(0), x]).relu(), X),
    "images": (lambda x: torch.cat([x.relu(), x[:, :0]], 1), IMAGE),
    "transposed": (lambda x: torch.cat([torch.empty(0), (x @ W).mT], 1), X),
}


@pytest.mark.parametrize("name", JOINS)
def test_one_launch(name: str) -> None:
    function, x = JOINS[name]
    result, expected = torch.compile(function, backend="fpga", options=GREEDY)(x), function(x)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-4)
    assert result.stride() == expected.stride()
    explained = fpga_dynamo.explain(function, x, options=GREEDY)
    assert explained.pl_launches == 1
    assert not [node.op for graph in explained.graphs for node in graph.nodes if node.place == "PS" and node.computes]


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.bool])
def test_a_part_without_elements_still_decides_the_dtype(dtype: torch.dtype) -> None:
    def function(x: Tensor) -> Tensor:
        return torch.cat([torch.empty(0, dtype=dtype), x])

    result, expected = torch.compile(function, backend="fpga", options=GREEDY)(X), function(X)
    assert result.dtype is expected.dtype and torch.equal(result, expected)


def test_no_part_with_elements() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.cat([x[:0], torch.empty(0)])

    result = torch.compile(function, backend="fpga", options=GREEDY)(X)
    assert result.shape == (0, 16, 32)


def test_the_result_is_memory_of_its_own() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        keys = x @ W
        return keys, torch.cat([torch.empty(0), keys])

    keys, joined = torch.compile(function, backend="fpga", options=GREEDY)(X)
    keys.zero_()
    torch.testing.assert_close(joined, X @ W, rtol=1e-5, atol=1e-4)


def test_a_join_of_an_input_does_not_show_it() -> None:
    x = X.clone()
    joined = torch.compile(lambda x: torch.cat([torch.empty(0), x]), backend="fpga", options=GREEDY)(x)
    x.zero_()
    assert torch.equal(joined, X)


def test_sizes_that_change() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.cat([torch.empty(0), x @ W], -2).relu()

    compiled = torch.compile(function, backend="fpga", options=GREEDY, dynamic=True)
    for length in (4, 9, 16):
        torch.testing.assert_close(compiled(X[:, :length]), function(X[:, :length]), rtol=1e-5, atol=1e-4)


def test_gradients() -> None:
    mine, theirs = (X.clone().requires_grad_() for _ in range(2))

    def function(x: Tensor) -> Tensor:
        return torch.cat([x.new_empty(0), x @ W, x[:, :, :0]], -1).square().sum()

    torch.compile(function, backend="fpga", options=GREEDY)(mine).backward()
    function(theirs).backward()
    torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-3)
