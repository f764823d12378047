"""Rolls, flips and padding of int8 values on the hardware engine: words that the vector side gathers.

Elements keep their channel, whatever dimension of the value that is. Tests: tests/lowering/test_engine_gather.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.gather import Index
from fpga_dynamo.codegen.engine.maps import RefusedError, of_engine
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, normalise_dims, operand, shape, value
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.engine_patterns import engine_only
from fpga_dynamo.lowering.patterns import Match, Pattern


def match_move(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    """Of 8-bit integers."""
    return Match(pattern, (node,), (node,)) if value(node).dtype is torch.int8 else None


def _emit(node: Node, index: Mapping[int, Index], filling: int, emitter: EngineEmitter) -> Sequence[View]:
    """index: of each dimension that changes, the places in the source of the result's places in order."""
    if not emitter.sizes.gather:
        raise RefusedError("the engine does not reorder elements")
    of_engine(operand(node, 0), "input", emitter.sizes)
    source = emitter.view(operand(node, 0))
    return [emitter.moved(source, index, shape(node), "the input", filling=filling)]


def engine_roll(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    node = match.root
    size = shape(node)
    shifts, dims = argument(node, "shifts", 1), argument(node, "dims", 2, ())
    if not dims:
        raise RefusedError("a roll over all dimensions at once is not supported")
    index: dict[int, Index] = {}
    for shift, dim in zip(shifts, dims, strict=True):
        d = dim % len(size)
        before = index.get(d, tuple(range(size[d])))
        index[d] = tuple(before[(i - shift) % size[d]] for i in range(size[d]))
    return _emit(node, index, 0, emitter)


def engine_flip(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    node = match.root
    size = shape(node)
    dims = normalise_dims(argument(node, "dims", 1), len(size))
    return _emit(node, {d: tuple(reversed(range(size[d]))) for d in dims}, 0, emitter)


def engine_pad(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    """Negative padding cuts."""
    node = match.root
    size, pads = shape(operand(node, 0)), argument(node, "pad", 1)
    index: dict[int, Index] = {}
    for k in range(len(pads) // 2):
        d, (before, behind) = len(size) - 1 - k, pads[2 * k : 2 * k + 2]
        if before or behind:
            places = range(-before, size[d] + behind)
            index[d] = tuple(i if 0 <= i < size[d] else None for i in places)
    return _emit(node, index, int(argument(node, "value", 2, 0)), emitter)


PATTERNS = (
    engine_only("pad_int8", (aten.constant_pad_nd.default,), match_move, engine_pad),
    engine_only("roll_int8", (aten.roll.default,), match_move, engine_roll),
    engine_only("flip_int8", (aten.flip.default,), match_move, engine_flip),
)
