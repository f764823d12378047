"""A slice written at a place that the data say (a key-value cache's next token): index_copy, index_put with one index.

No core writes where the data say. So every element is either the old or the new one, by a comparison of its place with
the index: one element-wise command over the tensor. The place is read from a list of all places by the gather core,
which ends the run for one out of range, so that eager raises its error.

Pattern, legality and commands; cores: hls_kernels/cores/pointwise and move/gather.hpp,
tests: tests/lowering/test_gathering.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.micro import MicroProgram, Operand
from fpga_dynamo.ir.dtypes import INTEGERS
from fpga_dynamo.ir.graph import (
    EXACT_INTEGERS,
    GraphInfo,
    argument,
    aten,
    operand,
    refuse_value,
    shape,
    value,
)
from fpga_dynamo.ir.operators import Operator
from fpga_dynamo.ir.view import View, align
from fpga_dynamo.lowering.ops.calls import indices, rows
from fpga_dynamo.lowering.ops.elementwise.pointwise import emit_elementwise
from fpga_dynamo.lowering.ops.indexing.indexing import emit_gather
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone


def _parts(node: Node) -> tuple[Node, int, list[Node], Node]:
    """The tensor, the dimension that is indexed first, the index tensors, the new elements."""
    if node.target is aten.index_copy.default:
        return operand(node, 0), argument(node, "dim", 1), [operand(node, 2)], operand(node, 3)
    given: Any = node.args[1]
    dims = [dim for dim, index in enumerate(given) if isinstance(index, Node)]
    return operand(node, 0), dims[0], [given[dim] for dim in dims], operand(node, 2)


def check_scattering(match: Match, graph: GraphInfo) -> str | None:
    node = match.root
    tensor, dim, indices, new = _parts(node)
    for what, given in (("result", node), ("index", indices[0]), ("the written value", new)):
        if why := refuse_value(given, what):
            return why
    if value(node).dtype in INTEGERS or value(new).dtype != value(node).dtype:
        return "integer elements are not supported: the device holds them as float32, exact up to 2^24 only"
    adds = node.target is aten.index_put.default and argument(node, "accumulate", 3, False)
    if adds or len(indices) > 1:
        return "data-dependent addressing (scatter) with several index tensors or accumulation is not supported"
    if value(indices[0]).dtype not in (torch.int64, torch.int32) or value(indices[0]).numel() != 1:
        return "data-dependent addressing (scatter) to several positions is not supported; one position is"
    if not shape(tensor) or shape(tensor)[dim] > EXACT_INTEGERS:
        return "the number of positions is 0 or above 2^24, the range in which float32 is exact"
    return None


def lower_scattering(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    tensor, dim, (index,), new = _parts(node)
    x = emitter.view(tensor)
    dim %= len(x.shape)
    count = x.shape[dim]
    places = View(emitter.pack(pack_places, (count,), [], align(count), "places"), (count,), (1,))

    def wrapped(p: MicroProgram, v: list[Operand]) -> Operand:
        if node.target is aten.index_copy.default:
            return p.op("FLOAT_TO_INT", v[0])
        return p.op("FLOAT_TO_INT", p.op("WHERE", p.op("LT", v[0], 0.0), p.op("ADD", v[0], float(count)), v[0]))

    def chosen(p: MicroProgram, v: list[Operand]) -> Operand:
        return p.op("WHERE", p.op("EQ", v[2], v[3]), v[1], v[0])

    one = emitter.view(index)
    at = emit_elementwise(emitter, wrapped, [replace(one, shape=(1,), strides=(1,))], (1,), torch.int64)
    place = emitter.tensor((1,))
    emit_gather(emitter, places, at, place, (1,), ((0,), (1,), (1,)), row_stride=1, limit=count)

    part = tuple(1 if d == dim else n for d, n in enumerate(x.shape))
    written = emitter.view(new)
    if node.target is aten.index_put.default and not one.shape:  # self[i] has one dimension less
        written = written.expand(part[:dim] + part[dim + 1 :]).unsqueeze(dim)
    behind = (1,) * (len(x.shape) - dim - 1)
    along = replace(places, shape=(count, *behind), strides=(1, *(0 for _ in behind)))
    return [emit_elementwise(emitter, chosen, [x, written, along, place], x.shape, value(node).dtype)]


def pack_places(params: tuple[int]) -> torch.Tensor:
    """0, 1, 2 and so on, padded to whole vectors."""
    return torch.arange(align(params[0]), dtype=torch.float32)


PATTERNS = (
    Pattern(
        name="scattering",
        anchors=(aten.index_copy.default, aten.index_put.default),
        match=anchor_alone,
        check=check_scattering,
        lower=lower_scattering,
        opcodes=frozenset({"gather", "pointwise", "move"}),
        operators={
            aten.index_copy.default: Operator(lambda t: rows(t, 0, indices(t, 1), t(1, 16))),
            aten.index_put.default: Operator(lambda t: rows(t, [indices(t, 1)], t(16))),
        },
    ),
)
