"""Channels of int8 images in another order on the hardware engine: what no view of whole blocks of channels can say.

A concatenation whose parts end within a block of 16 channels, a shuffle of channels (a view as groups, transposed), and
what is split off within a block. A product of 1 x 1 with weights of 0 and 1 puts the channels of one source to their
places; of several each adds its own to those before, as to a residual. All of it is exact: scales are 1 and zero points
0, whatever the values stand for. Tests: tests/lowering/test_engine_channels.py.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import Map, MapImages, images_of
from fpga_dynamo.codegen.engine.reorder import select
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.blocked import CHANNEL
from fpga_dynamo.ir.graph import IDENTITY_TARGETS, RESHAPE_TARGETS, GraphInfo, argument, arguments, aten, shape, value
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.engine_patterns import engine_only
from fpga_dynamo.lowering.patterns import Match, Pattern, sole_user

_SPLITS = (aten.split.Tensor, aten.split_with_sizes.default)

Places = tuple[tuple[int, int], ...]
"""Of each channel in order: the source, and the channel of it."""


@dataclass(frozen=True)
class _Chain:
    """Nodes from a concatenation or view on, the last value among them, and where its channels come from."""

    nodes: tuple[Node, ...]
    places: Places
    shuffled: bool = False


@dataclass(frozen=True)
class ChannelParts:
    """sources: images side by side. places: of each output, (source, channel) of its channels."""

    sources: Sequence[Node]
    places: Sequence[Places]


def match_channels(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[ChannelParts] | None:
    """Concatenated, shuffled, split, in this order; nothing where whole blocks stay together."""
    if node.target is aten.cat.default:
        sources = list(arguments(node)[0])
        if not is_within_blocks(node):
            return None
        places = tuple((n, c) for n, part in enumerate(sources) for c in range(shape(part)[1]))
        chain = _shuffled(_Chain((node,), places), sole_user(node))
    else:
        source = node.args[0]
        if not isinstance(source, Node) or not _is_image(source):
            return None
        sources, places = [source], tuple((0, c) for c in range(shape(source)[1]))
        chain = _Chain((), places) if node.target in _SPLITS else _shuffled(_Chain((), places), node)
        if node.target not in _SPLITS and not chain.shuffled:
            return None
    splits = sole_user(chain.nodes[-1]) if chain.nodes else node
    parts = {} if splits is None else _parts(splits)
    if splits is None or not parts:
        whole = ChannelParts(sources, (chain.places,))
        return Match(pattern, chain.nodes, (chain.nodes[-1],), whole) if chain.nodes else None
    cut = tuple(chain.places[first:behind] for first, behind in parts.values())
    return Match(pattern, (*chain.nodes, splits, *parts), tuple(parts), ChannelParts(sources, cut))


def is_within_blocks(node: Node) -> bool:
    """Whether a concatenation of int8 images has a part that begins within a block of channels."""
    parts = node.args[0]
    if not isinstance(parts, (tuple, list)):
        return False
    counts = [shape(part)[1] for part in parts if isinstance(part, Node) and _is_image(part)]
    if len(counts) != len(parts):
        return False
    return argument(node, "dim", 1, 0) % 4 == 1 and any(first % CHANNELS for first in accumulate(counts[:-1]))


def _is_image(node: Node) -> bool:
    fake = value(node)
    return isinstance(fake, torch.Tensor) and fake.dtype is torch.int8 and fake.dim() == 4


def _shuffled(chain: _Chain, view: Node | None) -> _Chain:
    """With the shuffle that begins with `view`, if it is one: groups of channels, transposed, as channels again."""
    if view is None or view.target not in RESHAPE_TARGETS or len(shape(view)) != 5:
        return chain
    size, nodes = shape(arguments(view)[0]), [view]
    turn = sole_user(view)
    if shape(view)[0] != size[0] or tuple(shape(view)[3:]) != tuple(size[2:]) or turn is None:
        return chain
    swapped = turn.target is aten.transpose.int and {int(d) % 5 for d in arguments(turn)[1:3]} == {1, 2}
    if not swapped and not (turn.target is aten.permute.default and list(arguments(turn)[1]) == [0, 2, 1, 3, 4]):
        return chain
    nodes.append(turn)
    back = sole_user(turn)
    while back is not None and back.target in IDENTITY_TARGETS:
        nodes.append(back)
        back = sole_user(back)
    if back is None or back.target not in RESHAPE_TARGETS or tuple(shape(back)) != tuple(size):
        return chain
    groups, of_group = shape(view)[1:3]
    order = [g * of_group + c for c in range(of_group) for g in range(groups)]
    return _Chain((*chain.nodes, *nodes, back), tuple(chain.places[i] for i in order), True)


def _parts(split: Node) -> dict[Node, tuple[int, int]]:
    """The items of what splits a value's channels within a block, and which channels they are; else nothing."""
    if split.target not in _SPLITS or not split.users:
        return {}
    if argument(split, "dim", 2, 0) % 4 != 1 or any(user.target is not operator.getitem for user in split.users):
        return {}
    counts = [item.shape[1] for item in value(split)]
    ends = list(accumulate(counts))
    if not any(end % CHANNELS for end in ends[:-1]):
        return {}
    items = sorted(split.users, key=lambda item: int(arguments(item)[1]))
    spans = {item: int(arguments(item)[1]) for item in items}
    return {item: (ends[n] - counts[n], ends[n]) for item, n in spans.items()}


def engine_channels(match: Match[ChannelParts], emitter: EngineEmitter) -> Sequence[View]:
    found = []
    for node, places in zip(match.outputs, match.bound.places, strict=True):
        out = _as_it_lies(match.bound.sources, places, emitter)
        if out is None:
            out = emitter.result(node)
            _select(match.bound.sources, places, images_of(out, "result"), node, emitter)
        found.append(out)
    return found


def _as_it_lies(sources: Sequence[Node], places: Places, emitter: EngineEmitter) -> View | None:
    """Channels of one source, one behind the other from a block's begin on: no command has to move them."""
    n, first = places[0]
    if places != tuple((n, first + c) for c in range(len(places))):
        return None
    found = emitter.view(sources[n]).narrow(1, first, len(places))
    return None if int(found.offset) % CHANNELS else found


def _select(sources: Sequence[Node], places: Places, y: MapImages, node: Node, emitter: EngineEmitter) -> None:
    """A command for each source that has a part of the channels."""
    wanted = sorted({source for source, _ in places})
    before: MapImages | None = None
    for n in wanted:
        x, skipped = _from_a_block(emitter.view(sources[n]))
        order = tuple(skipped + channel if source == n else -1 for source, channel in places)
        to = y
        if n != wanted[-1]:
            own = Map(y.images, y.pixels, y.channels, emitter.sizes, f"{node.name}, first channels")
            to = MapImages(own, y.images, y.channels, y.height, y.width)
        select(x, to, order, emitter, residual=before)
        before = to


def _from_a_block(view: View) -> tuple[MapImages, int]:
    """A view of images from the begin of its first block on, and the channels that it so has in front."""
    skipped = int(view.offset) % CHANNELS
    size = (view.shape[0], view.shape[1] + skipped, *view.shape[2:])
    strides = (view.strides[0], CHANNEL, *view.strides[2:])
    if view.shape[1] != 1 and view.strides[1] != CHANNEL:
        return images_of(view, "a part"), 0
    return images_of(View(view.buffer, size, strides, view.offset - skipped), "a part"), skipped


_ANCHORS = (aten.cat.default, *RESHAPE_TARGETS, *_SPLITS)


PATTERNS = (engine_only("channels_int8", _ANCHORS, match_channels, engine_channels),)
