"""x[i], x[:, i, j], x[:, :, i] and the like: elements by one or more index tensors that broadcast.

The gather core supports one index. Several become one, an offset into the table: when weights are packed if they depend
on parameters and constants only, else by an element-wise command, whose floats are exact for tables that are not too
large. An index that is out of range becomes one that the core refuses, so that eager raises its error.

Pattern, legality and commands; core: hls_kernels/cores/move/gather.hpp,
tests: tests/lowering/test_gathering.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.micro import MicroProgram, Operand
from fpga_dynamo.codegen.walks import collapse, pad_left
from fpga_dynamo.ir.graph import EXACT_INTEGERS, GraphInfo, aten, operand, refuse_value, shape, value
from fpga_dynamo.ir.operators import Operator
from fpga_dynamo.ir.sizes.size import identical
from fpga_dynamo.ir.view import VEC, View, dense, numel
from fpga_dynamo.ir.weights import encode_elements
from fpga_dynamo.lowering.ops.calls import indices, rows
from fpga_dynamo.lowering.ops.elementwise.pointwise import emit_elementwise
from fpga_dynamo.lowering.ops.indexing.indexing import emit_gather
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone

MOST_INDICES = 4
"""More would not fit the registers of the pointwise core."""

OUT_OF_RANGE = -1


def _indices(node: Node) -> dict[int, Node]:
    """The index tensors by the dimension of the table that they run along."""
    given = node.args[1]
    assert isinstance(given, (list, tuple))
    return {dim: index for dim, index in enumerate(given) if isinstance(index, Node)}


def check_gathering(match: Match, graph: GraphInfo) -> str | None:
    node = match.root
    table, indices = operand(node, 0), _indices(node)
    if why := refuse_value(table, "table") or refuse_value(node, "result"):
        return why
    for index in indices.values():
        if why := refuse_value(index, "index"):
            return why
        if value(index).dtype not in (torch.int64, torch.int32):
            return f"a {value(index).dtype} index gives data-dependent result sizes, which are not supported"
    if all(graph.is_static(index) for index in indices.values()):
        return None
    if len(indices) > MOST_INDICES:
        return f"more than {MOST_INDICES} index tensors that are not known before the call are not supported"
    # An image's pixels are padded to whole vectors.
    reach = VEC * numel(shape(table)) if len(indices) > 1 else max(shape(table))
    return None if reach <= EXACT_INTEGERS else f"the table has offsets up to {reach}; at most 2^24 are supported"


def lower_gathering(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    table, indices = emitter.view(operand(node, 0)), _indices(node)
    index_shape = _broadcast([shape(index) for index in indices.values()])
    rest = [d for d in range(len(table.shape)) if d not in indices]
    first = min(indices)
    together = max(indices) - first + 1 == len(indices)
    lead = [d for d in rest if d < first] if together else []
    trail = [d for d in rest if d not in lead]

    # One index counts rows, whatever their distance; several make an offset in floats.
    one = len(indices) == 1
    places = tuple((table.shape[d], 1 if one else table.strides[d]) for d in indices)
    index = _combined(node, places, indices, index_shape, emitter)
    out = emitter.tensor(shape(node), dtype=table.dtype)
    zeros = (0,) * len(index_shape)
    table_strides = (*(table.strides[d] for d in lead), *zeros, *(table.strides[d] for d in trail))
    index_strides = ((0,) * len(lead)) + index.strides + ((0,) * len(trail))
    sizes, walks = collapse(shape(node), (table_strides, index_strides, out.strides))
    limit = 1 + sum((size - 1) * stride for size, stride in places)
    row_stride = table.strides[first] if one else 1
    emit_gather(emitter, table, index, out, sizes, walks, row_stride=row_stride, limit=limit)
    return [out]


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that all `shapes` broadcast to, which they are known to do."""
    rank = max(map(len, shapes))
    aligned = [pad_left(size, rank, 1) for size in shapes]
    return tuple(next((n for n in sizes if not identical(n, 1)), 1) for sizes in zip(*aligned, strict=True))


def _combined(
    node: Node,
    places: tuple[tuple[int, int], ...],
    indices: dict[int, Node],
    index_shape: tuple[int, ...],
    emitter: Emitter,
) -> View:
    """The sum of the indices times the strides in `places`, in the shape that they broadcast to, in the arena."""
    if all(emitter.graph.is_static(index) for index in indices.values()):
        operands = [emitter.expression(index) for index in indices.values()]
        floats = numel(index_shape)
        buffer = emitter.pack(pack_offsets, places, operands, floats, f"{node.name} offsets")
        return emitter.in_arena(View(buffer, index_shape, dense(index_shape), 0, torch.int64))

    def rule(p: MicroProgram, given: list[Operand]) -> Operand:
        total: Operand | None = None
        for i, (size, stride) in zip(given, places, strict=True):
            wrapped = p.op("WHERE", p.op("LT", i, 0.0), p.op("ADD", i, float(size)), i)
            inside = p.op("AND", p.op("GE", wrapped, 0.0), p.op("LT", wrapped, float(size)))
            # Far enough below zero that no other index makes up for it.
            offset = p.op("WHERE", inside, p.op("MUL", wrapped, float(stride)), float(-2 * EXACT_INTEGERS))
            total = offset if total is None else p.op("ADD", total, offset)
        assert total is not None
        return p.op("FLOAT_TO_INT", p.op("MAX", total, float(OUT_OF_RANGE)))

    views = [emitter.view(index) for index in indices.values()]
    return emit_elementwise(emitter, rule, views, index_shape, torch.int64)


def pack_offsets(params: tuple[Any, ...], *indices: torch.Tensor) -> torch.Tensor:
    """Offsets of the elements that `indices` name; params: size and stride of each index' dimension."""
    total = torch.zeros((), dtype=torch.int64)
    bad = torch.zeros((), dtype=torch.bool)
    for index, (size, stride) in zip(torch.broadcast_tensors(*indices), params, strict=True):
        wrapped = torch.where(index < 0, index + size, index)
        bad = bad | (wrapped < 0) | (wrapped >= size)
        total = total + wrapped * stride
    return encode_elements(torch.where(bad, OUT_OF_RANGE, total)).flatten()


PATTERNS = (
    Pattern(
        name="gathering",
        anchors=(aten.index.Tensor, aten._unsafe_index.Tensor),
        match=anchor_alone,
        check=check_gathering,
        lower=lower_gathering,
        opcodes=frozenset({"gather", "pointwise", "move"}),
        operators=dict.fromkeys(
            (aten.index.Tensor, aten._unsafe_index.Tensor), Operator(lambda t: rows(t, [indices(t, 4)]))
        ),
    ),
)
