"""Rows of a table by index: embedding, index_select, gather.

Core's description, pattern, legality and commands; core: hls_kernels/cores/move/gather.hpp,
tests: tests/lowering/test_indexing.py. An index out of range ends the run with a status; the partition then runs
again in eager, which raises the error that PyTorch users know.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import Node

from fpga_dynamo.codegen.core import CORES, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.walks import offsets, pad_left
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.dtypes import BYTES
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, operand, refuse_value, shape, value
from fpga_dynamo.ir.operators import Operator
from fpga_dynamo.ir.records import Gather
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, View, ceil_div, dense, numel
from fpga_dynamo.lowering.ops.calls import indices, rows
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone


def _cycles(c: Gather, target: Target) -> float:
    """A vector a cycle if whole rows are read by one index, else an element."""
    wide = c.out_stride[-1] == 1 and c.table_stride[-1] == 1 and c.index_stride[-1] == 0
    return ceil_div(numel(c.dims), VEC if wide else 1)


GATHER = CORES.add(
    Core[Gather](
        Gather.opcode,
        _cycles,
        moved=lambda c, target: 2 * numel(c.dims),
        parts=lambda c, target: numel(c.dims),
        zero_copy=True,
    )
)


def _parts(node: Node) -> tuple[Node, Node, int]:
    """Table, index, and the table's dimension that the index runs along."""
    if node.target is aten.embedding.default:
        return operand(node, 0), operand(node, 1), 0
    return operand(node, 0), operand(node, 2), argument(node, "dim", 1)


def check_indexing(match: Match, graph: GraphInfo) -> str | None:
    node = match.root
    table, index, _ = _parts(node)
    if node.target is aten.embedding.default and (len(node.args) > 4 and node.args[4]):
        return "sparse gradients are not supported"
    if why := refuse_value(table, "table") or refuse_value(index, "index") or refuse_value(node, "result"):
        return why
    if value(index).dtype not in (torch.int64, torch.int32):
        return f"the index is {value(index).dtype}; integer dtypes are supported"
    if node.target is aten.index_select.default and len(shape(index)) > 1:
        return "eager mode raises: index_select(): Index is supposed to be a vector"
    rank = len(shape(table))
    if rank == 0 or (node.target is not aten.embedding.default and rank > 4):
        return f"a {rank}-D table is not supported"
    if node.target is aten.embedding.default and rank != 2:
        return "a table of more than two dimensions is not supported"
    return None


def lower_indexing(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    table_node, index_node, dim = _parts(node)
    table, index = _table(table_node, emitter), emitter.in_arena(emitter.view(index_node))
    rank = len(table.shape)
    dim %= rank
    out = emitter.tensor(shape(node), dtype=table.dtype, element=table.element)
    row_stride, limit = table.strides[dim], table.shape[dim]
    if node.target is aten.gather.default:
        dims = index.shape
        table_stride = tuple(0 if d == dim else s for d, s in enumerate(table.strides))
        index_stride, out_stride = index.strides, out.strides
    elif node.target is aten.index_select.default:
        dims = out.shape
        table_stride = tuple(0 if d == dim else s for d, s in enumerate(table.strides))
        step = index.strides[0] if index.shape else 0
        index_stride = tuple(step if d == dim else 0 for d in range(rank))
        out_stride = out.strides
    else:
        flat = index.reshape((numel(index.shape),))
        if flat is None:
            flat = emitter.relaid(index, tuple(range(len(index.shape)))).reshape((numel(index.shape),))
        if flat is None:  # padded rows: pack them
            packed = View(emitter.tensor((index.numel,)).buffer, index.shape, dense(index.shape), 0, index.dtype)
            emitter.copy(index, packed)
            flat = packed.reshape((index.numel,))
        assert flat is not None
        index = flat
        dims = (index.shape[0], table.shape[1])
        rows = out.reshape(dims)
        assert rows is not None, "rows of a new tensor lie at one distance"
        table_stride, index_stride, out_stride = (0, table.strides[1]), (index.strides[0], 0), rows.strides
    strides = (table_stride, index_stride, out_stride)
    emit_gather(emitter, table, index, out, dims, strides, row_stride=row_stride, limit=limit)
    return [out]


def _table(node: Node, emitter: Emitter) -> View:
    """Parameters of eight bits lie in bytes, as do their rows; whatever else there is, in words."""
    dtype = value(node).dtype
    if emitter.graph.is_static(node) and dtype in BYTES and emitter.kernel.takes("gather", BYTES[dtype]):
        return emitter.weight_rows(node, element=BYTES[dtype])
    return emitter.view(node)


def emit_gather(
    emitter: Emitter,
    table: View,
    index: View,
    out: View,
    dims: Sequence[int],
    strides: Sequence[Sequence[int]],
    *,
    row_stride: int,
    limit: int,
) -> None:
    """out[i] = table[i, index[i] row_stride] for i in `dims`, with strides of table, index and out; 0 <= index < limit.

    One command, or several where there are more than four dimensions.
    """
    outer, inner = tuple(dims[:-4]), tuple(dims[-4:])
    for table_at, index_at, out_at in offsets(outer, strides):
        table_stride, index_stride, out_stride = (pad_left(tuple(walk[-4:]), 4, 0) for walk in strides)
        gather = Gather(
            table=Operand(table.buffer, table.offset + table_at),
            index=Operand(index.buffer, index.offset + index_at),
            output=Operand(out.buffer, out.offset + out_at),
            table_in_weights=int(table.buffer.in_weights),
            limit=limit,
            row_stride=row_stride,
            dims=pad_left(inner, 4, 1),
            table_stride=table_stride,
            index_stride=index_stride,
            out_stride=out_stride,
            format=emitter.format_of(table),
        )
        emitter.command(gather, reads=[table, index], writes=[out])


PATTERNS = (
    Pattern(
        name="indexing",
        anchors=(aten.embedding.default, aten.index_select.default, aten.gather.default),
        match=anchor_alone,
        check=check_indexing,
        lower=lower_indexing,
        opcodes=frozenset({"gather", "move"}),
        operators={
            aten.embedding.default: Operator(lambda t: ((t(16, 8, parameter=True), indices(t, 4)), {})),
            aten.index_select.default: Operator(lambda t: rows(t, 0, indices(t, 4))),
            aten.gather.default: Operator(lambda t: rows(t, 1, indices(t, 4, 4))),
        },
    ),
)
