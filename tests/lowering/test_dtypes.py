"""Types other than float32 on the card: 16 bits for storage, casts that round as eager mode's do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fpga_dynamo.frontend.backend import collect_programs
from fpga_dynamo.ir.graph import aten
from fpga_dynamo.ir.target import Target
from fpga_dynamo.lowering.passes.select.claim import claim
from fpga_dynamo.runtime.observe.rounding import in_float64
from fpga_dynamo.testing.reference import measure
from fpga_dynamo.tools.opset.probes import probe
from tests.lowering.lowering_cases import GREEDY, Case, check, programs_of

HALVES = (torch.bfloat16, torch.float16)
each_half = pytest.mark.parametrize("dtype", HALVES, ids=("bfloat16", "float16"))


def every_pattern(dtype: torch.dtype) -> torch.Tensor:
    """All 65,536 numbers of 16 bits."""
    return torch.arange(1 << 16).to(torch.int16).view(dtype)


def on_card(function: Callable[..., Any], *inputs: Any) -> Any:
    """What `function` gives where nothing of it may be left to the PS."""
    with torch.no_grad():
        return torch.compile(function, backend="fpga", options={**GREEDY, "strict": True})(*inputs)


def assert_same(mine: torch.Tensor, eager: torch.Tensor) -> None:
    """The same numbers to the bit, and NaN at the same places."""
    assert mine.dtype is eager.dtype
    torch.testing.assert_close(mine, eager, rtol=0, atol=0, equal_nan=True)


def borders(dtype: torch.dtype) -> torch.Tensor:
    """Floats on, between and beside all numbers of `dtype`."""
    exact = every_pattern(dtype).float()
    exact = exact[exact.isfinite()].sort().values
    middle = (exact[1:] + exact[:-1]) / 2
    beside = [torch.nextafter(middle, torch.tensor(sign)) for sign in (torch.inf, -torch.inf)]
    special = torch.tensor([torch.nan, torch.inf, -torch.inf, 65519.99, 65520.0, 3.4e38, -3.4e38, 1e-45])
    return torch.cat([exact, middle, *beside, special])


@each_half
def test_every_number_of_16_bits_widens_to_what_it_is(dtype: torch.dtype) -> None:
    x = every_pattern(dtype)
    assert_same(on_card(lambda x: x.float(), x), x.float())


@each_half
def test_a_cast_rounds_as_eager_does(dtype: torch.dtype) -> None:
    x = borders(dtype)
    assert_same(on_card(lambda x: x.to(dtype), x), x.to(dtype))


@each_half
def test_a_cast_inside_a_launch_rounds_too(dtype: torch.dtype) -> None:
    x = borders(dtype)
    assert_same(on_card(lambda x: x.to(dtype).float() * 3, x), x.to(dtype).float() * 3)


@each_half
def test_elementwise_arithmetic_rounds_after_every_op(dtype: torch.dtype) -> None:
    x, y = every_pattern(dtype), every_pattern(dtype).roll(7919)

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x + y - x, x * 0.1 + 1, x / y, (x * x).sqrt(), x == y + x, x.clamp(-0.1, 1.7), x <= 0.1, 2 - x

    for mine, eager in zip(on_card(function, x, y), function(x, y), strict=True):
        assert_same(mine, eager)


@each_half
def test_a_product_is_rounded_before_it_is_looked_at(dtype: torch.dtype) -> None:
    """Small whole numbers have one product, whatever the order of the sums; bfloat16 cannot hold 257."""
    a, b = torch.randint(-9, 10, (24, 40)).to(dtype), torch.randint(-9, 10, (40, 33)).to(dtype)

    def function(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Any:
        y = a @ b
        return y.float(), y == c, y.argmax(1), y.max(1), torch.cat([y, c]).argmin(0), (y + 0.3).floor()

    for mine, eager in zip(on_card(function, a, b, a @ b), function(a, b, a @ b), strict=True):
        for got, expected in zip(*([x] if isinstance(x, torch.Tensor) else x for x in (mine, eager)), strict=True):
            assert_same(got, expected)


def test_a_float16_that_is_too_large_is_an_infinity() -> None:
    x = torch.full((4, 32), 100.0, dtype=torch.float16)
    assert_same(on_card(lambda x: (x @ x.t()) @ torch.ones(4, 4).half(), x), torch.full((4, 4), torch.inf).half())


BLOCK = {
    "elementwise": Case(lambda x, y: F.gelu(x + y) * torch.sigmoid(y), (5, 18), (5, 18)),
    "convolution": Case(nn.Sequential(nn.Conv2d(3, 18, 3), nn.BatchNorm2d(18), nn.ReLU6()), (2, 3, 9, 10)),
    "batch norm": Case(nn.BatchNorm2d(18), (2, 18, 4, 5)),
    "attention": Case(lambda x, mask: F.scaled_dot_product_attention(x, x, x, attn_mask=mask), (1, 2, 9, 16), (9, 9)),
    "pad": Case(lambda x: F.pad(x, (1, 2), value=0.1) * 2, (3, 18)),
    "pool": Case(lambda x: F.max_pool2d(F.avg_pool2d(x, 3, 1, 1), 2), (1, 18, 8, 8)),
    "norm": Case(nn.Sequential(nn.LayerNorm(18), nn.Softmax(-1)), (5, 18)),
    "cat": Case(lambda x, y: torch.cat([x @ y, y], 0).flip(0), (3, 18), (18, 18)),
    "reduction": Case(lambda x: (x.sum(1), x.mean((0, 1)), x.amax(0)), (5, 6, 18)),
    "embedding": Case(nn.Embedding(7, 18), torch.tensor([[1, 6], [0, 3]])),
    "resize": Case(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), (1, 18, 5, 4)),
    "transposed input and output": Case(lambda x: (x.t() * 2).t(), torch.randn(17, 33).t()),
    "one element": Case(lambda x: x * 2, (1,)),
}


@each_half
@pytest.mark.parametrize("name", BLOCK)
def test_ops_take_16_bits(name: str, dtype: torch.dtype) -> None:
    case = BLOCK[name]
    narrow = [x.to(dtype) if torch.is_floating_point(x) else x for x in case.make_inputs()]
    check(Case(copy.deepcopy(case.model).to(dtype), *narrow))


class Residual(nn.Module):
    """A block of a ResNet with its stem and its head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 24, 3, 2, 1), nn.BatchNorm2d(24), nn.ReLU())
        self.block = nn.Sequential(
            nn.Conv2d(24, 24, 3, 1, 1), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 24, 3, 1, 1), nn.BatchNorm2d(24)
        )
        self.head = nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        return self.head(F.relu(self.block(x) + x).mean((2, 3)))


def transformer() -> nn.Module:
    return nn.TransformerDecoderLayer(32, 4, 64, activation="gelu", batch_first=True, norm_first=True)


MODELS: dict[str, tuple[Any, ...]] = {
    "residual": (Residual, (2, 3, 24, 24)),
    "decoder": (transformer, (2, 12, 32), (2, 9, 32)),
    "encoder": (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (2, 12, 32)),
}


def assert_no_worse(model: nn.Module, exact: nn.Module, *inputs: torch.Tensor) -> None:
    """All on the card in one launch, and an error against float64 of at most 1.5 times eager mode's."""
    with torch.no_grad(), collect_programs() as programs:
        mine = torch.compile(model, backend="fpga", options=GREEDY)(*inputs)
        eager, true = model(*inputs), exact(*in_float64(inputs))
    (program,) = programs
    assert not program.reasons and len(program.card_tasks) == 1, program.reasons
    assert mine.dtype is eager.dtype and mine.stride() == eager.stride()
    assert measure(mine, eager, true).ratio <= 1.5


@each_half
@pytest.mark.parametrize("name", MODELS)
def test_networks_of_16_bits_err_no_more_than_in_eager(name: str, dtype: torch.dtype) -> None:
    make, *shapes = MODELS[name]
    torch.manual_seed(0)
    model = make().eval().to(dtype)
    assert_no_worse(model, copy.deepcopy(model).double(), *(torch.randn(shape).to(dtype) for shape in shapes))


@pytest.mark.parametrize("name", ["residual", "decoder"])
def test_networks_under_autocast_err_no_more_than_in_eager(name: str) -> None:
    make, *shapes = MODELS[name]
    torch.manual_seed(0)
    model = make().eval()
    exact = copy.deepcopy(model).double()

    def without_autocast(*inputs: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            return exact(*inputs)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_no_worse(model, without_autocast, *(torch.randn(shape) for shape in shapes))  # type: ignore[arg-type]


@each_half
def test_16_bits_cross_to_the_card_and_back(dtype: torch.dtype) -> None:
    (program,) = programs_of(lambda x, y: x @ y, torch.ones(16, 32).to(dtype), torch.ones(32, 16).to(dtype))
    (task,) = program.card_tasks
    assert [slot.nbytes for slot in (*task.inputs, *task.outputs)] == [1024, 1024, 512]
    assert task.plan.input_end - task.plan.output_end == 32  # beats


@each_half
def test_a_direct_call_carries_16_bits(dtype: torch.dtype) -> None:
    compiled = torch.compile(lambda x: x * 2, backend="fpga", options=GREEDY)
    with torch.no_grad():
        for start in range(4):  # the first call goes the whole way
            x = torch.arange(start, start + 33).to(dtype)
            assert_same(compiled(x), x * 2)


def without(target: Target, *names: str) -> Target:
    """The target of an xclbin that was built before there were these opcodes and micro-operations."""
    return replace(
        target,
        kernels=tuple(replace(k, opcodes=k.opcodes - set(names)) for k in target.kernels),
        enums={name: value for name, value in target.enums.items() if name not in names},
    )


@pytest.mark.parametrize(
    ("missing", "why"),
    [("convert", "sequencer lacks convert"), ("MICRO_ROUND_BF16", "no MICRO_ROUND_BF16; rebuild the xclbin")],
)
def test_an_older_xclbin_leaves_16_bits_to_eager(missing: str, why: str, target: Target) -> None:
    made = probe(aten.add.Tensor, torch.bfloat16, without(target, missing))
    assert made is not None
    assert why in claim(made.graph).reasons[made.node]


def test_float64_stays_in_eager() -> None:
    (program,) = programs_of(lambda x: x.double() * x + x.sum().double(), torch.ones(4, 4).half())
    assert any("float64" in reason for reason in program.reasons.values())


def test_weights_of_16_bits_are_packed_anew_when_they_change() -> None:
    model = nn.Linear(16, 16).bfloat16()
    compiled, x = torch.compile(model, backend="fpga", options=GREEDY), torch.randn(4, 16).bfloat16()
    with torch.no_grad():
        compiled(x)
        model.weight.mul_(2)
        assert measure(compiled(x), model(x), copy.deepcopy(model).double()(x.double())).ratio <= 1.5


def test_running_statistics_of_float16_which_tracing_takes_for_float32() -> None:
    """The fake result of _native_batch_norm_legit_functional is float32, the real one float16."""

    def step(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, mean, variance, training=True)

    x, mean, variance = torch.randn(4, 3, 5).half(), torch.randn(3).half(), torch.rand(3).half()
    mine, eager = (mean.clone(), variance.clone()), (mean.clone(), variance.clone())
    torch.compile(step, backend="fpga", options=GREEDY)(x, *mine)
    step(x, *eager)
    torch.testing.assert_close(mine, eager)


@each_half
def test_one_program_for_all_lengths(dtype: torch.dtype) -> None:
    model = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16)).to(dtype)
    compiled = torch.compile(model, backend="fpga", options=GREEDY, dynamic=True)
    with torch.no_grad(), collect_programs() as programs:
        for length in (5, 33, 64):
            x = torch.randn(length, 16).to(dtype)
            assert measure(compiled(x), model(x), copy.deepcopy(model).double()(x.double())).ratio <= 1.5
    assert len(programs) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_that_eager_mode_rounds_first(dtype: torch.dtype) -> None:
    """A sum is zero where the rounded number is the element, and 1 - eps is 1."""

    def numbers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x - 0.3, 0.3 - x, x + -0.3, (x - 0.3).sign(), torch.add(x, x.flip(0), alpha=0.3), x.logit(1e-6)

    x = torch.cat([torch.tensor([0.3, -0.3, 0.0, 1.0]), torch.linspace(-2, 2, 60)]).to(dtype)
    with torch.no_grad():
        found = torch.compile(numbers, backend="fpga", options={"partition": "greedy"})(x)
    for mine, eager in zip(found, numbers(x), strict=True):
        torch.testing.assert_close(mine, eager, rtol=2 * torch.finfo(dtype).eps, atol=torch.finfo(dtype).eps)
    assert all(torch.equal(mine, eager) for mine, eager in zip(found[:4], numbers(x)[:4], strict=True))
