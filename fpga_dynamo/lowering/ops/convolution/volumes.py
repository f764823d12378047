"""Convolutions over three dimensions as ones over images: (batch, channels, depth, height, width).

The depth of a window becomes part of the channels: the slices of the input that an output slice reads are copied one
behind the other into its pixels. A window that is one tap deep, or high and wide, needs no copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.view import CHANNELS_LAST, View, align
from fpga_dynamo.lowering.ops.convolution.axes import Axis
from fpga_dynamo.lowering.ops.movement.movement import fill


@dataclass(frozen=True)
class EquivalentImages:
    """Input, output and residual of an equivalent convolution of images. folded: taps of the depth are channels."""

    x: View
    y: View
    residual: View | None
    height: Axis
    width: Axis
    folded: bool


def as_images(
    x: View,
    y: View,
    residual: View | None,
    place: tuple[Axis, Axis, Axis],
    groups: int,
    emitter: Emitter,
    around: float = 0.0,
) -> Iterator[EquivalentImages]:
    """The convolutions of images that together are one of volumes; `y` and `residual` are what `place` writes.

    around: what lies outside of the volume.
    """
    depth, height, width = place
    size = x.shape[2:]
    if height.trivial(size[1]) and width.trivial(size[2]):
        x = emitter.channels_last(x)
        row = replace(width, count=size[1] * size[2])
        flat = [v if v is None else v.reshape((*v.shape[:3], row.count)) for v in (x, y, residual)]
        if flat[0] is not None and flat[1] is not None and (residual is None or flat[2] is not None):
            yield EquivalentImages(flat[0], flat[1], flat[2], depth, row, folded=False)
            return
    folds = len(depth.taps) > 1 or not depth.inside(size[0])
    if folds:
        x = _folded(x, depth, groups, emitter, around)
    else:
        x = emitter.channels_last(x).narrow(2, -depth.padding, depth.count, depth.stride)
    merged = [v if v is None else slices(v) for v in (x, y, residual)]
    if merged[0] is not None and merged[1] is not None and (residual is None or merged[2] is not None):
        yield EquivalentImages(merged[0], merged[1], merged[2], height, width, folds)
        return
    for n in range(x.shape[0]):
        one, out, plus = (v if v is None else v.select(0, n).permute((1, 0, 2, 3)) for v in (x, y, residual))
        assert one is not None and out is not None
        yield EquivalentImages(one, out, plus, height, width, folds)


def slices(view: View) -> View | None:
    """(batch, channels, depth, height, width) as (batch x depth, channels, height, width)."""
    batch, channels, depth, height, width = view.shape
    return view.permute((0, 2, 1, 3, 4)).reshape((batch * depth, channels, height, width))


def _folded(x: View, depth: Axis, groups: int, emitter: Emitter, around: float) -> View:
    """(batch, groups x taps x channels of a group, output slices, height, width)."""
    batch, channels, size, height, width = x.shape
    taps, own = len(depth.taps), channels // groups
    shape = (batch, channels * taps, depth.count, height, width)
    out = emitter.tensor(shape, CHANNELS_LAST[5], dtype=x.dtype, pitch=align(shape[1]), element=x.element)
    if not depth.inside(size):
        fill(emitter, out, around)
    grouped = _grouped(x, groups, own)
    target = _grouped(out, groups, taps * own)
    for tap in range(taps):
        first = tap * depth.dilation - depth.padding
        begin = max(0, -(first // depth.stride))
        end = min(depth.count, (size - 1 - first) // depth.stride + 1)
        if begin < end:
            part = grouped.narrow(3, begin * depth.stride + first, end - begin, depth.stride)
            place = target.narrow(2, tap * own, own).narrow(3, begin, end - begin)
            emitter.copy(part, place)
    return out


def _grouped(view: View, groups: int, own: int) -> View:
    """(batch, channels, ...) as (batch, groups, channels of one, ...)."""
    step = view.strides[1]
    return replace(
        view,
        shape=(view.shape[0], groups, own, *view.shape[2:]),
        strides=(view.strides[0], step * own, step, *view.strides[2:]),
    )
