"""Cumulative sums, products and log-sum-exps: along any dimension of any layout, forward and backward."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fpga_dynamo.frontend.backend import collect_programs
from fpga_dynamo.testing.reference import assert_close_to_eager
from fpga_dynamo.tools.explain import report
from tests.lowering.lowering_cases import GREEDY, Case, check, programs_of

ONE = {"scan": 1}
INF, NAN = torch.inf, torch.nan
CHANNELS_LAST = torch.randn(2, 18, 4, 5).to(memory_format=torch.channels_last)
SPECIAL = torch.tensor(
    [
        [-INF, -INF, 1, INF, 2, -INF, 3, 4],
        [INF, -INF, 1, 2, 3, 4, 5, 6],
        [1, 2, NAN, 3, INF, 4, 5, 6],
        [-INF, NAN, 1, 2, 3, 4, 5, 6],
        [3e38, 3e38, -3e38, -3e38, 0, -0.0, 1e-40, -1e-40],
    ]
)

LAYOUTS = {
    **{
        f"dimension {d} of {name}": Case(lambda x, d=d: x.cumsum(d), given, commands=ONE)
        for d in range(4)
        for name, given in (("channels-last", CHANNELS_LAST), ("an image", (2, 17, 3, 4)))
    },
    "rows": Case(lambda x: x.cumsum(-1), (40, 100), commands=ONE),
    "columns": Case(lambda x: x.cumsum(0), (100, 40), commands=ONE),
    "few long rows": Case(lambda x: x.cumsum(1), (3, 5000), commands=ONE),
    "a vector": Case(lambda x: x.cumsum(0), (300,), commands=ONE),
    "a short vector": Case(lambda x: x.cumsum(0), (5,), commands=ONE),
    "a scalar": Case(lambda x: x.cumsum(0), torch.tensor(2.5), commands=ONE),
    "one element a row": Case(lambda x: x.cumsum(1), (5, 1), commands=ONE),
    "one row": Case(lambda x: x.cumsum(0), (1, 5), commands=ONE),
    "every second column": Case(lambda x: x[:, ::2].cumsum(1), (4, 12)),
    "rows of a transposed matrix": Case(lambda x: x.t().cumsum(1), (20, 40), commands=ONE),
    "an expanded dimension": Case(lambda x: x.expand(4, 6, 10).cumsum(1), (4, 1, 10)),
    "beside an expanded dimension": Case(lambda x: x.expand(4, 6, 10).cumsum(2), (4, 1, 10)),
    "five dimensions": Case(lambda x: x.cumsum(2), (2, 3, 4, 5, 6), commands=ONE),
    "six dimensions in another order": Case(lambda x: x.permute(5, 1, 3, 0, 2, 4).cumsum(2), (2, 3, 2, 3, 2, 3)),
    "in the middle of other work": Case(lambda x: (x.relu() * 2).cumsum(1).sigmoid(), (7, 33)),
}

KINDS = {
    "products": Case(lambda x: (1 + 0.1 * x).cumprod(1), (20, 50)),
    "products of columns": Case(lambda x: (1 + 0.1 * x).cumprod(0), (50, 20)),
    "products that leave the range of floats and come back": Case(
        lambda x: x.cumprod(0), torch.tensor([1e30, 1e30, 1e-30, 1e-30, 1e-30, 1e-30, 1e30, 1e30]), commands=ONE
    ),
    "sums that leave it": Case(lambda x: x.cumsum(0), torch.tensor([3e38, 3e38, -3e38, -3e38, 1.0]), commands=ONE),
    "log-sum-exps": Case(lambda x: x.logcumsumexp(1), (20, 50), commands=ONE),
    "log-sum-exps of a long row": Case(lambda x: (10 * x).logcumsumexp(0), (3000,)),
    "log-sum-exps of large numbers": Case(lambda x: (1e4 * x).logcumsumexp(1), (20, 50)),
    "log-sum-exps of rising numbers": Case(lambda x: x.logcumsumexp(0), torch.linspace(-50, 50, 400), commands=ONE),
    "from the end": Case(lambda x: x.flip(1).cumsum(1).flip(1), (20, 50), commands=ONE),
    "columns from the end": Case(lambda x: x.flip(0).logcumsumexp(0).flip(0), (50, 20), commands=ONE),
    "a long row from the end": Case(lambda x: x.flip(0).cumsum(0).flip(0), (3000,), commands=ONE),
    "flips of another dimension": Case(lambda x: x.flip(1).cumsum(0).flip(1), (20, 50), commands=ONE),
    "what is flipped and used twice": Case(lambda x: (lambda y: (y, y.cumsum(1).flip(1)))(x.flip(1)), (20, 50)),
    **{
        f"infinities and NaN: {name}": Case(lambda x, name=name: getattr(torch, name)(x, 1), SPECIAL, commands=ONE)
        for name in ("cumsum", "cumprod", "logcumsumexp")
    },
}

WHOLE = torch.arange(-60, 60).view(6, 20)
DTYPES = {
    "a count of truth values": Case(lambda x: (x > 0).cumsum(1), (6, 20), commands={"pointwise": 2, "scan": 1}),
    "whether all were true so far": Case(lambda x: (x > -1).cumprod(1), (6, 20), commands={"pointwise": 2, "scan": 1}),
    "positions from a mask": Case(lambda x: x.ne(0).int().cumsum(1).long() + 1, WHOLE),
    "bytes": Case(lambda x: x.cumsum(1), WHOLE.to(torch.int8), commands={"convert": 1, "scan": 1}),
    "int32 that wraps": Case(lambda x: x.cumsum(1, dtype=torch.int32), WHOLE.int() << 25),
    "integers as numbers": Case(lambda x: x.cumsum(1, dtype=torch.float32), WHOLE.int()),
    "bfloat16": Case(lambda x: x.cumsum(1), torch.randn(6, 20).bfloat16()),
    "float16 products": Case(lambda x: x.cumprod(1), (1 + 0.1 * torch.randn(6, 20)).half()),
    "bfloat16 as float32": Case(lambda x: x.cumsum(1, dtype=torch.float32), torch.randn(6, 20).bfloat16()),
    "int64": Case(lambda x: x.cumsum(1), WHOLE, offload=0.0, launches=0, why="sums may overflow int32"),
    "products of integers": Case(lambda x: x.cumprod(1), WHOLE.int(), offload=0.0, launches=0, why="products of int"),
    "into bytes": Case(
        lambda x: x.cumsum(1, dtype=torch.uint8), WHOLE.int(), offload=0.0, launches=0, why="int64 and int32 are"
    ),
    "into float64": Case(
        lambda x: x.cumsum(1, dtype=torch.float64), (6, 20), offload=0.0, launches=0, why="result is float64"
    ),
    "of nothing": Case(lambda x: x.cumsum(1), torch.ones(3, 0), offload=0.0, launches=0, why="no elements"),
}


@pytest.mark.parametrize("case", LAYOUTS.values(), ids=LAYOUTS)
def test_any_dimension_is_scanned(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", KINDS.values(), ids=KINDS)
def test_every_kind_of_scan(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", DTYPES.values(), ids=DTYPES)
def test_types_are_those_of_eager(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("shape", [(40, 100), (100, 40), (3, 5000)])
@pytest.mark.parametrize("dim", [0, 1])
def test_sums_are_those_of_eager_to_the_bit(shape: tuple[int, ...], dim: int) -> None:
    x = torch.randn(shape)
    compiled = torch.compile(lambda x: x.cumsum(dim), backend="fpga", options=GREEDY)
    torch.testing.assert_close(compiled(x), x.cumsum(dim), rtol=0, atol=0)


def _with_zeros(rows: int, columns: int) -> torch.Tensor:
    x = 1 + 0.2 * torch.randn(rows, columns, generator=torch.Generator().manual_seed(3))
    x[0, 3] = x[1, 4] = x[1, 7] = x[2, 0] = x[3, -1] = 0
    return x


GRADIENTS = {
    "sums": (lambda x: x.cumsum(1), torch.randn(6, 20)),
    "sums of columns": (lambda x: x.cumsum(0), torch.randn(6, 20)),
    "products": (lambda x: x.cumprod(1), 1 + 0.2 * torch.randn(6, 20)),
    "products with zeros": (lambda x: x.cumprod(1), _with_zeros(6, 20)),
    "log-sum-exps": (lambda x: x.logcumsumexp(1), torch.randn(6, 20)),
    "log-sum-exps of columns": (lambda x: x.logcumsumexp(0), torch.randn(40, 17)),
}


def _gradient(function: Callable[..., torch.Tensor], x: torch.Tensor) -> list[torch.Tensor]:
    x = x.clone().requires_grad_()
    y = function(x)
    y.backward(torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y))
    assert x.grad is not None
    return [y.detach(), x.grad]


@pytest.mark.parametrize(("function", "x"), GRADIENTS.values(), ids=GRADIENTS)
def test_gradients_are_on_the_card(function: Callable[..., torch.Tensor], x: torch.Tensor) -> None:
    with collect_programs() as programs:
        mine = _gradient(torch.compile(function, backend="fpga", options=GREEDY), x)
    assert_close_to_eager(mine, _gradient(function, x), _gradient(function, x.double()))
    assert [len(program.tasks) for program in programs] == [1, 1]
    assert not [n for program in programs for n in report(program).nodes if n.computes and n.place == "PS"]


def _cumulative(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(1)


def test_the_gradient_of_a_sum_is_one_scan() -> None:
    with collect_programs() as programs:
        _gradient(torch.compile(_cumulative, backend="fpga", options=GREEDY), torch.randn(6, 20))
    (task,) = programs[-1].card_tasks
    assert [command.opcode for command in task.commands] == ["scan"]


@pytest.mark.parametrize("dim", [0, 1])
def test_sizes_change_from_call_to_call(dim: int) -> None:
    compiled = torch.compile(
        lambda x: (x.cumsum(dim), x.logcumsumexp(dim)), backend="fpga", options=GREEDY, dynamic=True
    )
    for shape in ((5, 7), (40, 130), (3, 3000)):
        x = torch.randn(shape)
        assert_close_to_eager(
            compiled(x), (x.cumsum(dim), x.logcumsumexp(dim)), (x.double().cumsum(dim), x.double().logcumsumexp(dim))
        )


def test_one_command_scans_an_image_as_it_lies() -> None:
    (program,) = programs_of(lambda x: x.relu().cumsum(2).relu(), CHANNELS_LAST)
    assert [command.opcode for command in program.card_tasks[0].commands] == ["pointwise", "scan", "pointwise", "move"]
