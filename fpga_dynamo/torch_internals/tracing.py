"""Fake tensors, symbolic sizes, and tracing a graph again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

import torch
from torch._guards import TracingContext, detect_fake_mode, tracing
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv, has_free_unbacked_symbols

__all__ = ["DATA_DEPENDENT", "FakeTensor", "FakeTensorMode", "fake_mode", "has_free_unbacked_symbols", "make_fx"]

DATA_DEPENDENT = (DynamicOutputShapeException, DataDependentOutputException, GuardOnDataDependentSymNode)
"""What tracing raises where a size or a number is asked for that data decides."""

_FAKE = torch._C._TorchDispatchModeKey.FAKE


def fake_mode() -> FakeTensorMode:
    """A mode of its own, with sizes that may be symbols."""
    return FakeTensorMode(shape_env=ShapeEnv())


def tensors_are_fake() -> bool:
    """Whether this thread is in a FakeTensorMode, whose tensors hold no data."""
    return torch._C._get_dispatch_mode(_FAKE) is not None


def traced(
    function: Callable[..., Any], args: Sequence[Any], mode: Literal["symbolic", "fake"] = "fake"
) -> GraphModule:
    """The ATen graph of `function` for these arguments. symbolic: numbers among them and sizes stay symbols.

    Raises one of :data:`DATA_DEPENDENT` where that cannot be.
    """
    return make_fx(function, tracing_mode=mode, _allow_non_fake_inputs=True)(*args)


def tracing_with(fakes: Sequence[Any]) -> AbstractContextManager[Any]:
    """Tracing as Dynamo sets it up for AOTAutograd, with the mode of these fake tensors."""
    return tracing(TracingContext(detect_fake_mode(list(fakes)) or fake_mode()))


def hint_of(size: int | torch.SymInt) -> int:
    """A size at the example that a graph was traced with."""
    return int(size.node.hint) if isinstance(size, torch.SymInt) else size
