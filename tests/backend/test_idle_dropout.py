"""A dropout that drops nothing gives its operand, as in eager: the same memory, in the same strides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.backend.backend_kit import assert_same_answer, on_card

IDLE: dict[str, Callable[[Tensor], Tensor]] = {
    "evaluation": lambda x: F.dropout(x, 0.5, training=False),
    "a module in evaluation": nn.Dropout(0.5).eval(),
    "in place": lambda x: F.dropout(x, 0.5, False, True),
    "without a name": lambda x: torch.dropout(x, 0.5, False),
    "by name": lambda x: torch.dropout(input=x, p=0.5, train=False),
    "nothing to drop": lambda x: F.dropout(x, p=0.0),
}


@pytest.mark.parametrize("name", IDLE)
def test_it_is_its_operand(name: str) -> None:
    idle = IDLE[name]

    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        return idle(x), idle(torch.tanh(x)[:, 1]) + 1

    assert_same_answer(on_card(model), model, torch.randn(3, 4, 5).transpose(0, 2))


@pytest.mark.parametrize("name", IDLE)
def test_what_is_written_to_it_is_written_to_its_operand(name: str) -> None:
    idle = IDLE[name]

    def model(x: Tensor) -> Tensor:
        y = x * 2
        idle(y).add_(1.0)
        idle(x).mul_(3.0)
        return y

    assert_same_answer(on_card(model), model, torch.randn(4, 5))


def test_it_is_so_within_a_branch() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda y: F.dropout(y, 0.5, False) * 2, lambda y: y - 1, (x,))

    for x in (torch.ones(3), -torch.ones(3)):
        assert_same_answer(on_card(model), model, x)


def test_one_that_drops_does_so_from_eager_s_random_numbers() -> None:
    x, answers = torch.ones(1000), []
    for run in (F.dropout, on_card(lambda x: F.dropout(x))):
        torch.manual_seed(0)
        answers.append(run(x))
    assert torch.equal(*answers) and 300 < int((answers[0] == 0).sum()) < 700


def test_a_probability_that_is_none_is_eager_s_error() -> None:
    with pytest.raises(Exception, match="has to be between 0 and 1"):
        on_card(lambda x: F.dropout(x, 2.0, False))(torch.ones(3))
