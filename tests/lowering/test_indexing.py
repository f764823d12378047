"""Rows by index: embedding, index_select, gather; and indices that are out of range."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fpga_dynamo
from tests.lowering.lowering_cases import GREEDY, Call, Case, check

INDICES = torch.tensor([[0, 3, 9], [9, 1, 1]])

CASES = {
    "embedding": Case(nn.Embedding(10, 17), INDICES),
    "embedding of whole vectors": Case(nn.Embedding(10, 32), INDICES),
    "embedding of one float": Case(nn.Embedding(10, 1), INDICES),
    "embedding of one index": Case(nn.Embedding(10, 17), torch.tensor(3)),
    "embedding of a vector": Case(nn.Embedding(10, 3), torch.arange(10)),
    "embedding by int32": Case(nn.Embedding(10, 17), INDICES.int()),
    "embedding with a padding index": Case(nn.Embedding(10, 17, padding_idx=3), INDICES),
    "embedding of many indices": Case(nn.Embedding(10, 17), torch.arange(40).view(2, 20) % 10),
    "embedding of transposed indices": Case(nn.Embedding(10, 17), INDICES.t()),
    "embedding of a slice of indices": Case(nn.Embedding(10, 5), (torch.arange(60).view(3, 20) % 10)[:, 2:9]),
    "embedding of a computed table": Case(
        lambda table, i: torch.nn.functional.embedding(i, table * 2), (10, 17), INDICES
    ),
    "embedding and a product": Case(nn.Sequential(nn.Embedding(10, 17), nn.Linear(17, 20)), INDICES),
    "positions are added": Case(
        Call(lambda i, t, p: torch.nn.functional.embedding(i, t) + p, t=torch.randn(10, 8), p=torch.randn(3, 8)),
        INDICES,
    ),
    "index_select of rows": Case(lambda x, i: x.index_select(0, i), (10, 17), INDICES[0]),
    "index_select of columns": Case(lambda x, i: x.index_select(1, i), (4, 10), INDICES[0]),
    "index_select of channels": Case(
        lambda x, i: x.index_select(1, i), torch.randn(2, 18, 3, 3).to(memory_format=torch.channels_last), INDICES[1]
    ),
    "index_select of integers": Case(lambda x, i: x.index_select(0, i), torch.arange(10), INDICES[0]),
    "gather along rows": Case(lambda x, i: x.gather(1, i), (2, 10), INDICES),
    "gather along columns": Case(lambda x, i: x.gather(0, i), (10, 3), INDICES),
    "gather of fewer columns": Case(lambda x, i: x.gather(0, i), (10, 17), INDICES),
    "gather in three dimensions": Case(lambda x, i: x.gather(-1, i), (2, 3, 10), torch.arange(12).view(2, 3, 2) % 10),
    "gather where the largest are": Case(lambda x: x.gather(1, x.argmax(1, keepdim=True)), (4, 17)),
    "a table of integers": Case(lambda x, i: x.gather(0, i), torch.arange(100, 110), INDICES[0]),
    "a table of bools": Case(lambda x, i: (x > 0).gather(1, i), (2, 10), INDICES),
    "an index of five dimensions stays on the PS": Case(
        lambda x, i: x.gather(4, i),
        (1, 1, 1, 2, 10),
        INDICES.view(1, 1, 1, 2, 3),
        offload=0.0,
        launches=0,
        why="5-D table",
    ),
    "a table of float64 stays on the PS": Case(
        lambda x, i: x.gather(1, i),
        torch.randn(2, 10, dtype=torch.float64),
        INDICES,
        offload=0.0,
        launches=0,
        why="float64",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rows_of_a_table(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("index", [10, -1, 1 << 40])
def test_an_index_out_of_range_raises_the_error_of_eager(index: int) -> None:
    model = nn.Embedding(10, 17).eval()
    compiled = torch.compile(model, backend="fpga", options=GREEDY)
    with torch.no_grad():
        torch.testing.assert_close(compiled(INDICES), model(INDICES))
        with pytest.raises(IndexError) as eager:
            model(torch.tensor([[0, index, 1], [1, 2, 3]]))
        with pytest.raises(IndexError) as ours:
            compiled(torch.tensor([[0, index, 1], [1, 2, 3]]))
        assert str(ours.value) == str(eager.value)
        torch.testing.assert_close(compiled(INDICES), model(INDICES))


def test_an_index_beyond_int32_is_gathered_by_eager() -> None:
    values = torch.tensor([1 << 40, 5, -(1 << 50)])
    compiled = torch.compile(lambda x, i: x.index_select(0, i), backend="fpga", options=GREEDY)
    fpga_dynamo.reset_stats()
    assert compiled(values, torch.tensor([2, 0])).tolist() == [-(1 << 50), 1 << 40]
    assert fpga_dynamo.stats()["ps_fallbacks"] == 1
    assert compiled(torch.tensor([7, 8, 9]), torch.tensor([2, 0])).tolist() == [9, 7]
    assert fpga_dynamo.stats()["ps_fallbacks"] == 1, "values that fit go to the card again"
