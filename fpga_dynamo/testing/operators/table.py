"""The table of operators, what their operands may be, and helpers that several of them use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from fpga_dynamo.testing.builder import Builder

VOCABULARY = 11  # integer inputs hold numbers from 0 to VOCABULARY - 1

Suits = Callable[[torch.Tensor], bool]


@dataclass(frozen=True)
class Operator:
    """`build` draws operands and parameters and emits an instruction; `suits` says what its first operand may be."""

    name: str
    suits: Suits
    build: Callable[[Builder], None]


TABLE: list[Operator] = []

Build = Callable[[Builder, str, torch.Tensor], None]
"""Emits an instruction; it gets the name and a sample of the first operand."""


def operator(suits: Suits, weight: int = 1, *, first: Suits | None = None) -> Callable[[Build], Build]:
    """Adds a builder to the table, `weight` times, so that it is drawn that much more often.

    suits: what its first operand may be, or, if `first` says more, what a graph must have for the operator to be drawn.
    """

    def register(build: Build) -> Build:
        def with_first(b: Builder) -> None:
            build(b, *b.pick(first or suits))

        TABLE.extend([Operator(build.__name__.strip("_"), suits, with_first)] * weight)
        return build

    return register


# What operands may be.


def floating(t: torch.Tensor) -> bool:
    return t.is_floating_point()


def vector(t: torch.Tensor) -> bool:
    return t.is_floating_point() and t.dim() >= 1 and t.numel() > 0


def matrix(t: torch.Tensor) -> bool:
    return t.is_floating_point() and t.dim() >= 2 and t.numel() > 0


def batched_matrix(t: torch.Tensor) -> bool:
    return t.is_floating_point() and t.dim() == 3 and t.numel() > 0


def image(t: torch.Tensor) -> bool:
    return t.is_floating_point() and t.dim() == 4 and t.numel() > 0


def volume(t: torch.Tensor) -> bool:
    return t.is_floating_point() and t.dim() == 5 and t.numel() > 0


def wide_image(t: torch.Tensor) -> bool:
    return image(t) and t.shape[1] >= 16


def anything(t: torch.Tensor) -> bool:
    return t.dim() >= 1 and t.numel() > 0


def tokens(t: torch.Tensor) -> bool:
    return t.dtype == torch.int64 and t.numel() > 0 and int(t.min()) >= 0 and int(t.max()) < VOCABULARY


def as_index(token: str) -> str:
    """A token by its name, within the vocabulary for every seed: what was computed may be so for one seed only."""
    return token if token.startswith("x") else f"{token}.clamp(0, {VOCABULARY - 1})"


def integers(t: torch.Tensor) -> bool:
    return t.dtype in (torch.int64, torch.int32) and t.numel() > 0


def truth(t: torch.Tensor) -> bool:
    return t.dtype == torch.bool and t.numel() > 0


def broadcasts_with(shape: torch.Size) -> Suits:
    """Floating tensors that broadcast with `shape`."""

    def suits(t: torch.Tensor) -> bool:
        pairs = zip(reversed(shape), reversed(t.shape), strict=False)
        return floating(t) and all(m == n or 1 in (m, n) for m, n in pairs)

    return suits


# What parameters are drawn from.


def divisors(number: int) -> list[int]:
    """All divisors, in ascending order."""
    return [d for d in range(1, number + 1) if number % d == 0]
