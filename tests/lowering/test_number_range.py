"""Numbers at the ends of their types: truth values from any number, denormal and huge float32, NaN and infinities."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.lowering.extreme_numbers import EDGES, assert_each_close, constants, rows
from tests.lowering.lowering_cases import GREEDY
from tests.marks import EXTENDED

INF, NAN = math.inf, math.nan


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend="fpga", options={"strict": True, **GREEDY, **options}, dynamic=False)


def check(function: Callable[..., Any], *inputs: torch.Tensor, ulps: float = 8.0) -> None:
    in_double = [x.double() if x.is_floating_point() else x for x in inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of degrees of freedom
        assert_each_close(compiled(function)(*inputs), function(*inputs), function(*in_double), ulps=ulps)


# --- truth values -----------------------------------------------------------------------------------------------------

TRUTH = torch.arange(40).reshape(5, 8) % 3 == 0
MASK = torch.arange(40).reshape(5, 8) % 4 == 1
FILLS = (2, -1, 0.5, NAN, INF, -0.0, 1e-45, 256)
WAYS_IN: dict[str, Callable[[torch.Tensor, torch.Tensor, Any], torch.Tensor]] = {
    "masked_fill": lambda s, m, v: s.masked_fill(m, v),
    "masked_fill tensor": lambda s, m, v: s.masked_fill(m, torch.tensor(v)),
    "pad": lambda s, m, v: F.pad(s, (1, 0), value=v),
    "full": lambda s, m, v: torch.full_like(s, v) & m,
    "where": lambda s, m, v: torch.where(m, s, torch.tensor(v, dtype=torch.bool)),
    "index_fill": lambda s, m, v: s.index_fill(1, torch.tensor([0, 3]), v),
    "item": lambda s, m, v: _with_item(s, v),
    "cast": lambda s, m, v: (s.float() * v).bool() | m,
}


def _with_item(x: torch.Tensor, number: Any) -> torch.Tensor:
    x = x.clone()
    x[:, 2:4] = number
    return x


def uses(truth: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What shows that an element is neither 0 nor 1."""
    return (truth, truth.float(), truth.int(), truth.sum(-1), truth == True, truth ^ truth.flip(0), truth.cumsum(-1))  # noqa: E712


@pytest.mark.parametrize("way", WAYS_IN)
def test_numbers_become_truth_values_where_they_enter(way: str) -> None:
    def every_fill(s: torch.Tensor, m: torch.Tensor) -> list[Any]:
        return [uses(WAYS_IN[way](s, m, NAN))]

    def every_number(s: torch.Tensor, m: torch.Tensor) -> list[Any]:
        return [WAYS_IN[way](s, m, number).float() for number in FILLS]

    for function, options in ((every_fill, GREEDY), (every_number, {})):
        expected = function(TRUTH, MASK)
        torch._dynamo.reset()
        found = torch.compile(function, backend="fpga", options=options)(TRUTH, MASK)
        assert_each_close(found, expected, expected)


@pytest.mark.parametrize("size", [9, 1000])
def test_bytes_that_are_seen_as_truth_values(size: int) -> None:
    raw = (torch.arange(4 * size) % 5 * 63).to(torch.uint8).reshape(4, size)
    check(lambda b: (b.float(), b.sum(-1), b & b.flip(0), torch.where(b, 1.0, 2.0)), raw.view(torch.bool))
    found = compiled(lambda b: b.float())(raw.view(torch.bool)[:, 1::2])
    assert torch.equal(found, (raw[:, 1::2] != 0).float())


INTEGER_FILLS = (3.7, -1, 256, 2**31, 2**40, 1e20, NAN, True)


MORE_INTEGERS = [pytest.param(dtype, marks=EXTENDED) for dtype in (torch.int8, torch.int16, torch.int64)]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, *MORE_INTEGERS])
def test_integers_are_filled_as_in_eager_mode_or_by_it(dtype: torch.dtype) -> None:
    x, mask = torch.arange(12).reshape(3, 4).to(dtype), torch.arange(12).reshape(3, 4) % 2 == 0
    ways: tuple[Callable[..., torch.Tensor], ...] = (
        lambda x, v: x.masked_fill(mask, v),
        lambda x, v: F.pad(x, (1, 2), value=v),
        lambda x, v: torch.full_like(x, v) + x,
        lambda x, v: x.clamp(max=v),
    )
    for way in ways:
        for number in INTEGER_FILLS:
            try:
                expected = way(x, number)
            except (RuntimeError, OverflowError):
                continue  # eager mode refuses the number
            torch._dynamo.reset()
            found = torch.compile(lambda x, way=way, v=number: way(x, v), backend="fpga", options=GREEDY)(x)
            assert_each_close(found, expected, expected)


# --- small results ----------------------------------------------------------------------------------------------------

SCORES = torch.cat([torch.linspace(-110, 0, 331), torch.tensor([-INF])]).repeat(3, 1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.softmax(-1),
        lambda x: x.softmax(-1).log().nan_to_num(neginf=-1000.0),
        lambda x: x.t().contiguous().softmax(0),
        lambda x: F.softmin(-x, -1),
        lambda x: (x.exp(), x.sigmoid(), x.log_softmax(-1), F.softplus(x), torch.exp2(x * 1.4), x.logsumexp(-1)),
        lambda x: F.elu(x * 1e-40, 1e30),
    ],
    ids=["softmax", "log of softmax", "softmax of columns", "softmin", "exponentials", "elu of denormal numbers"],
)
def test_small_results_keep_what_eager_mode_keeps(function: Callable[[torch.Tensor], Any]) -> None:
    check(function, SCORES)


def test_attention_keeps_small_weights() -> None:
    # Weights down to 1e-44, of which a value of 1e6 each makes a normal number.
    q, k, v = torch.ones(1, 1, 4, 1), torch.linspace(-100, 0, 40).reshape(1, 1, 40, 1), torch.zeros(1, 1, 40, 2)
    v[..., 0, :] = 1e30
    expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), scale=1.0)
    found = compiled(lambda *qkv: F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], scale=1.0))(q, k, v)
    assert expected.max() < 1e-10
    torch.testing.assert_close(found.double(), expected, rtol=0.04, atol=0)  # of a weight with 26 units


# --- the range of reductions ------------------------------------------------------------------------------------------

SPREADS: dict[str, Callable[[torch.Tensor], Any]] = {
    "std": lambda x: x.std(-1),
    "std of columns": lambda x: x.std(0),
    "std of all": lambda x: x.std(correction=0),
    "var_mean": lambda x: torch.var_mean(x, -1),
    "std_mean": lambda x: torch.std_mean(x, 0, correction=2),
    "var_mean without degrees of freedom": lambda x: torch.var_mean(x, -1, correction=37),
}
DATA = torch.randn(8, 37, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("kind", SPREADS)
def test_spreads_have_the_range_of_their_results(kind: str) -> None:
    run = compiled(SPREADS[kind])
    for scale in (1e-45, 1e-38, 1e-30, 1e-20, 1.0, 5e18, 1e19, 1e25, 8e37):
        x = DATA * scale
        spread, *mean = _all(run(x))
        exact, *exact_mean = _all(SPREADS[kind](x.double()))
        torch.testing.assert_close(spread, exact.float(), rtol=1e-5, atol=3e-45)
        for found, truth in zip(mean, exact_mean, strict=True):
            assert (found.double() - truth).abs().max() <= 1e-6 * x.double().abs().max() + 1.5e-45


def _all(results: Any) -> tuple[torch.Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def test_partial_sums_may_be_larger_than_the_sum() -> None:
    large = torch.tensor([3e38, 3e38, -3e38, -3e38] * 9)
    x = torch.stack([large, large.roll(2), large.abs(), torch.full_like(large, 1e38), -large.abs()])
    torch.testing.assert_close(compiled(lambda x: x.sum(-1))(x), torch.tensor([0.0, 0.0, INF, INF, -INF]))
    torch.testing.assert_close(compiled(lambda x: x.t().sum(0))(x), torch.tensor([0.0, 0.0, INF, INF, -INF]))
    torch.testing.assert_close(compiled(lambda x: torch.var_mean(x, -1)[1])(x), x.double().mean(-1).float())


def test_norms_of_numbers_whose_squares_overflow() -> None:
    for scale in (1e30, 1e37, 3e38):
        x = (DATA.sign() * scale).contiguous()
        expected = F.layer_norm(DATA.sign().double(), [37], eps=0.0)
        assert not compiled(lambda x: F.layer_norm(x, [37]))(x).isnan().any()
        found = compiled(lambda x: F.layer_norm(x, [37], eps=0.0))(x * 1e-3)
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1e15, 1e19, 1e30, 1e37])
def test_norms_that_train_are_right_whatever_their_variance(scale: float) -> None:
    """Where eager mode gives NaN (layer and group norm) or 0 (batch norm of contiguous images), too."""
    x = (DATA[:6, :8] * scale).requires_grad_()
    norms: dict[str, Callable[..., torch.Tensor]] = {
        "layer": lambda x, *_: F.layer_norm(x, [8]),
        "group": lambda x, *_: F.group_norm(x, 2),
        "batch": lambda x, mean, variance: F.batch_norm(x, mean, variance, training=True),
        "batch without statistics": lambda x, *_: F.batch_norm(x, None, None, training=True),
    }
    for norm in norms.values():
        found = compiled(norm)(x, torch.zeros(8), torch.ones(8))
        exact = norm(x.double(), torch.zeros(8).double(), torch.ones(8).double())
        torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("number", [INF, -INF, NAN])
def test_means_of_numbers_that_are_not_finite(number: float) -> None:
    x = DATA.index_fill(1, torch.tensor([3]), number)
    check(lambda x: (*torch.var_mean(x, -1), *torch.std_mean(x, 0), x.mean(-1), x.sum(0)), x, ulps=1e3)


# --- constants --------------------------------------------------------------------------------------------------------

PARAMETERS: dict[str, Callable[[torch.Tensor, float], Any]] = {
    "elu": lambda x, c: F.elu(x, c),
    "elu scales": lambda x, c: (torch.ops.aten.elu(x, 1.0, c, 1.0), torch.ops.aten.elu(x, 1.0, 1.0, c)),
    "celu": lambda x, c: F.celu(x, c),
    "leaky_relu": lambda x, c: F.leaky_relu(x, c),
    "hardtanh": lambda x, c: (torch.ops.aten.hardtanh(x, c, 2.0), torch.ops.aten.hardtanh(x, -1.0, c)),
    "clamp": lambda x, c: (x.clamp(min=c), x.clamp(max=c), x.clamp(c, 1.0), x.clamp(-1.0, c)),
    "clamp_min": lambda x, c: (torch.clamp_min(x, c), torch.clamp_max(x, c)),
    "clamp by tensors": lambda x, c: torch.clamp(x, torch.tensor(c), torch.tensor(1.0)),
    "threshold": lambda x, c: (F.threshold(x, c, 7.0), F.threshold(x, 0.5, c)),
    "softplus": lambda x, c: F.softplus(x, c),
    "softplus threshold": lambda x, c: F.softplus(x, 1.0, c),
    "where": lambda x, c: (torch.where(x > 0, x, c), x.masked_fill(x > 0, c)),
    "nan_to_num": lambda x, c: (torch.nan_to_num(x, c), torch.nan_to_num(x, 0.0, c), torch.nan_to_num(x, 0.0, 1.0, c)),
    "logit": lambda x, c: torch.logit(x, c),
    "sums": lambda x, c: (torch.add(x, x, alpha=c), torch.sub(x, 2.0, alpha=c), x + c, torch.rsub(x, c)),
    "products": lambda x, c: (x * c, x / c, c / x),
    "comparisons": lambda x, c: (x > c, x >= c, x < c, x <= c, x == c, x != c),
    "lerp": lambda x, c: torch.lerp(x, x * 0.5, c),
    "pad": lambda x, c: F.pad(x, (1, 2), value=c),
}
X = torch.tensor([*EDGES, 0.5, -0.5, 2.5, -2.5, 20.0, -20.0, 88.5, -88.5, 104.0, -104.0, 1e10, -1e10, 1e-30, -1e-30])
CONSTANTS = (INF, -INF, NAN, 0.0, -0.0, 1e-45, -1e-40, 3.4e38, -3.4e38, -0.3)


def _accepts(function: Callable[[torch.Tensor, float], Any], number: float) -> bool:
    try:
        function(X, number)
    except (RuntimeError, ZeroDivisionError, OverflowError):
        return False
    return True


@pytest.mark.parametrize("name", PARAMETERS)
def test_constants_of_every_kind(name: str) -> None:
    rule = PARAMETERS[name]
    numbers = [number for number in CONSTANTS if _accepts(rule, number)]
    check(lambda x: [rule(x, number) for number in numbers], X, ulps=16)
    assert _signs(compiled(lambda x: [rule(x, n) for n in numbers])(X[:2])) == _signs([rule(X[:2], n) for n in numbers])


def _signs(results: Any) -> list[list[bool]]:
    """Of zeros as well."""
    leaves = torch.utils._pytree.tree_leaves(results)
    return [(leaf.signbit() & ~leaf.isnan()).tolist() for leaf in leaves if leaf.is_floating_point()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_powers_of_zeros_and_infinities(dtype: torch.dtype) -> None:
    """Eager mode has a root of -0 and -inf for 0.5 in float32 and bfloat16, and a power in float16."""
    x = torch.tensor([0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 2.25, -4.0] * 4, dtype=dtype)
    powers = lambda x: [x**e for e in (0.5, -0.5, 0.25, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, INF, -INF)]  # noqa: E731
    found, expected = compiled(powers)(x), powers(x)
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert _signs(found) == _signs(expected)


@pytest.mark.parametrize("bound", [INF, -INF, NAN, -0.3])
def test_constants_behind_a_matrix_product(bound: float) -> None:
    x, w = torch.tensor([[0.0, -1.0, 2.0]]), torch.eye(3)

    def products(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x @ w.to(x.dtype)
        return F.elu(y, bound), F.hardtanh(y - 1, -INF, bound), F.leaky_relu(y, bound)

    def fused(x: torch.Tensor) -> torch.Tensor:
        return F.elu(x @ w.to(x.dtype), bound)

    check(products, x)
    check(fused, x)


# --- neighbours -------------------------------------------------------------------------------------------------------


EXAMPLES = (4, pytest.param(300, marks=EXTENDED))
"""Of each property."""


def drawn(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.parametrize("examples", EXAMPLES)
def test_any_constant(examples: int) -> None:
    @drawn(examples)
    @given(number=constants(), name=st.sampled_from(sorted(PARAMETERS)))
    def holds(number: float, name: str) -> None:
        rule = PARAMETERS[name]
        if _accepts(rule, number):
            check(lambda x: rule(x, number), X, ulps=16)

    holds()


@pytest.mark.parametrize("examples", EXAMPLES)
def test_any_range_of_a_reduction(examples: int) -> None:
    @drawn(examples)
    @given(x=rows(), dim=st.sampled_from((0, 1)))
    def holds(x: torch.Tensor, dim: int) -> None:
        check(lambda x: (x.abs().mean(dim), x.softmax(dim), x.abs().sum(dim)), x, ulps=64)
        if x.shape[dim] > 1:
            check(lambda x: (x.std(dim), x.var(dim)), x, ulps=64)

    holds()


@pytest.mark.parametrize("examples", EXAMPLES)
def test_any_number_as_a_truth_value(examples: int) -> None:
    @drawn(examples)
    @given(number=constants(), way=st.sampled_from(sorted(WAYS_IN)))
    def holds(number: float, way: str) -> None:
        expected = WAYS_IN[way](TRUTH, MASK, number).float()
        torch._dynamo.reset()
        found = torch.compile(lambda s, m: WAYS_IN[way](s, m, number).float(), backend="fpga", options=GREEDY)
        assert_each_close(found(TRUTH, MASK), expected, expected)

    holds()


@pytest.mark.parametrize("order", [2, 3, 0.5, -1, 0])
def test_the_norm_of_one_element_is_its_size(order: float) -> None:
    """Eager mode computes no power of it, which would be out of range."""
    x = torch.tensor([[-5e29], [2e-30], [0.0]])
    norm = compiled(lambda x: torch.linalg.vector_norm(x, order, dim=1))
    assert torch.equal(norm(x), torch.linalg.vector_norm(x, order, dim=1))
