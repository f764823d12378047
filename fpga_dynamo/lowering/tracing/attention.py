"""Decompositions of attention, from a softmax that masks whole rows up to PyTorch's transformer layer in one op.

Queries, keys and values are seen as (batch, heads, rows, width) and merged to (batch * heads, rows, width) last of all,
by views and copies that the card does without: see lowering/ops/matmul/matmul.py.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from fpga_dynamo.ir.dtypes import FLOATS


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
    The backward pass needs the logsumexp; in inference it is dead code. All is float32 between operands of 16 bits and
    an output of the same type, as in ATen's kernel.
    """
    tensors = [t for t in (query, key, value, attn_mask) if t is not None]
    if dropout_p or any(t.dtype not in FLOATS or not t.numel() for t in tensors):
        return NotImplemented
    dtype = query.dtype
    query, key, value = (t.to(torch.float32) for t in (query, key, value))
    attn_mask = None if attn_mask is None else attn_mask.to(torch.float32)
    batch, heads, rows, width = query.shape
    keys, values = (of_all_heads(t, heads) for t in (key, value))
    masked = attn_mask is not None
    scores = attention_scores(query, keys, is_causal, attn_mask, scale)
    largest = scores.amax(-1, keepdim=True)
    weights = _softmax_or_zero(scores, largest, -1) if masked else scores.softmax(-1)
    summed = largest + (scores - largest).exp().sum(-1, keepdim=True).log()
    if masked:
        summed = torch.where(largest == -math.inf, 0.0, summed)
    output = torch.bmm(weights, merged(values)).view(batch, heads, rows, width).to(dtype)
    logsumexp = summed.view(batch, heads, rows).transpose(1, 2).contiguous().transpose(1, 2)
    return _laid_out_like(output, query), logsumexp


def attention_scores(
    query: torch.Tensor, keys: torch.Tensor, is_causal: bool, attn_mask: torch.Tensor | None, scale: float | None
) -> torch.Tensor:
    """What the softmax is taken of, (N H, L, S), for a query (N, H, L, E) and keys (N, H, S, E)."""
    batch, heads, rows, width = query.shape
    columns = keys.shape[2]
    factor = 1 / math.sqrt(width) if scale is None else scale
    if attn_mask is not None:
        bias = attn_mask.expand(batch, heads, rows, columns).reshape(-1, rows, columns)
    elif is_causal:
        future = torch.full((rows, columns), -math.inf, dtype=query.dtype, device=query.device).triu(1)
        bias = future.expand(batch * heads, rows, columns)
    else:
        bias = torch.zeros(1, 1, 1, dtype=query.dtype, device=query.device)
    added = int(attn_mask is not None or is_causal)
    return torch.baddbmm(bias, merged(query), merged(keys.transpose(2, 3)), beta=added, alpha=factor)


def of_all_heads(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """(N, H', L, E) as (N, H, L, E), each of the H' heads repeated H / H' times."""
    batch, own, rows, width = tensor.shape
    if own == heads:
        return tensor
    return tensor.unsqueeze(2).expand(batch, own, heads // own, rows, width).reshape(batch, heads, rows, width)


def merged(tensor: torch.Tensor) -> torch.Tensor:
    """(N, H, L, E) as (N H, L, E)."""
    return tensor.reshape(-1, *tensor.shape[2:])


def _laid_out_like(tensor: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
    """`tensor` with the strides that empty_like(model) has."""
    strides = torch.empty_like(model).stride()
    order = sorted(range(tensor.dim()), key=lambda d: (-strides[d], d))
    return tensor.permute(order).contiguous().permute([order.index(d) for d in range(tensor.dim())])


def safe_softmax(x: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> Any:
    """Softmax that gives 0 where a whole row is -inf."""
    if x.dtype not in FLOATS or dtype not in (None, x.dtype) or not x.numel() or not x.dim():
        return NotImplemented
    return _softmax_or_zero(x, x.amax(dim, keepdim=True), dim)


def _softmax_or_zero(x: torch.Tensor, largest: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.where(largest == -math.inf, 0.0, x.softmax(dim))


def transformer_encoder_layer(
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> Any:
    """The op that nn.TransformerEncoderLayer is in inference: src and its result (N, L, E)."""
    if src.is_nested or src.dim() != 3 or src.dtype not in FLOATS or not src.numel():
        return NotImplemented

    def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.layer_norm(x, (embed_dim,), weight, bias, eps)

    x = norm(src, norm_weight_1, norm_bias_1) if norm_first else src
    attended = native_multi_head_attention(
        x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type
    )
    if attended is NotImplemented:
        return NotImplemented
    x = attended[0] + src
    if not norm_first:
        x = norm(x, norm_weight_1, norm_bias_1)
    hidden = _linear(norm(x, norm_weight_2, norm_bias_2) if norm_first else x, ffn_weight_1, ffn_bias_1)
    hidden = torch.nn.functional.gelu(hidden) if use_gelu else torch.relu(hidden)
    x = _linear(hidden, ffn_weight_2, ffn_bias_2) + x
    return x if norm_first else norm(x, norm_weight_2, norm_bias_2)


def native_multi_head_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    """The op that nn.MultiheadAttention is in inference: (output (N, L, E), weights (N, L, S) or (N, H, L, S)).

    mask is true where nothing is to be attended to: (L, S), (N, S) or (N, H, L, S) for mask_type 0, 1 and 2.
    """
    tensors = (query, key, value)
    if any(t.is_nested or t.dim() != 3 or t.dtype not in FLOATS or not t.numel() for t in tensors):
        return NotImplemented
    if mask is not None and mask_type not in (0, 1, 2):
        return NotImplemented
    width = embed_dim // num_head
    if query is key and key is value:
        q, k, v = _linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        parts = zip(tensors, qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
        q, k, v = (_linear(*part) for part in parts)
    q, k, v = (t.unflatten(-1, (num_head, width)).transpose(1, 2) for t in (q, k, v))
    batch, _, rows, _ = q.shape
    columns = k.shape[2]
    factor = 1 / math.sqrt(width)
    if mask is None:
        bias = torch.zeros(1, 1, 1, dtype=query.dtype, device=query.device)
    else:
        hidden = mask.to(torch.bool)
        hidden = hidden.view(batch, 1, 1, columns) if mask_type == 1 else hidden
        added = torch.where(hidden, -math.inf, 0.0).to(query.dtype)
        bias = merged(added.expand(batch, num_head, rows, columns))
    scores = torch.baddbmm(bias, merged(q), merged(k.transpose(2, 3)), beta=int(mask is not None), alpha=factor)
    weights = scores.softmax(-1)
    heads = torch.bmm(weights, merged(v)).view(batch, num_head, rows, width)
    output = _linear(heads.transpose(1, 2).reshape(batch, rows, embed_dim), proj_weight, proj_bias)
    if not need_weights:
        return output, query.new_empty(0)
    weights = weights.view(batch, num_head, rows, columns)
    return output, weights.mean(1) if average_attn_weights else weights


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """(N, L, E) by (O, E) transposed, plus (O,)."""
    return torch.addmm(bias, x.flatten(0, 1), weight.t()).view(*x.shape[:2], -1)
