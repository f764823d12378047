"""Operators, their schemas and kernels, and the modes and tensor classes that see calls of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import torch
from torch._C import DispatchKey, FunctionSchema
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.fx import Graph
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

__all__ = [
    "FunctionSchema",
    "HigherOrderOperator",
    "OpOverload",
    "OpOverloadPacket",
    "TorchDispatchMode",
]

T = TypeVar("T", bound=torch.Tensor)


def schema(op: OpOverload) -> FunctionSchema:
    """Arguments and results of an operator."""
    return op._schema


def operator_names() -> list[str]:
    """``namespace::name.overload`` of every operator that the dispatcher knows."""
    return torch._C._dispatch_get_all_op_names()


def is_composite(op: OpOverload) -> bool:
    """Whether PyTorch takes an operator apart itself wherever it is differentiated or traced."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")


def only_in_parts(op: OpOverload) -> bool:
    """Whether PyTorch takes an operator apart before a graph has it: it has no kernel of its own on the CPU."""
    keys = (DispatchKey.CompositeImplicitAutograd, DispatchKey.CPU)
    return [op.has_kernel_for_dispatch_key(key) for key in keys] == [True, False]


@contextmanager
def kernels_replaced(
    composite: Mapping[OpOverload, Callable[..., Any] | None], meta: Mapping[OpOverload, Callable[..., Any]]
) -> Iterator[None]:
    """While it lasts, operators have other Python kernels, which tracing uses and eager does not.

    composite: operators that are not to be taken apart, and what each is instead (None: what it is).
    meta: what predicts the shape of an operator's result. The kernels belong to the process: one thread at a time.
    """
    saved = [(op, dict(op.py_kernels)) for op in (*composite, *meta)]
    try:
        for op, kernel in composite.items():
            for key in (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd):
                op.py_kernels.pop(key, None)
            if kernel is not None:
                op.py_kernels[DispatchKey.CompositeImplicitAutograd] = kernel
            op._dispatch_cache.clear()
        for op, shape in meta.items():
            op.py_kernels[DispatchKey.Meta] = shape
            op._dispatch_cache.clear()
        yield
    finally:
        for op, kernels in saved:
            op.py_kernels.clear()
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()


def without_modes() -> AbstractContextManager[object]:
    """A context in which tensors are what they are: tracing has a mode in which new ones are fake."""
    return _disable_current_modes()


def without_subclasses() -> AbstractContextManager[object]:
    """A context in which ``__torch_function__`` of tensor classes is not called."""
    return torch._C.DisableTorchFunctionSubclass()


def wrapper_tensor(cls: type[T], sizes: Sequence[int], strides: Sequence[int], offset: int, like: torch.Tensor) -> T:
    """A tensor of a class of its own, without memory; dtype, layout, device and requires_grad as of `like`."""
    made: T = torch.Tensor._make_wrapper_subclass(
        cls,
        sizes,
        strides=strides,
        storage_offset=offset,
        dtype=like.dtype,
        layout=like.layout,
        device=like.device,
        requires_grad=like.requires_grad,
    )
    return made


def dispatch_modes() -> int:
    """How many modes see the operators that this thread calls."""
    return torch._C._len_torch_dispatch_stack()


def transforms_active() -> bool:
    """Whether a mode, or a transformation of torch.func, sees the functions or operators that this thread calls."""
    return (
        torch._C._len_torch_dispatch_stack() != 0
        or torch._C._len_torch_function_stack() != 0
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


def autocast_active() -> bool:
    """Whether autocast is on in this thread, for whichever device."""
    return torch._C._is_any_autocast_enabled()


def enters_autocast(graph: Graph) -> bool:
    """Whether a part of Dynamo's graph is within autocast."""
    return any(node.target is torch.amp.autocast_mode._enter_autocast for node in graph.nodes)
