"""tril and triu: elements on one side of a diagonal, zeros on the other.

Pattern, legality and commands; core: hls_kernels/cores/pointwise,
tests: tests/lowering/test_triangles.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.dtypes import INTEGERS
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, operand, refuse_value, shape, value
from fpga_dynamo.ir.operators import Operator
from fpga_dynamo.ir.sizes.size import sizes_in
from fpga_dynamo.ir.view import View
from fpga_dynamo.ir.weights import pack_rows, row_layout
from fpga_dynamo.lowering.ops.elementwise.pointwise import emit_elementwise
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone


def check_triangle(match: Match, graph: GraphInfo) -> str | None:
    source = operand(match.root, 0)
    if why := refuse_value(source, "input"):
        return why
    if any(True for _ in sizes_in(shape(source)[-2:])):
        return "a matrix of dynamic size is not supported; the mask is a constant of one size"
    if value(source).dtype in INTEGERS:
        return "integer elements are not supported: the device holds them as float32, exact up to 2^24 only"
    return None


def lower_triangle(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    x = emitter.view(operand(node, 0))
    size = x.shape[-2:]
    strides, pitch, floats = row_layout(size, (0, 1))
    params = (size, pitch, int(argument(node, "diagonal", 1, 0)), node.target is aten.tril.default)
    mask = View(emitter.pack(pack_triangle, params, [], floats, f"{node.name} mask"), size, strides, 0, torch.bool)
    return [
        emit_elementwise(emitter, lambda p, v: p.op("WHERE", v[1], v[0], 0.0), (x, mask), x.shape, value(node).dtype)
    ]


def pack_triangle(params: tuple[Any, ...]) -> torch.Tensor:
    """1 where a matrix' elements are kept: at and below a diagonal, or at and above it."""
    size, pitch, diagonal, lower = params
    ones = torch.ones(size)
    return pack_rows(((0, 1), pitch), ones.tril(diagonal) if lower else ones.triu(diagonal))


PATTERNS = (
    Pattern(
        name="triangle",
        anchors=(aten.tril.default, aten.triu.default),
        match=anchor_alone,
        check=check_triangle,
        lower=lower_triangle,
        opcodes=frozenset({"pointwise", "move"}),
        operators={op: Operator(laid_out=op) for op in (aten.tril.default, aten.triu.default)},
    ),
)
