"""Scales of quantised graphs as the integers of hls_kernels/lib/requantize.hpp, which defines each result to the bit.

`channels` is `make_channel` there, for all channels of an operation at a time, and `factor` is `make_factor`; a test
holds them against each other. `requantize` is the arithmetic itself, in doubles, exact for what `channels` makes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

FRACTION = 22
"""Bits behind the point of biases and factors."""
NIBBLE = 4
SHIFTS = 8
LARGEST_MANTISSA = 2.0**26 - 1
_LARGEST_BIAS = 2.0**31 - 1
_EXACT = 2.0**53 * 0.9375
_SUMS = 2.0**31


class RequantizeError(ValueError):
    """A scale, bias or range of sums that 8-bit results cannot be made of exactly."""


@dataclass(frozen=True)
class Channels:
    """What the engines hold of each output channel: int32 of shape (channels,) each.

    scale: mantissa << 5 | shift, of the number mantissa * 2^-(22 + 4 * shift). bias: in units of 2^-22 LSB.
    """

    offset: Tensor
    scale: Tensor
    bias: Tensor

    def factors(self) -> Tensor:
        """The scales as float64, exactly."""
        places = FRACTION + NIBBLE * (self.scale & (SHIFTS - 1))
        return torch.ldexp((self.scale >> 5).double(), -places)

    def biases(self) -> Tensor:
        """The biases in LSB as float64, exactly."""
        return self.bias.double() * 2.0**-FRACTION


def factor(scale: float) -> int:
    """`scale` of a residual or middle over the output's, in units of 2^-22. Raises RequantizeError from 16 on."""
    if not abs(scale) < 16 or abs(units := round(scale * 2.0**FRACTION)) > LARGEST_MANTISSA:
        raise RequantizeError("a residual's or intermediate result's scale is 16 or more times that of the output")
    return units


def channels(
    scale: Tensor, bias: Tensor | float, greatest: Tensor | float, offset: Tensor | int = 0, residual: float = 0.0
) -> Channels:
    """The channels whose results are (sum + offset) * scale + bias + a residual, in LSB of the output.

    scale: float64, one for each channel. bias: in LSB. greatest: of |sum + offset|, less than 2^31: the closer, the
    more bits a scale keeps. offset: int32, what zero points add to a sum. residual: the greatest |residual| in LSB.
    Power-of-two scales, and biases that are multiples of 2^-22 or of the scale, are exact. Raises RequantizeError for
    scales from 16 on, and for sums and biases too large for exact terms.
    """
    scale = scale.detach().double().reshape(-1)
    bias, greatest = _like(scale, bias), _like(scale, greatest)
    if not (torch.isfinite(scale) & torch.isfinite(bias)).all():
        raise RequantizeError("a scale or bias is not finite")
    if not (scale.abs() < 16).all():
        raise RequantizeError("the scale of the sums is 16 or more times that of the output")
    if not ((greatest >= 0) & (greatest < _SUMS)).all():
        raise RequantizeError("sums overflow int32")
    # A bias that the sum's own grid has, or that is too large for its field, becomes part of the offset.
    moved = torch.where(scale == 0, 0.0, torch.round(bias / scale))
    stays = ~(moved.abs() + greatest < _SUMS) | ((bias.abs() < 511) & (moved * scale != bias))
    moved = torch.where(stays, 0.0, moved)
    greatest = greatest + moved.abs()

    mantissa, rest = torch.zeros_like(scale), torch.zeros_like(scale)
    shift = torch.full_like(scale, -1, dtype=torch.int32)
    for candidate in reversed(range(SHIFTS)):
        places = FRACTION + NIBBLE * candidate
        rounded = torch.round(scale * 2.0**places)
        left = bias - moved * rounded * 2.0**-places
        added = left.abs().clamp(max=512) + residual
        fits = (rounded.abs() <= LARGEST_MANTISSA) & (greatest * rounded.abs() + added * 2.0**places <= _EXACT)
        chosen = fits & (shift < 0)
        mantissa, rest = torch.where(chosen, rounded, mantissa), torch.where(chosen, left, rest)
        shift = torch.where(chosen, candidate, shift)
    if (shift < 0).any():
        raise RequantizeError("requantization needs more than 53 bits: the sums are too large for their scale")
    units = torch.round(rest * 2.0**FRACTION)
    # Far outside 8 bits whatever the sum is; else there is nothing to be done.
    if ((units.abs() > _LARGEST_BIAS) & (greatest * scale.abs() + residual > 200)).any():
        raise RequantizeError("a bias exceeds 512 LSB of the output")
    whole = offset.long() if isinstance(offset, Tensor) else torch.tensor(offset)
    return Channels(
        _wrapped(whole + moved.long()),
        (mantissa.int() << 5) | shift,
        units.clamp(-_LARGEST_BIAS, _LARGEST_BIAS).int(),
    )


def requantize(
    sums: Tensor,
    of: Channels,
    zero: int,
    low: int = -128,
    high: int = 127,
    *,
    residual: tuple[Tensor, int, int] | None = None,
    middle: tuple[int, int] | None = None,
    middle_table: Tensor | None = None,
) -> Tensor:
    """Results (int64) of sums (integers, shape (channels, ...)), bit for bit what an engine gives.

    residual: integers of the sums' shape, their zero point, and their `factor`. middle: zero point and `factor` of what
    is rounded to 8 bits before the residual is added; middle_table: 256 entries for it.
    """
    shape = (-1,) + (1,) * (sums.dim() - 1)
    corrected = _wrapped(sums.long() + of.offset.view(shape))
    y = corrected.double() * of.factors().view(shape) + of.biases().view(shape)
    if middle is not None:
        rounded = (torch.round(y) + middle[0]).clamp(-128, 127)
        if middle_table is not None:
            rounded = middle_table[rounded.long() + 128].double()
        y = (rounded - middle[0]) * math.ldexp(middle[1], -FRACTION)
    if residual is not None:
        y = y + (residual[0].double() - residual[1]) * math.ldexp(residual[2], -FRACTION)
    return (torch.round(y) + zero).clamp(low, high).long()


def _wrapped(x: Tensor) -> Tensor:
    """int64 modulo 2^32, as int32."""
    return (((x + 2**31) & 0xFFFF_FFFF) - 2**31).int()


def _like(scale: Tensor, value: Tensor | float) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach().double().reshape(-1).expand_as(scale)
    return torch.full_like(scale, float(value))
