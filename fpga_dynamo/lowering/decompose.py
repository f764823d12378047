"""Pass (in AOTAutograd): ops that are taken apart because every part has a core. The table is small on purpose:
PyTorch's own core decompositions would break up what a command does in one (silu, hardswish, linear).

A decomposition returns NotImplemented for arguments that the cores cannot take; the op then stays what it is and runs
in eager, bit for bit.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DispatchKey

aten = torch.ops.aten


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> Any:
    """Fused attention as two batched products around a softmax: (output, logsumexp of the scores).

    query (N, H, L, E), key and value (N, H or a divisor of it, S, E), attn_mask broadcastable to (N, H, L, S). Rows
    that are masked altogether give 0, and a logsumexp of 0, as ATen's kernel does (native/cpu/FlashAttentionKernel).
    The backward pass needs the logsumexp; in inference it is dead code.
    """
    tensors = [t for t in (query, key, value, attn_mask) if t is not None]
    if dropout_p or any(t.dtype is not torch.float32 or not t.numel() for t in tensors):
        return NotImplemented
    batch, heads, rows, width = query.shape
    columns = key.shape[2]
    factor = 1 / math.sqrt(width) if scale is None else scale
    keys, values = (_merged_heads(t, heads) for t in (key, value))
    masked = attn_mask is not None
    if attn_mask is not None:
        bias = attn_mask.expand(batch, heads, rows, columns).reshape(-1, rows, columns)
    elif is_causal:
        future = torch.full((rows, columns), -math.inf, dtype=query.dtype, device=query.device).triu(1)
        bias = future.expand(batch * heads, rows, columns)
    else:
        bias = torch.zeros(1, 1, 1, dtype=query.dtype, device=query.device)
    scores = torch.baddbmm(
        bias, _merged_heads(query, heads), keys.transpose(1, 2), beta=int(masked or is_causal), alpha=factor
    )
    largest = scores.amax(-1, keepdim=True)
    weights = _softmax_or_zero(scores, largest, -1) if masked else scores.softmax(-1)
    summed = largest + (scores - largest).exp().sum(-1, keepdim=True).log()
    if masked:
        summed = torch.where(largest == -math.inf, 0.0, summed)
    output = torch.bmm(weights, values).view(batch, heads, rows, width)
    logsumexp = summed.view(batch, heads, rows).transpose(1, 2).contiguous().transpose(1, 2)
    return _laid_out_like(output, query), logsumexp


def _merged_heads(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """(N, H', L, E) as (N H, L, E), each of the H' heads repeated H / H' times."""
    batch, own, rows, width = tensor.shape
    if own != heads:
        tensor = tensor.unsqueeze(2).expand(batch, own, heads // own, rows, width)
    return tensor.reshape(batch * heads, rows, width)


def _laid_out_like(tensor: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
    """`tensor` with the strides that empty_like(model) has."""
    strides = torch.empty_like(model).stride()
    order = sorted(range(tensor.dim()), key=lambda d: (-strides[d], d))
    return tensor.permute(order).contiguous().permute([order.index(d) for d in range(tensor.dim())])


def safe_softmax(x: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> Any:
    """Softmax that gives 0 where a whole row is -inf."""
    if x.dtype is not torch.float32 or dtype not in (None, torch.float32) or not x.numel() or not x.dim():
        return NotImplemented
    return _softmax_or_zero(x, x.amax(dim, keepdim=True), dim)


def _softmax_or_zero(x: torch.Tensor, largest: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.where(largest == -math.inf, 0.0, x.softmax(dim))


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten._scaled_dot_product_flash_attention_for_cpu.default: attention,
    aten._safe_softmax.default: safe_softmax,
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
