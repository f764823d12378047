"""Elements in other places: mirrored and repeated borders, rolls, pixels out of channels and back, windows.

Pattern, legality and commands; core: hls_kernels/cores/move,
tests: tests/lowering/test_borders.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, operand, pair, shape
from fpga_dynamo.ir.operators import Call, Operator, facts_among
from fpga_dynamo.ir.view import View, dense, numel
from fpga_dynamo.lowering.ops.calls import image, rows, volume
from fpga_dynamo.lowering.ops.movement.movement import check_movement, fill, like, unplaced
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone

_REFLECTION = (aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default)
_PIXELS = (aten.pixel_shuffle.default, aten.pixel_unshuffle.default)
_REPLICATION = (aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default)


# --- borders ----------------------------------------------------------------------------------------------------------


def check_border(match: Match, graph: GraphInfo) -> str | None:
    if any(p < 0 for p in argument(match.root, "padding", 1)):
        return "negative padding (cropping) is supported with constant borders only"
    return check_movement(match, graph)


def lower_border(match: Match, emitter: Emitter) -> Sequence[View]:
    """The image, then each axis' borders from what is there by then, so that corners come of themselves."""
    node = match.root
    source = emitter.view(operand(node, 0))
    pads = list(argument(node, "padding", 1))
    out = like([source], shape(node), emitter, node)
    rank = len(source.shape)
    begin = [0] * rank
    for i in range(len(pads) // 2):
        begin[rank - 1 - i] = pads[2 * i]
    there = out
    for dim, start in enumerate(begin):
        there = there.narrow(dim, start, source.shape[dim])
    emitter.copy(source, there, layout_change=False)
    mirror = 1 if node.target in _REFLECTION else 0
    for i in range(len(pads) // 2):
        dim, (before, after) = rank - 1 - i, pads[2 * i : 2 * i + 2]
        size, step = source.shape[dim], there.strides[dim]
        first, last = there.offset, there.offset + (size - 1) * step
        if before:
            target = _along(there, dim, before, first - before * step, step)
            behind = _along(there, dim, before, first + mirror * before * step, -mirror * step)
            emitter.copy(behind, target, layout_change=False)
        if after:
            target = _along(there, dim, after, last + step, step)
            emitter.copy(_along(there, dim, after, last - mirror * step, -mirror * step), target, layout_change=False)
        there = _along(there, dim, before + size + after, first - before * step, step)
    return [out]


def _along(view: View, dim: int, size: int, offset: int, stride: int) -> View:
    sizes, strides = list(view.shape), list(view.strides)
    sizes[dim], strides[dim] = size, stride
    return replace(view, shape=tuple(sizes), strides=tuple(strides), offset=offset)


# --- roll -------------------------------------------------------------------------------------------------------------


def lower_roll(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    source = emitter.view(operand(node, 0))
    shifts, dims = list(argument(node, "shifts", 1)), list(argument(node, "dims", 2, ()))
    if not dims:
        flat = _dense(source, emitter).reshape((source.numel,))
        assert flat is not None
        out = View(emitter.tensor((source.numel,)).buffer, source.shape, dense(source.shape), 0, source.dtype)
        target = out.reshape((source.numel,))
        assert target is not None
        _roll(emitter, flat, target, {0: shifts[0]})
        return [out]
    by_dim: dict[int, int] = {}
    for dim, shift in zip(dims, shifts, strict=True):
        by_dim[dim % len(source.shape)] = by_dim.get(dim % len(source.shape), 0) + shift
    out = like([source], shape(node), emitter, node)
    _roll(emitter, source, out, by_dim)
    return [out]


def _roll(emitter: Emitter, source: View, out: View, by_dim: dict[int, int]) -> None:
    """Each rolled dimension falls into two parts that change places."""
    parts = []
    for dim, shift in by_dim.items():
        size = source.shape[dim]
        cut = -shift % size
        pieces = [(dim, cut, 0, size - cut), (dim, 0, size - cut, cut)]  # from, to, how many
        parts.append([piece for piece in pieces if piece[3]])
    for place in itertools.product(*parts):
        piece, target = source, out
        for dim, start, to, count in place:
            piece, target = piece.narrow(dim, start, count), target.narrow(dim, to, count)
        emitter.copy(piece, target, layout_change=False)


def _dense(source: View, emitter: Emitter) -> View:
    """`source` row-major without a gap, copied if need be."""
    if source.strides == dense(source.shape):
        return source
    buffer = emitter.tensor((source.numel,)).buffer
    out = View(buffer, source.shape, dense(source.shape), 0, source.dtype)
    emitter.copy(source, out)
    return out


# --- pixels and channels ----------------------------------------------------------------------------------------------


def lower_pixel_shuffle(match: Match, emitter: Emitter) -> Sequence[View]:
    """out[c, h r + i, w r + j] = x[c r^2 + i r + j, h, w], or the other way round"""
    node = match.root
    shuffles = node.target is aten.pixel_shuffle.default
    source = emitter.view(operand(node, 0))
    factor = int(argument(node, "upscale_factor" if shuffles else "downscale_factor", 1))
    out = like([source], shape(node), emitter, node)
    if shuffles:
        emitter.copy(_channels_apart(source, factor), _pixels_apart(out, factor), layout_change=False)
    else:
        emitter.copy(_pixels_apart(source, factor), _channels_apart(out, factor), layout_change=False)
    return [out]


def lower_channel_shuffle(match: Match, emitter: Emitter) -> Sequence[View]:
    """out[c g + i] = x[i C / g + c]"""
    node = match.root
    source = emitter.view(operand(node, 0))
    groups, channels = int(argument(node, "groups", 1)), source.shape[1]
    out = like([source], shape(node), emitter, node)
    each = channels // groups
    emitter.copy(_split_channels(source, each), _split_channels(out, groups, transposed=True), layout_change=False)
    return [out]


def _split_channels(view: View, inner: int, *, transposed: bool = False) -> View:
    """(batch, channels, ...) as (batch, channels / inner, inner, ...), or with the two exchanged."""
    batch, channels, *rest = view.shape
    first, step, *others = view.strides
    sizes, strides = (channels // inner, inner), (step * inner, step)
    if transposed:
        sizes, strides = sizes[::-1], strides[::-1]
    return replace(view, shape=(batch, *sizes, *rest), strides=(first, *strides, *others))


def _channels_apart(view: View, factor: int) -> View:
    """(..., c r^2, h, w) as (..., c, r, r, h, w)."""
    *lead, channels, height, width = view.shape
    *outer, step, row, column = view.strides
    size = (*lead, channels // factor**2, factor, factor, height, width)
    return replace(view, shape=size, strides=(*outer, step * factor**2, step * factor, step, row, column))


def _pixels_apart(view: View, factor: int) -> View:
    """(..., c, h r, w r) as (..., c, r, r, h, w)."""
    *lead, channels, height, width = view.shape
    *outer, step, row, column = view.strides
    size = (*lead, channels, factor, factor, height // factor, width // factor)
    return replace(view, shape=size, strides=(*outer, step, row, column, row * factor, column * factor))


# --- windows ----------------------------------------------------------------------------------------------------------


def lower_im2col(match: Match, emitter: Emitter) -> Sequence[View]:
    """Every window's values as a column: (batch, channels x rows x columns of the window, windows)."""
    node = match.root
    source = emitter.view(operand(node, 0))
    kernel, dilation, padding, stride = (
        pair(argument(node, name, i)) for i, name in enumerate(("kernel_size", "dilation", "padding", "stride"), 1)
    )
    batched = len(source.shape) == 4
    source = source if batched else source.unsqueeze(0)
    if any(padding):
        size = (*source.shape[:2], *(n + 2 * p for n, p in zip(source.shape[2:], padding, strict=True)))
        padded = unplaced(source, size, emitter)
        fill(emitter, padded, 0.0)
        inner = padded.narrow(2, padding[0], source.shape[2]).narrow(3, padding[1], source.shape[3])
        emitter.copy(source, inner, layout_change=False)
        source = padded
    steps = [
        (n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(source.shape[2:], kernel, dilation, stride, strict=True)
    ]
    image, channel, row, column = source.strides
    windows = replace(
        source,
        shape=(*source.shape[:2], *kernel, *steps),
        strides=(image, channel, row * dilation[0], column * dilation[1], row * stride[0], column * stride[1]),
    )
    out = View(emitter.tensor((numel(shape(node)),)).buffer, shape(node), dense(shape(node)), 0, source.dtype)
    emitter.copy(windows, replace(out, shape=windows.shape, strides=dense(windows.shape)), layout_change=False)
    return [out]


_MOVE = frozenset({"move"})
_BORDERS: tuple[Call, ...] = (
    lambda t: rows(t, [1, 1]),
    lambda t: image(t, [1] * 4),
    lambda t: volume(t, [1] * 6),
)
_OPERATORS: Mapping[Any, Operator] = {
    **{op: Operator(call) for ops in (_REFLECTION, _REPLICATION) for op, call in zip(ops, _BORDERS, strict=True)},
    **dict.fromkeys(_PIXELS, Operator(lambda t: image(t, 2))),
    aten.channel_shuffle.default: Operator(lambda t: image(t, 2), laid_out=aten.channel_shuffle.default),
    aten.roll.default: Operator(lambda t: rows(t, [1], [0]), laid_out=aten.roll.default),
    aten.im2col.default: Operator(lambda t: image(t, [3, 3], [1, 1], [0, 0], [1, 1])),
}
_LOWERINGS: tuple[tuple[str, tuple[Any, ...], Any, Callable[[Match, Emitter], Sequence[View]]], ...] = (
    ("border", (*_REFLECTION, *_REPLICATION), check_border, lower_border),
    ("roll", (aten.roll.default,), check_movement, lower_roll),
    ("pixel_shuffle", _PIXELS, check_movement, lower_pixel_shuffle),
    ("channels_shuffled", (aten.channel_shuffle.default,), check_movement, lower_channel_shuffle),
    ("im2col", (aten.im2col.default,), check_movement, lower_im2col),
)
PATTERNS = tuple(
    Pattern(name, anchors, anchor_alone, check, lower, _MOVE, operators=facts_among(_OPERATORS, anchors))
    for name, anchors, check, lower in _LOWERINGS
)
