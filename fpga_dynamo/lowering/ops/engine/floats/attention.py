"""Attention of floats whose scores nobody else reads, on the hardware engine: two products and a softmax between them.

Of bfloat16 that is what lowering/tracing/attention.py makes of eager mode's fused kernel: operands are cast to float32,
and the result back. The engine leaves the first product's scores in float32 as well (hls_kernels/engine/record.hpp,
MAC_WIDE), so that they are not rounded; what it rounds are probabilities, as eager mode's kernel does. Attention of
float32 is left to the patterns of its parts, unless it is causal. Tests: tests/lowering/test_engine_attention.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import Map, RefusedError, of_engine
from fpga_dynamo.codegen.engine.vector import VectorCommand, VectorFlags, VectorOperation
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, is_view, operand, shape, value
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.engine_patterns import engine_only
from fpga_dynamo.lowering.ops.engine.common.head_products import seen_as
from fpga_dynamo.lowering.ops.engine.common.vector_rows import all_of, emit
from fpga_dynamo.lowering.ops.engine.floats.epilogue import FloatEpilogue
from fpga_dynamo.lowering.ops.engine.floats.map_products import product_of_maps
from fpga_dynamo.lowering.ops.engine.floats.rows import exponentials
from fpga_dynamo.lowering.ops.matmul.matmul import operands_of
from fpga_dynamo.lowering.patterns import Match, Pattern, sole_user


@dataclass(frozen=True)
class _Cast:
    """A node's way back to a cast from bfloat16 to float32, through views of it."""

    cast: Node
    views: tuple[Node, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (self.cast, *self.views)


@dataclass(frozen=True)
class _Attention:
    """Two products and the softmax between them; casts: of bfloat16, of the query, the keys and the values."""

    scores: Node
    softmax: Node
    product: Node
    casts: tuple[_Cast, ...]
    causal: bool


def match_attention(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[_Attention | str] | None:
    if value(node).dtype is not torch.float32:
        return None
    addend, left, right = operands_of(node)
    added = addend if argument(node, "beta", 3, 1) != 0 else None
    casts = [_cast(left), _cast(right)]
    if added is not None and not _is_causal(added):
        if None in casts:
            return None
        why = "an addend to the attention scores is not supported; the engine supports causal masks only"
        return Match(pattern, (node,), (node,), why)
    softmax = sole_user(node)
    product = None if softmax is None or softmax.target is not aten._softmax.default else sole_user(softmax)
    if softmax is None or product is None or product.target is not aten.bmm.default or product.args[0] is not softmax:
        return None
    if argument(softmax, "dim", 1) % len(shape(softmax)) != len(shape(softmax)) - 1:
        return None
    casts.append(_cast(operand(product, 1)))
    found = [cast for cast in casts if cast is not None]
    of = _Attention(node, softmax, product, tuple(found), added is not None)
    if not found:
        return None if added is None else Match(pattern, (node, softmax, product), (product,), of)
    behind = _cast_back(product)
    nodes = (*(n for cast in found for n in cast.nodes), node, softmax, product, *behind)
    inside = set(nodes)
    if len(found) < 3 or not behind or any(user not in inside for n in nodes[:-1] for user in n.users):
        return None
    return Match(pattern, nodes, (behind[-1],), of)


def _cast(node: Node) -> _Cast | None:
    views: list[Node] = []
    while is_view(node):
        views.insert(0, node)
        node = node.all_input_nodes[0]
    if node.target is not aten._to_copy.default or value(node).dtype is not torch.float32:
        return None
    return _Cast(node, tuple(views)) if value(operand(node, 0)).dtype is torch.bfloat16 else None


def _cast_back(product: Node) -> list[Node]:
    """Views behind a product of float32, and the cast to bfloat16 that ends them; nothing if others follow."""
    found: list[Node] = []
    user = sole_user(product)
    while user is not None and is_view(user):
        found.append(user)
        user = sole_user(user)
    if user is None or user.target is not aten._to_copy.default or value(user).dtype is not torch.bfloat16:
        return []
    return [*found, user]


def _is_causal(added: Node) -> bool:
    """Whether it is -inf at each key behind the row's place, and else 0, as lowering/tracing/attention.py writes it."""
    while is_view(added):
        added = added.all_input_nodes[0]
    if added.target is not aten.triu.default or argument(added, "diagonal", 1, 0) != 1:
        return False
    full = operand(added, 0)
    return full.target is aten.full.default and bool(full.args[1] == -math.inf)


def engine_attention(match: Match[_Attention | str], emitter: EngineEmitter) -> Sequence[View]:
    of = match.bound
    if isinstance(of, str):
        raise RefusedError(of)
    if not emitter.sizes.has_vector_side:
        raise RefusedError("the command needs the vector side, which this engine does not have")
    wide = bool(of.casts)
    for cast in of.casts:
        source = operand(cast.cast, 0)
        of_engine(source, "operand", emitter.sizes)
        emitter.define(cast.cast, emitter.view(source))
    of_engine(match.root, "result", emitter.sizes)
    _, left, right = operands_of(of.scores)
    alpha = argument(of.scores, "alpha", 4, 1)
    if not isinstance(alpha, (int, float)):
        raise RefusedError("scaling by alpha or beta is not supported")
    scaled = FloatEpilogue((), match.root, scale=float(alpha))
    pair = emitter.view(left), emitter.view(right)
    scores = product_of_maps(of.scores, *pair, scaled, emitter, scores=True, wide=wide)
    flags = VectorFlags.WIDE if wide else VectorFlags.NONE
    if of.causal:
        flags |= VectorFlags.CAUSAL
    probabilities = _softmax(of.softmax, scores, flags, emitter)
    values = emitter.view(operand(of.product, 1))
    found = product_of_maps(of.product, probabilities, values, FloatEpilogue((), match.root), emitter)
    if match.root is of.product:
        return [seen_as(found, match.root)]
    emitter.define(of.product, found)
    return [emitter.view(operand(match.root, 0))]


def _softmax(node: Node, scores: View, flags: VectorFlags, emitter: EngineEmitter) -> View:
    rows = scores.buffer
    assert isinstance(rows, Map)
    made = Map(rows.images, rows.pixels, rows.channels, emitter.sizes, node.name)
    command = VectorCommand(operation=VectorOperation.SOFTMAX, flags=flags)
    emit(command, all_of(rows), all_of(made), emitter.put(exponentials(emitter)), None, emitter)
    return replace(scores, buffer=made)


PATTERNS = (engine_only("attention", (aten.baddbmm.default,), match_attention, engine_attention),)
