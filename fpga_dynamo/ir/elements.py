"""What the elements of a buffer are: how wide they lie on the card, and what command.hpp calls them.

Buffers begin at a beat of the memory bank and end with one; within a buffer offsets and strides count its elements.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

BEAT_BYTES = 64
"""Bytes of a beat of a memory bank."""

WORD_BYTES = 4
"""Bytes of a float or an int32."""


@dataclass(frozen=True)
class Element:
    """A type of numbers in device memory. name: that of its ``FORMAT_`` in command.hpp, if it has one."""

    name: str
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        return self.dtype.itemsize

    @property
    def lanes(self) -> int:
        """Elements of a beat."""
        return BEAT_BYTES // self.bytes

    @property
    def is_float(self) -> bool:
        return self.dtype.is_floating_point

    @property
    def is_narrow(self) -> bool:
        """Whether several lie in a word."""
        return self.bytes < WORD_BYTES

    def beats(self, count: int) -> int:
        """Beats that `count` elements take, the last one perhaps in part."""
        return -(-count // self.lanes)


F32 = Element("F32", torch.float32)
I32 = Element("I32", torch.int32)
BF16 = Element("BF16", torch.bfloat16)
F16 = Element("F16", torch.float16)
U8 = Element("U8", torch.uint8)
I8 = Element("I8", torch.int8)
C64 = Element("C64", torch.complex64)

ELEMENTS = {element.name: element for element in (F32, I32, BF16, F16, U8, I8)}
