"""Elements by index tensors: one or several, of parameters or computed, negative, out of range."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from fpga_dynamo.frontend.backend import collect_programs
from tests.lowering.lowering_cases import GREEDY, Call, Case, check

ROW, COLUMN = torch.tensor([2, 0, -1, 1]), torch.tensor([[0], [-3], [1]])

CASES = {
    "rows": Case(lambda x, i: x[i], (3, 17), ROW),
    "rows of a parameter": Case(Call(lambda i, w: w[i], w=torch.randn(3, 17)), COLUMN),
    "columns, by an index of two dimensions": Case(lambda x, i: x[:, i], (4, 3, 5), COLUMN),
    "the last dimension, by a buffer": Case(Call(lambda x, i: x[..., i], i=ROW), (2, 5, 3)),
    "two indices that broadcast": Case(lambda x, i, j: x[i, j], (3, 4, 6), ROW, COLUMN),
    "two indices apart": Case(lambda x, i, j: x[i, :, j], (3, 4, 6), ROW, COLUMN),
    "three indices, constants among them": Case(Call(lambda x, j, i: x[:, i, j], i=ROW), (2, 3, 4, 5), COLUMN),
    "two buffers": Case(Call(lambda x, i, j: x[:, i, :, j], i=ROW, j=COLUMN), (2, 3, 4, 5, 2)),
    "a channels-last image's pixels": Case(
        lambda x, i, j: x[:, :, i, j], torch.randn(2, 17, 4, 5).to(memory_format=torch.channels_last), ROW, COLUMN
    ),
    "integers, by int32": Case(lambda x, i: x[i], torch.arange(-3, 12).view(5, 3), ROW.int()),
    "linear resize": Case(lambda x: F.interpolate(x, size=7, mode="linear"), (2, 3, 5)),
    "trilinear resize": Case(lambda x: F.interpolate(x, size=(3, 5, 2), mode="trilinear"), (1, 2, 4, 3, 3)),
    "nearest resize of a volume": Case(lambda x: F.interpolate(x, scale_factor=2), (1, 2, 2, 3, 3)),
}


def put(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.index_put.default(x, [None, i], y)


PUTS = {
    "a cache's next token": Case(
        lambda x, i, y: x.index_copy(2, i, y), (2, 3, 20, 5), torch.tensor([17]), (2, 3, 1, 5)
    ),
    "a cache that the call changes": Case(
        lambda x, i, y: x.index_copy_(1, i, y) * 2, (2, 9, 5), torch.tensor([0]), (2, 1, 5)
    ),
    "counted from the end, one number for all": Case(put, (3, 5, 4), torch.tensor([-2]), ()),
    "by an index without dimensions": Case(put, (3, 5, 17), torch.tensor(4), (3, 17)),
    "of the last dimension, truth values": Case(
        lambda x, i, y: x.index_copy(-1, i, y > 0), torch.ones(2, 6) > 0, torch.tensor([3]), (2, 1)
    ),
    "several places": Case(
        put, (3, 5), torch.tensor([1, 0]), (2,), offload=0.0, launches=0, why="to several positions"
    ),
    "added up": Case(
        lambda x, i, y: torch.ops.aten.index_put.default(x, [i], y, True), (3, 5), torch.tensor([1]), (5,),
        offload=0.0, launches=0, why="accumulation",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PUTS.values(), ids=PUTS)
def test_a_slice_is_written_where_the_index_says(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_elements_are_those_that_eager_finds(case: Case) -> None:
    check(case)


def test_a_place_out_of_range_is_eager_s_error() -> None:
    compiled = torch.compile(lambda x, i, y: x.index_copy(0, i, y) * 2, backend="fpga", options=GREEDY)
    for place in (-1, 3):
        with torch.no_grad(), pytest.raises(IndexError):
            compiled(torch.randn(3, 4), torch.tensor([place]), torch.randn(1, 4))


def test_an_index_out_of_range_is_eager_s_error_even_if_the_other_makes_up_for_it() -> None:
    compiled = torch.compile(lambda x, i, j: x[i, j] * 2, backend="fpga", options=GREEDY)
    x = torch.randn(3, 4)
    for i, j in ((3, 0), (0, 4), (-4, 0), (1, -5), (2**31 - 1, 1)):
        with torch.no_grad(), pytest.raises(IndexError, match="out of bounds"):
            compiled(x, torch.tensor([0, i]), torch.tensor([1, j]))


def test_as_many_rows_as_the_call_asks_for_are_one_program() -> None:
    def rows(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[i] + torch.ones_like(i, dtype=torch.float32)[:, None]

    torch._dynamo.reset()
    compiled = torch.compile(rows, backend="fpga", options=GREEDY, dynamic=True)
    x = torch.randn(20, 7)
    with torch.no_grad(), collect_programs() as programs:
        for count in (5, 7, 3):
            i = torch.randint(-20, 20, (count,))
            assert torch.equal(compiled(x, i), rows(x, i))
    assert len(programs) == 1 and not programs[0].reasons
