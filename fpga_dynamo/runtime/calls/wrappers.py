"""When AOTAutograd's wrappers do nothing at run time, and when they do not do as eager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fpga_dynamo.ir.graph import hints
from fpga_dynamo.torch_internals.aot import OVERLAP, graph_facts
from fpga_dynamo.torch_internals.dispatch import autocast_active

MERGED = "it writes to inputs that share memory, and returns a view of such an input"
"""AOTAutograd makes such a view again of what all of them are parts of, as if that were the input."""


def why_not_replayed(example_inputs: Sequence[Any]) -> str | None:
    """What AOTAutograd has traced but does not do as eager at run time; None if there is no such thing.

    It computes a changed input in memory of its own and copies it back, element by element.
    """
    facts = graph_facts()
    if facts is None:
        return None
    changed: Sequence[bool] = facts.changed
    if len(changed) != len(example_inputs):  # some were merged: whichever it is
        if facts.shows_input:
            return MERGED
        changed = [any(changed)] * len(example_inputs)
    overlap = any(at and _may_overlap(given) for at, given in zip(changed, example_inputs, strict=True))
    return OVERLAP if overlap else None


def _may_overlap(given: Any) -> bool:
    """Whether two elements may lie at one place: where a stride is not beyond all that the smaller ones reach."""
    if not isinstance(given, torch.Tensor) or given.layout is not torch.strided:
        return False
    sizes, strides = hints(given.shape), hints(given.stride())
    if sizes is None or strides is None:
        return True
    reach = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += (size - 1) * stride
    return False


def do_nothing(example_inputs: Sequence[Any]) -> bool:
    """Whether calling what AOTAutograd has just made of a graph of Dynamo's is calling the compiled graph, no more.

    That is so without gradients, changed inputs, outputs that are inputs or views of them, tensor subclasses, effects,
    inputs that AOTAutograd merges, and autocast, which the wrappers switch off for what runs in eager.
    """
    facts = graph_facts()
    return (
        facts is not None
        and facts.plain
        and facts.inputs == len(example_inputs)
        and not facts.output_requires_grad
        and all(type(given) in (torch.Tensor, torch.nn.Parameter) for given in example_inputs)
        and not autocast_active()
    )
