"""Host work that depends on sizes alone: values that the run-time library makes once for each set of sizes.

Element i of such a value is ``first + i * step`` (integers), or the same bits for all elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.ir.graph import aten, value
from fpga_dynamo.ir.sizes.size import Number, Size

_FILLS = {aten.zeros.default: 0, aten.ones.default: 1}
_INTEGERS = (torch.int64, torch.int32)


@dataclass(frozen=True)
class Sequence:
    """first, first + step, ... as integers of the value's dtype."""

    first: Number
    step: Number


@dataclass(frozen=True)
class Fill:
    """All elements alike. bits: of one, in the value's dtype."""

    bits: int


def generated(node: Node) -> Sequence | Fill | None:
    """How the value of `node` is made from sizes alone; None if it is not, or in a way that is not supported."""
    fake = value(node)
    if node.op != "call_function" or not isinstance(fake, torch.Tensor):
        return None
    args: tuple[Any, ...] = node.args
    dtype = fake.dtype
    if node.target in (aten.arange.default, aten.arange.start, aten.arange.start_step) and dtype in _INTEGERS:
        first, step = (args[0] if len(args) > 1 else 0), (args[2] if len(args) > 2 else 1)
        return Sequence(first, step) if _is_number(first) and _is_number(step) else None
    if node.target in _FILLS:
        return Fill(_bits(_FILLS[node.target], dtype))
    if node.target is aten.full.default and type(args[1]) in (bool, int, float):
        return Fill(_bits(args[1], dtype))
    return None


def _is_number(given: Any) -> bool:
    return type(given) is int or isinstance(given, Size)


def _bits(number: Any, dtype: torch.dtype) -> int:
    return int.from_bytes(torch.tensor([number], dtype=dtype).view(torch.uint8).numpy().tobytes(), "little")
