"""Pass (before a segment is emitted): who writes its result straight into a channel concatenation, so that nothing has
to be copied.

A part of a `cat` of images can, if it has one place only, its channels begin at a whole vector and end at one (or end
the pixel), and its core can store pixels at any distance. Of concatenations that begin with the same parts (those of a
dense block, say) only the longest has a buffer; the others are views of its first channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.dtypes import BYTES
from fpga_dynamo.ir.elements import F32
from fpga_dynamo.ir.graph import shape, value
from fpga_dynamo.ir.view import VEC, View
from fpga_dynamo.lowering.patterns import Match


def plan_places(matches: Sequence[Match], emitter: Emitter) -> None:
    """Tells the emitter where the values of `matches` go; a place is made when it is first asked for."""
    producer = {output: match for match in matches for output in match.outputs if len(match.outputs) == 1}
    joined = {match.root: images for match in matches if (images := list(match.pattern.concatenates(match)))}
    for cat, prefixes in _longest(joined):
        result = _Result(cat, emitter)
        for prefix in prefixes:
            emitter.placements.setdefault(prefix, partial(result.channels, 0, shape(prefix)[1]))
        parts = joined[cat]
        start = 0
        for i, part in enumerate(parts):
            channels = shape(part)[1]
            fits = start % VEC == 0 and (channels % VEC == 0 or i == len(parts) - 1)
            free = part in producer and part not in emitter.placements and parts.count(part) == 1
            if fits and free and producer[part].pattern.in_place:
                emitter.placements[part] = partial(result.channels, start, channels)
            start += channels


def _longest(joined: Mapping[Node, Sequence[Node]]) -> list[tuple[Node, list[Node]]]:
    """Concatenations that begin no other, each with those that begin it and end at a whole vector."""
    by_first: dict[Node, list[Node]] = {}
    for cat, parts in joined.items():
        by_first.setdefault(parts[0], []).append(cat)
    found: list[tuple[Node, list[Node]]] = []
    for group in by_first.values():
        chains: list[tuple[Node, list[Node]]] = []
        for cat in sorted(group, key=lambda c: -len(joined[c])):
            parts = joined[cat]
            longer = chains[-1] if chains else None
            if longer is not None and shape(cat)[1] % VEC == 0 and joined[longer[0]][: len(parts)] == parts:
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
            dtype = value(self._cat).dtype
            self._view = self._emitter.image(self._cat, element=BYTES.get(dtype, F32))
            self._emitter.define(self._cat, self._view)
        return self._view.narrow(1, start, count)
