"""Facts about an operator for lowering and for the eager parts of a program, whichever pattern matches it.

An :class:`Operator` is registered with the pattern of its family (``Pattern.operators``), in the operator's own file;
who asks here need not know that file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.fx import Node


class Tensors(Protocol):
    """Makes an operand of the dtype in question, or of a given one; a parameter counts as constant."""

    def __call__(self, *size: int, dtype: torch.dtype | None = None, parameter: bool = False) -> torch.Tensor: ...


Arguments = tuple[Sequence[Any], dict[str, Any]]
"""Positional and keyword arguments of a call."""

Call = Callable[[Tensors], Arguments]

Span = tuple[int, int]
Bounds = Callable[[Node, Callable[[Node], Span]], Span | None]


@dataclass(frozen=True)
class Operator:
    """Facts about one ATen operator (or one of a user's).

    call: what a typical call looks like, for docs/ops.md, where the schema does not tell; see tools/opset/probes.py.
    passes: eager takes, at least, so many times as long as to read and write the op's tensors once.
    steps: cycles of the core for a vector of results, where nothing is multiplied and added up (a ReLU: 1).
    images: positions of operands that eager mode's kernel takes row-major and channels-last alike.
    like: which of them the (first) result lies like; None if that does not follow from the operand alone.
    laid_out: gives, of the op's arguments, a tensor that lies like its (first) result in eager, where PyTorch does not
        call it pointwise and tracing predicts it by other rules; see lowering/tracing/strides.py.
    made_by_pattern: it is a view for eager that the card may have to copy: no view to the passes, but a value.
    bounds: (node, bounds of an operand) -> least and greatest integer of its result, None if its type alone says so.
    """

    call: Call | None = None
    passes: float = 1
    steps: int = 1
    images: tuple[int, ...] = ()
    like: int | None = None
    laid_out: Callable[..., torch.Tensor] | None = None
    made_by_pattern: bool = False
    bounds: Bounds | None = None


def first_of(op: Callable[..., Any]) -> Callable[..., Any]:
    """`laid_out` of an op that gives several tensors."""
    return lambda *args, **kwargs: op(*args, **kwargs)[0]


_PLAIN = Operator()
_known: Mapping[Any, Operator] = {}


def facts(target: Any) -> Operator:
    """What is known of a node's target; the defaults for one that nobody has said anything about."""
    return _known.get(target, _PLAIN)


def facts_among(operators: Mapping[Any, Operator], targets: Sequence[Any]) -> dict[Any, Operator]:
    """Those of `operators` that are among `targets`."""
    return {target: operators[target] for target in targets if target in operators}


def publish(operators: Mapping[Any, Operator]) -> None:
    """Makes `operators` all that :func:`facts` knows. The pattern table calls it when it changes."""
    global _known
    _known = dict(operators)
