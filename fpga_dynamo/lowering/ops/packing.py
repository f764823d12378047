"""Parameters of convolutions, and of the batch norm behind one, in the order in which the cores read them.

Tests: tests/lowering/test_convolution.py, tests/lowering/test_pointwise.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from fpga_dynamo._native import pack_panels
from fpga_dynamo.ir.dtypes import HALVES
from fpga_dynamo.ir.elements import WORD_BYTES
from fpga_dynamo.ir.records import GemmBf16, GemmInt8
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, ceil_div, numel
from fpga_dynamo.ir.weights import NotFiniteError, all_finite


def panel_vectors(channels: int, most: int) -> int:
    """Width of a panel / VEC: of those that give the fewest panels, the narrowest, as it pads `channels` least."""
    panels = ceil_div(channels, VEC * most)
    return ceil_div(channels, VEC * panels)


def int8_panel_vectors(channels: int, target: Target) -> int:
    """Width of a panel of int8 weights / VEC.

    A host's unit for tiles takes 32 columns at a time. In panels of as many, those lie side by side, and more of them
    find room in the nearest cache.
    """
    most = target.tiles["MAX_VECTORS"]
    return panel_vectors(channels, min(most, 2) if "tiles" in target.multiplies else most)


def product_tiles(c: GemmBf16 | GemmInt8, target: Target) -> int:
    """Tiles of the MAC array that a product takes."""
    batch, rows = numel(c.batch), c.rows
    if c.b_packed:  # all rows meet the same matrix
        batch, rows = 1, batch * rows
    return batch * ceil_div(rows, target.tiles["ROWS"]) * ceil_div(c.columns, VEC * c.vectors)


def weight_words(count: int, format: int | None, target: Target) -> int:
    """Words of packed weights in a format of a record; FORMAT_F32 is 0."""
    return ceil_div(count * target.element(format).bytes, WORD_BYTES) if format else count


def folded(
    eps: float | None,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    gamma: torch.Tensor | None,
    beta: torch.Tensor | None,
    mean: torch.Tensor | None,
    variance: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias in float64 with an inference batch norm folded in (eps None: no batch norm).

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
    _, _, taps, folds = form
    weight = _oriented(form, weight)
    for axis, wanted in enumerate(taps, 2):
        if wanted != tuple(range(weight.shape[axis])):
            weight = weight.index_select(axis, torch.tensor(wanted))
    return weight.transpose(1, 2).flatten(1, 2) if folds else weight


def _oriented(form: Form, weight: torch.Tensor) -> torch.Tensor:
    """All taps of the weights as [output channel, channel of a group, ...]; a view, but for transposed groups."""
    if form is None or not form[1]:
        return weight
    by_group = weight.reshape(form[0], weight.shape[0] // form[0], *weight.shape[1:])
    return by_group.transpose(1, 2).flatten(0, 1)


def in_place(form: Form, weight: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
    """The same weights where they lie: [output channel, channel of a group, ...], and where the taps are in it."""
    if form is not None and form[3]:
        weight, taps = formed(form, weight), None
    else:
        weight, taps = _oriented(form, weight), form and form[2]
    places = [0]
    for axis, size in enumerate(weight.shape[2:], 2):
        wanted = range(size) if taps is None else taps[axis - 2]
        places = [place + tap * weight.stride(axis) for place in places for tap in wanted]
    return weight, places


def channel_factors(eps: float | None, weight: torch.Tensor, *tensors: torch.Tensor | None) -> torch.Tensor | None:
    """What folding multiplies each output channel by, in float64; None for one. Much smaller than the folded weight."""
    if eps is None:
        return None
    factors, _ = folded(eps, torch.ones(weight.shape[0]), *tensors)
    return factors


def packed_panels(
    weight: torch.Tensor,
    taps: Sequence[int],
    factors: torch.Tensor | None,
    width: int,
    transform: torch.Tensor | None = None,
    *,
    meets_zeros: bool,
) -> torch.Tensor:
    """[panel][element][input channel][width] of [output channel, input channel, ...], padded with zeros.

    The weights are float32, or of 16 bits, which are only put in order: there are neither factors nor a transform.
    taps: where they lie from a channel's first weight, in elements. factors: float64, of each output channel.
    transform: G, float64 of [points, 3]; then `taps` are those of 3x3 and an element is one of G g G^T, else a tap.
    What is multiplied is so in float64, and packing adds one rounding to a weight.
    meets_zeros: whether the weights may be multiplied by more than the image; see :func:`_demand_finite`.
    """
    out_channels, in_channels = weight.shape[:2]
    elements = len(taps) if transform is None else transform.shape[0] ** 2
    packed = torch.empty(ceil_div(out_channels, width), elements, in_channels, width, dtype=weight.dtype)
    factors = None if factors is None else factors.contiguous()
    finite = pack_panels(
        weight=weight.data_ptr(),
        factors=0 if factors is None else factors.data_ptr(),
        panels=packed.data_ptr(),
        outs=out_channels,
        ins=in_channels,
        width=width,
        out_stride=weight.stride(0),
        in_stride=weight.stride(1),
        taps=taps,
        infinity=_INFINITIES[weight.dtype],
        transform=[] if transform is None else transform.flatten().tolist(),
        threads=torch.get_num_threads(),
    )
    if meets_zeros:
        _demand_finite(finite)
    return packed


_INFINITIES = {torch.float32: 0, torch.bfloat16: 0x7F80, torch.float16: 0x7C00}
"""The pattern of an infinity of 16 bits, other numbers with all of whose bits are NaN; 0: elements are floats."""


def _demand_finite(finite: bool) -> None:
    """Raises :class:`NotFiniteError` unless the packed weights are `finite`.

    The card multiplies them by the zeros around an image, which makes NaN of others. Eager mode's kernels do so or
    leave those zeros out, by batch and direction.
    """
    if not finite:
        raise NotFiniteError("a weight of a convolution is infinite or NaN")


def pack_weight(params: tuple[Any, ...], weight: torch.Tensor, *tensors: torch.Tensor | None) -> torch.Tensor:
    """[group][panel][kernel row, kernel column, input channel][16 vectors], output channels padded with zeros.

    The last of `params`: whether the weights may be multiplied by more than the image.
    """
    groups, vectors, eps, form, meets_zeros = params
    weight, taps = in_place(form, weight if weight.dtype in HALVES else weight.to(torch.float32))
    factors = channel_factors(eps, weight, *tensors)
    rows = weight.unflatten(0, (groups, -1))
    parts = [None] * groups if factors is None else factors.chunk(groups)
    packed = [
        packed_panels(row, taps, part, VEC * vectors, meets_zeros=meets_zeros)
        for row, part in zip(rows, parts, strict=True)
    ]
    return (packed[0] if groups == 1 else torch.cat(packed)).flatten()


def pack_depthwise(params: tuple[Any, ...], weight: torch.Tensor, *tensors: torch.Tensor | None) -> torch.Tensor:
    """[kernel row, kernel column][channel], channels padded with zeros."""
    eps, form = params
    weight = formed(form, weight)
    factors = channel_factors(eps, weight, *tensors)
    rows = weight.to(torch.float32).reshape(weight.shape[0], -1).t()
    rows = rows if factors is None else rows * factors.to(torch.float32)
    _demand_finite(all_finite(rows))
    return F.pad(rows, (0, -rows.shape[1] % VEC)).flatten()


def pack_bias(params: tuple[Any, ...], weight: torch.Tensor, *tensors: torch.Tensor | None) -> torch.Tensor:
    """[group][output channel], padded with zeros to whole panels."""
    groups, width, eps, channels = params
    _, b = folded(eps, weight.new_empty(channels, 0), *tensors)
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
