"""Integers and truth values on the card: int32 arithmetic that wraps as eager mode's, and int64 only where it fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from fpga_dynamo.lowering.ops.elementwise.elementwise import ANCHORS
from fpga_dynamo.lowering.ops.elementwise.integers import INTEGER_RULES
from tests.lowering.lowering_cases import GREEDY, Case, check, programs_of

DTYPES = (torch.int64, torch.int32, torch.int8, torch.uint8)
EDGES = [
    0,
    1,
    -1,
    2,
    -2,
    7,
    -7,
    100,
    -100,
    (1 << 24) + 1,
    -(1 << 24) - 1,
    1 << 30,
    0x7F800001,
    (1 << 31) - 1,
    -(1 << 31),
]

WRAPPING: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "add scaled": lambda x, y: torch.add(x, y, alpha=3),
    "sub": lambda x, y: x - y,
    "rsub": lambda x, y: 3 - x,
    "mul": lambda x, y: x * y,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "left shift": lambda x, y: torch.bitwise_left_shift(x, 3),
    "several": lambda x, y: (x + 3) * 5 - y,
}
"""What may pass the largest integer."""

WITHIN: dict[str, Callable[..., Any]] = {
    "min": torch.minimum,
    "max": torch.maximum,
    "clamp": lambda x, y: x.clamp(3, 90),
    "clamp min": lambda x, y: x.clamp(min=3),
    "relu": lambda x, y: torch.relu(x),
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != 7,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > 7,
    "ge": lambda x, y: x >= y,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ 5,
    "not": lambda x, y: ~x,
    "right shift": lambda x, y: torch.bitwise_right_shift(x, 2),
    "floor divide": lambda x, y: x // 7,
    "div floor": lambda x, y: torch.div(x, 3, rounding_mode="floor"),
    "remainder": lambda x, y: x % 7,
    "where": lambda x, y: torch.where(x > y, x, y),
    "masked_fill": lambda x, y: x.masked_fill(x < 3, 5),
    "counts": lambda x, y: ((x == y).long() + (x > y).long()) * 3 - 1,
    "logic": lambda x, y: torch.logical_and(x, y) ^ torch.logical_not(x),
    "compared with a fraction": lambda x, y: x > 2.5,
    "to bool": lambda x, y: x.bool(),
    "to float": lambda x, y: x.float(),
    "to half": lambda x, y: x.bfloat16(),
    "to int8": lambda x, y: x.to(torch.int8) + 1,
    "to uint8": lambda x, y: x.to(torch.uint8) + 1,
    "to int32": lambda x, y: x.to(torch.int32) + 1,
    "true division": lambda x, y: x / 3,
    "times a number": lambda x, y: x * 0.5,
}


def every_pair(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    edges = torch.tensor(EDGES).to(dtype)
    return edges.repeat_interleave(len(edges)), edges.repeat(len(edges))


def assert_on_card(function: Callable[..., Any], *inputs: torch.Tensor) -> None:
    torch._dynamo.reset()
    with torch.no_grad():
        mine = torch.compile(function, backend="fpga", options={**GREEDY, "strict": True})(*inputs)
        eager = function(*inputs)
    torch.testing.assert_close(mine, eager, rtol=0, atol=0)


@pytest.mark.parametrize("name", WITHIN)
def test_integers_are_as_in_eager(name: str) -> None:
    def all_types(*inputs: torch.Tensor) -> list[Any]:
        return [WITHIN[name](*inputs[i : i + 2]) for i in range(0, len(inputs), 2)]

    assert_on_card(all_types, *(x for dtype in DTYPES for x in every_pair(dtype)))


@pytest.mark.parametrize("name", WRAPPING)
def test_integers_wrap_as_in_eager(name: str) -> None:
    def all_types(*inputs: torch.Tensor) -> list[Any]:
        return [WRAPPING[name](*inputs[i : i + 2]) for i in range(0, len(inputs), 2)]

    assert_on_card(all_types, *(x for dtype in DTYPES[1:] for x in every_pair(dtype)))


@pytest.mark.parametrize("name", WRAPPING)
def test_int64_beyond_int32_is_left_to_eager(name: str) -> None:
    x, y = every_pair(torch.int64)
    programs = programs_of(WRAPPING[name], x, y)
    assert any("overflow int32" in why for program in programs for why in program.reasons.values())
    compiled = torch.compile(WRAPPING[name], backend="fpga", options=GREEDY)
    torch.testing.assert_close(compiled(x, y), WRAPPING[name](x, y), rtol=0, atol=0)


def test_every_integer_op_is_an_anchor() -> None:
    assert set(INTEGER_RULES) <= set(ANCHORS)
    assert all(callable(rule) for rule in INTEGER_RULES.values())


PS: dict[str, Any] = {"offload": 0.0, "launches": 0}
COUNTED = torch.arange(-5, 5)
IMAGE = torch.randint(0, 256, (2, 3, 9, 7), dtype=torch.uint8)
SIGNED = torch.randint(-128, 128, (5, 33), dtype=torch.int8)


def truths(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a, b = x > 0, y > 0
    return (a + b).float() - (a * b).float() + (a ^ b)


def beyond(x: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
    """Each op reads a constant that int32 cannot hold, written or computed."""
    return [
        torch.where(mask, x, 1 << 40),
        torch.where(mask, x, torch.tensor(-(1 << 40))),
        torch.maximum(x, torch.arange(x.shape[1]) * (1 << 30)),
        torch.cat([x, torch.full((1, x.shape[1]), 1 << 31)]),
        torch.masked.amax(x, 1, mask=mask),
    ]


CASES = {
    "a division by a tensor": Case(lambda x: x // x, torch.arange(1, 6), why="by positive constants only", **PS),
    "a quotient toward zero": Case(
        lambda x: torch.div(x, 3, rounding_mode="trunc"), COUNTED, why="with truncation", **PS
    ),
    "a number beyond int32": Case(lambda x: x > 1 << 40, COUNTED, why="not an integer, or is out of range", **PS),
    "a constant beyond int32": Case(
        beyond,
        COUNTED.view(2, 5),
        COUNTED.view(2, 5) > 3,
        why="out of range|this core supports|a constant: made in eager mode",
        **PS,
    ),
    "any": Case(lambda x: ((x > 2).any(), (x > 0).any(1), (x > 9).any((0, 1))), (4, 18)),
    "all": Case(lambda x: ((x > -9).all(), (x > 0).all(0, keepdim=True)), (4, 18)),
    "count": Case(lambda x: ((x > 0).sum(), (x > 0).sum(1)), (4, 18)),
    "truth values": Case(truths, (5, 18), (5, 18)),
    "an image of bytes": Case(lambda x: (x.float() / 255 - 0.45) / 0.22, IMAGE),
    "bytes moved": Case(lambda x: torch.cat([x, x.flip(1)], 0).transpose(0, 1), SIGNED),
    "bytes padded": Case(lambda x: F.pad(x, (1, 2), value=255), IMAGE),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    check(CASES[name])


def test_a_buffer_beyond_int32_is_right() -> None:
    big = torch.tensor([1 << 40, 3, 1 << 31])
    compiled = torch.compile(lambda x, big: torch.where(x > 0, big, x), backend="fpga", options=GREEDY)

    class Chosen(torch.nn.Module):
        big: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("big", big)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(x > 0, self.big, x)

    x = torch.tensor([1, -1, 2])
    model = Chosen()
    for function in (torch.compile(model, backend="fpga", options=GREEDY), lambda x: compiled(x, big)):
        with torch.no_grad():
            torch.testing.assert_close(function(x), model(x), rtol=0, atol=0)


def test_bytes_cross_to_the_card_as_bytes() -> None:
    (program,) = programs_of(lambda x: x.float() / 255, torch.zeros(1, 3, 16, 16, dtype=torch.uint8))
    (task,) = program.card_tasks
    assert [slot.nbytes for slot in task.inputs] == [768]
