"""Elements of int8 maps in an order that words alone cannot have.

Pixels become channels by tiles that the vector side transposes. Channels move to other places, and one becomes many, by
a product of 1 x 1 with 0 and 1, which is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Protocol

import torch

from fpga_dynamo.codegen.requantize import channels, factor
from fpga_dynamo.ir.blocked import CHANNEL, CHANNELS, IMAGE, PIXEL
from fpga_dynamo.ir.elements import I8
from fpga_dynamo.ir.view import Buffer, View, ceil_div, dense
from fpga_dynamo.ir.weights import Packer

from .command import MacCommand
from .layout import pack_weight, weight_bytes
from .maps import Map, MapImages, RefusedError, ends_with_blocks
from .parts import CommandPart
from .sizes import EngineSizes

_WORDS = 3 * CHANNELS
"""Of a block's parameters: offset, scale and bias of each channel."""


class Commands(Packer, Protocol):
    """What an emitter offers: packs, and commands."""

    sizes: EngineSizes

    def put(self, buffer: Buffer) -> int: ...

    def copy(self, source: View, target: View, what: str, *, filling: int = 0, words_only: bool = False) -> None: ...

    def transpose(self, source: View, target: View, of: int, to: int, what: str, filling: int) -> None: ...

    def mac(
        self,
        command: MacCommand,
        x: MapImages,
        out: MapImages,
        params: Callable[[MacCommand, int], int],
        weight: Callable[[CommandPart], int] | None = None,
        *,
        residual: MapImages | None = None,
    ) -> None: ...


Places = tuple[int, ...]
"""Of each channel the one of the input; -1: none."""


def reordered(source: View, target: View, emitter: Commands, what: str, filling: int) -> None:
    """Commands that copy a view to one of the same shape whose channels are others. Raises RefusedError, about `what`.

    filling: of channels that fill up a block.
    """
    to = _channel_dimension(target)
    if to is not None and target.shape[to] > 1 and source.strides[to] == 0:
        _repeat(source, target, to, emitter, what, filling)
        return
    source, target_of = _in_blocks(source, emitter, filling), _in_blocks_of_target(target, emitter, what)
    source, target_of = _with_channels(source, target_of)
    of, to = _channel_dimension(source), _channel_dimension(target_of)
    if of is not None and to is not None and of != to:
        _transpose(source, target_of, of, to, emitter, what, filling)
    else:
        emitter.copy(source, target_of, what, filling=filling, words_only=True)
    if target_of is not target:
        _close_up(target_of, target, emitter)


def _channel_dimension(view: View) -> int | None:
    """The dimension along which channels lie; None if there is but one channel, and no dimension for it."""
    steps = list(enumerate(zip(view.shape, view.strides, strict=True)))
    found = [d for d, (_, stride) in steps if stride == CHANNEL]
    return max(found, key=lambda d: view.shape[d], default=None)


def _with_channels(source: View, target: View) -> tuple[View, View]:
    """Both with one more dimension, of size 1, where one of them has a single channel and no dimension for it."""
    if (_channel_dimension(source) is None) == (_channel_dimension(target) is None):
        return source, target
    added = [_channel_dimension(view) is None for view in (source, target)]
    first, second = (
        View(view.buffer, (*view.shape, 1), (*view.strides, CHANNEL if own else 0), view.offset, view.dtype)
        for view, own in zip((source, target), added, strict=True)
    )
    return first, second


def _repeat(source: View, target: View, to: int, emitter: Commands, what: str, filling: int) -> None:
    """Copies a view to one of the same shape, along whose channels `to` the source has one element."""
    t = target.buffer
    assert isinstance(t, Map)
    if target.offset or target.numel != t.images * t.pixels * t.channels:
        raise RefusedError(f"{what} is repeated along some channels of a feature map")
    single = Map(t.images, t.pixels, 1, emitter.sizes, source.buffer.name)
    size = (*target.shape[:to], 1, *target.shape[to + 1 :])
    strides = (*source.strides[:to], CHANNEL, *source.strides[to + 1 :])
    one = View(source.buffer, size, strides, source.offset, source.dtype)
    emitter.copy(one, View(single, size, target.strides, 0, target.dtype), what, filling=filling)
    _select(single, t, (0,) * t.channels, filling, emitter)


# --- pixels as channels -----------------------------------------------------------------------------------------------


def _transpose(view: View, target: View, of: int, to: int, emitter: Commands, what: str, filling: int) -> None:
    """Copies a view whose channels are dimension `of` to one whose channels are dimension `to`: at once, or through
    maps of their own whose images are the other dimensions."""
    depth = ceil_div(view.shape[of], CHANNELS) * CHANNELS  # what fills up the last block fills up a plane
    if depth == view.shape[of] or _ends_plane(target, of, depth, emitter.sizes):
        with suppress(RefusedError):
            return emitter.transpose(_of_size(view, of, depth), _of_size(target, of, depth), of, to, what, filling)
    others = [1 if d in (of, to) else size for d, size in enumerate(view.shape)]
    step, pixels = prod(others), view.shape[to]
    strides = [n * IMAGE for n in dense(others)]
    result = Map(step, depth, pixels, emitter.sizes, view.buffer.name)
    strides[of], strides[to] = PIXEL, CHANNEL
    own = View(result, view.shape, tuple(strides), 0, view.dtype)
    try:
        emitter.transpose(_of_size(view, of, depth), _of_size(own, of, depth), of, to, what, filling)
    except RefusedError:
        matrices = Map(step, pixels, view.shape[of], emitter.sizes, view.buffer.name)
        strides[of], strides[to] = CHANNEL, PIXEL
        apart = View(matrices, view.shape, tuple(strides), 0, view.dtype)
        emitter.copy(view, apart, what, words_only=True)
        emitter.transpose(_of_size(apart, of, depth), _of_size(own, of, depth), of, to, what, filling)
    emitter.copy(own, target, what, words_only=True)


def _of_size(view: View, dim: int, size: int) -> View:
    shape = (*view.shape[:dim], size, *view.shape[dim + 1 :])
    return View(view.buffer, shape, view.strides, view.offset, view.dtype)


def _ends_plane(view: View, dim: int, size: int, sizes: EngineSizes) -> bool:
    """Whether nothing but the end of a plane follows a dimension of pixels, and it has room for so many."""
    of = view.buffer
    assert isinstance(of, Map)
    first = view.offset % IMAGE // PIXEL
    return first + view.shape[dim] == of.pixels and first + size <= of.plane * sizes.beat


# --- channels in other places -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Channels:
    """The dimensions of a view that lie in its channels: sizes and strides, outermost first; and the first channel."""

    dims: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    first: int

    @classmethod
    def of(cls, view: View) -> _Channels:
        sizes = zip(view.shape, view.strides, strict=True)
        steps = [(d, size, stride % PIXEL) for d, (size, stride) in enumerate(sizes) if size > 1 and stride % PIXEL]
        found = sorted(steps, key=lambda step: -step[2])
        dims, counts, strides = (tuple(step[n] for step in found) for n in range(3))
        return cls(dims, counts, strides, view.offset % PIXEL)

    @property
    def inner(self) -> int:
        """Neighbouring channels."""
        return self.sizes[-1] if self.strides[-1:] == (CHANNEL,) else 1

    def is_in_blocks(self, view: View) -> bool:
        """Whether whole blocks stay together, but for what fills up the last one."""
        whole = not (self.first % CHANNELS or any(stride % CHANNELS for stride in self.strides if stride != CHANNEL))
        return whole and ends_with_blocks(view, self.inner)

    def places(self) -> list[int]:
        """The channel of each index, in order."""
        indices = product(*(range(size) for size in self.sizes))
        return [self.first + sum(i * step for i, step in zip(index, self.strides, strict=True)) for index in indices]

    @property
    def pitch(self) -> int:
        """Channels from one run of neighbouring ones to the next, where each begins a block."""
        return ceil_div(self.inner, CHANNELS) * CHANNELS

    def spread(self) -> list[int]:
        """What :meth:`places` would be in such a map."""
        return [n // self.inner * self.pitch + n % self.inner for n in range(prod(self.sizes))]

    def spread_strides(self) -> tuple[int, ...]:
        strides, step = [], self.pitch
        for size, stride in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            if stride == CHANNEL:
                strides.append(CHANNEL)
            else:
                strides.append(step)
                step *= size
        return tuple(reversed(strides))


def _in_blocks(view: View, emitter: Commands, filling: int) -> View:
    """A view whose runs of channels begin blocks, as it is or of a copy."""
    of = view.buffer
    assert isinstance(of, Map)
    own = _Channels.of(view)
    if own.is_in_blocks(view):
        return view
    spread = _spread(view, own, emitter)
    to = spread.buffer
    assert isinstance(to, Map)
    order = [-1] * to.channels
    for new, old in zip(own.spread(), own.places(), strict=True):
        order[new] = old
    _select(of, to, tuple(order), filling, emitter)
    return spread


def _in_blocks_of_target(view: View, emitter: Commands, what: str) -> View:
    """The same of a view that is written."""
    of = view.buffer
    assert isinstance(of, Map)
    own = _Channels.of(view)
    if own.is_in_blocks(view):
        return view
    if len(own.places()) != of.channels:
        raise RefusedError(f"{what} begins or ends within a block of {CHANNELS} channels")
    return _spread(view, own, emitter)


def _spread(view: View, own: _Channels, emitter: Commands) -> View:
    """A view of a map of as many images and pixels, whose runs of channels begin blocks."""
    of = view.buffer
    assert isinstance(of, Map)
    strides = list(view.strides)
    for d, stride in zip(own.dims, own.spread_strides(), strict=True):
        strides[d] = strides[d] // PIXEL * PIXEL + stride
    count = max(own.spread(), default=0) + 1
    to = Map(of.images, of.pixels, count, emitter.sizes, of.name)
    to.run = own.inner
    return View(to, view.shape, tuple(strides), view.offset - own.first, view.dtype)


def _close_up(source: View, target: View, emitter: Commands) -> None:
    """All channels of the target's map from one where runs of them begin blocks."""
    of, to = source.buffer, target.buffer
    assert isinstance(of, Map) and isinstance(to, Map)
    own = _Channels.of(target)
    order = [-1] * to.channels
    for new, old in zip(own.places(), own.spread(), strict=True):
        order[new] = old
    _select(of, to, tuple(order), 0, emitter)


def _select(of: Map, to: Map, order: Places, filling: int, emitter: Commands) -> None:
    x, y = (MapImages(m, m.images, m.channels, 1, m.pixels) for m in (of, to))
    select(x, y, order, emitter, filling=filling)


def select(
    x: MapImages, y: MapImages, order: Places, emitter: Commands, *, filling: int = 0, residual: MapImages | None = None
) -> None:
    """A command that puts channels of `x` to their places in `y`, and adds what lies there in `residual`."""
    command = MacCommand(
        in_blocks=x.blocks,
        in_height=x.height,
        in_width=x.width,
        out_blocks=y.blocks,
        out_height=y.height,
        out_width=y.width,
        group_in=x.blocks * CHANNELS,
        group_out=y.blocks * CHANNELS,
        images=y.images,
        zero=filling,
        residual_factor=factor(1.0) if residual else 0,
    )

    def weight(part: CommandPart) -> int:
        own = (part.command, emitter.sizes, order[part.block * CHANNELS :], part.channels)
        count = weight_bytes(part.command, emitter.sizes)
        return emitter.put(emitter.pack(pack_selection, own, [], count, f"places of {y.map.name}'s channels", I8))

    params = _exact(tuple(old >= 0 for old in order), filling, emitter)
    emitter.mac(command, x, y, params, weight, residual=residual)


def pack_selection(params: tuple[MacCommand, object, Places, tuple[int, int] | None]) -> torch.Tensor:
    """Weights of 0 and 1; params: command, sizes, the input of each output channel (-1: none), which inputs it has."""
    command, sizes, order, span = params
    first, behind = span or (0, command.in_blocks * CHANNELS)
    weight = torch.zeros(command.out_blocks * CHANNELS, behind - first, 1, 1, dtype=torch.int8)
    for place, channel in enumerate(order[: weight.shape[0]]):
        if first <= channel < behind:
            weight[place, channel - first] = 1
    return pack_weight((command, sizes), weight)


# --- parameters -------------------------------------------------------------------------------------------------------


def _exact(real: Sequence[bool], filling: int, emitter: Commands) -> Callable[[MacCommand, int], int]:
    """Parameters that leave sums as they are where a channel is real, and give `filling` elsewhere."""
    words = _WORDS * ceil_div(len(real), CHANNELS)
    constants = emitter.pack(pack_exact, (tuple(real), filling), [], words, f"scales of 1 of {len(real)} channels")
    return lambda cut, first: emitter.put(constants) + cut.params


def pack_exact(params: tuple[tuple[bool, ...], int]) -> torch.Tensor:
    """int32 [block][offset, scale, bias][16]."""
    real, filling = torch.tensor(params[0]), params[1]
    found = channels(real.double(), 0.0, 256.0, torch.where(real, -filling, 0).int())
    own = torch.stack([found.offset, torch.where(real, found.scale, 0), found.bias])
    own = torch.nn.functional.pad(own, (0, -len(real) % CHANNELS)).reshape(3, -1, CHANNELS)
    return own.permute(1, 0, 2).contiguous().flatten()
