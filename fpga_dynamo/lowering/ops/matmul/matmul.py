"""Matrix products and their epilogue in one command: mm, addmm, bmm, baddbmm, scale, bias, addition, activation.

Pattern, legality, weight packing and commands; the core: gemm.py, hls_kernels/cores/gemm,
tests: tests/lowering/test_matmul.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import torch
import torch.nn.functional as F
from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, operand, refuse_float, shape, value
from fpga_dynamo.ir.operators import Operator
from fpga_dynamo.ir.records import Gemm
from fpga_dynamo.ir.view import VEC, Buffer, View, align
from fpga_dynamo.lowering.ops.elementwise.pointwise import emit_elementwise
from fpga_dynamo.lowering.ops.epilogue import ACTIVATION, ADD, Activation, activation, bias_of, fields, residual_of
from fpga_dynamo.lowering.ops.matmul.batches import (
    batches,
    halves_of,
    operand_view,
    repeated_matrix,
    result_order,
    split,
    splits_batch,
    unit_strides,
)
from fpga_dynamo.lowering.ops.matmul.flatten import flattened
from fpga_dynamo.lowering.ops.packing import panel_vectors
from fpga_dynamo.lowering.patterns import Match, Pattern, Step, follow, sole_user

Image = tuple[int, ...] | None
"""Channels, rows and columns that a product's k runs over; None if it is not an image."""
_LINKS = ("scale", "bias", "add", "activation")
_WITH_ADDEND = (aten.addmm.default, aten.baddbmm.default)


@dataclass(frozen=True)
class MatmulParts:
    """The nodes of a product's epilogue."""

    scale: Node | None
    bias: Node | None
    add: Node | None
    activation: Node | None


def match_matmul(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[MatmulParts]:
    """The product and as much of its epilogue as follows along single users, through views that keep rows whole.

    A view at the end that splits the batch in two is covered too, so that each half may have a stride of its own.
    """
    steps = [ADD, ACTIVATION] if node.target in _WITH_ADDEND else [SCALE, bias_step(node, graph), ADD, ACTIVATION]
    nodes, last, links = follow(node, steps, graph, views=True)
    view = sole_user(last)
    if view is not None and view not in graph.claimed and splits_batch(view):
        nodes, last = [*nodes, view], view
    return Match(pattern, (node, *nodes), (last,), MatmulParts(*map(links.get, _LINKS)))


def factor_of(node: Node) -> float | None:
    """The number that `node` multiplies a tensor by, or divides it by."""
    by = node.args[1]
    if not isinstance(by, (int, float)) or isinstance(by, bool) or len(node.args) > 2:
        return None
    if node.target is aten.mul.Tensor:
        return float(by)
    return 1 / by if by else None


SCALE = Step("scale", (aten.mul.Tensor, aten.div.Tensor), lambda before, node: factor_of(node) is not None)


def bias_step(product: Node, graph: GraphInfo) -> Step:
    """The addition of a static row to a product that has no addend."""

    def accept(before: Node, add: Node) -> bool:
        row = bias_of(before, add)
        return row is not None and _is_bias(row, product, graph)

    return Step("bias", (aten.add.Tensor,), accept)


def operands_of(node: Node) -> tuple[Node | None, Node, Node]:
    """Addend (or None), left and right operand."""
    if node.target in _WITH_ADDEND:
        return operand(node, 0), operand(node, 1), operand(node, 2)
    return None, operand(node, 0), operand(node, 1)


def check_matmul(match: Match[MatmulParts], graph: GraphInfo) -> str | None:
    node = match.nodes[0]
    addend, left, right = operands_of(node)
    for what, given in (("left operand", left), ("right operand", right), ("addend", addend)):
        if given is not None and (why := refuse_float(given, what)):
            return why
    beta, alpha = argument(node, "beta", 3, 1), argument(node, "alpha", 4, 1)
    if not isinstance(alpha, (int, float)):
        return "alpha is not known before the call"
    if addend is not None and beta not in (0, 1):
        return f"beta={beta} is not supported; the core supports 0 and 1"
    return refuse_float(match.root, "result")


def macs_matmul(match: Match[MatmulParts]) -> int:
    node = match.nodes[0]
    _, left, _ = operands_of(node)
    return value(node).numel() * shape(left)[-1]


def pack_columns(params: tuple[Any, ...], matrix: torch.Tensor) -> torch.Tensor:
    """[panel][k][16 vectors] of a (k, n) matrix, columns padded with zeros.

    With a second parameter, k runs over an image (channel, row, column) of that shape and is packed channels-last.
    """
    vectors, image = params
    if image is not None:
        matrix = matrix.reshape(*image, -1).permute(1, 2, 0, 3).reshape(matrix.shape)
    width = VEC * vectors
    padded = F.pad(matrix, (0, -matrix.shape[1] % width))
    return padded.reshape(matrix.shape[0], -1, width).permute(1, 0, 2).flatten()


def pack_vector(params: tuple[Any, ...], vector: torch.Tensor) -> torch.Tensor:
    """A bias, padded with zeros to `params[0]` floats."""
    flat = vector.to(torch.float32).flatten()
    return F.pad(flat, (0, params[0] - flat.numel()))


def lower_matmul(match: Match[MatmulParts], emitter: Emitter) -> Sequence[View]:
    _, left, right = operands_of(match.nodes[0])
    columns = shape(right)[-1]
    halves = halves_of(match.nodes[0], match.root, (left, right), emitter)
    vectors = panel_vectors(columns, emitter.target.tiles["MAX_VECTORS"])

    def packed(matrix: Node, image: Image) -> Buffer:
        stored = _as_stored(matrix)
        element = emitter.kernel.weight_element("gemm", value(stored).dtype)
        return emitter.pack(
            pack_columns,
            (vectors, image),
            [emitter.expression(stored if element.is_narrow else matrix)],
            shape(matrix)[0] * align(columns, VEC * vectors),
            f"{matrix.name} [panel][k][{VEC * vectors}]",
            element,
        )

    a, b = factors(left, right, halves, packed, emitter)
    y = emitter.tensor((*halves, shape(left)[-2], columns), result_order(match.root), pitch=align(columns))
    bias = bias_in(match, align(columns, VEC * vectors), emitter)
    residual = residual_in(match, halves, emitter)
    product = Gemm(
        **product_fields(match, a, b, bias, residual, y, emitter),
        vectors=vectors,
        b_format=emitter.format_of(b),
    )
    emitter.command(product, reads=[a, b, bias, residual], writes=[y], macs=macs_matmul(match))
    return [reshaped(y, shape(match.root), emitter)]


def factors(
    left: Node,
    right: Node,
    halves: tuple[int, int],
    packed: Callable[[Node, Image], Buffer],
    emitter: Emitter,
    *,
    narrow: bool = False,
) -> tuple[View, View | Buffer]:
    """The operands as a core reads them: the right one is `packed` in panels if it is a static matrix.

    narrow: elements may be narrower than a word.
    """
    right = repeated_matrix(right)
    if len(shape(right)) == 3 or not emitter.graph.is_static(right):
        return batches(left, halves, emitter, narrow=narrow), batches(right, halves, emitter, narrow=narrow)
    pixels = flattened(left, emitter)
    a = batches(left, halves, emitter, narrow=narrow) if pixels is None else pixels.rows
    return a, packed(right, None if pixels is None else pixels.image)


class ProductFields(TypedDict):
    """What the records of gemm and gemm_bf16 share."""

    a: Operand
    b: Operand
    bias: Operand | None
    residual: Operand | None
    output: Operand
    b_packed: int
    batch: tuple[int, int]
    rows: int
    columns: int
    depth: int
    a_stride: tuple[int, ...]
    b_stride: tuple[int, ...]
    out_stride: tuple[int, ...]
    residual_stride: tuple[int, ...]
    alpha: float
    activation: int
    act_a: float
    act_b: float


def product_fields(
    match: Match[MatmulParts],
    a: View,
    b: View | Buffer,
    bias: Buffer | None,
    residual: View | None,
    y: View,
    emitter: Emitter,
) -> ProductFields:
    """Of the product `y` of `a` and `b`: batch x batch x rows x columns."""
    act = activation(match.bound.activation) or Activation()
    return {
        "a": Operand.of(a),
        "b": Operand(b) if isinstance(b, Buffer) else Operand.of(b),
        "bias": None if bias is None else Operand(bias),
        "residual": None if residual is None else Operand.of(residual),
        "output": Operand.of(y),
        "b_packed": int(isinstance(b, Buffer)),
        "batch": (y.shape[0], y.shape[1]),
        "rows": y.shape[2],
        "columns": y.shape[3],
        "depth": a.shape[3],
        "a_stride": unit_strides(a),
        "b_stride": (0, 0, 0, 0) if isinstance(b, Buffer) else unit_strides(b),
        "out_stride": y.strides[:3],
        "residual_stride": (0, 0, 0) if residual is None else residual.strides[:3],
        "alpha": alpha_of(match),
        **fields(act, emitter.target.enums),
    }


def _as_stored(matrix: Node) -> Node:
    """The int8 that a weight is, if a graph makes float32 of it, as torchao's quantisation of weights alone does."""
    if matrix.target is not aten._to_copy.default or value(matrix).dtype is not torch.float32:
        return matrix
    source = matrix.all_input_nodes[0]
    return source if value(source).dtype is torch.int8 else matrix


def _addend(node: Node) -> Node | None:
    """What addmm and baddbmm add, unless its factor is 0."""
    return operands_of(node)[0] if argument(node, "beta", 3, 1) == 1 else None


def _is_bias(row: Node, product: Node, graph: GraphInfo) -> bool:
    return shape(row) == shape(product)[-1:] and graph.is_static(row)


def bias_in(match: Match[MatmulParts], floats: int, emitter: Emitter) -> Buffer | None:
    """The static row that is added, padded to `floats`."""
    node = match.nodes[0]
    row = _addend(node)
    if add := match.bound.bias:
        row = bias_of(_before(add, match), add)
    if row is None or not _is_bias(row, node, emitter.graph):
        return None
    return emitter.pack(pack_vector, (floats,), [emitter.expression(row)], floats, row.name)


def residual_in(
    match: Match[MatmulParts], halves: tuple[int, int], emitter: Emitter, *, narrow: bool = False
) -> View | None:
    """What is added element by element, in rows of vectors; narrow: elements may be narrower than a word."""
    node = match.nodes[0]
    addend, terms = _addend(node), []
    add = match.bound.add
    adds = addend is not None and not _is_bias(addend, node, emitter.graph)
    narrow = narrow and not (adds and add)
    if addend is not None and adds:
        if shape(addend) == shape(node):
            terms.append(operand_view(addend, halves, emitter, narrow=narrow))
        else:
            terms.append(split(emitter.view(addend, narrow=narrow).expand(shape(node)), halves))
    if add:
        other = residual_of(_before(add, match), add)
        assert other is not None
        terms.append(split(reshaped(emitter.view(other, narrow=narrow), shape(node), emitter), halves))
    if len(terms) == 2:  # one too many for one epilogue: a second pass adds it
        size = terms[0].shape
        terms = [emit_elementwise(emitter, lambda p, x: p.op("ADD", *x), terms, size, pitch=align(size[-1]))]
    return emitter.vector_rows(terms[0]) if terms else None


def _before(add: Node, match: Match[MatmulParts]) -> Node:
    """The operand of an addition that the match covers."""
    return next(arg for arg in add.args if isinstance(arg, Node) and arg in match.nodes)


def alpha_of(match: Match[MatmulParts]) -> float:
    if scale := match.bound.scale:
        factor = factor_of(scale)
        assert factor is not None
        return factor
    node = match.nodes[0]
    return float(argument(node, "alpha", 4, 1)) if node.target in _WITH_ADDEND else 1.0


def reshaped(view: View, wanted: tuple[int, ...], emitter: Emitter) -> View:
    found = view.reshape(wanted)
    if found is not None:
        return found
    target = emitter.tensor(wanted, dtype=view.dtype, pitch=align(wanted[-1]), element=view.element)
    image = target.reshape(view.shape)
    assert image is not None, "a view that keeps the last dimension can be undone"
    emitter.copy(view, image)
    return target


PATTERNS = (
    Pattern(
        name="matmul",
        anchors=(aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default),
        match=match_matmul,
        check=check_matmul,
        lower=lower_matmul,
        opcodes=frozenset({"gemm", "move"}),
        macs=macs_matmul,
        operators={
            aten.bmm.default: Operator(lambda t: ((t(2, 4, 8), t(2, 8, 4)), {})),
            aten.baddbmm.default: Operator(lambda t: ((t(2, 4, 4), t(2, 4, 8), t(2, 8, 4)), {})),
        },
    ),
)
