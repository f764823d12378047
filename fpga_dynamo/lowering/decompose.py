"""Pass (in AOTAutograd): ops that are taken apart because every part has a core. The table is small on purpose:
PyTorch's own core decompositions would break up what a command does in one (silu, hardswish, linear)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import get_decompositions

aten = torch.ops.aten

DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    **get_decompositions([aten._scaled_dot_product_flash_attention_for_cpu.default]),
}
"""ATen op -> its parts."""
