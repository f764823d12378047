"""The operator `demo::smooth` as PyTorch sees it: what eager runs, and what `verify=True` compares the card with."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.library.custom_op("demo::smooth", mutates_args=())
def smooth(x: Tensor, decay: float) -> Tensor:
    """y[:, t] = decay * y[:, t - 1] + (1 - decay) * x[:, t] with y[:, -1] = 0; x: sequence x step x channel."""
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    state = torch.zeros_like(x[:, 0])
    for t in range(x.shape[1]):
        state = decay * state + (1.0 - decay) * x[:, t]
        y[:, t] = state
    return y


@smooth.register_fake
def _(x: Tensor, decay: float) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)
