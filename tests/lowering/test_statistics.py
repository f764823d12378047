"""Variance, norms, logsumexp, truth values and counts: over any dimensions, as near to float64 as eager mode's."""

from __future__ import annotations

import pytest
import torch

from tests.lowering.lowering_cases import GREEDY, Case, check

INF, NAN = torch.inf, torch.nan

CASES = {
    "variance of rows": Case(lambda x: x.var(-1), (5, 40)),
    "variance of columns, kept": Case(lambda x: x.var(0, keepdim=True), (9, 20)),
    "variance of a channels-last image's pixels": Case(
        lambda x: x.var((2, 3)), torch.randn(2, 18, 5, 4).to(memory_format=torch.channels_last)
    ),
    "variance of everything, far from zero": Case(lambda x: (x + 30).var(), (3, 4, 5)),
    "variance of equal values": Case(lambda x: x.expand(4, 3).var(1, correction=0), (4, 1)),
    "variance with a correction of all that there is": Case(lambda x: x.var(1, correction=3), (2, 3)),
    "deviations and means": Case(
        lambda x: (
            x.std(1, correction=0),
            torch.var_mean(x, (0, 2)),
            torch.std_mean(x, 1, keepdim=True),
            torch.var_mean(x, 1)[1],
        ),
        (4, 17, 3),
    ),
    "norms of all orders, and of everything": Case(
        lambda x: [x.norm(), *(torch.linalg.vector_norm(x, p, dim=1) for p in (0, 1, 2, 3, -1, 0.5, INF, -INF))],
        (5, 17),
    ),
    "normalised rows": Case(lambda x: torch.nn.functional.normalize(x, dim=1), (4, 20, 3)),
    "logsumexp of rows": Case(lambda x: torch.logsumexp(100 * x, -1), (5, 33)),
    "logsumexp of two dimensions, kept": Case(lambda x: torch.logsumexp(x, (0, 2), keepdim=True), (3, 5, 7)),
    "logsumexp of infinities": Case(
        lambda x: torch.logsumexp(x, 1), torch.tensor([[-INF, -INF], [INF, 1.0], [NAN, 1.0], [INF, -INF]])
    ),
    "any of numbers, NaN among them": Case(
        lambda x: x.any(1), torch.tensor([[0.0, -0.0], [0.0, NAN], [0.0, -1.0], [0.0, 1e-45]])
    ),
    "any of integers over two dimensions": Case(lambda x: x.any((0, 2)), torch.arange(24).view(2, 3, 4) % 5 // 4),
    "truth values": Case(
        lambda x: ((x > 5).any(), (x > -1).all(0, keepdim=True), torch.all(x), (x > 0).sum(-1), (x > 0).sum()), (4, 30)
    ),
    "a sum of integers": Case(
        lambda x: x.sum(1), torch.arange(12).view(3, 4), offload=0.0, launches=0, why="int64|float32's precision"
    ),
    "a norm of an order beyond float32": Case(
        lambda x: torch.linalg.vector_norm(x, 4e39, 1), (2, 3), offload=0.0, launches=0, why="a norm of order"
    ),
    "the variance of a scalar": Case(lambda x: x.var(correction=0), (), offload=0.0, launches=0, why="0-D tensor"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_reduction_of_several_commands_is_as_exact_as_eager_s(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("count", [3, 7, 3000])
def test_equal_values_do_not_vary(count: int) -> None:
    rows = torch.randn(300, 1).expand(300, count).contiguous()
    compiled = torch.compile(lambda x: torch.var(x, 1, correction=0), backend="fpga", options=GREEDY)
    assert not compiled(rows).any()
