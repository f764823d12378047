"""How a discrete Fourier transform of any length becomes commands of the core `fft`, and the tables of factors.

A *smooth* length has no prime factor above 13. It is one command if local memory holds it (up to 16 times as much when
distributed over the lanes). Otherwise it is two: n = rows * columns, transforms of columns, factors, transforms of
rows. Any other n uses Bluestein's algorithm: with j k = (j^2 + k^2 - (k - j)^2) / 2 the transform is a convolution with
a chirp, computed by two transforms of a smooth length of at least 2 n - 1.

Angles are reduced in integers and tables computed in float64: every factor is within half a unit in its last place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from fpga_dynamo.ir.view import VEC

RADICES = (4, 2, 3, 5, 7, 11, 13)
"""In the order in which passes take them out of a length."""

TABLED = 5
"""Above this radix the core finds the roots of a pass in its table."""


@lru_cache(maxsize=4096)
def radices(length: int) -> tuple[int, ...] | None:
    """The passes of a smooth length; None for another."""
    found = []
    for radix in RADICES:
        while length % radix == 0:
            found.append(radix)
            length //= radix
    return tuple(found) if length == 1 else None


@lru_cache(maxsize=1024)
def smooth_above(least: int) -> int:
    """The least length from `least` on of the form 2^a 3^b 5^c, a multiple of 16 if it is more than that."""
    best = 1 << max(least - 1, 1).bit_length()
    step = VEC if least > VEC else 1
    fives = 1
    while fives < best:
        threes = fives
        while threes < best:
            length = threes * step
            while length < least:
                length *= 2
            best = min(best, length)
            threes *= 3
        fives *= 5
    return best


@lru_cache(maxsize=1024)
def split(length: int, most: int) -> tuple[int, int] | None:
    """(rows, columns) of a smooth length, both at most `most`, as equal as possible; None without such factors."""
    for rows in range(math.isqrt(length), 0, -1):
        if length % rows == 0:
            return (rows, length // rows) if length // rows <= most else None
    return None


@dataclass(frozen=True)
class Factors:
    """Complex numbers that elements are multiplied by: the product of `parts`, (name, numbers) each; `count` of them.

    half: (points) what makes floating-point values of one half of their spectrum: 1 for the ends, 2 between.
    chirp: (points, inverse) exp(-+ i pi k^2 / points).
    spectrum: (points, length, inverse) of the other chirp, which a transform of `length` convolves with.
    grid: (rows, columns, inverse) exp(-+ 2 pi i r c / (rows columns)) at r * columns + c.
    """

    parts: tuple[tuple[str, tuple[int, ...]], ...]
    count: int

    def times(self, name: str, *numbers: int) -> Factors:
        return Factors((*self.parts, (name, numbers)), self.count)


def unit_roots(numerators: torch.Tensor, denominator: int) -> torch.Tensor:
    """exp(-2 pi i n / denominator) in complex128, for integers n."""
    angles = numerators.remainder(denominator).double() * (-2 * math.pi / denominator)
    return torch.polar(torch.ones_like(angles), angles)


def _chirp(count: int, points: int, inverse: int) -> torch.Tensor:
    k = torch.arange(count)
    roots = unit_roots(k * k, 2 * points)
    return roots.conj() if inverse else roots


def _part(name: str, numbers: tuple[int, ...], count: int) -> torch.Tensor:
    if name == "half":
        factors = torch.full((count,), 2.0, dtype=torch.complex128)
        factors[0] = 1
        if numbers[0] % 2 == 0 and count > numbers[0] // 2:
            factors[numbers[0] // 2] = 1
        return factors
    if name == "chirp":
        return _chirp(count, *numbers)
    if name == "spectrum":
        points, length, inverse = numbers
        chirp = _chirp(points, points, inverse).conj()
        ring = torch.zeros(length, dtype=torch.complex128)
        ring[:points] = chirp
        ring[length - points + 1 :] = chirp[1:].flip(0)
        return torch.fft.fft(ring) / length
    assert name == "grid", name
    rows, columns, inverse = numbers
    roots = unit_roots(torch.arange(rows)[:, None] * torch.arange(columns), rows * columns).flatten()
    return roots.conj() if inverse else roots


def pack_factors(params: tuple[Any, ...]) -> torch.Tensor:
    """The factors of (parts, count, places): pairs, with zeros from `count` to `places`."""
    parts, count, places = params
    product = torch.ones(count, dtype=torch.complex128)
    for name, numbers in parts:
        product = product * _part(name, numbers, count)
    return torch.nn.functional.pad(as_pairs(product), (0, 2 * (places - count)))


def pack_twiddles(params: tuple[Any, ...]) -> torch.Tensor:
    """The tables of the passes of a transform, params = (points,): see hls_kernels/cores/fft/record.hpp."""
    (left,) = params
    tables = []
    for radix in radices(left) or ():
        if radix > TABLED:
            tables.append(unit_roots(torch.arange(radix), radix))
        groups = torch.arange(left // radix)[:, None] * torch.arange(1, radix)
        tables.append(unit_roots(groups.flatten(), left))
        left //= radix
    return as_pairs(torch.cat(tables)) if tables else torch.zeros(2)


def twiddle_floats(points: int) -> int:
    """Floats of :func:`pack_twiddles`."""
    count, left = 0, points
    for radix in radices(points) or ():
        left //= radix
        count += 2 * (radix - 1) * left + (2 * radix if radix > TABLED else 0)
    return max(count, 2)


def pack_spread(params: tuple[Any, ...]) -> torch.Tensor:
    """What 16 lanes' transforms are joined with, params = (points of a lane,): vectors of real and imaginary parts."""
    (points,) = params
    roots = unit_roots(torch.arange(points)[:, None] * torch.arange(VEC), points * VEC)
    return torch.stack([roots.real, roots.imag], 1).to(torch.float32).flatten()


def as_pairs(numbers: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(numbers).to(torch.float32).flatten()
