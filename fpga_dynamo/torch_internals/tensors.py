"""What a tensor does not tell in public, guards on tensors, and allocation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

# True while torch.profiler records this thread. Without it: no ranges.
profiling: Callable[[], bool] = getattr(torch.autograd, "_profiler_enabled", lambda: False)

# Dynamo's own check of tensors, and Inductor's allocation. Without them there are no direct calls.
_guards = getattr(torch._C._dynamo, "guards", None)
_TensorGuards: Any = getattr(_guards, "TensorGuards", None)
empty_strided: Any = getattr(_guards, "_empty_strided_cpu", None)


def empty_on(device: torch.device) -> Callable[..., torch.Tensor]:
    """What makes a tensor on a device from sizes, strides and dtype."""
    if device.type == "cpu":
        made: Callable[..., torch.Tensor] = empty_strided
        return made
    return lambda sizes, strides, dtype: torch.empty_strided(sizes, strides, dtype=dtype, device=device)


def differences() -> Iterator[str]:
    """In what :func:`input_guard` and :data:`empty_strided` do not do in this PyTorch what they are to do."""
    if _TensorGuards is None:
        yield "there is no torch._C._dynamo.guards.TensorGuards"
    else:
        try:
            known = torch.empty(2, 3)
            check = input_guard([known])
            works = check(known) and not check(known.double()) and not check(known.t()) and not check(known[:1])
        except (TypeError, RuntimeError, AttributeError):
            works = False
        if not works:
            yield "TensorGuards does not guard tensors as it did"
    if empty_strided is None:
        yield "there is no torch._C._dynamo.guards._empty_strided_cpu"


def input_guard(tensors: Sequence[torch.Tensor]) -> Callable[..., bool]:
    """Whether tensors have the types, dtypes, shapes, strides, devices and dispatch keys of these."""
    if not tensors:
        return lambda: True
    sizes, strides = [list(t.size()) for t in tensors], [list(t.stride()) for t in tensors]
    guards = _TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
    return guards.check


def versions(tensors: Sequence[torch.Tensor]) -> list[int]:
    """How often each has been written to; -1 for tensors of inference mode, which do not count."""
    try:
        return [tensor._version for tensor in tensors]
    except RuntimeError:
        return [-1 if tensor.is_inference() else tensor._version for tensor in tensors]


def storage_key(tensor: torch.Tensor) -> int:
    """A number that tensors with the same memory share, while it lives; fake tensors too."""
    return tensor.untyped_storage()._cdata


def is_view(tensor: torch.Tensor) -> bool:
    """Whether autograd has `tensor` as a view of another one."""
    return tensor._is_view()


def is_batched(value: object) -> bool:
    """Whether it is a tensor of torch.vmap, or of the older vmap of torch.autograd.grad, for several at once."""
    functorch = torch._C._functorch
    return isinstance(value, torch.Tensor) and (
        functorch.is_batchedtensor(value) or functorch.is_legacy_batchedtensor(value)
    )


def mkldnn_enabled() -> bool:
    """The setting by which oneDNN computes."""
    return torch._C._get_mkldnn_enabled()


def nnpack_enabled() -> bool:
    """The setting by which NNPACK computes."""
    return torch._C._get_nnpack_enabled()
