"""Whole layers that consist of many operators, other numbers of dimensions than images have, and losses."""

from __future__ import annotations

import torch

from fpga_dynamo.testing.builder import Builder
from fpga_dynamo.testing.operators.compute import finite_matrix
from fpga_dynamo.testing.operators.table import (
    VOCABULARY,
    as_index,
    batched_matrix,
    floating,
    matrix,
    operator,
    tokens,
    truth,
    vector,
    volume,
)


@operator(volume, weight=2)
def conv3d(b: Builder, name: str, x: torch.Tensor) -> None:
    b.emit(
        f"OP({name})",
        f"torch.nn.Conv3d({x.shape[1]}, {b.choose(1, 4, 8)}, {b.integer(1, 3)}, stride={b.integer(1, 2)}, "
        f"padding={b.integer(0, 1)}, bias={b.flag()})",
    )


@operator(lambda t: batched_matrix(t) or volume(t), weight=2)
def pool_1d_or_3d(b: Builder, name: str, x: torch.Tensor) -> None:
    kind, kernel = b.choose("max", "avg"), b.integer(1, 3)
    b.emit(
        f"F.{kind}_pool{x.dim() - 2}d({name}, {kernel}, stride={b.integer(1, 2)}, padding={b.integer(0, kernel // 2)})"
    )


@operator(lambda t: batched_matrix(t) or volume(t))
def conv_transpose_1d_or_3d(b: Builder, name: str, x: torch.Tensor) -> None:
    kernel, stride = b.integer(1, 3), b.integer(1, 2)
    b.emit(
        f"OP({name})",
        f"torch.nn.ConvTranspose{x.dim() - 2}d({x.shape[1]}, {b.choose(1, 4)}, {kernel}, stride={stride}, "
        f"padding={b.integer(0, kernel // 2)}, output_padding={b.integer(0, stride - 1)})",
    )


@operator(batched_matrix)
def recurrent(b: Builder, name: str, x: torch.Tensor) -> None:
    cell = b.choose("GRU", "LSTM", "RNN")
    b.emit(
        f"OP({name})[0]",
        f"torch.nn.{cell}({x.shape[2]}, {b.choose(1, 4, 8)}, {b.integer(1, 2)}, batch_first={b.flag()}, "
        f"bidirectional={b.flag()})",
    )


@operator(finite_matrix, first=lambda t: finite_matrix(t) and t.shape[2] % 2 == 0)
def encoder_layer(b: Builder, name: str, x: torch.Tensor) -> None:
    width = x.shape[2]
    if b.flag():
        b.emit(
            f"OP(*[{name}] * 3, need_weights=False)[0]", f"torch.nn.MultiheadAttention({width}, 2, batch_first=True)"
        )
    else:
        b.emit(
            f"OP({name})",
            f"torch.nn.TransformerEncoderLayer({width}, 2, 16, dropout=0.0, batch_first=True, norm_first={b.flag()})",
        )


@operator(finite_matrix)
def masked_attention(b: Builder, name: str, x: torch.Tensor) -> None:
    length = x.shape[1]
    query = f"{name}.unsqueeze(1).expand(-1, 4, -1, -1)"
    keys = f"{name}.unsqueeze(1).expand(-1, 2, -1, -1)"
    mask = b.choose(
        "",
        f", attn_mask=torch.ones({length}, {length}, dtype=torch.bool).tril()",
        f", attn_mask=torch.linspace(-1, 1, {length}, dtype={name}.dtype)",
    )
    b.emit(f"F.scaled_dot_product_attention({query}, {keys}, {keys}{mask}, enable_gqa=True)")


_PRODUCTS = ("bij,bkj->bik", "bij,bij->b", "bij,bij->bj", "bij,bik->bjk", "bij,bkj->kbi")


@operator(batched_matrix)
def einsum(b: Builder, left: str, x: torch.Tensor) -> None:
    right, _ = b.pick(lambda t: batched_matrix(t) and t.shape == x.shape)
    b.emit(f"torch.einsum('{b.choose(*_PRODUCTS)}', {left}, {right})")


@operator(matrix, first=lambda t: matrix(t) and t.shape[1] >= VOCABULARY)
def cross_entropy(b: Builder, name: str, x: torch.Tensor) -> None:
    labels, _ = b.pick(lambda t: tokens(t) and t.shape == x.shape[:1] + x.shape[2:])
    b.emit(f"F.cross_entropy({name}, {as_index(labels)}, reduction={b.choose('mean', 'sum', 'none')!r})")


_LOSSES = (
    "F.mse_loss({}, {})",
    "F.l1_loss({}, {})",
    "F.smooth_l1_loss({}, {}, beta=0.5)",
    "F.huber_loss({}, {}, reduction='none')",
    "F.binary_cross_entropy_with_logits({}, {}.sigmoid())",
    "F.kl_div({}.log_softmax(-1), {}.softmax(-1), reduction='sum')",
    "F.cosine_similarity({}, {}, dim=-1)",
    "torch.lerp({}, {}, 0.25)",
    "torch.addcmul({0}, {0}, {1}, value=0.5)",
    "torch.hypot({}, {})",
)


@operator(vector, weight=2)
def loss(b: Builder, name: str, x: torch.Tensor) -> None:
    other, _ = b.pick(lambda t: floating(t) and t.shape == x.shape)
    b.emit(b.choose(*_LOSSES).format(name, other))


@operator(vector)
def gate(b: Builder, name: str, x: torch.Tensor) -> None:
    dim = b.dimension(x)
    if x.shape[dim] % 2 == 0:
        b.emit(f"F.glu({name}, {dim})")


@operator(vector, first=lambda t: matrix(t) and t.shape[-1] % 2 == 0)
def rotation(b: Builder, name: str, x: torch.Tensor) -> None:
    """Rotary position embedding."""
    half = x.shape[-1] // 2
    angle = f"torch.arange({x.shape[-2]}, dtype={name}.dtype).unsqueeze(1) / 10 ** torch.linspace(0, 1, {x.shape[-1]})"
    turned = f"torch.cat([-{name}[..., {half}:], {name}[..., :{half}]], -1)"
    b.emit(f"{name} * torch.cos({angle}) + {turned} * torch.sin({angle})")


@operator(vector)
def normalised(b: Builder, name: str, x: torch.Tensor) -> None:
    b.emit(f"F.normalize({name}, dim={b.dimension(x)})")


@operator(truth)
def chosen_by_any(b: Builder, condition: str, _: torch.Tensor) -> None:
    """A number of the graph that a comparison yields scales a tensor."""
    name, _x = b.pick(vector)
    b.emit(f"{name} * {condition}.{b.choose('any', 'all', 'sum')}()")
