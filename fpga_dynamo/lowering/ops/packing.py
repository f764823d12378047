"""Parameters of convolutions, and of the batch norm behind one, in the order in which the cores read them.

Tests: tests/lowering/test_convolution.py, tests/lowering/test_pointwise.py.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from fpga_dynamo.lowering.view import VEC, ceil_div


def panel_vectors(channels: int, most: int) -> int:
    """Width of a panel / VEC: of those that give the fewest panels, the narrowest, as it pads `channels` least."""
    panels = ceil_div(channels, VEC * most)
    return ceil_div(channels, VEC * panels)


def folded(
    eps: float | None,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    gamma: torch.Tensor | None,
    beta: torch.Tensor | None,
    mean: torch.Tensor | None,
    variance: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias in float64 with an inference batch norm folded in (eps None: there is none).

    y = (conv(x) - mean) / sqrt(variance + eps) * gamma + beta
    """
    w = weight.double()
    b = torch.zeros(w.shape[0], dtype=torch.float64) if bias is None else bias.double()
    if eps is None or mean is None or variance is None:
        return w, b
    scale = torch.rsqrt(variance.double() + eps)
    if gamma is not None:
        scale = scale * gamma.double()
    b = (b - mean.double()) * scale
    return w * scale.reshape(-1, *[1] * (w.dim() - 1)), b if beta is None else b + beta.double()


Form = tuple[int, bool, tuple[tuple[int, ...], ...], bool] | None
"""Which of a parameter's weights a command multiplies by: groups, whether the parameter is that of a transposed
convolution, the taps along each axis, and whether the first axis becomes part of the channels. None: all, in order."""


def formed(form: Form, weight: torch.Tensor) -> torch.Tensor:
    """The weights that `form` names as [output channel, channel of a group, taps of each axis].

    A first axis that becomes part of the channels is outside of them: [output channel, depth and channel, ...].
    """
    if form is None:
        return weight
    groups, transposed, taps, folds = form
    if transposed:
        by_group = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
        weight = by_group.transpose(1, 2).flatten(0, 1)
    for axis, wanted in enumerate(taps, 2):
        if wanted != tuple(range(weight.shape[axis])):
            weight = weight.index_select(axis, torch.tensor(wanted))
    return weight.transpose(1, 2).flatten(1, 2) if folds else weight


def _channel_factors(eps: float | None, weight: torch.Tensor, *tensors: torch.Tensor | None) -> torch.Tensor | None:
    """What folding multiplies each output channel by, in float32; None for one. Much smaller than the folded weight."""
    if eps is None:
        return None
    factors, _ = folded(eps, torch.ones(weight.shape[0]), *tensors)  # type: ignore[arg-type]
    return factors.to(torch.float32)


def pack_weight(params: tuple[Any, ...], weight: torch.Tensor, *tensors: torch.Tensor | None) -> torch.Tensor:
    """[group][panel][kernel row, kernel column, input channel][16 vectors], output channels padded with zeros."""
    groups, vectors, eps, form = params
    weight = formed(form, weight)
    out_channels, in_channels, width = weight.shape[0] // groups, weight.shape[1], VEC * vectors
    rows = weight.reshape(groups, out_channels, in_channels, -1).permute(0, 3, 2, 1)
    factors = _channel_factors(eps, weight, *tensors)
    factors = None if factors is None else factors.reshape(groups, 1, 1, out_channels)
    packed = torch.empty(groups, ceil_div(out_channels, width), rows.shape[1], in_channels, width)
    for panel in range(packed.shape[1]):  # one at a time: it stays in a cache between transposition and scaling
        columns = slice(panel * width, min(out_channels, (panel + 1) * width))
        block = packed[:, panel]
        block[..., columns.stop - columns.start :] = 0
        used = block[..., : columns.stop - columns.start]
        used.copy_(rows[..., columns])
        if factors is not None:
            used.mul_(factors[..., columns])
    return packed.flatten()


def pack_depthwise(params: tuple[Any, ...], weight: torch.Tensor, *tensors: torch.Tensor | None) -> torch.Tensor:
    """[kernel row, kernel column][channel], channels padded with zeros."""
    eps, form = params
    weight = formed(form, weight)
    factors = _channel_factors(eps, weight, *tensors)
    rows = weight.to(torch.float32).reshape(weight.shape[0], -1).t()
    rows = rows if factors is None else rows * factors
    return F.pad(rows, (0, -rows.shape[1] % VEC)).flatten()


def pack_bias(params: tuple[Any, ...], weight: torch.Tensor, *tensors: torch.Tensor | None) -> torch.Tensor:
    """[group][output channel], padded with zeros to whole panels."""
    groups, width, eps, channels = params
    _, b = folded(eps, weight.new_empty(channels, 0), *tensors)  # type: ignore[arg-type]
    b = b.reshape(groups, -1)
    return F.pad(b, (0, -b.shape[1] % width)).to(torch.float32).flatten()


def pack_scale_or_shift(
    params: tuple[Any, ...],
    gamma: torch.Tensor | None,
    beta: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
) -> torch.Tensor:
    """Of a batch norm alone: its "scale", gamma / sqrt(variance + eps), or its "shift", beta - mean scale."""
    which, eps = params
    scale, shift = folded(eps, torch.ones_like(mean), None, gamma, beta, mean, variance)
    return (scale if which == "scale" else shift).to(torch.float32)
