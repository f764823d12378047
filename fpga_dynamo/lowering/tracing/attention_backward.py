"""Decomposition of the gradient of fused attention: five batched products, as in the paper on FlashAttention (Dao et
al., 2022, appendix B.2), with the scores computed again from queries and keys."""

from __future__ import annotations

import math
from typing import Any

import torch

from fpga_dynamo.ir.dtypes import FLOATS
from fpga_dynamo.lowering.tracing.attention import attention_scores, merged, of_all_heads


def attention_backward(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> Any:
    """Gradients of query (N, H, L, E), key and value (N, H or a divisor of it, S, E), in their type.

    All is float32 between operands and gradients of 16 bits, as in the forward pass.

    With P = exp(scores - logsumexp): dV = P^T dO, dS = P (dO V^T - rowsum(dO O)), dQ = scale dS K, dK = scale dS^T Q.
    Rows that are masked altogether have a logsumexp of 0 and so a P of 0.
    """
    tensors = [t for t in (grad_out, query, key, value, attn_mask) if t is not None]
    if dropout_p or any(t.dtype not in FLOATS or not t.numel() for t in tensors):
        return NotImplemented
    dtype = query.dtype
    grad_out, query, key, value, out = (t.to(torch.float32) for t in (grad_out, query, key, value, out))
    attn_mask = None if attn_mask is None else attn_mask.to(torch.float32)
    heads, width = query.shape[1], query.shape[3]
    factor = 1 / math.sqrt(width) if scale is None else scale
    keys, values = (of_all_heads(t, heads) for t in (key, value))
    scores = attention_scores(query, keys, is_causal, attn_mask, scale)
    weights = (scores - merged(logsumexp).unsqueeze(-1)).exp()
    grad = merged(grad_out)
    shared = (grad * merged(out)).sum(-1, keepdim=True)
    grad_scores = weights * (torch.bmm(grad, merged(values).transpose(1, 2)) - shared)
    grad_query = torch.bmm(grad_scores, merged(keys)) * factor
    grad_key = torch.bmm(grad_scores.transpose(1, 2), merged(query)) * factor
    grad_value = torch.bmm(weights.transpose(1, 2), grad)
    return (
        _rows_outside(grad_query.view(query.shape).to(dtype)),
        _rows_outside(_of_own_heads(grad_key.view(keys.shape), key).to(dtype)),
        _rows_outside(_of_own_heads(grad_value.view(values.shape), value).to(dtype)),
    )


def _of_own_heads(gradient: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
    """(N, H, S, E) summed over the heads that share one of the H' heads of `model`."""
    own = model.shape[1]
    if own == gradient.shape[1]:
        return gradient
    return gradient.unflatten(1, (own, gradient.shape[1] // own)).sum(2)


def _rows_outside(tensor: torch.Tensor) -> torch.Tensor:
    """(N, H, L, E) as ATen's kernel lays out its gradients, heads within rows."""
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)
