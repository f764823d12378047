"""A graph in which narrow types are written, run in float64 all the same."""

from __future__ import annotations

from typing import Any

import torch

from fpga_dynamo.ir.dtypes import FLOATS
from fpga_dynamo.torch_internals.dispatch import TorchDispatchMode
from fpga_dynamo.torch_internals.pytree import tree_map


class InFloat64(TorchDispatchMode):
    """Runs every operator on float64, whatever type its operands or its arguments say.

    An operator that takes only the type it was traced with is run in that, and its result widened.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        try:
            result = func(*tree_map(widened, args), **tree_map(widened, kwargs))
        except (RuntimeError, TypeError, AssertionError, NotImplementedError):
            result = func(*tree_map(_narrowed, args), **kwargs)
        return tree_map(widened, result)


def widened(value: Any) -> Any:
    """A tensor of real or complex numbers, or the name of a real type, in double precision; anything else as it is."""
    if isinstance(value, torch.Tensor):
        if value.dtype is torch.complex64:
            return value.to(torch.complex128)
        return value.double() if value.dtype in FLOATS else value
    return torch.float64 if isinstance(value, torch.dtype) and value in FLOATS else value


def _narrowed(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype is torch.complex128:
        return value.to(torch.complex64)
    return value.float() if value.dtype is torch.float64 else value
