"""PyTorch's thread-local state, carried from the caller of a program to the threads that run its tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import record_function

AUTOCAST_DEVICES = ("cpu", "cuda")

# True while torch.profiler records this thread. Not public, hence the default: without it, no ranges.
profiling = getattr(torch.autograd, "_profiler_enabled", lambda: False)

_FAKE = torch._C._TorchDispatchModeKey.FAKE


def tensors_are_fake() -> bool:
    """Whether this thread is in a FakeTensorMode, whose tensors hold no data."""
    return torch._C._get_dispatch_mode(_FAKE) is not None


# Dynamo's own check of tensors, and Inductor's allocation. Not public either: without them there are no direct calls.
_guards = getattr(torch._C._dynamo, "guards", None)
_TensorGuards: Any = getattr(_guards, "TensorGuards", None)
empty_strided: Any = getattr(_guards, "_empty_strided_cpu", None)


def direct_calls_possible() -> bool:
    """Whether this torch has what :func:`input_guard` and :data:`empty_strided` need."""
    return _TensorGuards is not None and empty_strided is not None


def input_guard(tensors: Sequence[torch.Tensor]) -> Callable[..., bool]:
    """Whether tensors have the types, dtypes, shapes, strides, devices and dispatch keys of these."""
    if not tensors:
        return lambda: True
    sizes, strides = [list(t.size()) for t in tensors], [list(t.stride()) for t in tensors]
    guards = _TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
    return guards.check  # type: ignore[no-any-return]


def profiler_range(name: str) -> AbstractContextManager[object]:
    """A range of torch.profiler around a task if the profiler records this thread, else nothing."""
    return record_function(f"fpga_dynamo::{name}") if profiling() else nullcontext()


@dataclass(frozen=True)
class TorchState:
    """Grad mode, inference mode and autocast of one thread; `autocast` lists the devices where it is on."""

    grad: bool = True
    inference: bool = False
    autocast: tuple[tuple[str, torch.dtype], ...] = ()
    autocast_cache: bool = True

    @classmethod
    def capture(cls) -> TorchState:
        """The state of the calling thread."""
        return cls(
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            tuple(
                (device, torch.get_autocast_dtype(device))
                for device in AUTOCAST_DEVICES
                if torch.is_autocast_enabled(device)
            ),
            torch.is_autocast_cache_enabled(),
        )

    def applied(self) -> AbstractContextManager[object]:
        """A context in which a thread of torch's default state has this one."""
        if self == _DEFAULT:
            return nullcontext()
        stack = ExitStack()
        if self.inference:
            stack.enter_context(torch.inference_mode())
        stack.enter_context(torch.set_grad_enabled(self.grad))  # after inference mode, which changes it
        for device, dtype in self.autocast:
            stack.enter_context(torch.autocast(device, dtype=dtype, cache_enabled=self.autocast_cache))
        return stack


_DEFAULT = TorchState()
