"""What the hardware engine's vector side computes on rows and elements of int8 maps.

The arithmetic: hls_kernels/engine/vector/record.hpp. Sums and tables are those of elementwise.py; softmax, layer norm
and concatenations, whose parts may have to be copied, are patterns of the engine alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import Map, RefusedError, images_of, of_engine, rows_of
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.codegen.engine.vector import (
    BETA_FRACTION,
    EXPONENT_BITS,
    GAMMA_FRACTION,
    VectorCommand,
    VectorFlags,
    VectorOperation,
    float32,
)
from fpga_dynamo.codegen.requantize import channels
from fpga_dynamo.ir.blocked import IMAGE
from fpga_dynamo.ir.graph import GraphInfo, argument, arguments, aten, operand, shape
from fpga_dynamo.ir.quantised import Scale, dequantized, quantizes
from fpga_dynamo.ir.view import View, align, dense
from fpga_dynamo.lowering.engine_patterns import engine_only
from fpga_dynamo.lowering.ops.engine.common.concatenations import Concatenation
from fpga_dynamo.lowering.ops.engine.common.phases import concatenate_pixels
from fpga_dynamo.lowering.ops.engine.common.vector_rows import all_of, are_alike, emit, is_whole, row_by_row
from fpga_dynamo.lowering.ops.engine.int8.channels import is_within_blocks
from fpga_dynamo.lowering.ops.quantised.tables import packed_table
from fpga_dynamo.lowering.ops.repetition import Repetition, repetition
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_and_first_item, sole_user
from fpga_dynamo.torch_internals.dispatch import without_modes


def scale_of_elements(scale: float, greatest: float = 255.0) -> int:
    """What integers of at most `greatest` in size are scaled by, differences of two of eight bits if left out."""
    with without_modes():
        return int(channels(torch.tensor([scale], dtype=torch.float64), 0.0, greatest, residual=256.0).scale[0])


def element_wise(
    root: Node,
    command: VectorCommand,
    left: Node,
    right: Node | None,
    table: tuple[int, ...] | None,
    emitter: EngineEmitter,
) -> View:
    """A command whose operands and result lie alike; where that is so the engine does not mind how. The result.

    Operands may be broadcast to the result.
    """
    of_engine(left, "operand", emitter.sizes)
    of_engine(root, "result", emitter.sizes)
    x = emitter.view(left).expand(shape(root))
    params = 0 if table is None else emitter.put(packed_table(table, emitter, root.name))
    placed = emitter.placements.get(root)
    if right is not None and emitter.is_constant(right):
        x = x if is_whole(x) else emitter.compact(x, "operand")
        constant, repeated = _constant(right, x, emitter)
        out = _map_like(x, emitter, root.name)
        emit(command, all_of(x.buffer), all_of(out.buffer), params, all_of(constant), emitter, repeated)
        return out if placed is None else emitter.copied(out, placed, "result")
    other = None if right is None else emitter.view(right)
    if placed is not None or not is_whole(x) or (other is not None and not are_alike(x, other)):
        try:
            return _as_they_lie(root, command, x, other, params, emitter)
        except RefusedError:
            if not emitter.sizes.gather:
                raise
        x = x if is_whole(x) else emitter.compact(x, "operand")
        if other is not None and not are_alike(x, other):
            other = emitter.copied(other.expand(x.shape), _map_like(x, emitter, root.name), "other operand")
    # All of a map, whatever it is seen as.
    out = _map_like(x, emitter, root.name)
    b = None if other is None else all_of(other.buffer)
    emit(command, all_of(x.buffer), all_of(out.buffer), params, b, emitter)
    return out if placed is None else emitter.copied(out, placed, "result")


def _constant(node: Node, x: View, emitter: EngineEmitter) -> tuple[Map, Repetition]:
    """A map for a constant that is broadcast to `x`, all of a map; it has as few images as steps between them allow."""
    of = x.buffer
    assert isinstance(of, Map)
    size = (*(1,) * (len(x.shape) - len(shape(node))), *shape(node))
    steps = [stride if count > 1 else None for count, stride in zip(x.shape, x.strides, strict=True)]
    images = 1 + max((d for d, step in enumerate(steps) if step is not None and step >= IMAGE), default=-1)
    rows = [step * IMAGE for step in dense(x.shape[:images])]
    in_order = all(step in (None, row) for step, row in zip(steps, rows, strict=False))
    repeated = repetition(x.shape[:images], size[:images])
    if repeated is None or not in_order or size[images:] != x.shape[images:]:
        target = _map_like(x, emitter, node.name)
        repeated = Repetition((1, of.images), (0, 1), of.images)
    else:
        strides = (*(step * IMAGE for step in dense(size[:images])), *x.strides[images:])
        like = Map(repeated.images, of.pixels, of.channels, emitter.sizes, node.name)
        target = View(like, size, strides, 0, x.dtype)
    emitter.constant(node, target)
    assert isinstance(target.buffer, Map)
    return target.buffer, repeated


def _map_like(x: View, emitter: EngineEmitter, name: str) -> View:
    """A view like one of all of a map, of another map."""
    of = x.buffer
    assert isinstance(of, Map)
    return replace(x, buffer=Map(of.images, of.pixels, of.channels, emitter.sizes, name))


def _as_they_lie(
    root: Node, command: VectorCommand, x: View, other: View | None, params: int, emitter: EngineEmitter
) -> View:
    """The command for operands that are images or rows like the result. Raises RefusedError before it is appended."""
    taken = images_of if len(x.shape) == 4 else rows_of
    out = emitter.placements.get(root) or emitter.result(root)
    a, y = taken(x, "operand"), taken(out, "result")
    b = None if other is None else taken(other, "other operand")
    if (a.images, a.pixels) != (y.images, y.pixels) or (b and (b.channels, b.images) != (a.channels, a.images)):
        raise RefusedError("the operands have different layouts")
    if b is not None and b.pixels != a.pixels:
        if b.pixels != 1:
            raise RefusedError("the operands have different layouts")
        command = replace(command, flags=command.flags | VectorFlags.SHARED)
    if not (a.whole and y.whole and (b is None or b.whole)):
        raise RefusedError("an operand is a slice of a feature map's rows")
    emit(command, a, y, params, b, emitter)
    return out


# --- softmax ----------------------------------------------------------------------------------------------------------


def match_softmax(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    """Of dequantised values, rounded to eight bits again."""
    source, user = operand(node, 0), sole_user(node)
    if dequantized(source) is None or user is None or quantizes(user) is None or user in graph.claimed:
        return None
    return Match(pattern, (source, node, user), (user,))


def engine_softmax(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    source, node, last = match.nodes
    found, scale = dequantized(source), quantizes(last)
    assert found is not None and scale is not None
    dim = argument(node, "dim", 1) % len(shape(node))
    if dim != len(shape(node)) - 1 and not emitter.sizes.gather:
        raise RefusedError("only the last dimension is supported, along which the engine's features lie")
    count = shape(node)[dim]
    params = emitter.pack(pack_exponentials, (found[1].scale,), [], 256, f"exponentials of {node.name}")
    command = VectorCommand(
        operation=VectorOperation.SOFTMAX,
        row_scale=float32(1.0 / scale.scale),
        zero=scale.zero,
        low=scale.low,
        high=scale.high,
    )
    return [row_by_row(last, found[0], count, command, emitter, lambda: emitter.put(params), dim)]


def pack_exponentials(params: tuple[Any, ...]) -> torch.Tensor:
    """2^24 exp(-i scale) of 256 distances to a row's greatest key."""
    (scale,) = params
    exponentials = torch.exp(-scale * torch.arange(256, dtype=torch.float64)) * (1 << EXPONENT_BITS)
    return exponentials.round().to(torch.int32)


# --- layer norm -------------------------------------------------------------------------------------------------------


def match_layer_norm(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    """Of dequantised values, rounded to eight bits again, whose statistics nobody asks for."""
    found = anchor_and_first_item(pattern, node, graph)
    if found is None or dequantized(operand(node, 0)) is None:
        return None
    user = sole_user(found.root)
    if user is None or quantizes(user) is None or user in graph.claimed:
        return None
    return Match(pattern, (operand(node, 0), *found.nodes, user), (user,))


def engine_layer_norm(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    source, node, last = match.nodes[0], match.nodes[1], match.nodes[-1]
    found, scale = dequantized(source), quantizes(last)
    assert found is not None and scale is not None
    sizes, gamma, beta, eps = arguments(node)[1:5]
    if len(sizes) != 1:
        raise RefusedError("several dimensions are not supported; the engine supports the last one")
    if any(isinstance(p, Node) and not emitter.graph.is_static(p) for p in (gamma, beta)):
        raise RefusedError("a scale or shift that the graph computes is not supported")
    count = shape(arguments(node)[0])[-1]
    operands = [emitter.expression(p) if isinstance(p, Node) else None for p in (gamma, beta)]
    words = 2 * align(count, CHANNELS)
    command = VectorCommand(
        operation=VectorOperation.NORM,
        epsilon=least_epsilon(float(eps), count, found[1]),
        zero=scale.zero,
        low=scale.low,
        high=scale.high,
    )

    def params() -> int:
        return emitter.put(emitter.pack(pack_affine, (count, scale.scale), operands, words, f"{node.name} parameters"))

    return [row_by_row(last, found[0], count, command, emitter, params)]


def least_epsilon(eps: float, count: int, source: Scale) -> float:
    """`eps` in units of count^2 times the variance of the integers, as float32; more than 0."""
    smallest = float(torch.finfo(torch.float32).tiny)
    return max(float32(eps * (count / source.scale) ** 2), smallest)


def pack_affine(params: tuple[Any, ...], gamma: torch.Tensor | None, beta: torch.Tensor | None) -> torch.Tensor:
    """int32 [block][gamma, beta][16], in units of 2^-17 and 2^-22 of the result's scale."""
    count, scale = params
    rows = []
    for given, filling, fraction in ((gamma, 1.0, GAMMA_FRACTION), (beta, 0.0, BETA_FRACTION)):
        real = torch.full((count,), filling) if given is None else given.detach().flatten()
        units = torch.round(real.double() / scale * 2.0**fraction).clamp(-(2.0**31), 2.0**31 - 1).to(torch.int32)
        rows.append(torch.nn.functional.pad(units, (0, -count % CHANNELS)).view(-1, CHANNELS))
    return torch.stack(rows, 1).flatten()


# --- concatenation ----------------------------------------------------------------------------------------------------


def match_concatenation(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[Concatenation] | None:
    """A concatenation of 8-bit integers."""
    parts = node.args[0]
    assert isinstance(parts, (tuple, list))
    given = [part for part in parts if isinstance(part, Node)]
    if not given or node.meta["val"].dtype is not torch.int8 or is_within_blocks(node):
        return None
    return Match(pattern, (node,), (node,), Concatenation(given))


def channel_axis(node: Node) -> bool:
    """Whether a concatenation is along channels of images, or features of rows."""
    rank = len(shape(node))
    return argument(node, "dim", 1, 0) % rank == (1 if rank == 4 else rank - 1)


def engine_concatenation(match: Match[Concatenation], emitter: EngineEmitter) -> Sequence[View]:
    """Parts that were not written to their place are copied there."""
    node = match.root
    if not channel_axis(node):
        return [_join_pixels(node, match.bound.parts, emitter)]
    out = emitter.result(node)
    axis, first = (1 if len(shape(node)) == 4 else len(shape(node)) - 1), 0
    for part in match.bound.parts:
        count = shape(part)[axis]
        place = out.narrow(axis, first, count)
        first += count
        if emitter.view(part) != place:
            if place.offset % CHANNELS:
                raise RefusedError(f"a part has {count} channels, which is not a multiple of {CHANNELS}")
            taken, read = (images_of, emitter.images) if len(place.shape) == 4 else (rows_of, emitter.rows)
            x, y = read(emitter.view(part), "a part"), taken(place, "result")
            emit(VectorCommand(input_scale=scale_of_elements(1.0)), x, y, 0, None, emitter)
    return [out]


def _join_pixels(node: Node, parts: Sequence[Node], emitter: EngineEmitter) -> View:
    """Parts behind each other along rows of features, or rows or columns of images: words in turn."""
    size = shape(node)
    dim = argument(node, "dim", 1, 0) % len(size)
    out = emitter.result(node)
    if (len(size), dim) == (4, 0):
        return _join_images(out, [emitter.view(part) for part in parts], emitter)
    y = (images_of if len(size) == 4 else rows_of)(out, "result")
    taken = emitter.images if len(size) == 4 else emitter.rows
    rows = prod(size[:dim]) if len(size) != 4 else {2: 1, 3: size[2]}[dim]
    given = [taken(emitter.view(part), "a part") for part in parts]
    if emitter.sizes.gather:
        given = [
            x if x.whole and x.images == y.images else taken(emitter.own(emitter.view(part), "a part"), "a part")
            for x, part in zip(given, parts, strict=True)
        ]
    if not y.whole or any(not x.whole or x.images != y.images for x in given):
        raise RefusedError("a part spans several images, or is a slice of one")
    if len(given) > 1:
        concatenate_pixels(given, [x.pixels // rows for x in given], y, rows, emitter)
        return out
    raise RefusedError("concatenation of a single tensor is not supported")


def _join_images(out: View, parts: Sequence[View], emitter: EngineEmitter) -> View:
    """Images behind each other."""
    if not emitter.sizes.gather:
        raise RefusedError("concatenation along this axis is not supported")
    first = 0
    for part in parts:
        emitter.copy(part, out.narrow(0, first, part.shape[0]), "a part")
        first += part.shape[0]
    return out


PATTERNS = (
    engine_only("softmax_int8", (aten._softmax.default,), match_softmax, engine_softmax),
    engine_only("layer_norm_int8", (aten.native_layer_norm.default,), match_layer_norm, engine_layer_norm),
    engine_only("cat_int8", (aten.cat.default,), match_concatenation, engine_concatenation),
)
