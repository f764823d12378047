"""Sizes: what arithmetic gives, what is known of it, which decisions are guarded, and what is generated from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._sympy.functions import FloorDiv

from fpga_dynamo.ir.sizes.code import checker, evaluator
from fpga_dynamo.ir.sizes.convert import from_sympy, to_sympy
from fpga_dynamo.ir.sizes.size import Size, SizeError, identical, larger, smaller, value
from fpga_dynamo.ir.sizes.symbols import Symbols
from fpga_dynamo.ir.sizes.tensor import SizedTensor
from fpga_dynamo.ir.view import align, dense


def two(a: int = 6, b: int = 35) -> tuple[Symbols, Any, Any]:
    symbols = Symbols()
    return symbols, symbols.symbol("a", a, 2), symbols.symbol("b", b, 2)


def own_guards(symbols: Symbols) -> list[str]:
    """All but those that say what a symbol is at least."""
    return [str(guard) for guard in symbols.guards.values()][len(symbols.names) :]


_LEAVES = st.one_of(st.integers(-40, 40), st.sampled_from(["a", "b"]))
_BINARY = ("+", "-", "*", "//", "%", "max", "min")


def _trees() -> st.SearchStrategy[Any]:
    return st.recursive(_LEAVES, lambda t: st.tuples(st.sampled_from(_BINARY), t, t), max_leaves=8)


def _apply(tree: Any, names: dict[str, Any], big: Callable[..., Any], small: Callable[..., Any]) -> Any:
    if isinstance(tree, str):
        return names[tree]
    if isinstance(tree, int):
        return tree
    operation, *operands = tree
    x, y = (_apply(operand, names, big, small) for operand in operands)
    if operation in ("//", "%") and y == 0:
        return x
    rules = {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "//": lambda: x // y, "%": lambda: x % y}
    return big(x, y) if operation == "max" else small(x, y) if operation == "min" else rules[operation]()


@settings(max_examples=100, deadline=None)
@given(_trees(), st.tuples(st.integers(2, 70), st.integers(2, 70)), st.tuples(st.integers(2, 70), st.integers(2, 70)))
def test_arithmetic_is_that_of_ints_wherever_the_guards_hold(
    tree: Any, here: tuple[int, int], there: tuple[int, int]
) -> None:
    symbols, a, b = two(*here)
    size = _apply(tree, {"a": a, "b": b}, larger, smaller)
    assert value(size) == _apply(tree, dict(zip("ab", here, strict=True)), max, min)
    holds = checker(symbols, list(symbols.guards.values()))
    assert holds(*here) == -1
    if not isinstance(size, Size) or holds(*there) != -1:
        return
    (found,) = evaluator(symbols, [size])(*there)
    assert found == _apply(tree, dict(zip("ab", there, strict=True)), max, min)


@settings(max_examples=100, deadline=None)
@given(
    _trees(), _trees(), st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), st.lists(st.integers(2, 70), min_size=4)
)
def test_a_decision_is_the_same_wherever_the_guards_hold(
    left: Any, right: Any, relation: str, sizes: list[int]
) -> None:
    compare: dict[str, Callable[[Any, Any], bool]] = {
        "<": lambda x, y: x < y, "<=": lambda x, y: x <= y, "==": lambda x, y: x == y,
        "!=": lambda x, y: x != y, ">": lambda x, y: x > y, ">=": lambda x, y: x >= y,
    }  # fmt: skip
    here, there = sizes[:2], sizes[2:4]
    symbols, a, b = two(*here)
    decided = compare[relation](*(_apply(t, {"a": a, "b": b}, larger, smaller) for t in (left, right)))
    for numbers in (here, there):
        if checker(symbols, list(symbols.guards.values()))(*numbers) == -1:
            plain = dict(zip("ab", numbers, strict=True))
            assert decided == compare[relation](*(_apply(t, plain, max, min) for t in (left, right)))


def test_what_is_known_for_all_sizes_needs_no_guard() -> None:
    symbols, a, b = two()
    assert a * 16 > 0 and a != 1 and a * b >= b and a * 8 != 0 and a * b * 3 > b
    assert (a * 48) % 16 == 0 and a * b // b == a and identical(align(a * 32), a * 32)
    assert dense((a, b, 4)) == (b * 4, 4, 1)
    assert not own_guards(symbols)


def test_a_decision_by_the_hint_is_guarded() -> None:
    symbols, a, b = two()
    assert b >= 16 and not a >= 16 and a * 4 != b and b % 16 != 0
    assert len(own_guards(symbols)) == 4
    assert checker(symbols, list(symbols.guards.values()))(6, 35) == -1
    assert checker(symbols, list(symbols.guards.values()))(6, 15) >= 0


@pytest.mark.parametrize("use", [int, float, range, lambda n: [0] * n, lambda n: n * 0.5, math.sqrt, lambda n: 1 / n])
def test_what_arithmetic_cannot_keep_pins_the_size(use: Callable[[Any], Any]) -> None:
    symbols, a, _ = two()
    result = use(a)
    assert result == use(6)
    assert own_guards(symbols) == ["a - 6 == 0"]


def test_a_ratio_that_is_the_same_for_all_sizes_is_a_number() -> None:
    symbols, a, _ = two()
    assert a / (a * 2) == 0.5 and (a * 3) / a == 3.0
    assert not own_guards(symbols)


def test_nothing_is_decided_once_lowering_is_over() -> None:
    symbols, a, _ = two()
    symbols.open = False
    with pytest.raises(SizeError, match="lowering is over"):
        int(a)


def test_to_and_from_sympy() -> None:
    _, a, b = two()
    names = {"a": a, "b": b}
    s, t = sympy.Symbol("a", integer=True, positive=True), sympy.Symbol("b", integer=True, positive=True)
    assert identical(from_sympy(3 * s * t + t**2 - 4, names), 3 * a * b + b * b - 4)
    assert identical(from_sympy(FloorDiv(t + 1, 2), names), (b + 1) // 2)
    assert identical(from_sympy(sympy.Max(s, t), names), larger(a, b)) or identical(
        from_sympy(sympy.Max(s, t), names), larger(b, a)
    )
    assert to_sympy(a * b * 2 - 1) == 2 * s * t - 1
    assert to_sympy(align(b)) == 16 * sympy.ceiling(t / 16)
    with pytest.raises(SizeError, match="no expression that sizes can have"):
        from_sympy(sympy.sin(s), names)
    with pytest.raises(SizeError, match="no argument of the call gives the size c"):
        from_sympy(sympy.Symbol("c"), names)


def test_a_tensor_of_sizes_answers_nothing_from_the_sizes_of_one_call() -> None:
    _, a, b = two()
    tensor = SizedTensor(torch.empty(6, 35, dtype=torch.int64), (a, b), (b, 1), 0)
    assert tensor.shape == (a, b) and tensor.stride() == (b, 1) and identical(tensor.numel(), a * b)
    assert tensor.dim() == 2 and tensor.dtype is torch.int64 and tensor.element_size() == 8
    assert tensor.device.type == "cpu" and tensor.is_contiguous() and isinstance(tensor, torch.Tensor)
    for use in (lambda t: t + 1, lambda t: t.nbytes, lambda t: t.is_pinned(), lambda t: torch.numel(t), len):
        with pytest.raises(SizeError, match="not known for all sizes"):
            use(tensor)
