"""Tensors to and from slots of the arena: dense memory in eager's strides, floats or int32 bits."""

from __future__ import annotations

import torch

from fpga_dynamo.lowering.program import Slot

_INTEGERS = (torch.int64, torch.int32)


class OutOfRangeError(ValueError):
    """An integer that int32 cannot hold; the partition has to run in eager."""


def to_slot(tensor: torch.Tensor, slot: Slot) -> torch.Tensor:
    """A tensor whose memory, from its data pointer on, is the slot's content; `tensor` itself if that is so already.

    Raises :class:`OutOfRangeError` for an int64 value beyond int32.
    """
    if slot.dtype is torch.float32:
        if _strides_agree(tensor, slot) and not tensor.is_neg():
            return tensor
    elif slot.dtype is torch.bool:
        tensor = tensor.to(torch.float32)
    elif slot.dtype in _INTEGERS:
        narrow = tensor.to(torch.int32)
        if slot.dtype is torch.int64 and not torch.equal(narrow.to(torch.int64), tensor):
            raise OutOfRangeError(f"a value of {slot.node} does not fit int32, which the card computes with")
        tensor = narrow
    if _strides_agree(tensor, slot) and not tensor.is_neg():
        return tensor
    dense = torch.empty_strided(slot.shape, slot.strides, dtype=tensor.dtype)
    return dense.copy_(tensor)


def is_slot(tensor: torch.Tensor, slot: Slot) -> bool:
    """Whether the tensor's memory, element by element, has the slot's values, if not its width of integers."""
    return tensor.dtype is slot.dtype and _strides_agree(tensor, slot) and not tensor.is_neg()


def empty_for(slot: Slot) -> torch.Tensor:
    """Memory that receives a slot's content."""
    dtype = torch.int32 if slot.dtype in _INTEGERS else torch.float32
    return torch.empty_strided(slot.shape, slot.strides, dtype=dtype)


def from_slot(raw: torch.Tensor, slot: Slot) -> torch.Tensor:
    """The value of a slot in eager's dtype, from what :func:`empty_for` made and the card has filled."""
    return raw if raw.dtype is slot.dtype else raw.to(slot.dtype)


def _strides_agree(tensor: torch.Tensor, slot: Slot) -> bool:
    strides = tensor.stride()
    return strides == slot.strides or all(
        a == b or n == 1 for a, b, n in zip(strides, slot.strides, slot.shape, strict=True)
    )
