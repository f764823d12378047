"""Dynamo's settings, errors and guards."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import FunctionType, MethodDescriptorType
from typing import Any

import torch
from torch._dynamo.exc import TorchDynamoException, exceptions_allowed_to_be_fallback
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import GlobalStateSource
from torch._guards import TracingContext
from torch.autograd import forward_ad

DYNAMO_ERRORS: tuple[type[Exception], ...] = (TorchDynamoException, *exceptions_allowed_to_be_fallback)
"""What Dynamo raises, and by what it breaks a graph."""

FUNCTION_MODULES = (
    "torch", "torch.functional", "torch.nn.functional", "torch._C._nn", "torch._C._special", "torch._C._linalg",
    "torch._C._fft", "_operator", "math",
)  # fmt: skip
"""Where functions of Dynamo's graphs may come from, if they are public: their meaning follows from torch's version."""

METHODS = (MethodDescriptorType, FunctionType)
"""What the methods of a tensor are."""


def settings(**values: Any) -> AbstractContextManager[None]:
    """A context in which settings of Dynamo's have these values, in this thread."""
    return torch._dynamo.config.patch(**values)


def inductor_freezes() -> AbstractContextManager[None]:
    """A context in which Dynamo traces parameters as constants, as Inductor's freezing asks for."""
    import torch._inductor.config

    return torch._inductor.config.patch(freezing=True)


def mark_dynamic(tensor: torch.Tensor, dim: int) -> None:
    """Has the size of `dim` be a symbol in graphs that take `tensor`."""
    torch._dynamo.mark_dynamic(tensor, dim)


def in_forward_ad() -> bool:
    """Whether inputs may be dual tensors, whose tangents eager ops compute. Dynamo recompiles when that changes."""
    context = TracingContext.try_get()
    if context is not None:
        context.guards_context.dynamo_guards.add(GlobalStateSource().make_guard(GuardBuilder.DUAL_LEVEL))
    return forward_ad_active()


def forward_ad_active() -> bool:
    """Whether the process is in a context of forward-mode differentiation."""
    return forward_ad._current_level >= 0
