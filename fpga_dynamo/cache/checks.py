"""What the parts of an entry may be: each number in its domain, each tensor as the graph has it."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import torch

from fpga_dynamo.cache.plain import CorruptError
from fpga_dynamo.ir.blocked import Blocked
from fpga_dynamo.ir.graph import value
from fpga_dynamo.ir.launch import Slot

MOST = (1 << 63) - 1
MOST_BEATS = 1 << 40
"""More than any card has: bytes of it fit 64 bits."""


def integer(given: Any, least: int = 0, most: int = MOST) -> int:
    """`given` if it is an integer from `least` to `most`, else :class:`CorruptError`."""
    if type(given) is not int or not least <= given <= most:
        raise CorruptError(f"not an integer from {least} to {most}: {given!r:.80}")
    return given


def number(given: Any) -> float:
    """`given` as a number of seconds or cycles."""
    if type(given) not in (int, float) or not 0 <= given < math.inf:
        raise CorruptError(f"not a number >= 0: {given!r:.80}")
    return float(given)


def text(given: Any) -> str:
    if type(given) is not str:
        raise CorruptError(f"not a text: {given!r:.80}")
    return given


def check_slot(slot: Slot) -> None:
    """Raises :class:`CorruptError` unless a slot is for its node's value, and dense."""
    known = value(slot.node)
    if not isinstance(known, torch.Tensor) or slot.dtype is not known.dtype or slot.shape != tuple(known.shape):
        raise CorruptError(f"a slot of {slot.node} whose dtype or shape differs from its node")
    if len(slot.strides) != len(slot.shape) or slot.numel != math.prod(slot.shape):
        raise CorruptError(f"a slot of {slot.node} whose sizes contradict each other")
    reach = 1
    for stride, size in sorted((stride, n) for stride, n in zip(slot.strides, slot.shape, strict=True) if n > 1):
        if slot.numel and stride != reach:
            raise CorruptError(f"a slot of {slot.node} that is not dense: strides {slot.strides} of {slot.shape}")
        reach = stride * size


def blocked_map(given: Any) -> Blocked:
    """A map of an engine, whose planes hold all of its pixels."""
    if not isinstance(given, tuple) or len(given) != len(fields(Blocked)):
        raise CorruptError(f"not a mapping: {given!r:.80}")
    images, pixels, channels, plane, dtype, side, filling, strides, offset, patch = given
    for item in (images, pixels, channels, plane, side):
        integer(item, 1, MOST_BEATS)
    if not isinstance(dtype, torch.dtype) or not isinstance(strides, tuple) or not isinstance(patch, tuple):
        raise CorruptError(f"not a mapping: {given!r:.80}")
    for item in (*strides, offset):
        integer(item)
    if len(patch) != 2 or type(filling) is not int:
        raise CorruptError(f"not a mapping: {given!r:.80}")
    for item in patch:
        integer(item, 1, MOST_BEATS)
    return Blocked(*given)
