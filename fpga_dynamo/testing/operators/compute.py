"""Convolution, normalisation, linear algebra, attention, embedding, scans."""

from __future__ import annotations

import torch

from fpga_dynamo.testing.builder import Builder
from fpga_dynamo.testing.operators.table import (
    VOCABULARY,
    as_index,
    batched_matrix,
    divisors,
    floating,
    image,
    matrix,
    operator,
    tokens,
    truth,
    vector,
    wide_image,
)


@operator(image, weight=5)
def conv2d(b: Builder, name: str, x: torch.Tensor) -> None:
    channels = x.shape[1]
    groups = b.choose(*divisors(channels))
    out_channels = groups * b.choose(1, 2, 3, 4, 8, 16, 20) if groups < 8 else groups * b.choose(1, 2)
    kernel = (b.integer(1, 4), b.integer(1, 4))
    stride = (b.integer(1, 3), b.integer(1, 3))
    # A dilation of a kernel of one column means nothing; with padding and a stride torch 2.13 crashes on it in eager.
    dilation = tuple(d if k > 1 else 1 for k, d in zip(kernel, (b.choose(1, 1, 2), b.choose(1, 1, 2, 3)), strict=True))
    padding = b.choose((0, 0), (1, 1), (kernel[0] // 2, kernel[1] // 2), (2, 0), "'valid'", "'same'")
    mode = b.choose("", "", "", "", ", padding_mode='reflect'") if isinstance(padding, tuple) else ""
    b.emit(
        f"OP({name})",
        f"torch.nn.Conv2d({channels}, {out_channels}, {kernel}, stride={stride}, padding={padding}, "
        f"dilation={dilation}, groups={groups}, bias={b.flag()}{mode})",
    )


@operator(wide_image)
def conv3x3(b: Builder, name: str, x: torch.Tensor) -> None:
    """A convolution that Winograd's method can do."""
    padding = b.choose(1, 0, 2, (0, 1))
    b.emit(
        f"OP({name})",
        f"torch.nn.Conv2d({x.shape[1]}, {b.choose(16, 4, 20, 48)}, 3, padding={padding}, bias={b.flag()})",
    )


@operator(image, weight=2)
def depthwise_conv2d(b: Builder, name: str, x: torch.Tensor) -> None:
    channels = x.shape[1]
    multiplier = b.choose(1, 1, 1, 2)
    kernel, dilation = b.choose(3, 1, 2, 5, (3, 1), (1, 5)), b.choose(1, 1, 2)
    b.emit(
        f"OP({name})",
        f"torch.nn.Conv2d({channels}, {channels * multiplier}, {kernel}, stride={b.choose(1, 2, (2, 1))}, "
        f"padding={b.integer(0, 2)}, dilation={dilation}, groups={channels}, bias={b.flag()})",
    )


@operator(image)
def conv2d_by_activation(b: Builder, name: str, x: torch.Tensor) -> None:
    """A convolution whose weight is computed by the graph, so it cannot be packed ahead."""
    weight, w = b.pick(vector)
    size = b.integer(1, 3)
    per_output = x.shape[1] * size * size
    outputs = min(w.numel() // per_output, 20)
    if outputs < 1:
        return
    kernel = f"{weight}.flatten()[:{outputs * per_output}].view({outputs}, {x.shape[1]}, {size}, {size})"
    b.emit(f"F.conv2d({name}, {kernel}, padding={b.integer(0, 1)})")


@operator(image)
def conv_transpose2d(b: Builder, name: str, x: torch.Tensor) -> None:
    stride = b.integer(1, 2)
    b.emit(
        f"OP({name})",
        f"torch.nn.ConvTranspose2d({x.shape[1]}, {b.choose(1, 4, 16)}, {b.integer(1, 3)}, stride={stride})",
    )


@operator(batched_matrix)
def conv1d(b: Builder, name: str, x: torch.Tensor) -> None:
    b.emit(
        f"OP({name})",
        f"torch.nn.Conv1d({x.shape[1]}, {b.choose(1, 4, 16)}, {b.integer(1, 3)}, padding={b.integer(0, 1)}, "
        f"bias={b.flag()})",
    )


@operator(image, weight=3)
def batch_norm(b: Builder, name: str, x: torch.Tensor) -> None:
    affine = b.choose("", "", ", affine=False")
    b.emit(f"OP({name})", f"torch.nn.BatchNorm2d({x.shape[1]}, eps={b.choose(1e-5, 1e-3)}{affine})")


@operator(vector)
def layer_norm(b: Builder, name: str, x: torch.Tensor) -> None:
    shape = list(x.shape[x.dim() - b.integer(1, min(x.dim(), 3)) :])
    affine = b.choose("", ", elementwise_affine=False", ", bias=False")
    b.emit(f"OP({name})", f"torch.nn.LayerNorm({shape}{affine})")


@operator(vector)
def rms_norm(b: Builder, name: str, x: torch.Tensor) -> None:
    b.emit(f"OP({name})", f"torch.nn.RMSNorm({list(x.shape[-1:])}, eps=1e-5)")


@operator(lambda t: matrix(t) and t.dim() <= 4)
def group_norm(b: Builder, name: str, x: torch.Tensor) -> None:
    b.emit(f"OP({name})", f"torch.nn.GroupNorm({b.choose(*divisors(x.shape[1]))}, {x.shape[1]})")


@operator(image)
def instance_norm(b: Builder, name: str, x: torch.Tensor) -> None:
    b.emit(f"OP({name})", f"torch.nn.InstanceNorm2d({x.shape[1]}, affine={b.flag()})")


@operator(vector, weight=3)
def linear(b: Builder, name: str, x: torch.Tensor) -> None:
    b.emit(f"OP({name})", f"torch.nn.Linear({x.shape[-1]}, {b.choose(1, 2, 10, 16, 17, 40)}, bias={b.flag()})")


@operator(vector, weight=2)
def matmul(b: Builder, left: str, x: torch.Tensor) -> None:
    inner = x.shape[-1]

    def fits(t: torch.Tensor) -> bool:
        return vector(t) and (t.shape[-2] if t.dim() > 1 else t.shape[0]) == inner

    if b.flag():
        right, _ = b.pick(lambda t: matrix(t) and t.shape[-1] == inner)
        b.emit(f"{left} @ {right}.transpose(-1, -2)")
    else:
        right, _y = b.pick(fits)
        b.emit(f"{left} @ {right}")


@operator(batched_matrix)
def bmm(b: Builder, left: str, x: torch.Tensor) -> None:
    right, _ = b.pick(lambda t: batched_matrix(t) and t.shape[0] == x.shape[0] and t.shape[1:] == x.shape[1:])
    b.emit(b.choose(f"torch.bmm({left}, {right}.mT)", f"torch.bmm({left}.mT, {right})"))


@operator(matrix, first=lambda t: matrix(t) and t.dim() == 2)
def addmm(b: Builder, left: str, x: torch.Tensor) -> None:
    right, _y = b.pick(lambda t: matrix(t) and t.dim() == 2 and t.shape[1] == x.shape[1])
    bias, _ = b.pick(lambda t: floating(t) and t.dim() <= 2 and t.numel() > 0)
    b.emit(f"torch.addmm({bias}, {left}, {right}.t(), beta={b.choose(1, 0.5)}, alpha={b.choose(1, 2)})")


def finite_matrix(t: torch.Tensor) -> bool:
    # A row of scores that are all NaN gives 0 in eager mode's fused kernel where the value is a number, and NaN by the
    # formula: what it gives for NaN depends on its vector width. Of rows that overlap (`unfold`) it reads beyond their
    # end: other numbers at each call.
    apart = batched_matrix(t) and (t.stride(-1) != 1 or t.stride(-2) >= t.shape[-1] or t.shape[-2] == 1)
    return apart and bool(torch.isfinite(t).all())


@operator(finite_matrix)
def attention(b: Builder, name: str, _: torch.Tensor) -> None:
    b.emit(f"F.scaled_dot_product_attention(*[{name}.unsqueeze(1)] * 3, is_causal={b.flag()})")


@operator(tokens, weight=3)
def embedding(b: Builder, name: str, _: torch.Tensor) -> None:
    padding = b.choose("", ", padding_idx=0")
    b.emit(f"OP({as_index(name)})", f"torch.nn.Embedding({VOCABULARY}, {b.choose(4, 8, 16, 17)}{padding})")


@operator(vector, weight=2)
def scan(b: Builder, name: str, x: torch.Tensor) -> None:
    dim = b.dimension(x)
    of = b.choose(name, name, f"{name}.flip({dim})")
    scanned = b.choose(f"torch.cumsum({of}, {dim})", f"torch.cumprod({of}, {dim})", f"torch.logcumsumexp({of}, {dim})")
    b.emit(scanned if of is name else f"{scanned}.flip({dim})")


@operator(lambda t: truth(t) and t.dim() >= 1)
def count_so_far(b: Builder, name: str, x: torch.Tensor) -> None:
    b.emit(f"torch.{b.choose('cumsum', 'cumprod')}({name}, {b.dimension(x)})")
