"""Pass (in AOTAutograd): ops that are taken apart because every part has a core. The table is small on purpose:
PyTorch's own core decompositions would break up what a command does in one (silu, hardswish, linear).

A decomposition returns NotImplemented for arguments that the cores cannot take; the op then stays what it is and runs
in eager, bit for bit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DispatchKey

from fpga_dynamo.lowering import attention

aten = torch.ops.aten


def _glu(x: torch.Tensor, dim: int = -1) -> Any:
    if x.dtype is not torch.float32 or not x.numel():
        return NotImplemented
    value, gate = x.chunk(2, dim)
    return value * gate.sigmoid()


def _log_sigmoid_forward(x: torch.Tensor) -> Any:
    """(value, what eager keeps for the backward pass)"""
    if x.dtype is not torch.float32 or not x.numel():
        return NotImplemented
    kept = (-x.abs()).exp()
    return x.clamp(max=0) - kept.log1p(), kept


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten._native_multi_head_attention.default: attention.native_multi_head_attention,
    aten._scaled_dot_product_flash_attention_for_cpu.default: attention.attention,
    aten._safe_softmax.default: attention.safe_softmax,
    aten._transformer_encoder_layer_fwd.default: attention.transformer_encoder_layer,
    aten.glu.default: _glu,
    aten.log_sigmoid_forward.default: _log_sigmoid_forward,
}
"""ATen op -> its parts."""

WHOLE = (
    aten.upsample_nearest2d.default,
    aten.upsample_nearest2d.vec,
    aten.upsample_bilinear2d.default,
    aten.upsample_bilinear2d.vec,
)
"""Ops with a core that PyTorch takes apart itself while it traces, into gathers and sums."""

_tracing = threading.RLock()


@contextmanager
def kept_whole() -> Iterator[None]:
    """While it lasts, tracing keeps the ops of :data:`WHOLE`: their Python kernels that decompose are put aside.

    The kernels belong to the process, so that one thread traces at a time; eager never uses them.
    """
    with _tracing:
        saved = [(op, dict(op.py_kernels)) for op in WHOLE]
        try:
            for op in WHOLE:
                for key in (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd):
                    op.py_kernels.pop(key, None)
                op._dispatch_cache.clear()
            yield
        finally:
            for op, kernels in saved:
                op.py_kernels.update(kernels)
                op._dispatch_cache.clear()
