"""Sums, means, extremes, their positions and softmax: over any dimensions of any layout."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.lowering.lowering_cases import Case, check

ONE = {"reduce": 1}
NAN = torch.nan
CHANNELS_LAST = torch.randn(2, 18, 4, 5).to(memory_format=torch.channels_last)

DIMS = {
    f"dimensions {dims}{' of channels-last' if last else ''}{', kept' if keep else ''}": Case(
        lambda x, dims=dims, keep=keep: x.sum(dims, keepdim=keep), CHANNELS_LAST if last else (2, 18, 4, 5)
    )
    for i, dims in enumerate(d for n in (1, 2, 3) for d in itertools.combinations(range(4), n))
    for last, keep in (((False, True), (True, False)) if i % 2 else ((False, False), (True, True)))
}

KINDS = {
    "sum of all": Case(torch.sum, (3, 17, 5), commands=ONE),
    "mean of all": Case(torch.mean, (3, 17, 5), commands=ONE),
    "largest of all": Case(torch.max, (3, 17, 5), commands=ONE),
    "smallest of all": Case(torch.min, (3, 17, 5), commands=ONE),
    "product of all": Case(lambda x: (x * 0.2 + 1).prod(), (3, 10)),
    "sum of one element": Case(torch.sum, (1, 1), commands=ONE),
    "sum of a vector": Case(torch.sum, (300,), commands=ONE),
    "global average": Case(lambda x: x.mean((2, 3)), (2, 17, 5, 5), commands=ONE),
    "mean over negative dimensions": Case(lambda x: x.mean((-1, -3), keepdim=True), (2, 17, 5, 5), commands=ONE),
    "product over a dimension": Case(lambda x: x.prod(1), (3, 5, 17), commands=ONE),
    "largest": Case(lambda x: x.amax(1), (3, 10, 17), commands=ONE),
    "smallest over two": Case(lambda x: x.amin((0, 2), keepdim=True), (3, 10, 17), commands=ONE),
    "largest with NaN": Case(lambda x: x.amax(1), torch.tensor([[1, NAN, 2], [4, 5, 6.0]]), commands=ONE),
    "largest of infinities": Case(lambda x: x.amax(1), torch.full((3, 20), -torch.inf), commands=ONE),
    "sum of a slice": Case(lambda x: x[:, 2:9:2].sum(1), (4, 12), commands=ONE),
    "sum of an expanded tensor": Case(lambda x: x.expand(4, 6, 10).sum(1), (4, 1, 10)),
    "variance by hand": Case(lambda x: (x - x.mean(-1, keepdim=True)).pow(2).mean(-1), (3, 58)),
    "sum over five dimensions": Case(lambda x: x.sum((1, 3)), (2, 3, 4, 5, 6)),
    "sum over every second of six": Case(lambda x: x.sum((0, 2, 4)), (2, 3, 2, 3, 2, 3)),
    "sum of integers stays on the PS": Case(
        lambda x: x.sum(), torch.arange(10), offload=0.0, launches=0, why="input is int64"
    ),
    "sum into float64 stays on the PS": Case(
        lambda x: x.sum(dtype=torch.float64), (5,), offload=0.0, launches=0, why="result is float64"
    ),
    "a scalar stays on the PS": Case(torch.sum, torch.tensor(2.0), offload=0.0, launches=0, why="0-D tensor"),
}

POSITIONS = {
    "argmax of rows": Case(lambda x: x.argmax(1), (5, 58), commands=ONE),
    "argmax of columns": Case(lambda x: x.argmax(0), (5, 58), commands=ONE),
    "argmax of all": Case(torch.argmax, (5, 7, 9), commands=ONE),
    "argmin kept": Case(lambda x: x.argmin(1, keepdim=True), (5, 7, 9), commands=ONE),
    "argmax of a transposed matrix": Case(lambda x: x.t().argmax(), (5, 9)),
    "argmax of a channels-last image": Case(torch.argmax, CHANNELS_LAST),
    "argmax over channels": Case(lambda x: x.argmax(1), CHANNELS_LAST, commands=ONE),
    "the first of equals": Case(lambda x: x.argmax(1), torch.tensor([[1, 3, 3, 2], [0, 0, 0, 0.0]]), commands=ONE),
    "the first of equals in a long row": Case(lambda x: x.argmax(1), torch.ones(2, 200), commands=ONE),
    "NaN wins": Case(lambda x: x.argmax(1), torch.tensor([[1, NAN, 3, NAN], [2, 9, 9, 1]]), commands=ONE),
    "NaN wins for the smallest too": Case(lambda x: x.argmin(1), torch.tensor([[1, 0, NAN], [2, 9, 9]]), commands=ONE),
    "largest and where": Case(lambda x: x.max(1), (5, 17, 3), commands={"reduce": 2}),
    "smallest and where, kept": Case(lambda x: x.min(2, keepdim=True), (5, 3, 17), commands={"reduce": 2}),
    "largest alone": Case(lambda x: x.max(1).values, (5, 17), commands=ONE),
    "where alone": Case(lambda x: x.max(1).indices, (5, 17), commands=ONE),
    "of one element": Case(lambda x: x.max(1), (4, 1)),
}

SOFTMAX = {
    **{
        f"softmax over dimension {d} of {name}": Case(lambda x, d=d: x.softmax(d), given)
        for d in range(4)
        for name, given in (("channels-last", CHANNELS_LAST), ("an image", (2, 17, 3, 4)))
    },
    "softmax of rows": Case(lambda x: x.softmax(-1), (3, 1000), commands=ONE),
    "softmax of columns": Case(lambda x: x.softmax(0), (17, 20), commands=ONE),
    "softmax of one": Case(lambda x: x.softmax(1), (4, 1)),
    "softmax of large numbers": Case(lambda x: (x * 1000).softmax(1), (4, 17)),
    "softmax of a masked row": Case(
        lambda x: x.softmax(1), torch.tensor([[-torch.inf, 1, 2], [-torch.inf] * 3]), commands=ONE
    ),
    "softmax of a vector": Case(lambda x: x.softmax(0), (17,), commands=ONE),
    "softmax in the middle": Case(lambda x: x.softmax(1), (3, 10, 17), commands=ONE),
    "softmax of five dimensions": Case(lambda x: x.softmax(2), (2, 3, 4, 5, 6)),
    "softmax of a transposed matrix": Case(lambda x: x.t().softmax(1), (9, 5), commands=ONE),
    "softmax of an expanded matrix": Case(lambda x: x.expand(4, 9).softmax(1), (1, 9)),
    "log-softmax": Case(lambda x: x.log_softmax(1), (5, 58), commands=ONE),
    "log-softmax over channels": Case(lambda x: x.log_softmax(1), CHANNELS_LAST, commands=ONE),
}


@pytest.mark.parametrize("case", DIMS.values(), ids=DIMS)
def test_any_dimensions_are_summed(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", KINDS.values(), ids=KINDS)
def test_every_kind_of_reduction(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", POSITIONS.values(), ids=POSITIONS)
def test_positions_are_those_of_eager(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", SOFTMAX.values(), ids=SOFTMAX)
def test_softmax_runs_over_any_dimension(case: Case) -> None:
    check(case)
