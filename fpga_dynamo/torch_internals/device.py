"""A device of one's own: the name that PyTorch gives it, its module below ``torch``, and how its storages are saved."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_tensor

NAME = "fpga"


def is_named() -> bool:
    """Whether this process calls PyTorch's device of one's own "fpga"."""
    return torch._C._get_privateuse1_backend_name() == NAME


def autocast_devices() -> tuple[str, ...]:
    """Devices whose autocast a graph of ours may be called in."""
    return ("cpu", "cuda", NAME) if is_named() else ("cpu", "cuda")


def give_name(module: ModuleType) -> bool:
    """Has PyTorch know ``torch.device("fpga")`` and `module` as ``torch.fpga``; False if another backend has its place.

    PyTorch has one such place. Nothing is initialized: the first use of the device calls ``module._lazy_init()``.
    """
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in (NAME, "privateuseone"):
        return False
    if taken != NAME:
        torch.utils.rename_privateuse1_backend(NAME)
        torch._register_device_module(NAME, module)
        torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
        # The default is float16, which no core computes in. It is of this thread, as every setting of autocast is.
        torch.set_autocast_dtype(NAME, torch.bfloat16)
        torch.serialization.register_package(priority=30, tagger=_tag, deserializer=_restore)
        _default_to_cpu_until(module.is_initialized)
    return True


def _default_to_cpu_until(is_used: Callable[[], bool]) -> None:
    """Keeps the CPU the default device of FSDP, process groups and ``torch.get_device_module()`` until the first use.

    PyTorch otherwise uses a named PrivateUse1 device as the accelerator, even if no tensor lies on it.
    """
    ask = torch._C._get_accelerator

    def accelerator(check: bool = False) -> torch.device:
        return ask(check) if is_used() else torch.device("cpu")

    torch._C._get_accelerator = accelerator


def _tag(storage: Any) -> str | None:
    return f"{NAME}:{storage.device.index}" if storage.device.type == NAME else None


def _restore(storage: Any, location: str) -> Any:
    """What ``torch.load`` calls with a storage on the CPU and the place where it was, or is to be."""
    if location != NAME and not location.startswith(f"{NAME}:"):
        return None
    return storage.to(device=torch.device(location))


def refuse_to_send(explain: Callable[[torch.Tensor], str]) -> None:
    """Has queues and pipes of ``torch.multiprocessing`` raise a RuntimeError for tensors of the device."""

    def reduce(tensor: torch.Tensor) -> Any:
        if tensor.device.type == NAME:
            raise RuntimeError(explain(tensor))
        return reduce_tensor(tensor)

    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, reduce)
