"""Matrix products of bfloat16, on the emulator of a host that multiplies them: mm, addmm, bmm, baddbmm.

matmul.py describes products and their epilogues. Here operands and results have two bytes where possible. Values that
lie on the card in four bytes, not rounded yet, are rounded when the core reads them, as in eager mode.
Core: hls_kernels/cores/gemm_bf16, tests: tests/lowering/test_bf16.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.core import CORES, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.views import lower_view
from fpga_dynamo.ir.elements import BF16, F32, Element
from fpga_dynamo.ir.graph import GraphInfo, shape, value
from fpga_dynamo.ir.records import GemmBf16
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, Buffer, View, align, ceil_div, numel
from fpga_dynamo.lowering.ops.matmul import matmul
from fpga_dynamo.lowering.ops.matmul.batches import halves_of, repeated_matrix, result_order
from fpga_dynamo.lowering.ops.matmul.bf16_casts import PRODUCTS, cast_behind, multiplies_bf16, readers
from fpga_dynamo.lowering.ops.packing import panel_vectors, product_tiles
from fpga_dynamo.lowering.patterns import Match, Pattern

NAME = "matmul_bf16"
_STEP = 32
"""Steps of k that packed weights come in, with zeros behind the last."""


def _words(c: GemmBf16, target: Target) -> int:
    batch = numel(c.batch)
    a, b, out = (target.element(format).bytes for format in (c.a_format, c.b_format, c.out_format))
    right = b * c.depth * c.columns * (1 if c.b_packed else batch)
    return (batch * c.rows * (a * c.depth + out * c.columns) + right) // 4


GEMM_BF16 = CORES.add(
    Core[GemmBf16](
        GemmBf16.opcode,
        cycles=lambda c, target: product_tiles(c, target) * ceil_div(c.depth, 2),
        moved=_words,
        parts=product_tiles,
        zero_copy=True,
    )
)


@dataclass(frozen=True)
class Bf16Parts(matmul.MatmulParts):
    """root: the last node of the product and its epilogue. behind: views of it and a cast to float32."""

    root: Node
    behind: tuple[Node, ...]


def match_matmul(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[Bf16Parts] | None:
    """A product of bfloat16 operands, where the host has products of them."""
    _, left, right = matmul.operands_of(node)
    if not multiplies_bf16(graph.target) or any(value(x).dtype is not torch.bfloat16 for x in (node, left, right)):
        return None
    depth, tiles = shape(left)[-1], graph.target.tiles
    packed = len(shape(repeated_matrix(right))) == 2 and graph.is_static(repeated_matrix(right))
    most = tiles["SLAB_FLOATS"] // 4 if packed else min(tiles["SLAB_FLOATS"] // 4, 2 * tiles["K_BLOCK"])
    if not isinstance(depth, int) or depth > most:
        return None
    match = matmul.match_matmul(pattern, node, graph)
    behind = cast_behind(match.root, graph)
    parts = Bf16Parts(**vars(match.bound), root=match.root, behind=behind)
    return Match(pattern, (*match.nodes, *behind), behind[-1:] or match.outputs, parts)


def pack_pairs(params: tuple[Any, ...], matrix: torch.Tensor) -> torch.Tensor:
    """bfloat16 [panel][k / 2][16 vectors][2] of a (k, n) matrix; zeros for columns and for k up to a multiple of 32.

    With a second parameter, k runs over an image (channel, row, column) of that shape and is packed channels-last.
    """
    vectors, image = params
    if image is not None:
        matrix = matrix.reshape(*image, -1).permute(1, 2, 0, 3).reshape(matrix.shape)
    (depth, columns), width = matrix.shape, VEC * vectors
    packed = torch.zeros(align(columns, width) // width, align(depth, _STEP) // 2, width, 2, dtype=torch.bfloat16)
    for panel, part in zip(packed, matrix.split(width, dim=1), strict=True):
        for odd in range(2):
            rows = part[odd::2]
            panel[: rows.shape[0], : rows.shape[1], odd] = rows
    return packed.flatten()


def lower_matmul(match: Match[Bf16Parts], emitter: Emitter) -> Sequence[View]:
    root = match.bound.root
    _, left, right = matmul.operands_of(match.nodes[0])
    columns = shape(right)[-1]
    halves = halves_of(match.nodes[0], root, (left, right), emitter)
    vectors = panel_vectors(columns, emitter.target.tiles["MAX_VECTORS"])

    def packed(matrix: Node, image: matmul.Image) -> Buffer:
        return emitter.pack(
            pack_pairs,
            (vectors, image),
            [emitter.expression(matrix)],
            align(shape(matrix)[0], _STEP) * align(columns, VEC * vectors),
            f"{matrix.name} [panel][k / 2][{VEC * vectors}][2]",
            BF16,
        )

    a, b = matmul.factors(left, right, halves, packed, emitter, narrow=True)
    element = _result_element(match.root, emitter)
    dtype = torch.bfloat16 if element is BF16 else torch.float32
    sizes = (*halves, shape(left)[-2], columns)
    y = emitter.tensor(sizes, result_order(root), dtype=dtype, pitch=align(columns), element=element)
    bias = matmul.bias_in(match, align(columns, VEC * vectors), emitter)
    residual = matmul.residual_in(match, halves, emitter, narrow=True)
    product = GemmBf16(
        **matmul.product_fields(match, a, b, bias, residual, y, emitter),
        vectors=vectors,
        a_format=emitter.format_of(a),
        b_format=emitter.format_of(b),
        residual_format=0 if residual is None else emitter.format_of(residual),
        out_format=emitter.format_of(y),
    )
    emitter.command(product, reads=[a, b, bias, residual], writes=[y], macs=matmul.macs_matmul(match))
    result = matmul.reshaped(y, shape(root), emitter)
    for view in match.bound.behind[:-1]:
        result = lower_view(view, result, emitter)
    return [result]


def _result_element(root: Node, emitter: Emitter) -> Element:
    """Two bytes where all who read the result take them: products like this one, and whoever gets it from the card."""
    if value(root).dtype is not torch.bfloat16:
        return F32
    narrow = (user.op == "output" or emitter.pattern_of.get(user) == NAME for user in readers(root))
    return BF16 if all(narrow) else F32


PATTERNS = (
    Pattern(
        name=NAME,
        anchors=PRODUCTS,
        match=match_matmul,
        check=matmul.check_matmul,
        lower=lower_matmul,
        opcodes=frozenset({"gemm_bf16", "move"}),
        macs=matmul.macs_matmul,
    ),
)
