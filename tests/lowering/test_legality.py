"""What eager mode refuses, a compiled call refuses too, with an exception of the same type."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
import torch
import torch.nn.functional as F
from hypothesis import strategies as st

from tests.backend.backend_kit import GREEDY, counting, on_card
from tests.marks import EXTENDED

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]


def error(run: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> Exception | None:
    with torch.no_grad():
        try:
            run(*(given.clone() for given in inputs))
        except Exception as raised:
            return raised
    return None


def assert_refused_alike(function: Callable[..., Any], *inputs: torch.Tensor) -> None:
    """Dynamo itself refuses some calls before a backend gets them, with an exception of its own."""
    expected = error(function, inputs)
    assert expected is not None, "eager mode refuses the call"
    torch._dynamo.reset()
    found = error(on_card(function), inputs)
    assert found is not None, f"eager mode: {expected}"
    if not isinstance(found, type(expected)):
        torch._dynamo.reset()
        traced = error(torch.compile(function, backend="eager"), inputs)
        assert type(found) is type(traced), f"{found!r} instead of {expected!r}"


@pytest.mark.parametrize("dim", [2, -3])
@pytest.mark.parametrize("function", [torch.softmax, F.softmin, torch.log_softmax], ids=["max", "min", "log"])
def test_softmax_over_a_dimension_that_does_not_exist(function: Any, dim: int) -> None:
    assert_refused_alike(lambda x: function(x, dim), torch.ones(1, 2))


PRODUCTS: dict[str, Case] = {
    "matmul": (torch.matmul, (torch.ones(4, 5), torch.ones(5, 6))),
    "mm": (torch.mm, (torch.ones(4, 5), torch.ones(5, 6))),
    "mv": (torch.mv, (torch.ones(4, 5), torch.ones(5))),
    "linear": (F.linear, (torch.ones(4, 5), torch.ones(6, 5))),
    "linear with bias": (F.linear, (torch.ones(4, 5), torch.ones(6, 5), torch.ones(6))),
    "addmm": (torch.addmm, (torch.ones(4, 6), torch.ones(4, 5), torch.ones(5, 6))),
}


@pytest.mark.parametrize("dtype", [torch.float16, pytest.param(torch.bfloat16, marks=EXTENDED)])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_different_dtypes(name: str, dtype: torch.dtype) -> None:
    function, operands = PRODUCTS[name]
    for other in range(len(operands)):
        narrow = [operand.to(dtype) if i == other else operand for i, operand in enumerate(operands)]
        assert_refused_alike(function, *narrow)


@pytest.mark.parametrize("shape", [(1, 1, 6), (1, 4, 6)])
def test_a_bias_of_three_dimensions(shape: tuple[int, ...]) -> None:
    assert_refused_alike(F.linear, torch.ones(4, 5), torch.ones(6, 5), torch.ones(shape))
    assert_refused_alike(lambda x, w, b: torch.relu(torch.addmm(b, x, w)), *map(torch.ones, ((4, 5), (5, 6), shape)))


def test_an_output_padding_that_is_not_smaller_than_the_stride() -> None:
    x, w = torch.ones(1, 4, 5, 5), torch.ones(4, 4, 3, 3)
    assert_refused_alike(lambda x, w: F.conv_transpose2d(x, w, output_padding=1), x, w)


NARROW_OPERANDS: dict[str, Case] = {
    "a bias of a transposed convolution": (
        F.conv_transpose1d,
        (torch.ones(2, 3, 8), torch.ones(3, 4, 3), torch.ones(4).half()),
    ),
    "a filling number of float16": (lambda x: F.pad(x, (1, 1), value=1e6), (torch.ones(3).half(),)),
    "a scattered number of bfloat16": (
        lambda x, i: x.scatter(1, i, 3.4e38),
        (torch.ones(3, 4).bfloat16(), torch.zeros(3, 1, dtype=torch.int64)),
    ),
    "averages of volumes": (lambda x: F.avg_pool3d(x, 2), (torch.ones(1, 2, 4, 4, 4).half(),)),
    "patches of int8": (lambda x: F.unfold(x, 2), (torch.ones(1, 2, 4, 4).to(torch.int8),)),
    "reflected bools": (lambda x: F.pad(x, (1, 1), mode="reflect"), (torch.ones(1, 2, 4).bool(),)),
}


@pytest.mark.parametrize("name", NARROW_OPERANDS)
def test_operands_that_no_kernel_accepts(name: str) -> None:
    assert_refused_alike(NARROW_OPERANDS[name][0], *NARROW_OPERANDS[name][1])


@pytest.mark.parametrize(
    ("number", "dtype"), [(1e6, torch.float16), (math.nan, torch.int64), (-1.0, torch.uint8), (2**40, torch.int32)]
)
@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=EXTENDED)])
def test_a_number_of_a_tensor_that_does_not_fit(number: float, dtype: torch.dtype, dynamic: bool) -> None:
    x, mask, value = torch.ones(3, dtype=dtype), torch.tensor([True, False, True]), torch.tensor(number)
    with pytest.raises(RuntimeError, match="without overflow"):
        x.masked_fill(mask, value)
    compiled = torch.compile(torch.masked_fill, backend="fpga", options=GREEDY, dynamic=dynamic)
    with pytest.raises(RuntimeError, match="without overflow"):
        compiled(x, mask, value)
    assert torch.equal(compiled(x, mask, torch.tensor(5, dtype=value.dtype)), x.masked_fill(mask, 5))


def test_indices_of_two_dimensions() -> None:
    assert_refused_alike(lambda x, i: x.index_select(0, i), torch.ones(3, 4), torch.zeros(1, 2, dtype=torch.int64))


@pytest.mark.parametrize("index", [-1, 4])
def test_a_number_scattered_out_of_range(index: int) -> None:
    assert_refused_alike(lambda x, i: x.scatter(1, i, 1.0), torch.ones(3, 4), torch.full((3, 1), index))


def test_images_without_pixels() -> None:
    x = torch.ones(1, 2, 6, 6)
    for mode in ("nearest", "bilinear"):
        torch._dynamo.reset()
        with pytest.raises(RuntimeError, match="greater than 0"):
            on_card(lambda x, mode=mode: F.interpolate(x, scale_factor=0.1, mode=mode))(x)


NUMBERS: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "clamp to at most": lambda x, v: x.clamp(max=v),
    "clamp to at least": lambda x, v: x.clamp(min=v),
    "masked_fill": lambda x, v: x.masked_fill(x > 0, v),
    "hardtanh": lambda x, v: F.hardtanh(x, -1.0, v),
    "leaky_relu": lambda x, v: F.leaky_relu(x, v),
    "elu": lambda x, v: F.elu(x, v),
    "softplus": lambda x, v: F.softplus(x, v),
    "threshold": lambda x, v: F.threshold(x, 0.0, v),
    "add with a factor": lambda x, v: torch.add(x, x, alpha=v),
    "addcmul": lambda x, v: torch.addcmul(x, x, x, value=v),
    "rsub with a factor": lambda x, v: torch.rsub(x, x, alpha=v),
    "softshrink": lambda x, v: F.softshrink(x, v),
    "remainder": lambda x, v: x % v,
    "fmod": lambda x, v: x.fmod(v),
    "multiply": lambda x, v: x * v,
    "where": lambda x, v: torch.where(x > 0, x, v),
    "pad": lambda x, v: F.pad(x, (1, 1), value=v),
    "power": lambda x, v: x**v,
    "compare": lambda x, v: x < v,
    "lerp": lambda x, v: torch.lerp(x, x, v),
    "addmm": lambda x, v: torch.addmm(x, x.expand(3, 3), x.expand(3, 3), alpha=v),
    "nan_to_num": lambda x, v: x.nan_to_num(v),
    "celu": lambda x, v: F.celu(x, v),
}


OFTEN = ("clamp to at most", "masked_fill", "leaky_relu", "addcmul", "rsub with a factor", "pad", "addmm")
"""Those that `make test` tries."""


def with_number(function: Callable[[torch.Tensor, Any], Any], number: Any) -> Callable[[torch.Tensor], Any]:
    return lambda x: function(x, number)


@pytest.mark.parametrize("name", [name if name in OFTEN else pytest.param(name, marks=EXTENDED) for name in NUMBERS])
def test_numbers_beyond_float32(name: str) -> None:
    """Refused where eager mode refuses them; elsewhere the value of eager mode."""
    for number in (4e39, -1e300):
        call, x = with_number(NUMBERS[name], number), torch.ones(3)
        if error(call, (x,)) is not None:
            assert_refused_alike(call, x)
        else:
            torch._dynamo.reset()
            torch.testing.assert_close(on_card(call)(x), call(x), equal_nan=True)


CONSTANTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "full": lambda x: torch.full((3,), 1e39) * x,
    "where": lambda x: torch.where(x > 0, 1e39, 0.0) + x,
    "full of float16": lambda x: torch.full((3,), 1e6, dtype=torch.float16) + x,
    "full as an operand of a product": lambda x: torch.full((2, 3), -1e300) @ x,
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_that_eager_mode_refuses_to_make(name: str) -> None:
    """An operator of constants runs when parameters are packed; its exception is the user's, not an internal error."""
    with counting() as grown:
        assert_refused_alike(CONSTANTS[name], torch.ones(3))
    assert not grown["internal_errors"]


REDUCTIONS: list[Any] = [torch.sum, torch.mean, torch.amax, torch.argmax, torch.logsumexp, torch.std, torch.softmax]
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
WIDE = [1.0, 300, 7e4, 4e39, -1e300, 2**40, -1, 2**64]


@st.composite
def calls(draw: st.DrawFn) -> Case:
    """A call that is legal or not: dimensions, dtypes, ranks and numbers at random."""
    kind = draw(st.sampled_from(["reduction", "product", "number", "bias", "convolution", "pooling"]))
    if kind == "reduction":
        reduce, dim = draw(st.sampled_from(REDUCTIONS)), draw(st.integers(-4, 3))
        shape = draw(st.lists(st.integers(0, 3), max_size=3))
        return (lambda x: reduce(x, dim)), (torch.ones(shape, dtype=draw(st.sampled_from([*FLOATS, torch.int64]))),)
    if kind == "product":
        function, operands = PRODUCTS[draw(st.sampled_from(sorted(PRODUCTS)))]
        return function, tuple(operand.to(draw(st.sampled_from(FLOATS))) for operand in operands)
    if kind == "number":
        function, number = NUMBERS[draw(st.sampled_from(sorted(NUMBERS)))], draw(st.sampled_from(WIDE))
        dtype = draw(st.sampled_from([*FLOATS, torch.int32, torch.int64, torch.int8, torch.uint8]))
        return with_number(function, number), (torch.ones(3, dtype=dtype),)
    if kind == "bias":
        shape = draw(st.lists(st.sampled_from([1, 4, 6]), max_size=3))
        return F.linear, (torch.ones(4, 5), torch.ones(6, 5), torch.ones(shape))
    image = torch.ones(1, 4, draw(st.integers(1, 5)), 5)
    stride, padding, size = draw(st.integers(0, 2)), draw(st.integers(-1, 2)), draw(st.integers(1, 6))
    if kind == "pooling":
        pool: Any = draw(st.sampled_from([F.max_pool2d, F.avg_pool2d]))
        return (lambda x: pool(x, size, stride, padding)), (image,)
    groups, extra, weight = draw(st.integers(0, 3)), draw(st.integers(-1, 2)), torch.ones(4, 2, size, 3)
    if draw(st.booleans()):
        return (lambda x, w: F.conv_transpose2d(x, w, None, stride, padding, extra, groups)), (image, weight)
    return (lambda x, w: F.conv2d(x, w, None, stride, padding, 1, groups)), (image, weight)


def check(case: Case) -> None:
    function, inputs = case
    if error(function, inputs) is not None:
        assert_refused_alike(function, *inputs)


@hypothesis.settings(max_examples=25, deadline=None, derandomize=True)
@hypothesis.given(calls())
def test_calls_that_eager_mode_refuses(case: Case) -> None:
    check(case)


@pytest.mark.slow
@pytest.mark.extended
@hypothesis.settings(max_examples=1000, deadline=None, derandomize=True)
@hypothesis.given(calls())
def test_many_calls_that_eager_mode_refuses(case: Case) -> None:
    check(case)
