"""Tensors of ``torch.device("fpga")`` as launches see them: memory of this process, like that of tensors of the CPU.

The device is a user of the runtime, which knows no more of it than how to look at its memory.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

_host_view: Callable[[torch.Tensor], torch.Tensor] | None = None


def share_memory_by(host_view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Says what makes a tensor of the CPU over the memory of a device tensor, without a copy."""
    global _host_view
    _host_view = host_view


def as_host_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the CPU with the same memory; `tensor` itself if it is one."""
    return tensor if _host_view is None or tensor.is_cpu else _host_view(tensor)
