"""Copies of feature maps in another order, as commands of the vector side that gather words.

A word is 16 channels of a pixel. What moves whole words is a sum of steps along the dimensions of a view, for the
source as for the target. Dimensions within a plane of the target become a table of runs. Of the others, from block to
block and from image to image, two become the heads of a command. Each index of the rest is a command of its own.
Where the channels of the target are another dimension than those of the source, tiles of 16 words are transposed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from math import prod

import torch

from fpga_dynamo.ir.blocked import CHANNEL, CHANNELS, IMAGE, PIXEL
from fpga_dynamo.ir.view import View, ceil_div

from .maps import Map, RefusedError, ends_with_blocks
from .sizes import LINE_BYTES, EngineSizes

_MOST_COMMANDS = 128
"""Of a copy. A command takes hundreds of cycles."""
LINE_RUNS = LINE_BYTES // 16
"""Runs of a line of a table."""
_FILLED = -(1 << 40)
"""What makes the number of a word negative, of those that no map has."""


class GatherSource(IntEnum):
    """Where a run begins, `gather_source` in hls_kernels/engine/vector/record.hpp."""

    INPUT = 0
    FILL = 1


@dataclass(frozen=True)
class GatherRun:
    """`words` words of a source from the `first` on, which is counted from the begin of its block."""

    source: GatherSource
    first: int
    words: int


@dataclass(frozen=True)
class EngineGather:
    """A command: `pixels` words of each plane of the target.

    input: words from the begin of its map. output: lines. heads: planes, outer and inner ones, with as many words or
    lines from one to the next. transposes: each 16 words, which become channels.
    """

    runs: tuple[GatherRun, ...]
    pixels: int
    input: int = 0
    output: int = 0
    heads: tuple[int, int] = (1, 1)
    input_head: tuple[int, int] = (0, 0)
    output_head: tuple[int, int] = (0, 0)
    transposes: bool = False

    @property
    def taken(self) -> int:
        """Words of the input's block that runs name, at least one."""
        return max((run.first + run.words for run in self.runs if run.source is GatherSource.INPUT), default=1)


Index = tuple[int | None, ...]
"""Of a dimension of the target: its places in the source, in order; None where a filling is."""


@dataclass(frozen=True)
class _Dimension:
    """Words from one place to the next, in the source and the target. index: the source's places, if not in order."""

    size: int
    source: int
    target: int
    index: Index | None = None

    @property
    def places(self) -> Index:
        return tuple(range(self.size)) if self.index is None else self.index


def copied(
    source: View, target: View, sizes: EngineSizes, what: str, index: Mapping[int, Index] | None = None
) -> list[EngineGather]:
    """The commands that copy `source` to `target`, of the same shape but for the dimensions that `index` names.

    Raises RefusedError, about `what`.
    """
    inner, outer = _dimensions(source, target, sizes, what, index or {})
    return _gathers(source, target, inner, outer, sizes, what)


def transposed(source: View, target: View, of: int, to: int, sizes: EngineSizes, what: str) -> list[EngineGather]:
    """The commands that copy `source`, with dimension `of` as channels, to `target`, whose channels are dimension `to`.

    Both begin with a block, and dimension `of` has a multiple of 16. Raises RefusedError, about `what`.
    """
    s, t = source.buffer, target.buffer
    assert isinstance(s, Map) and isinstance(t, Map) and source.shape[of] % CHANNELS == 0
    inner: list[_Dimension] = [_Dimension(source.shape[of] // CHANNELS, s.plane * sizes.beat, CHANNELS)]
    outer: list[_Dimension] = []
    for n, (size, a, b) in enumerate(zip(target.shape, source.strides, target.strides, strict=True)):
        if n in (of, to) or size == 1:
            continue
        _refuse_channels(what, a, b)
        (inner if _is_in_plane(b) else outer).append(_Dimension(size, _word(a, s, sizes), _word(b, t, sizes)))
    if target.strides[of] != PIXEL:
        raise RefusedError(f"{what} has gaps")
    step, (whole, rest) = _word(source.strides[to], s, sizes), divmod(source.shape[to], CHANNELS)
    plane = t.plane * sizes.beat
    tile = _Dimension(CHANNELS, step, 1)
    tiles = _Dimension(whole, CHANNELS * step, plane)
    found = _gathers(source, target, [*inner, tile], [*outer, tiles], sizes, what) if whole else []
    if rest:
        last = _Dimension(CHANNELS, step, 1, (*range(rest), *(None,) * (CHANNELS - rest)))
        places = whole * CHANNELS * step, whole * plane
        found += _gathers(source, target, [*inner, last], outer, sizes, what, places)
    return [replace(gather, transposes=True) for gather in found]


def _gathers(
    source: View,
    target: View,
    inner: list[_Dimension],
    outer: list[_Dimension],
    sizes: EngineSizes,
    what: str,
    places: tuple[int, int] = (0, 0),
) -> list[EngineGather]:
    """The commands of dimensions within a plane of the target and of the others. places: words behind both offsets."""
    s, t = source.buffer, target.buffer
    assert isinstance(s, Map) and isinstance(t, Map)
    inner = _in_order(inner, what)
    begin, to = _word(source.offset, s, sizes) + places[0], _word(target.offset, t, sizes) + places[1]
    pixels = prod(d.size for d in inner)
    beat = sizes.beat
    if to % beat or (pixels % beat and to % (t.plane * beat) + pixels != t.pixels):
        raise RefusedError(f"{what} would begin or end within a line of 64 bytes")
    heads, singles = _heads(outer)
    if prod(d.size for d in singles) > _MOST_COMMANDS:
        raise RefusedError(f"reordering {what} requires more than {_MOST_COMMANDS} commands")
    two = [*(_Dimension(1, 0, 0) for _ in range(2 - len(heads))), *heads]
    inner_runs, found = _runs(inner), []
    for place in itertools.product(*(range(d.size) for d in singles)):
        sources = [d.places[i] for i, d in zip(place, singles, strict=True)]
        steps = [i * d.source for i, d in zip(sources, singles, strict=True) if i is not None]
        first = begin + sum(steps)
        runs = [GatherRun(GatherSource.FILL, 0, pixels)] if None in sources else inner_runs
        found.append(
            EngineGather(
                filled(runs, pixels, sizes),
                pixels,
                first,
                (to + sum(i * d.target for i, d in zip(place, singles, strict=True))) // beat,
                heads=(two[0].size, two[1].size),
                input_head=(two[0].source, two[1].source),
                output_head=(two[0].target // beat, two[1].target // beat),
            )
        )
    return found


def compact(view: View, sizes: EngineSizes, shape: Sequence[int] | None = None) -> View:
    """A view like this one of a map of its own, in which heads are images. A copy of it is left to the caller.

    shape: that of the map, the view's if left out.
    """
    size_of = tuple(view.shape if shape is None else shape)
    images, pixels, channels = [], [], 1
    for d, (size, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        if size == 1 and size_of[d] == 1:
            continue
        if stride == CHANNEL:
            channels = size_of[d]
        elif stride and stride < IMAGE and _channel(stride) == 0:
            pixels.append(d)
        else:
            images.append(d)
    strides = [CHANNEL if stride == CHANNEL else PIXEL for stride in view.strides]  # of sizes of 1 too
    counts = []
    for dims, unit in ((images, IMAGE), (pixels, PIXEL)):
        step = 1
        for d in sorted(dims, key=lambda d: (view.strides[d], -d)):
            strides[d] = step * unit
            step *= size_of[d]
        counts.append(step)
    of = Map(counts[0], counts[1], channels, sizes, view.buffer.name)
    return View(of, size_of, tuple(strides), 0, view.dtype)


def filled(runs: Iterable[GatherRun], pixels: int, sizes: EngineSizes) -> tuple[GatherRun, ...]:
    """With the words that fill up the last line."""
    rest = -pixels % sizes.beat
    return (*runs, GatherRun(GatherSource.FILL, 0, rest)) if rest else tuple(runs)


def pack_runs(params: tuple[tuple[tuple[int, int, int], ...], int]) -> torch.Tensor:
    """The table of (source, first, words) as it lies in memory: four uint32 a run. params: runs, and the filling."""
    runs, filling = params
    table = torch.zeros(-(-len(runs) // LINE_RUNS) * LINE_RUNS, 4, dtype=torch.int64)
    if runs:
        numbers = torch.tensor(runs, dtype=torch.int64)
        table[: len(runs), 0] = numbers[:, 0] << 30 | numbers[:, 1]
        table[: len(runs), 1] = numbers[:, 2]
        table[: len(runs), 2] = (filling & 0xFF) * 0x01010101
    return table.flatten().to(torch.uint32).view(torch.int32)


@dataclass(frozen=True)
class ConstantLayout:
    """Settings of :func:`pack_constant`: a view of all of an int8 map, and the map's images, blocks and lines a block.

    filling: of channels that fill up a block.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    images: int
    blocks: int
    plane: int
    filling: int


def pack_constant(settings: ConstantLayout, value: torch.Tensor) -> torch.Tensor:
    """The content of a map."""
    plane = settings.plane * LINE_BYTES
    places = torch.zeros((1,) * len(settings.shape), dtype=torch.int64)
    for d, (size, stride) in enumerate(zip(settings.shape, settings.strides, strict=True)):
        if size == 1:
            continue
        image, rest = divmod(stride, IMAGE)
        pixel, channel = divmod(rest, PIXEL)
        at = torch.arange(size)
        channels = at * channel
        steps = at * image * settings.blocks * plane + at * pixel * CHANNELS
        steps = steps + channels // CHANNELS * plane + channels % CHANNELS
        places = places + steps.view(-1, *(1,) * (len(settings.shape) - 1 - d))
    content = torch.full((settings.images * settings.blocks * plane,), settings.filling, dtype=torch.int8)
    content[places.flatten()] = value.expand(settings.shape).flatten()
    return content


def _runs(inner: Sequence[_Dimension]) -> list[GatherRun]:
    """Of dimensions from outermost to innermost in the target's plane."""
    words = torch.zeros(1, dtype=torch.int64)
    for d in inner:
        steps = torch.tensor([_FILLED if i is None else i * d.source for i in d.places], dtype=torch.int64)
        words = (words.view(-1, 1) + steps).flatten()
    words = words.clamp(min=-1)
    breaks = torch.where(words[:-1] < 0, words[1:] >= 0, words[1:] - words[:-1] != 1).nonzero().flatten() + 1
    found = []
    for begin, end in itertools.pairwise([0, *breaks.tolist(), len(words)]):
        word = int(words[begin])
        found.append(GatherRun(GatherSource.FILL if word < 0 else GatherSource.INPUT, max(word, 0), end - begin))
    return found


def _dimensions(
    source: View, target: View, sizes: EngineSizes, what: str, index: Mapping[int, Index]
) -> tuple[list[_Dimension], list[_Dimension]]:
    """The dimensions within a plane of the target, and the others."""
    s, t = source.buffer, target.buffer
    assert isinstance(s, Map) and isinstance(t, Map)
    inner: list[_Dimension] = []
    outer: list[_Dimension] = []
    channels = 1
    for n, (size, a, b) in enumerate(zip(target.shape, source.strides, target.strides, strict=True)):
        if size == 1 and n not in index:
            continue
        count = size
        if a == CHANNEL and b == CHANNEL and n not in index:
            channels, count, a, b = size, ceil_div(size, CHANNELS), CHANNELS, CHANNELS
        _refuse_channels(what, a, b)
        d = _Dimension(count, _word(a, s, sizes), _word(b, t, sizes), index.get(n))
        (inner if _is_in_plane(b) else outer).append(d)
    for view in (source, target):
        first = _channel(view.offset)
        if first % CHANNELS:
            raise RefusedError(f"{what} begins at channel {first}; multiples of {CHANNELS} are supported")
        # The channels that fill a block go along.
        if not ends_with_blocks(view, channels):
            raise RefusedError(f"{what} ends within a block of {CHANNELS} channels")
    return inner, outer


def _refuse_channels(what: str, *strides: int) -> None:
    """Raises RefusedError if strides lead from channel to channel within a block."""
    if any(_channel(stride) % CHANNELS for stride in strides):
        raise RefusedError(f"{what} has another order of channels, and the engine moves blocks of {CHANNELS}")


def _in_order(inner: Sequence[_Dimension], what: str) -> list[_Dimension]:
    """From outermost to innermost in the target's plane, which they fill."""
    found = sorted(inner, key=lambda d: (-d.target, -d.size))
    step = 1
    for d in reversed(found):
        if d.target != step:
            raise RefusedError(f"{what} has gaps")
        step *= d.size
    return found


def _is_in_plane(stride: int) -> bool:
    """Whether a stride leads from pixel to pixel of an image."""
    return PIXEL <= stride < IMAGE and _channel(stride) == 0


def _channel(stride: int) -> int:
    return stride % PIXEL


def _word(stride: int, of: Map, sizes: EngineSizes) -> int:
    """A stride of a view, or an offset, in words of its map."""
    image, rest = divmod(stride, IMAGE)
    pixel, channel = divmod(rest, PIXEL)
    return (image * of.image_lines + channel // CHANNELS * of.plane) * sizes.beat + pixel


def _heads(outer: Sequence[_Dimension]) -> tuple[list[_Dimension], list[_Dimension]]:
    """Up to two dimensions that become heads, and the others."""
    merged: list[_Dimension] = []
    for d in sorted(outer, key=lambda d: -d.target):
        last = merged[-1] if merged else None
        plain = last is not None and last.index is None and d.index is None
        if last and plain and (last.source, last.target) == (d.source * d.size, d.target * d.size):
            merged[-1] = _Dimension(last.size * d.size, d.source, d.target)
        else:
            merged.append(d)
    heads = sorted((d for d in merged if d.index is None), key=lambda d: -d.size)[:2]
    return heads, [d for d in merged if d not in heads]
