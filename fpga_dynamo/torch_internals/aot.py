"""AOTAutograd: its entry, and what it has found out about a graph."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.schemas import OutputType, PlainTensorMeta, ViewAndMutationMeta
from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler
from torch._guards import TracingContext

__all__ = [
    "OutputType",
    "PlainTensorMeta",
    "SerializableAOTDispatchCompiler",
    "TracingContext",
    "ViewAndMutationMeta",
    "aot_autograd",
]


def mark_boxed(function: Any, boxed: bool = True) -> None:
    """Says of what AOTAutograd calls or makes whether it takes its arguments as one list, which it may clear."""
    function._boxed_call = boxed


def is_ahead_of_time() -> bool:
    """Whether PyTorch is going to serialise what is being compiled."""
    config = torch._functorch.config
    return bool(config.bundled_autograd_cache and getattr(config, "force_autograd_cache", False))


def settings_hash() -> str:
    """Of AOTAutograd's settings, by which it may make other graphs."""
    return torch._functorch.config.get_hash().hex()
