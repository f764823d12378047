"""Operands that several images of a map share, such as a bias that is the same for all sequences of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True)
class Repetition:
    """The images of a map as outer and inner ones, `heads`, and those of an operand that go with them.

    step: images of the operand from one outer image of the map to the next, and from one inner image; 0 or 1, never 1
    and 1. images: of the operand.
    """

    heads: tuple[int, int]
    step: tuple[int, int]
    images: int


def repetition(images: Sequence[int], own: Sequence[int]) -> Repetition | None:
    """How an operand of `own` images is broadcast to a map's, both as the sizes of dimensions.

    None if that takes more than two steps.
    """
    own = (*(1,) * (len(images) - len(own)), *own)
    runs: list[tuple[bool, int]] = []
    for size, count in zip(images, own, strict=True):
        if size == 1:
            continue
        repeats = count == 1
        if runs and runs[-1][0] == repeats:
            runs[-1] = repeats, runs[-1][1] * size
        else:
            runs.append((repeats, size))
    if len(runs) > 2:
        return None
    (_, outer), (_, inner) = two = [*[(True, 1)] * (2 - len(runs)), *runs]
    return Repetition((outer, inner), (int(not two[0][0]), int(not two[1][0])), prod(own))
