"""Pass (before a segment is emitted): who writes its result straight into a channel concatenation, so that nothing has
to be copied.

A part of a `cat` of images can, if it has one place only, its channels begin at a whole vector and end at one (or end
the pixel), and its core can store pixels at any distance. Of concatenations that begin with the same parts (those of a
dense block, say) only the longest has a buffer; the others are views of its first channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.dtypes import FLOATS
from fpga_dynamo.ir.graph import aten, shape, value
from fpga_dynamo.ir.view import VEC, View
from fpga_dynamo.lowering.ops.movement.movement import cat_parts
from fpga_dynamo.lowering.patterns import Match

PLACEABLE = frozenset({"convolution", "winograd", "pool", "pointwise", "resize", "cat"})
"""Patterns whose `lower` asks the emitter for an image and so can write into somebody's buffer."""


def plan_places(matches: Sequence[Match], emitter: Emitter) -> None:
    """Tells the emitter where the values of `matches` go; a place is made when it is first asked for."""
    producer = {output: match for match in matches for output in match.outputs if len(match.outputs) == 1}
    cats = [match.root for match in matches if match.pattern.name == "cat" and _joins_channels(match.root)]
    for cat, prefixes in _longest(cats):
        result = _Result(cat, emitter)
        for prefix in prefixes:
            emitter.placements.setdefault(prefix, partial(result.channels, 0, shape(prefix)[1]))
        parts, _ = cat_parts(cat)
        start = 0
        for i, part in enumerate(parts):
            channels = shape(part)[1]
            fits = start % VEC == 0 and (channels % VEC == 0 or i == len(parts) - 1)
            free = part in producer and part not in emitter.placements and parts.count(part) == 1
            if fits and free and producer[part].pattern.name in PLACEABLE:
                emitter.placements[part] = partial(result.channels, start, channels)
            start += channels


def _joins_channels(cat: Node) -> bool:
    _, dim = cat_parts(cat)
    return cat.target is aten.cat.default and len(shape(cat)) == 4 and dim == 1 and value(cat).dtype in FLOATS


def _longest(cats: Sequence[Node]) -> list[tuple[Node, list[Node]]]:
    """Concatenations that begin no other, each with those that begin it and end at a whole vector."""
    by_first: dict[Node, list[Node]] = {}
    for cat in cats:
        by_first.setdefault(cat_parts(cat)[0][0], []).append(cat)
    found: list[tuple[Node, list[Node]]] = []
    for group in by_first.values():
        chains: list[tuple[Node, list[Node]]] = []
        for cat in sorted(group, key=lambda c: -len(cat_parts(c)[0])):
            parts = cat_parts(cat)[0]
            longer = chains[-1] if chains else None
            if longer is not None and shape(cat)[1] % VEC == 0 and cat_parts(longer[0])[0][: len(parts)] == parts:
                longer[1].append(cat)
            else:
                chains.append((cat, []))
        found += chains
    return found


class _Result:
    """The value of a concatenation, made when its first part is written."""

    def __init__(self, cat: Node, emitter: Emitter) -> None:
        self._cat = cat
        self._emitter = emitter
        self._view: View | None = None

    def channels(self, start: int, count: int) -> View:
        if self._view is None:
            self._view = self._emitter.image(self._cat)
            self._emitter.define(self._cat, self._view)
        return self._view.narrow(1, start, count)
