"""How elements of each dtype lie on the card, and in the slots where tensors cross between host and card.

In the arena every element has a word of 32 bits: floating-point values are floats, bool is 0.0 or 1.0, integers are an
int32. A slot of a narrow type holds elements in the host format; the core ``convert`` widens what comes in and narrows
what goes out. A complex number has two words, its real part first, as on the host; the cores `fft` and `zip` compute
with them.

A float16 or bfloat16 value may lie in the arena as a float that is not rounded yet: the MAC array and the other cores
that accumulate give such. :class:`fpga_dynamo.ir.view.View` says so by its dtype, float32. It is rounded where
rounding shows: before element-wise work and casts, before positions of extrema are looked for, and in slots.
"""

from __future__ import annotations

import torch

from fpga_dynamo.ir.elements import BF16, C64, F16, F32, I8, I32, U8, Element

HALVES = {element.dtype: element for element in (BF16, F16)}
"""Floating-point types of 16 bits."""

BYTES = {element.dtype: element for element in (U8, I8)}
"""8-bit integers."""

NARROW = {**HALVES, **BYTES}
"""Types whose elements are narrower on the wire than in the arena."""

UNCHANGED = frozenset({torch.float32, torch.int32, torch.complex64, *NARROW})
"""Types whose tensors are transferred in the host format."""

FLOATS = frozenset({torch.float32, *HALVES})
"""Types of floating-point values; the cores compute with them in float32."""

INTEGERS = frozenset({torch.int64, torch.int32, *BYTES})
"""Types of integers; the cores compute with them in int32."""


class OutOfRangeError(ValueError):
    """An integer that int32 cannot hold; the partition has to run in eager."""


def stored(number: float, dtype: torch.dtype) -> float:
    """A number as an element of `dtype` on the card: a truth value is 0.0 or 1.0, and what is not zero is true."""
    if dtype is torch.bool:
        return float(bool(number))
    if dtype in INTEGERS:
        return int(number)
    return torch.tensor(number).to(dtype).item() if dtype in HALVES else float(number)


def slot_element(dtype: torch.dtype) -> Element:
    """What the elements of a slot are."""
    if dtype is torch.complex64:
        return C64
    return NARROW.get(dtype) or (I32 if dtype in INTEGERS else F32)


def slot_bytes(dtype: torch.dtype) -> int:
    """Bytes of an element of a slot."""
    return slot_element(dtype).bytes


def span_of(dtype: torch.dtype) -> tuple[int, int]:
    """The least and the largest integer of a type, or truth value, that the arena holds."""
    if dtype is torch.bool:
        return 0, 1
    limits = torch.iinfo(dtype if dtype in BYTES else torch.int32)
    return limits.min, limits.max


def to_int32(tensor: torch.Tensor) -> torch.Tensor:
    """Integers as the arena holds them. Raises :class:`OutOfRangeError` for one that int32 cannot hold."""
    narrow = tensor.to(torch.int32)
    if tensor.dtype is torch.int64 and not torch.equal(narrow.to(torch.int64), tensor):
        raise OutOfRangeError("an integer is out of range for int32, the device's integer type")
    return narrow
