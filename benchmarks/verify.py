"""No answer, no time: every contestant's outputs are compared with eager mode's before it is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

TOLERANCE = 1e-3
"""Largest error, as a share of the largest output, that float32 in another order of summation can explain."""


class WrongOutputError(Exception):
    """A contestant's answer is not eager mode's."""


@dataclass(frozen=True)
class Case:
    """An input and eager mode's output for it."""

    given: Tensor
    expected: Tensor


def cases(model: Callable[[Tensor], Tensor], example: Tensor, count: int = 2, seed: int = 1) -> list[Case]:
    """The example and further random inputs of its shape; with two, an output left from the call before is noticed."""
    generator = torch.Generator().manual_seed(seed)
    inputs = [example, *(torch.randn(example.shape, generator=generator) for _ in range(count - 1))]
    with torch.no_grad():
        return [Case(x, model(x).clone()) for x in inputs]


def check(call: Callable[[Tensor], Tensor], wanted: Sequence[Case], tolerance: float = TOLERANCE) -> float:
    """The largest error over all cases, as a share of the largest output.

    Raises WrongOutputError if it is above the tolerance or the output has another shape or is not finite.
    """
    worst = 0.0
    for case in wanted:
        poison(case.expected)
        got = call(case.given)
        if got.shape != case.expected.shape:
            raise WrongOutputError(f"shape {tuple(got.shape)} and not {tuple(case.expected.shape)}")
        if not bool(torch.isfinite(got).all()):
            raise WrongOutputError("the output is not finite")
        scale = float(case.expected.abs().max()) or 1.0
        worst = max(worst, float((got.double() - case.expected.double()).abs().max()) / scale)
    if worst > tolerance:
        raise WrongOutputError(f"error {worst:.1e} of the largest output, above {tolerance:.0e}")
    return worst


def poison(like: Tensor) -> None:
    """Leaves NaN in freed memory of the tensor's size: what a contestant does not write is likely to be that."""
    kept = [torch.full_like(like, float("nan")) for _ in range(4)]
    del kept
