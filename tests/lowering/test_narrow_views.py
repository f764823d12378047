"""Views of values that are narrower than 32 bits: one consumer reads a view widened, another as it lies in memory."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

import fpga_dynamo
from fpga_dynamo.testing.calls import check_against_eager
from fpga_dynamo.testing.reference import sharing
from tests.lowering.lowering_cases import GREEDY
from tests.marks import EXTENDED

NARROW = (torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.bool)
QUICK = (torch.float16,)
"""Types of which `make test` runs each view; the others are extended."""

VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "view": lambda x: x.view(12, 6),
    "reshape of a transposed": lambda x: x.mT.reshape(6, 12),
    "permute": lambda x: x.permute(2, 0, 1),
    "slice": lambda x: x[1:, :, ::2],
    "expand": lambda x: x[:, :1].expand(3, 5, 6),
    "select": lambda x: x.select(-1, 1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "piece of a split": lambda x: x.split(2, -1)[1],
    "piece of unbind": lambda x: x.unbind(1)[2],
    "unfold": lambda x: x.unfold(-1, 3, 1),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "chain": lambda x: x.transpose(0, 2)[1:].reshape(5, -1).t().unsqueeze(0),
}


def _widened(v: torch.Tensor) -> torch.Tensor:
    return v.logical_not() if v.dtype is torch.bool else v + v


def _inputs(dtype: torch.dtype) -> torch.Tensor:
    numbers = torch.arange(72).reshape(3, 4, 6) % 7 - (0 if dtype is torch.uint8 else 3)
    return (numbers > 0) if dtype is torch.bool else numbers.to(dtype)


def _assert_same(function: Callable[..., object], *inputs: torch.Tensor, dynamic: bool | None = None) -> None:
    """Compiles and calls; internal errors are raised by all tests. Whole numbers this small are exact in every type."""
    mine, theirs = copy.deepcopy(inputs), copy.deepcopy(inputs)
    with torch.no_grad():
        before = fpga_dynamo.stats()["pl_launches"]
        found = torch.compile(function, backend="fpga", options=GREEDY, dynamic=dynamic)(*mine)
        expected = function(*theirs)
    assert fpga_dynamo.stats()["pl_launches"] > before
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
    assert sharing(found, mine) == sharing(expected, theirs)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("dtype", [d if d in QUICK else pytest.param(d, marks=EXTENDED) for d in NARROW], ids=str)
def test_a_view_is_read_widened_and_narrow(view: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        v = view(x)
        return _widened(v), torch.cat([v, v], -1), v.flip(0), v.clone(), v

    _assert_same(function, _inputs(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_view_is_read_by_an_addition_and_by_a_product(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        v = x.view(12, 6)
        return v + v, v.mT @ w

    _assert_same(function, _inputs(dtype), torch.ones(12, 5, dtype=dtype))


def test_a_view_of_a_view_is_read_narrow_after_the_first_was_read_widened() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        v = x.view(12, 6)
        wide = v * 2
        return wide, torch.cat([v[2:], v[:2]]), v[3:].t() + 1

    _assert_same(function, _inputs(torch.int8))


@pytest.mark.parametrize("dtype", [torch.float16, torch.uint8], ids=str)
def test_a_view_that_is_changed_in_place_is_read_in_both_ways(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        v = x.view(12, 6)
        v.add_(1)
        return v + v, v.t().contiguous(), x.flip(0)

    _assert_same(function, _inputs(dtype))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16], ids=str)
def test_rows_of_unknown_size_are_widened(dtype: torch.dtype) -> None:
    """A slice of them has gaps, and so has its copy, whose rows are padded: packing it once is enough."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        v = x.chunk(2, 0)[1][..., 1:4]
        return torch.cat([v, v]), v + v

    _assert_same(function, _inputs(dtype), dynamic=True)


@pytest.mark.parametrize("dtype", [torch.float16, pytest.param(torch.bfloat16, marks=EXTENDED)], ids=str)
@pytest.mark.parametrize("autocast", [False, True], ids=["whole", "autocast"])
def test_a_linear_layer_of_half_precision_trains_on_sequences(dtype: torch.dtype, autocast: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype, enabled=autocast):
                return self.layers(x)

    _assert_trains(Model().to(torch.float32 if autocast else dtype), (2, 5, 16), dtype)


@pytest.mark.parametrize("dtype", [torch.float16, pytest.param(torch.bfloat16, marks=EXTENDED)], ids=str)
def test_a_transformer_layer_of_half_precision_trains(dtype: torch.dtype) -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    _assert_trains(layer.to(dtype), (2, 5, 16), dtype)


def _assert_trains(model: nn.Module, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Results and gradients of a step are as good as eager mode's against float64."""

    def inputs(seed: int) -> tuple[torch.Tensor]:
        torch.manual_seed(seed)
        return (torch.randn(shape, dtype=next(model.parameters()).dtype),)

    before = fpga_dynamo.stats()["pl_launches"]
    check_against_eager(model, inputs, options=GREEDY, calls=1, backward=True, dtype=dtype)
    assert fpga_dynamo.stats()["pl_launches"] > before
