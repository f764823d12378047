"""Tensors to and from slots of the arena: dense memory in eager mode's strides, elements as ir/dtypes.py says.

Maps of an engine are laid out in blocks on the way (ir/blocked.py).
"""

from __future__ import annotations

import torch

from fpga_dynamo.ir.dtypes import INTEGERS, NARROW, UNCHANGED, to_int32
from fpga_dynamo.ir.launch import Slot

_WORDS = INTEGERS - NARROW.keys()
"""Integers that cross as an int32 each."""


def to_slot(tensor: torch.Tensor, slot: Slot) -> torch.Tensor:
    """A tensor whose memory, from its data pointer on, is the slot's content; `tensor` itself if that is so already.

    Raises :class:`OutOfRangeError` for an int64 value beyond int32.
    """
    if tensor.dtype is not slot.dtype:  # an eager op may give another type than its fake tensor said
        tensor = tensor.to(slot.dtype)
    if slot.blocked is not None:
        return slot.blocked.laid_out(tensor)
    if slot.dtype is torch.bool:
        tensor = tensor.to(torch.float32)
    elif slot.dtype in _WORDS:
        tensor = to_int32(tensor)
    if _strides_agree(tensor, slot) and not (tensor.is_neg() or tensor.is_conj()):
        return tensor
    dense = torch.empty_strided(slot.shape, slot.strides, dtype=tensor.dtype)
    return dense.copy_(tensor)


def is_slot(tensor: torch.Tensor, slot: Slot) -> bool:
    """Whether the tensor's memory, element by element, has the slot's values, if not its width of integers."""
    if slot.blocked is not None:
        return False
    return tensor.dtype is slot.dtype and _strides_agree(tensor, slot) and not (tensor.is_neg() or tensor.is_conj())


def empty_for(slot: Slot) -> torch.Tensor:
    """Memory that receives a slot's content."""
    if slot.blocked is not None:
        return slot.blocked.empty()
    dtype = slot.dtype if slot.dtype in UNCHANGED else torch.int32 if slot.dtype in _WORDS else torch.float32
    return torch.empty_strided(slot.shape, slot.strides, dtype=dtype, device=slot.device)


def from_slot(raw: torch.Tensor, slot: Slot) -> torch.Tensor:
    """The value of a slot in eager mode's dtype, from what :func:`empty_for` made and the card has filled."""
    if slot.blocked is not None:
        made = torch.empty_strided(slot.shape, slot.strides, dtype=slot.dtype, device=slot.device)
        return made.copy_(slot.blocked.seen(raw, slot.shape))
    return raw if raw.dtype is slot.dtype else raw.to(slot.dtype)


def _strides_agree(tensor: torch.Tensor, slot: Slot) -> bool:
    strides = tensor.stride()
    return strides == slot.strides or all(
        a == b or n == 1 for a, b, n in zip(strides, slot.strides, slot.shape, strict=True)
    )
