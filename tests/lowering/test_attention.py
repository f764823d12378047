"""Attention in all its spellings: its batches and heads are strides, and PyTorch's layers in one op are taken apart."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.lowering.lowering_cases import GREEDY, Call, Case, check

PADDED = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
CAUSAL = torch.ones(5, 5).triu(1).bool()


class Attend(nn.Module):
    """nn.MultiheadAttention with 2 heads; without `key` the query is key and value."""

    def __init__(self, width: int, **arguments: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.arguments = arguments

    def forward(self, query: torch.Tensor, key: torch.Tensor | None = None, value: torch.Tensor | None = None) -> Any:
        key = query if key is None else key
        return self.attention(query, key, key if value is None else value, **self.arguments)


class Masked(nn.Module):
    """A transformer layer with 2 heads that is given masks."""

    def __init__(self, width: int, **masks: torch.Tensor) -> None:
        super().__init__()
        self.layer = layer(width)
        self.masks = masks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, **self.masks)


class Native(nn.Module):
    """The op behind nn.MultiheadAttention, called by its name."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 2)
        self.arguments = arguments

    def forward(self, query: torch.Tensor, key: torch.Tensor | None = None, value: torch.Tensor | None = None) -> Any:
        key = query if key is None else key
        inner, outer = self.attention, self.attention.out_proj
        weights = (inner.in_proj_weight, inner.in_proj_bias, outer.weight, outer.bias)
        tensors = (query, key, key if value is None else value)
        found = torch._native_multi_head_attention(*tensors, 32, 2, *weights, **self.arguments)
        return found if self.arguments.get("need_weights", True) else found[0]


def layer(width: int, **arguments: Any) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(width, 2, 2 * width, batch_first=True, **arguments)


def attention(x: torch.Tensor, qkv: torch.Tensor) -> torch.Tensor:
    batch, tokens, width = x.shape
    q, k, v = (x @ qkv).view(batch, tokens, 3, 2, width // 2).permute(2, 0, 3, 1, 4).unbind(0)
    weights = torch.softmax(q @ k.transpose(-2, -1) / (width // 2) ** 0.5, dim=-1)
    return (weights @ v).transpose(1, 2).reshape(batch, tokens, width)


WHOLE = {
    "self-attention": Case(Call(attention, qkv=torch.randn(16, 48)), (2, 5, 16)),
    "self-attention of odd sizes": Case(Call(attention, qkv=torch.randn(10, 30)), (3, 7, 10)),
    "scaled_dot_product_attention": Case(F.scaled_dot_product_attention, (2, 2, 5, 8), (2, 2, 5, 8), (2, 2, 5, 8)),
    "scaled_dot_product_attention with a bias": Case(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        (1, 2, 5, 8),
        (1, 2, 6, 8),
        (1, 2, 6, 8),
        (5, 6),
    ),
    "scaled_dot_product_attention with a masked row": Case(
        F.scaled_dot_product_attention,
        (1, 2, 3, 8),
        (1, 2, 4, 8),
        (1, 2, 4, 8),
        torch.tensor([[0.0] * 4, [-torch.inf] * 4, [0, -torch.inf, 0, -torch.inf]]),
    ),
    "scaled_dot_product_attention with a mask of bool": Case(
        F.scaled_dot_product_attention, (1, 2, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8), torch.ones(3, 3).tril().bool()
    ),
    "scaled_dot_product_attention of three dimensions": Case(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        (2, 5, 8),
        (2, 6, 8),
        (2, 6, 8),
        torch.tensor([-torch.inf] * 6 + [0.0] * 24).view(5, 6),
    ),
    "causal attention": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (2, 3, 6, 8),
        (2, 3, 6, 8),
        (2, 3, 6, 8),
    ),
    "attention over heads that were split by a view": Case(
        lambda q, k, v: F.scaled_dot_product_attention(*(t.view(2, 5, 3, 8).transpose(1, 2) for t in (q, k, v))),
        (2, 5, 24),
        (2, 5, 24),
        (2, 5, 24),
    ),
    "attention with fewer keys than queries": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True, scale=0.3),
        (2, 6, 5, 8),
        (2, 3, 4, 8),
        (2, 3, 4, 8),
    ),
}

LAYER = {"gemm": 4, "reduce": 2, "attention": 1}

LAYERS = {
    "a transformer layer": Case(layer(32), (2, 5, 32), commands=LAYER),
    "norm first, GELU": Case(layer(32, norm_first=True, activation="gelu"), (2, 5, 32), commands=LAYER),
    "one image": Case(layer(64), (1, 5, 64), commands=LAYER),
    "two layers": Case(
        nn.TransformerEncoder(layer(32), 2, enable_nested_tensor=False),
        (2, 5, 32),
        commands={"gemm": 8, "reduce": 4, "attention": 2},
    ),
    "self-attention": Case(Native(need_weights=False), (2, 5, 32), commands={"gemm": 2, "attention": 1}),
    "self-attention of one image": Case(
        Attend(32, need_weights=False), (1, 5, 32), commands={"gemm": 2, "attention": 1}
    ),
}
"""Heads of whole vectors: nothing is copied."""

ODD_LAYERS = {
    "heads narrower than a vector": Case(layer(16), (2, 5, 16)),
    "heads of 5": Case(layer(10, norm_first=True), (3, 7, 10)),
    "a mask": Case(Masked(32, src_mask=CAUSAL), (2, 5, 32)),
    "padding": Case(Masked(32, src_key_padding_mask=PADDED), (2, 5, 32)),
    "padding of everything": Case(Masked(32, src_key_padding_mask=torch.ones(2, 5).bool()), (2, 5, 32)),
    "a mask and padding": Case(Masked(16, src_mask=CAUSAL, src_key_padding_mask=PADDED), (2, 5, 16)),
    "averaged weights": Case(Native(), (2, 5, 32)),
    "the weights of each head": Case(Native(average_attn_weights=False), (2, 5, 32)),
    "a memory": Case(Native(need_weights=False), (2, 5, 32), (2, 5, 32)),
    "key and value of their own": Case(Native(need_weights=False), (2, 5, 32), (2, 5, 32), (2, 5, 32)),
    "a mask of any shape": Case(
        Native(mask=CAUSAL.expand(2, 2, 5, 5).contiguous(), mask_type=2, need_weights=False), (2, 5, 32)
    ),
    "a batch of nn.MultiheadAttention": Case(Attend(32), (2, 5, 32)),
    "nn.MultiheadAttention with a mask": Case(Attend(32, attn_mask=CAUSAL, need_weights=False), (2, 5, 32)),
    "nn.MultiheadAttention with a memory": Case(Attend(16, need_weights=False), (2, 5, 16), (2, 7, 16)),
}


@pytest.mark.parametrize("case", LAYERS.values(), ids=LAYERS)
def test_a_layer_in_one_op_copies_nothing(case: Case) -> None:
    assert check(case).graphs[0].layout_changes == 0


@pytest.mark.parametrize("case", ODD_LAYERS.values(), ids=ODD_LAYERS)
def test_masks_and_odd_sizes_are_one_launch_too(case: Case) -> None:
    check(case)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    scores = q @ k.transpose(-2, -1) * 0.5
    return torch.softmax(scores if mask is None else scores + mask, -1) @ v


NAN_ROW = torch.ones(1, 2, 4, 4).index_fill(2, torch.tensor([1]), torch.nan)
MASKED_ROW = torch.zeros(1, 1, 4, 7).index_fill(2, torch.tensor([1]), -torch.inf)

FUSED = {
    "several blocks of rows and panels of keys": Case(attend, (1, 2, 50, 24), (1, 2, 70, 24), (1, 2, 70, 40)),
    "keys of 1200 positions": Case(attend, (1, 5, 64), (1, 1200, 64), (1, 1200, 64)),
    "a mask for all heads": Case(attend, (2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), (2, 1, 1, 7)),
    "a number for each query": Case(attend, (2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), (5, 1)),
    "a static mask": Case(Call(attend, mask=torch.randn(5, 7)), (2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8)),
    "a query that is NaN": Case(attend, NAN_ROW, (1, 2, 7, 4), (1, 2, 7, 4)),
    "a row that is masked altogether": Case(attend, (1, 2, 4, 4), (1, 2, 7, 4), (1, 2, 7, 4), MASKED_ROW),
}


@pytest.mark.parametrize("case", FUSED.values(), ids=FUSED)
def test_attention_is_one_command(case: Case) -> None:
    assert check(case).graphs[0].opcodes["attention"] == 1


SEPARATE = {
    "a query at a time": Case(attend, (2, 3, 1, 16), (2, 3, 33, 16), (2, 3, 33, 16)),
    "the weights are wanted": Case(lambda x: ((w := torch.softmax(x @ x.mT, -1)) @ x, w), (2, 5, 8)),
    "a softmax of columns": Case(lambda x: torch.softmax(x @ x.mT, 1) @ x, (2, 5, 8)),
    "more keys than a row of scores": Case(attend, (1, 4, 2), (1, 4100, 2), (1, 4100, 2)),
    "heads that are merged behind the softmax": Case(
        lambda x: torch.bmm(torch.softmax(x @ x.mT, -1).view(1, 10, 5), x.view(1, 5, 16)), (2, 5, 8)
    ),
    "rounded weights": Case(lambda x: torch.softmax(x @ x.mT, -1) @ x, torch.randn(2, 5, 8).bfloat16()),
}


@pytest.mark.parametrize("case", SEPARATE.values(), ids=SEPARATE)
def test_what_the_core_does_not_do_is_three_commands(case: Case) -> None:
    opcodes = check(case).graphs[0].opcodes
    # Where the CPU multiplies bfloat16 the products of such matrices are gemm_bf16's.
    assert opcodes.get("gemm", 0) + opcodes.get("gemm_bf16", 0) == 2 and "attention" not in opcodes


def test_batch_heads_and_scale_are_in_the_products() -> None:
    project = Call(lambda x, qkv, out: attention(x, qkv) @ out, qkv=torch.randn(32, 96), out=torch.randn(32, 16))
    assert check(Case(project, (2, 5, 32))).graphs[0].opcodes == {"gemm": 2, "attention": 1}


@pytest.mark.parametrize("case", WHOLE.values(), ids=WHOLE)
def test_attention_is_one_launch(case: Case) -> None:
    check(case)


def test_attention_gives_eager_gradients() -> None:
    inputs = [torch.randn(2, 3, rows, 8, generator=torch.Generator().manual_seed(rows)) for rows in (5, 7, 7)]
    gradients = []
    attention_of = F.scaled_dot_product_attention
    functions: tuple[Any, ...] = (attention_of, torch.compile(attention_of, backend="fpga", options=GREEDY))
    for function in functions:
        leaves = [tensor.clone().requires_grad_() for tensor in inputs]
        function(*leaves).square().sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)
