"""The core `fft`: what its commands cost, and the commands of one transform along one dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fpga_dynamo.codegen.core import CORES, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.records import Fft
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, Buffer, View, ceil_div, numel
from fpga_dynamo.ir.weights import WeightBuffer
from fpga_dynamo.lowering.ops.signal.numbers import COMPLEX, collapsed
from fpga_dynamo.lowering.ops.signal.plan import (
    Factors,
    pack_factors,
    pack_spread,
    pack_twiddles,
    radices,
    smooth_above,
    split,
    twiddle_floats,
)

_FEW_ROWS = 2 * VEC
"""Below so many rows lanes are better used for parts of one transform each."""


def _groups(c: Fft) -> int:
    if c.spread is not None:
        return numel(c.kept)
    if all(_by_rows(c, *side) for side in _sides(c)):
        return ceil_div(numel(c.kept), VEC)
    return numel(c.kept[:3]) * ceil_div(c.kept[3], VEC)


def _sides(c: Fft) -> tuple[tuple[int, Sequence[int]], ...]:
    """Of input and output: whether they are real, and their strides."""
    return (c.in_real, c.in_stride), (c.out_real, c.out_stride)


def _by_rows(c: Fft, real: int, stride: Sequence[int]) -> bool:
    return c.points == 1 or stride[4] == (1 if real else 2)


def _cycles(c: Fft, target: Target) -> float:
    """Of each group: two cycles a vector in and out, a transposition of rows, and passes: the README of the core."""
    points = c.points
    lanes = points * (1 if c.spread is None else 2)
    moved = sum(2 * points + (lanes if _by_rows(c, *side) else 0) for side in _sides(c))
    passes = sum(points if radix <= 5 else points // radix * (12 * (radix // 2) + 80) for radix in c.radix if radix)
    tables = twiddle_floats(points) / VEC
    return float(_groups(c) * (moved + passes) + tables)


def _moved(c: Fft, target: Target) -> int:
    rows = numel(c.kept)
    counts = [(1 if real else 2) * count for real, count in ((c.in_real, c.in_count), (c.out_real, c.out_count))]
    per_row = sum(count // max(1, c.kept[3]) if c.in_step > 1 else count for count in counts)
    return int(rows * per_row + twiddle_floats(c.points))


CORES.add(Core[Fft](Fft.opcode, _cycles, _moved, parts=lambda c, target: _groups(c), zero_copy=True))


@dataclass(frozen=True)
class Dft:
    """A transform along one dimension: the first `given` of `points` numbers are there, `wanted` results are.

    real: of the result the real parts are wanted alone. scale: of all results.
    """

    points: int
    given: int
    wanted: int
    inverse: bool = False
    real: bool = False
    scale: float = 1.0
    before: Factors | None = None


def refuse_points(points: int, most: int) -> str | None:
    """Why a transform cannot have so many points where a lane has room for `most`, or None."""
    length = points if radices(points) is not None else smooth_above(2 * points - 1)
    if length <= most or (length <= VEC * most and length % VEC == 0) or split(length, most) is not None:
        return None
    what = f"{points} points" if length == points else f"{points} points, which need a transform of {length},"
    return f"{what} are not supported: they do not split into two factors of at most {most} (FFT_POINTS)"


def emit_dft(emitter: Emitter, x: View, dim: int, dft: Dft) -> View:
    """The commands of a transform of `x` along `dim`; the result has dft.wanted elements there and lies like `x`."""
    x = emitter.in_arena(x)
    if radices(dft.points) is not None:
        return _smooth(emitter, x, dim, dft, None)
    length = smooth_above(2 * dft.points - 1)
    inverse = int(dft.inverse)
    before = replace(dft.before or Factors((), dft.given), count=dft.given).times("chirp", dft.points, inverse)
    spectrum = Factors((("spectrum", (dft.points, length, inverse)),), length)
    there = _smooth(emitter, x, dim, Dft(length, dft.given, length, before=before), spectrum)
    chirp = Factors((("chirp", (dft.points, inverse)),), dft.wanted)
    back = Dft(length, length, dft.wanted, inverse=True, real=dft.real, scale=dft.scale)
    return _smooth(emitter, there, dim, back, chirp)


def _smooth(emitter: Emitter, x: View, dim: int, dft: Dft, behind: Factors | None) -> View:
    most = emitter.target.tiles["FFT_POINTS"]
    rows = x.numel // x.shape[dim]
    whole = dft.points % VEC == 0 and dft.points <= VEC * most
    last = dim == len(x.shape) - 1 or x.strides[dim] == x.unit
    if dft.points > most and not whole:
        return _in_two(emitter, x, dim, dft, behind)
    if dft.points > most or (whole and last and rows < _FEW_ROWS and dft.points >= VEC * VEC):
        return _whole(emitter, _with_rows(emitter, x, dim), dim, dft, behind, spread=True)
    return _whole(emitter, x, dim, dft, behind, spread=False)


def _with_rows(emitter: Emitter, x: View, dim: int) -> View:
    """`x` with `dim` contiguous."""
    if x.strides[dim] == x.unit or x.shape[dim] == 1:
        return x
    order = (*(d for d in range(len(x.shape)) if d != dim), dim)
    return emitter.relaid(x, order, x.shape[dim])


def _whole(emitter: Emitter, x: View, dim: int, dft: Dft, behind: Factors | None, *, spread: bool) -> View:
    """One command."""
    order = x.order()
    if spread:
        order = (*(d for d in order if d != dim), dim)
    y, lines = _lines(emitter, x, dim, dft, order)
    if lines is None:  # a copy is denser, so that more dimensions are one
        order = (*(d for d in order if d != dim), dim)
        x = emitter.relaid(x, order, x.shape[dim])
        y, lines = _lines(emitter, x, dim, dft, order)
        assert lines is not None, "a dense tensor has contiguous rows, and its other dimensions are one"
    sizes, walks = lines
    _command(emitter, x, y, sizes, walks, (_step(x, dim), _step(y, dim)), dft, behind, spread=spread)
    return y


_Lines = tuple[tuple[int, ...], list[tuple[int, ...]]]


def _lines(emitter: Emitter, x: View, dim: int, dft: Dft, order: Sequence[int]) -> tuple[View, _Lines | None]:
    """A result that lies in `order`, and the kept dimensions' sizes and strides (None: unsupported by the core)."""
    size = (*x.shape[:dim], dft.wanted, *x.shape[dim + 1 :])
    y = emitter.tensor(size, order, dtype=torch.float32 if dft.real else COMPLEX, pitch=size[order[-1]])
    kept = [d for d in order if d != dim]
    lines = collapsed([x.shape[d] for d in kept], [[v.strides[d] for d in kept] for v in (x, y)], 4)
    if lines is None:
        return y, None
    sizes, walks = lines
    contiguous = all(
        _step(v, dim) == v.unit or sizes[3] == 1 or walk[3] == v.unit for v, walk in zip((x, y), walks, strict=True)
    )
    return y, lines if contiguous else None


def _step(view: View, dim: int) -> int:
    """The stride along `dim`; a single element may have any."""
    return view.unit if view.shape[dim] == 1 else view.strides[dim]


def _in_two(emitter: Emitter, x: View, dim: int, dft: Dft, behind: Factors | None) -> View:
    """Two commands: transforms of columns with factors, then transforms of rows, whose results lie in columns."""
    found = split(dft.points, emitter.target.tiles["FFT_POINTS"])
    assert found is not None, "check has asked refuse_points"
    long, short = found  # transforms of `long` columns' elements first
    order = (*(d for d in range(len(x.shape)) if d != dim), dim)
    x = _with_rows(emitter, x, dim)
    outer = [x.shape[d] for d in order[:-1]]
    walk = [x.strides[d] for d in order[:-1]]
    size = (*x.shape[:dim], dft.wanted, *x.shape[dim + 1 :])
    y = emitter.tensor(size, order, dtype=torch.float32 if dft.real else COMPLEX, pitch=dft.wanted)
    lines = collapsed(outer, [walk, [y.strides[d] for d in order[:-1]]], 3)
    if lines is None:
        x = emitter.relaid(x, order, x.shape[dim])
        lines = collapsed(outer, [[v.strides[d] for d in order[:-1]] for v in (x, y)], 3)
        assert lines is not None, "a dense tensor's other dimensions are one"
    sizes, (ins, outs) = lines
    middle = emitter.tensor((numel(sizes), long, short), dtype=COMPLEX, pitch=short)
    middles = tuple(2 * dft.points * step for step in (sizes[1] * sizes[2], sizes[2], 1))
    columns = Dft(long, dft.given, dft.points, dft.inverse, before=dft.before)
    grid = Factors((("grid", (long, short, int(dft.inverse))),), dft.points)
    _command(
        emitter, x, middle, (*sizes, short), ((*ins, x.unit), (*middles, 2)), (short * x.unit, 2 * short),
        columns, grid, in_step=short, out_step=short,
    )  # fmt: skip
    rows = Dft(short, short, dft.wanted, dft.inverse, dft.real, dft.scale)
    _command(
        emitter, middle, y, (*sizes, long), ((*middles, 2 * short), (*outs, y.unit)), (2, long * y.unit), rows, behind,
        out_step=long,
    )  # fmt: skip
    return y


def _command(
    emitter: Emitter,
    x: View,
    y: View,
    kept: tuple[int, ...],
    walks: Any,
    steps: tuple[int, int],
    dft: Dft,
    behind: Factors | None,
    *,
    spread: bool = False,
    in_step: int = 1,
    out_step: int = 1,
) -> None:
    """One command; walks and steps: strides of the kept dimensions, and of the transformed one, in and out."""
    points = dft.points // VEC if spread else dft.points
    twiddles = emitter.pack(pack_twiddles, (points,), [], twiddle_floats(points), f"factors of {points} points")
    lanes = emitter.pack(pack_spread, (points,), [], 2 * VEC * points, "factors of lanes") if spread else None
    before = _factors(emitter, dft.before, in_step)
    after = _factors(emitter, behind, out_step)
    passes = radices(points)
    assert passes is not None and len(passes) <= 14
    command = Fft(
        input=Operand.of(x),
        output=Operand.of(y),
        twiddles=Operand(twiddles),
        spread=_place(lanes),
        before=_place(before),
        behind=_place(after),
        in_real=int(x.dtype is not COMPLEX),
        out_real=int(y.dtype is not COMPLEX),
        inverse=int(dft.inverse),
        points=points,
        in_count=dft.given,
        in_step=in_step,
        out_count=dft.wanted,
        out_step=out_step,
        kept=kept,
        in_stride=(*walks[0], steps[0]),
        out_stride=(*walks[1], steps[1]),
        before_stride=_order(before, in_step),
        behind_stride=_order(after, out_step),
        scale=dft.scale,
        passes=len(passes),
        radix=(*passes, *[0] * (14 - len(passes))),
    )
    emitter.command(command, reads=[x, twiddles, lanes, before, after], writes=[y])


def _place(buffer: Buffer | None) -> Operand | None:
    return None if buffer is None else Operand(buffer)


def _order(factors: Buffer | None, step: int) -> tuple[int, int]:
    return (0, 0) if factors is None else (step, int(step > 1))


def _factors(emitter: Emitter, factors: Factors | None, step: int) -> WeightBuffer | None:
    if factors is None:
        return None
    places = ceil_div(factors.count, step) * step
    params = (factors.parts, factors.count, places)
    return emitter.pack(pack_factors, params, [], 2 * places, " ".join(name for name, _ in factors.parts))
