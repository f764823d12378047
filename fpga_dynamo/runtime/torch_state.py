"""PyTorch's thread-local state, carried from the caller of a program to the threads that run its tasks."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass

import torch
from torch.profiler import record_function

from fpga_dynamo.torch_internals.device import autocast_devices
from fpga_dynamo.torch_internals.tensors import profiling

AUTOCAST_DEVICES = autocast_devices()


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
