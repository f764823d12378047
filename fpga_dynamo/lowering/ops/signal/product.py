"""Products of complex matrices as products of real ones of twice the width.

Pairs are what makes that easy: a row of `a` as it lies, (re, im, re, im, ...), times a matrix in which every number of
`b` is the rows (re, im) and (-im, re), gives rows of pairs. So the gemm core multiplies once, with 4 m k n products.

Pattern, legality and commands; cores: hls_kernels/cores/gemm and zip, tests: tests/lowering/test_complex.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.graph import GraphInfo, aten, operand, refuse_number, shape
from fpga_dynamo.ir.records import Gemm
from fpga_dynamo.ir.view import VEC, Buffer, View, align, numel
from fpga_dynamo.lowering.ops.matmul.matmul import pack_columns
from fpga_dynamo.lowering.ops.packing import panel_vectors
from fpga_dynamo.lowering.ops.signal.arithmetic import Term, emit_zip, number
from fpga_dynamo.lowering.ops.signal.numbers import COMPLEX, contiguous_rows, is_complex
from fpga_dynamo.lowering.patterns import Match, Pattern


def match_product(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    return Match(pattern, (node,), (node,)) if is_complex(node) else None


def check_product(match: Match, graph: GraphInfo) -> str | None:
    node = match.root
    for given in (operand(node, 0), operand(node, 1), node):
        if why := refuse_number(given, "result" if given is node else f"operand {given}"):
            return why
    return None


def macs_product(match: Match) -> int:
    """Real multiply-accumulates."""
    left = shape(operand(match.root, 0))
    return 4 * numel(shape(match.root)) * left[-1]


def pack_pair_columns(params: tuple[Any, ...], matrix: torch.Tensor) -> torch.Tensor:
    """The real matrix of a complex (k, n) one, in panels: see the head of this file."""
    (vectors,) = params
    pairs = torch.view_as_real(matrix.to(COMPLEX).resolve_conj())
    re, im = pairs.unbind(-1)
    rows = torch.stack([pairs, torch.stack([-im, re], -1)], 1)  # k, 2, n, 2
    return pack_columns((vectors, None), rows.reshape(2 * matrix.shape[0], 2 * matrix.shape[1]))


def lower_product(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    left, right = operand(node, 0), operand(node, 1)
    batch = shape(node)[0] if len(shape(node)) == 3 else 1
    rows, depth = shape(left)[-2:]
    columns = shape(right)[-1]
    vectors = panel_vectors(2 * columns, emitter.target.tiles["MAX_VECTORS"])
    a = _as_real(contiguous_rows(emitter.view(left), emitter), batch)
    b: View | Buffer
    b_stride: tuple[int, ...]
    if len(shape(right)) == 2 and emitter.graph.is_static(right):
        floats = 2 * depth * align(2 * columns, VEC * vectors)
        operands = [emitter.expression(right)]
        b = emitter.pack(pack_pair_columns, (vectors,), operands, floats, f"{right.name} as a real matrix")
        b_stride = (0, 0, 0, 0)
    else:
        b = _doubled(emitter.view(right), batch, emitter)
        b_stride = (0, *b.strides)
    y = emitter.tensor((batch, rows, columns), dtype=COMPLEX, pitch=align(columns, VEC // 2))
    product = Gemm(
        a=Operand.of(a),
        b=Operand(b) if isinstance(b, Buffer) else Operand.of(b),
        output=Operand.of(y),
        b_packed=int(isinstance(b, Buffer)),
        batch=(1, batch),
        rows=rows,
        columns=2 * columns,
        depth=2 * depth,
        a_stride=(0, *a.strides),
        b_stride=b_stride,
        out_stride=(0, *y.strides[:2]),
        residual_stride=(0, 0, 0),
        vectors=vectors,
        alpha=1.0,
    )
    emitter.command(product, reads=[a, b], writes=[y], macs=macs_product(match))
    return [y if len(shape(node)) == 3 else y.select(0, 0)]


def _as_real(view: View, batch: int) -> View:
    """A complex (batch, m, k) or (m, k) with contiguous rows as a real (batch, m, 2 k)."""
    *outer, rows, _ = view.strides
    shape_ = (batch, view.shape[-2], 2 * view.shape[-1])
    return View(view.buffer, shape_, (outer[0] if outer else 0, rows, 1), view.offset)


def _doubled(b: View, batch: int, emitter: Emitter) -> View:
    """A complex (batch, k, n) as a real (batch, 2 k, 2 n): each row as it is, then i times it."""
    size = (batch, *b.shape[-2:])
    b = b.unsqueeze(0) if len(b.shape) == 2 else b
    pitch = align(size[2], VEC // 2)
    twice = emitter.tensor((batch, size[1], 2, size[2]), dtype=COMPLEX, pitch=pitch)
    emit_zip(emitter, "ZIP_COPY", [Term(b)], size, out=twice.select(2, 0))
    emit_zip(emitter, "ZIP_PRODUCT", [Term(b), Term(number(emitter, 1j))], size, out=twice.select(2, 1))
    per_matrix, row = twice.strides[0], twice.strides[2]
    return View(twice.buffer, (batch, 2 * size[1], 2 * size[2]), (per_matrix, row, 1), twice.offset)


PATTERNS = (
    Pattern(
        "complex_product",
        (aten.mm.default, aten.bmm.default),
        match_product,
        check_product,
        lower_product,
        frozenset({"gemm", "zip", "move"}),
        macs=macs_product,
    ),
)
