"""Attention's products, softmax, layer norms and tables as commands, and what they have to give."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.engine import memory
from benchmarks.engine.layers import Product, Rows
from fpga_dynamo.codegen.engine.command import MacCommand, WeightKind
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.codegen.engine.vector import (
    BETA_FRACTION,
    EXPONENT_BITS,
    GAMMA_FRACTION,
    VectorCommand,
    VectorFlags,
    VectorOperation,
)
from fpga_dynamo.codegen.requantize import channels as requantized
from fpga_dynamo.ir.view import ceil_div

if TYPE_CHECKING:
    from benchmarks.engine.build import Builder

_PROBABILITY = 256.0
"""1 / scale of softmax's results, whose zero point is -128."""


def product(builder: Builder, layer: Product) -> None:
    """Q·Kᵀ, whose heads get a map each, or S·V, whose heads are channels side by side."""
    first, second = layer.inputs
    keys = layer.columns if layer.transposed else layer.inner
    pad = 0 if layer.transposed else -128  # zero point of the probabilities
    map_head = memory.map_lines(layer.rows, layer.columns)
    command = MacCommand(
        weight_kind=WeightKind.MAP if layer.transposed else WeightKind.TRANSPOSED,
        input=builder.place(first),
        input_after=builder.after(first),
        weight=builder.place(second),
        weight_after=builder.after(second),
        weight_plane=memory.map_lines(keys, CHANNELS),
        in_blocks=ceil_div(layer.inner, CHANNELS),
        in_width=layer.rows,
        out_blocks=ceil_div(layer.columns, CHANNELS),
        out_width=layer.rows,
        group_in=layer.inner,
        group_out=ceil_div(layer.columns, CHANNELS) * CHANNELS,
        heads=(1, layer.heads),
        input_head=(0, memory.map_lines(layer.rows, layer.inner)),
        weight_head=(0, memory.map_lines(keys, layer.inner if layer.transposed else layer.columns)),
        output_head=(0, map_head),
        pad=pad,
    )
    scale = 1.0 / 320 if layer.transposed else 4.0 / _PROBABILITY
    if layer.transposed:
        builder.built.heads[layer.output.map] = layer.heads
    sums = None
    if builder.check:
        a, b = builder.value(first).double().flatten(1), builder.value(second).double().flatten(1)
        if layer.transposed:
            q, k = a.view(layer.heads, layer.inner, -1), b.view(layer.heads, layer.inner, -1)
            sums = (k.transpose(1, 2) @ q).permute(1, 0, 2)  # (keys, heads, rows)
        else:
            scores = a.view(layer.inner, layer.heads, -1).permute(1, 0, 2) - pad
            sums = (b.view(layer.heads, layer.columns, -1) @ scores).permute(1, 0, 2)  # (columns, heads, rows)
    builder.append_product(command, layer, sums, scale)


def rows(builder: Builder, layer: Rows) -> None:
    """Softmax, layer norm, or a table alone, on the vector side. Of other kinds it has no command: KeyError."""
    source = layer.inputs[0]
    heads = builder.built.heads.get(source.map, 1)
    channels, pixels = layer.shape.channels, layer.shape.pixels // heads
    operation, flags = VectorOperation.ADD, VectorFlags.NONE
    zero, scale, epsilon = 0, 1.0, 1.0
    x = builder.value(source).flatten(1).long() if builder.check else None
    value: Tensor | None = None
    if layer.kind == "softmax":
        operation, zero, scale = VectorOperation.SOFTMAX, -128, _PROBABILITY
        entries = (torch.exp(-0.05 * torch.arange(256, dtype=torch.float64)) * (1 << EXPONENT_BITS)).round().long()
        params = entries.to(torch.int32).view(torch.uint8)
        value = None if x is None else _softmax(x, entries, scale) + zero
    elif layer.kind == "layer_norm":
        operation, epsilon = VectorOperation.NORM, 1e-5 * (channels * 40.0) ** 2
        gamma = (20 + 20 * torch.rand(channels, generator=builder.random)) * 2.0**GAMMA_FRACTION
        gamma = gamma.int()
        beta = torch.randint(-10, 11, (channels,), generator=builder.random).int() << BETA_FRACTION
        padded = torch.zeros(2, ceil_div(channels, CHANNELS) * CHANNELS, dtype=torch.int32)
        padded[0, :channels], padded[1, :channels] = gamma, beta
        params = padded.view(2, -1, CHANNELS).transpose(0, 1).contiguous().view(-1).view(torch.uint8)
        value = None if x is None else _norm(x, epsilon, gamma, beta)
    else:
        flags = VectorFlags.TABLE
        steps = torch.arange(-128, 128, dtype=torch.float32)
        table = _TABLES[layer.kind](steps / 32).mul(32).round().clamp(-128, 127).to(torch.int8)
        params = table.view(torch.uint8)
        value = None if x is None else table[x + 128].long()
    head = memory.map_lines(pixels, channels)
    command = VectorCommand(
        operation=operation,
        flags=flags,
        input=builder.place(source),
        input_after=builder.after(source),
        output=builder.place(layer.output),
        channels=channels,
        pixels=pixels,
        heads=(1, heads),
        input_head=(0, head),
        output_head=(0, head),
        epsilon=float(torch.tensor(epsilon, dtype=torch.float32)),
        row_scale=scale,
        input_scale=int(requantized(torch.ones(1, dtype=torch.float64), 0.0, 255.0).scale[0]),
        zero=zero,
    )
    if heads > 1:
        builder.built.heads[layer.output.map] = heads
    of_int8 = None if value is None else value.clamp(-128, 127).to(torch.int8)
    builder.append_vector(command, layer, params, of_int8)


_TABLES: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "relu": functional.relu,
    "relu6": functional.relu6,
    "silu": functional.silu,
    "leaky_relu": functional.leaky_relu,
}


def _softmax(x: Tensor, entries: Tensor, scale: float) -> Tensor:
    """Of columns: x (keys, rows), entries (256) the exponentials of distances to a row's greatest key."""
    e = entries[x.amax(0, keepdim=True) - x]
    factor = torch.tensor(scale) / e.sum(0).float()
    return torch.round(_floored(e, *_scale_of_float(factor))[0]).long()


def _norm(x: Tensor, epsilon: float, gamma: Tensor, beta: Tensor) -> Tensor:
    """Of columns: x (channels, rows). gamma, beta: integers, of each channel."""
    channels, sums = x.shape[0], x.sum(0)
    spread = channels * (x * x).sum(0) - sums * sums
    # Roots and quotients of doubles, rounded to floats, are those of floats to the last bit: PyTorch's own roots of
    # floats are a library's, which is off by one on some CPUs.
    root = (spread.float() + torch.tensor(epsilon, dtype=torch.float32)).double().sqrt().float()
    scale = (1.0 / root.double()).float()
    normal = _floored(channels * x - sums, *_scale_of_float(scale))[1]
    units = normal * gamma[:, None].long() + (beta[:, None].long() << GAMMA_FRACTION)
    return torch.round(units.double() * 2.0 ** -(GAMMA_FRACTION + BETA_FRACTION)).long()


def _scale_of_float(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mantissas and shifts of positive floats, rounded towards 0: hls_kernels/engine/vector/arithmetic.hpp."""
    bits = x.view(torch.int32).long()
    exponent, mantissa = bits >> 23 & 0xFF, (bits & 0x7FFFFF) | 0x800000
    shift = ((130 - exponent) >> 2).clamp(max=7)
    left = exponent - 128 + 4 * shift
    return torch.where(left >= 0, mantissa << left.clamp(min=0), mantissa >> (-left).clamp(0, 31)), shift


def _floored(x: Tensor, mantissa: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """x times the scale: exactly, as doubles; and in units of 2^-22, rounded down."""
    product = x.long() * mantissa
    units = torch.ldexp(torch.ones_like(shift, dtype=torch.float64), -22 - 4 * shift)
    return product.double() * units, product >> (4 * shift)
