"""What a product of matrices of integers is: its operands, what they stand for, and how it ends.

Whichever operators of a graph say so (matmul.py, integer_products.py), this becomes the same command.
Core: hls_kernels/cores/gemm_int8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from fpga_dynamo.codegen.core import CORES, Bands, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import FieldValue, ImageRows, Operand
from fpga_dynamo.ir.elements import I8
from fpga_dynamo.ir.graph import GraphInfo, refuse_value, shape, value
from fpga_dynamo.ir.quantised import DynamicScale, Scale
from fpga_dynamo.ir.records import GemmInt8
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, Buffer, View, align, ceil_div, numel
from fpga_dynamo.lowering.ops.matmul.batches import (
    batches,
    halves_of,
    operand_view,
    result_order,
    split,
    splits_batch,
    unit_strides,
)
from fpga_dynamo.lowering.ops.matmul.matmul import reshaped
from fpga_dynamo.lowering.ops.packing import int8_panel_vectors, product_tiles
from fpga_dynamo.lowering.ops.quantised.epilogue import QuantizedEpilogue, fields, residual_integers, table_in
from fpga_dynamo.lowering.ops.quantised.packing import (
    PARAMETERS,
    QUAD,
    ProductParameters,
    UniformParameters,
    Weights,
    is_transposed,
    pack_int8_matrix,
    pack_one_scale,
)
from fpga_dynamo.lowering.ops.quantised.tensor_scales import TOO_OLD, scales, takes_scales
from fpga_dynamo.lowering.patterns import Match, Pattern, sole_user


def _words(c: GemmInt8, target: Target) -> int:
    batch = numel(c.batch)
    right = c.depth * c.columns * (1 if c.b_packed else batch)
    wide = target.element(c.out_format).bytes
    return (batch * c.rows * (c.depth + wide * c.columns) + right) // 4


def _cut(c: GemmInt8, image: ImageRows, begin: int, end: int) -> dict[str, FieldValue]:
    return {"rows": c.rows // image.count * (end - begin)}


GEMM_INT8 = CORES.add(
    Core[GemmInt8](
        GemmInt8.opcode,
        cycles=lambda c, target: product_tiles(c, target) * ceil_div(c.depth, QUAD),
        moved=_words,
        parts=product_tiles,
        bands=Bands("a", _cut),
        zero_copy=True,
    )
)


@dataclass(frozen=True)
class IntegerProduct:
    """node: whose sums these are. left: integers, of the scale `scale`.

    weights: the right operand, of which `right` is the matrix in the graph; or why it has no weights. Where it is
    computed: None, and `right` are integers of the scale `other`. bias: a static row, or None. sums: the result are
    these, int32.
    """

    node: Node
    left: Node
    scale: Scale | DynamicScale
    right: Node
    weights: Weights | str | None
    other: Scale | None
    bias: Node | None
    epilogue: QuantizedEpilogue
    sums: bool = False


def match_of(
    pattern: Pattern, product: IntegerProduct, before: Sequence[Node], after: Sequence[Node], graph: GraphInfo
) -> Match[IntegerProduct]:
    """The match of `before`, the product, `after` and its epilogue, and of a view that splits the batch behind it."""
    nodes = [*after, *product.epilogue.nodes]
    view = sole_user(product.epilogue.last)
    if view is not None and view not in graph.claimed and splits_batch(view):
        nodes.append(view)
    root = nodes[-1] if nodes else product.node
    return Match(pattern, (*before, product.node, *nodes), (root,), product)


def check(match: Match[IntegerProduct], graph: GraphInfo) -> str | None:
    product = match.bound
    for what, given in (("left operand", product.left), ("right operand", product.right)):
        if why := refuse_value(given, what):
            return why
    if why := refuse_value(match.root, "result"):
        return why
    depth = shape(product.left)[-1]
    bias = product.bias
    if bias is not None and not (graph.is_static(bias) and shape(bias) == shape(product.node)[-1:]):
        return "the addend is not a constant bias vector, or has a gradient: call the model under torch.no_grad()"
    if product.sums and "FORMAT_I32" not in graph.target.enums:
        return TOO_OLD
    if isinstance(product.scale, DynamicScale):
        if not takes_scales(graph.target):
            return TOO_OLD
        own = (product.scale.scale, product.scale.zero) if product.scale.zero is not None else (product.scale.scale,)
        if why := next(filter(None, (refuse_value(part, "scale") for part in own)), None):
            return why
    if product.weights is None:
        most = 4 * graph.target.tiles["K_BLOCK"]
    elif isinstance(product.weights, str):
        return product.weights
    else:
        if len(shape(product.right)) > 2:
            return "a batch of constant matrices as right operand is not supported"
        if product.weights.axis not in (None, 1):
            return "a weight scale per reduced element is not supported; use one per output channel"
        most = 4 * graph.target.tiles["SLAB_FLOATS"] - 64
    if isinstance(depth, int) and depth > most:
        return f"sums of {depth} products are not supported; the core holds {most}"
    return None


def macs(match: Match[IntegerProduct]) -> int:
    product = match.bound
    return value(product.node).numel() * shape(product.left)[-1]


def lower(match: Match[IntegerProduct], emitter: Emitter) -> Sequence[View]:
    product = match.bound
    node, end, scale = product.node, product.epilogue, product.scale
    rows, depth = shape(product.left)[-2:]
    columns = shape(product.right)[-1]
    vectors = int8_panel_vectors(columns, emitter.target)
    halves = halves_of(node, match.root, (product.left, product.right), emitter)
    a = emitter.vector_rows(operand_view(product.left, halves, emitter, integers=True), aligned=True)
    residual = _residual(end, shape(node), halves, emitter)
    order, dtype = result_order(match.root), value(end.last).dtype
    y = emitter.tensor((*halves, rows, columns), order, dtype=dtype, pitch=align(columns), element=end.element)
    shared: dict[str, Any] = {
        "a": Operand.of(a),
        "batch": halves,
        "rows": rows,
        "columns": columns,
        "depth": depth,
        "a_stride": a.strides[:3],
        "out_stride": y.strides[:3],
        "residual_stride": (0, 0, 0) if residual is None else residual.strides[:3],
        "vectors": vectors,
        "a_format": emitter.format_of(a),
        **fields(end, y, residual, emitter),
    }
    own_reads: list[View] = []
    if isinstance(scale, DynamicScale):
        own_reads, own = _dynamic_scales(scale, (*halves, rows, 1), emitter)
        shared |= own
    else:
        shared["a_zero"] = scale.zero
    if product.sums:
        shared["out_format"] = emitter.target.enums["FORMAT_I32"]
    b: View | Buffer
    if product.weights is None:
        b, given, constants = _given(product, halves, vectors, emitter)
    else:
        b, given, constants = _packed(product, vectors, emitter)
    command = GemmInt8(parameters=Operand(constants), **given, **shared)
    reads = [a, b, residual, constants, table_in(shared), *own_reads]
    emitter.command(command, reads=reads, writes=[y], macs=macs(match))
    return [reshaped(y, shape(match.root), emitter)]


def _residual(end: QuantizedEpilogue, size: tuple[int, ...], halves: tuple[int, int], emitter: Emitter) -> View | None:
    """Where the integers lie that are added, as (b0, b1, m, n), with steps of 0 where matrices share them."""
    view = residual_integers(end, emitter)
    if view is None:
        return None
    view = emitter.vector_rows(view, aligned=True).expand(end.sum_size)
    if view.shape[:-2] == halves:
        return view
    return emitter.vector_rows(split(reshaped(view, size, emitter), halves), aligned=True)


def _dynamic_scales(scale: DynamicScale, size: tuple[int, ...], emitter: Emitter) -> tuple[list[View], dict[str, Any]]:
    """Where scales and zero points lie that are tensors, for rows of `size`, and the record's fields for them."""
    own, zeros = scales(scale, size, emitter)
    found: dict[str, Any] = {"row_scale": Operand.of(own), "row_stride": own.strides[:3]}
    if zeros is None:
        return [own], found
    return [own, zeros], {**found, "row_zero": Operand.of(zeros)}


def _packed(product: IntegerProduct, vectors: int, emitter: Emitter) -> tuple[Buffer, dict[str, Any], Buffer]:
    """The right operand in panels, its fields, and the parameters."""
    weights, scale = product.weights, product.scale
    assert isinstance(weights, Weights)
    depth, columns = shape(product.right)
    width = VEC * vectors
    transposed = is_transposed(product.right)
    b = emitter.pack(
        pack_int8_matrix,
        (vectors, transposed),
        [emitter.expression(weights.integers)],
        align(depth, QUAD) * align(columns, width),
        f"{weights.integers.name} [panel][k / 4][{width}][4]",
        I8,
    )
    source = scale.of_sums if isinstance(scale, DynamicScale) else scale
    parameters = ProductParameters(weights, product.bias, source, product.epilogue, is_matrix=not transposed)
    return b, {"b": Operand(b), "b_packed": 1}, parameters.pack(1, width, columns, emitter, b.name)


def _given(
    product: IntegerProduct, halves: tuple[int, int], vectors: int, emitter: Emitter
) -> tuple[View, dict[str, Any], Buffer]:
    """A right operand that is computed in the graph, its fields, and the parameters."""
    scale, other, end = product.scale, product.other, product.epilogue
    assert isinstance(scale, Scale) and other is not None
    b = batches(product.right, halves, emitter, integers=True)
    first = end.first_scale
    depth, columns = shape(product.right)[-2:]
    settings = UniformParameters(
        width=VEC * vectors,
        count=columns,
        scale=scale.scale * other.scale,
        greatest=float(depth * scale.farthest * other.farthest),
        result_scale=None if end.in_floats or first is None else first.scale,
        offset=0,
    )
    words = PARAMETERS * align(columns, VEC * vectors)
    constants = emitter.pack(pack_one_scale, settings, [], words, f"{product.right.name} parameters")
    own = {
        "b": Operand.of(b),
        "b_packed": 0,
        "b_stride": unit_strides(b),
        "b_format": emitter.format_of(b),
        "b_zero": other.zero,
    }
    return b, own, constants
