"""Matrix products of integers of eight bits, with their ending in one command: mm, addmm and bmm.

Pattern, legality and commands; core: hls_kernels/cores/gemm_int8, tests: tests/lowering/test_quantised.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.core import CORES, Bands, Core, Fields
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.engine.command import MacCommand
from fpga_dynamo.codegen.engine.emitter import (
    CHANNEL,
    IMAGE,
    EngineEmitter,
    Map,
    RefusedError,
    images_of,
    int8,
    rows_of,
)
from fpga_dynamo.codegen.engine.layout import pack_weight, weight_bytes
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.command import FieldValue, ImageRows, Operand
from fpga_dynamo.ir.elements import I8
from fpga_dynamo.ir.graph import RESHAPE_TARGETS, GraphInfo, argument, aten, operand, pair, refuse_value, shape, value
from fpga_dynamo.ir.quantised import Scale, dequantized
from fpga_dynamo.ir.records import GemmInt8
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, Buffer, View, align, ceil_div, numel
from fpga_dynamo.lowering.ops.matmul.batches import split, unit_strides
from fpga_dynamo.lowering.ops.packing import panel_vectors
from fpga_dynamo.lowering.ops.quantised.convolution import QUAD
from fpga_dynamo.lowering.ops.quantised.engine_products import engine_product
from fpga_dynamo.lowering.ops.quantised.epilogue import (
    Ending,
    ending,
    engine_fields,
    engine_params,
    engine_residual,
    fields,
    residual_integers,
    table_in,
)
from fpga_dynamo.lowering.ops.quantised.packing import (
    PARAMETERS,
    Parameters,
    Weights,
    pack_int8_matrix,
    pack_one_scale,
    turns,
    weights_of,
)
from fpga_dynamo.lowering.patterns import TABLE, Match, Pattern


def _tiles(f: Fields, target: Target) -> int:
    return numel(f["batch"]) * ceil_div(f["rows"], target.tiles["ROWS"]) * ceil_div(f["columns"], VEC * f["vectors"])


def _words(f: Fields, target: Target) -> int:
    batch = numel(f["batch"])
    right = f["depth"] * f["columns"] * (1 if f.get("b_packed") else batch)
    wide = target.element(f["out_format"]).bytes
    return (batch * f["rows"] * (f["depth"] + wide * f["columns"]) + right) // 4  # type: ignore[no-any-return]


def _cut(f: Fields, image: ImageRows, begin: int, end: int) -> dict[str, FieldValue]:
    return {"rows": f["rows"] // image.count * (end - begin)}


GEMM_INT8 = CORES.add(
    Core(
        "gemm_int8",
        cycles=lambda f, target: _tiles(f, target) * ceil_div(f["depth"], QUAD),
        moved=_words,
        parts=_tiles,
        bands=Bands("a", _cut),
        redirects=True,
    )
)


@dataclass(frozen=True)
class _Product:
    """bias: a static row, or nothing. left, right: what is multiplied, in real numbers."""

    bias: Node | None
    left: Node
    right: Node


def _product(node: Node) -> _Product:
    if node.target is aten.addmm.default:
        return _Product(operand(node, 0), operand(node, 1), operand(node, 2))
    return _Product(None, operand(node, 0), operand(node, 1))


def match_matmul(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    """A product of dequantised values, or of one by weights, and its ending."""
    product = _product(node)
    if dequantized(product.left) is None:
        return None
    sources = [product.left]
    if not graph.is_static(product.right):
        if dequantized(product.right) is None:
            return None
        if product.right is not product.left:
            sources.append(product.right)
    end = ending(node, graph)
    return Match(pattern, (*sources, node, *end.nodes), (end.last,), {"ending": end, "product": node})


def check_matmul(match: Match, graph: GraphInfo) -> str | None:
    node = match.bound["product"]
    product = _product(node)
    if argument(node, "beta", 3, 1) != 1 or argument(node, "alpha", 4, 1) != 1:
        return "it is scaled"
    for what, given in (("its left operand", product.left), ("its right operand", product.right)):
        if why := refuse_value(given, what):
            return why
    if why := refuse_value(match.root, "its result"):
        return why
    depth = shape(product.left)[-1]
    bias = product.bias
    if bias is not None and not (graph.is_static(bias) and shape(bias) == shape(node)[-1:]):
        return "what is added is no static row"
    if graph.is_static(product.right):
        weights = weights_of(product.right, graph)
        if isinstance(weights, str):
            return weights
        if weights.axis not in (None, 1):
            return "its weight has a scale for each element of the sum"
        most = 4 * graph.target.tiles["SLAB_FLOATS"] - 64
    else:
        most = 4 * graph.target.tiles["K_BLOCK"]
    if isinstance(depth, int) and depth > most:
        return f"its sums have {depth} products, and the core holds {most}"
    return None


def lower_matmul(match: Match, emitter: Emitter) -> Sequence[View]:
    node, end = match.bound["product"], match.bound["ending"]
    product = _product(node)
    rows, depth = shape(product.left)[-2:]
    columns = shape(product.right)[-1]
    halves = (1, 1) if len(shape(node)) == 2 else (1, shape(node)[0])
    vectors = panel_vectors(columns, emitter.target.tiles["MAX_VECTORS"])
    found = dequantized(product.left)
    assert found is not None
    integers, scale = found
    a = _rows(integers, halves, emitter)
    residual = residual_integers(end, emitter)
    residual = None if residual is None else emitter.vector_rows(split(residual, halves), aligned=True)
    y = emitter.tensor((*halves, rows, columns), dtype=_dtype(end), pitch=align(columns), element=end.element)
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
        "a_zero": scale.zero,
        **fields(end, y, residual, emitter),
    }
    b: View | Buffer
    if emitter.graph.is_static(product.right):
        b, own, constants = _packed(product, scale, end, vectors, emitter)
    else:
        b, own, constants = _given(product, halves, scale, end, vectors, emitter)
    command = GemmInt8(parameters=Operand(constants), **own, **shared)
    macs = value(node).numel() * depth
    emitter.command(command, reads=[a, b, residual, constants, table_in(shared)], writes=[y], macs=macs)
    flat = y.reshape(shape(match.root))
    assert flat is not None, "a batch is one dimension"
    return [flat]


def _dtype(end: Ending) -> Any:
    return value(end.last).dtype


def _rows(integers: Node, halves: tuple[int, int], emitter: Emitter) -> View:
    """A matrix or a batch of them with contiguous rows that begin at a multiple of four bytes."""
    return emitter.vector_rows(split(emitter.integers(integers), halves), aligned=True)


def _packed(
    product: _Product, scale: Scale, end: Ending, vectors: int, emitter: Emitter
) -> tuple[Buffer, dict[str, Any], Buffer]:
    """The right operand in panels, its fields, and the parameters."""
    weights = weights_of(product.right, emitter.graph)
    assert isinstance(weights, Weights)
    depth, columns = shape(product.right)
    width = VEC * vectors
    turned = turns(product.right)
    b = emitter.pack(
        pack_int8_matrix,
        (vectors, turned),
        [emitter.expression(weights.integers)],
        align(depth, QUAD) * align(columns, width),
        f"{weights.integers.name} [panel][k / 4][{width}][4]",
        I8,
    )
    parameters = Parameters(weights, product.bias, scale, end, is_matrix=not turned)
    return b, {"b": Operand(b), "b_packed": 1}, parameters.pack(1, width, columns, emitter, b.name)


def _given(
    product: _Product, halves: tuple[int, int], scale: Scale, end: Ending, vectors: int, emitter: Emitter
) -> tuple[View, dict[str, Any], Buffer]:
    """A right operand that is computed in the graph, its fields, and the parameters."""
    found = dequantized(product.right)
    assert found is not None
    integers, other = found
    b = emitter.in_arena(split(emitter.integers(integers), halves))
    if not any(b.strides[d] == 1 or b.shape[d] == 1 for d in (-2, -1)):
        b = emitter.relaid(b, tuple(range(len(b.shape))))
    first = end.first_scale
    depth, columns = shape(product.right)[-2:]
    params = (
        VEC * vectors,
        columns,
        scale.scale * other.scale,
        float(depth * scale.farthest * other.farthest),
        None if end.in_floats or first is None else first.scale,
        0,
    )
    words = PARAMETERS * align(columns, VEC * vectors)
    constants = emitter.pack(pack_one_scale, params, [], words, f"{integers.name} parameters")
    strides = unit_strides(b)
    own = {
        "b": Operand.of(b),
        "b_packed": 0,
        "b_stride": strides,
        "b_format": emitter.format_of(b),
        "b_zero": other.zero,
    }
    return b, own, constants


# --- the hardware engine ----------------------------------------------------------------------------------------------


def engine_matmul(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    product = _product(match.bound["product"])
    found = dequantized(product.left)
    assert found is not None
    int8(found[0], "its left operand")
    if argument(match.bound["product"], "beta", 3, 1) != 1 or argument(match.bound["product"], "alpha", 4, 1) != 1:
        raise RefusedError("it is scaled")
    if emitter.graph.is_static(product.right):
        return _engine_linear(match, product, found[0], found[1], emitter)
    return engine_product(match, product.left, product.right, emitter)


def _engine_linear(
    match: Match, product: _Product, integers: Node, scale: Scale, emitter: EngineEmitter
) -> Sequence[View]:
    """By weights: a convolution of 1 x 1, whose pixels are the rows; of a flattened image one as large as the image."""
    end, weights = match.bound["ending"], weights_of(product.right, emitter.graph)
    if isinstance(weights, str):
        raise RefusedError(weights)
    if weights.axis not in (None, 1):
        raise RefusedError("its weight has a scale for each element of the sum")
    if product.bias is not None and not emitter.graph.is_static(product.bias):
        raise RefusedError("what is added is no static row")
    depth, columns = shape(product.right)
    image, kernel = None, (1, 1)
    try:
        x = rows_of(emitter.view(integers), "its left operand")
    except RefusedError:
        if (image := _flattened_image(integers)) is None:
            raise
        x, kernel = images_of(emitter.view(image), "its left operand"), pair(shape(image)[2:])
    out = emitter.result(match.root)
    if x.images > 1:  # the rows are images of a pixel each
        rows = Map(x.images, 1, columns, emitter.sizes, match.root.name)
        out = View(rows, tuple(shape(match.root)), (IMAGE, CHANNEL))
    y = rows_of(out, "its result")
    residual = engine_residual(end, emitter, lambda view: view, rows_of)
    command = MacCommand(
        in_blocks=x.blocks,
        in_height=x.height,
        in_width=x.width,
        out_blocks=ceil_div(columns, CHANNELS),
        out_width=y.width,
        kernel=(kernel[0], kernel[1]),
        group_in=x.channels,
        group_out=ceil_div(columns, CHANNELS) * CHANNELS,
        images=x.images,
        pad=scale.zero,
        **engine_fields(end, emitter),
    )
    if not x.whole:  # some rows of a matrix: those of a pixel each, of which what lies above and below is left out
        if image is not None:
            raise RefusedError("its left operand is a part of an image")
        command = replace(command, in_height=x.map.pixels, in_width=1, out_height=y.width, out_width=1)
        command = replace(command, padding=(-x.first, 0))
    turned = turns(product.right)
    parameters = Parameters(weights, product.bias, scale, end, is_matrix=not turned)

    def pack(cut: MacCommand, first: int) -> int:
        own, words = (cut, emitter.sizes, turned, kernel), [emitter.expression(weights.integers)]
        name = f"{weights.integers.name} as the engine reads it"
        return emitter.put(emitter.pack(_pack_for_engine, own, words, weight_bytes(cut, emitter.sizes), name, I8))

    emitter.mac(
        command,
        x,
        y,
        lambda: engine_params(parameters.pack(1, CHANNELS, columns, emitter, match.root.name), end, emitter),
        pack,
        residual=residual,
        macs=value(match.bound["product"]).numel() * depth,
    )
    return [out]


def _flattened_image(integers: Node) -> Node | None:
    """The image of several pixels whose elements are the features of rows, channel by channel."""
    if integers.target not in RESHAPE_TARGETS or len(shape(integers)) != 2:
        return None
    image = integers.all_input_nodes[0]
    size = shape(image)
    is_image = len(size) == 4 and size[0] == shape(integers)[0] and size[2] * size[3] > 1
    return image if is_image else None


def _pack_for_engine(params: tuple[Any, ...], matrix: torch.Tensor) -> torch.Tensor:
    command, sizes, turned, kernel = params
    weight = matrix if turned else matrix.t()
    return pack_weight((command, sizes), weight.reshape(weight.shape[0], -1, *kernel))


TABLE.add(
    Pattern(
        name="matmul_int8",
        anchors=(aten.mm.default, aten.addmm.default, aten.bmm.default),
        match=match_matmul,
        check=check_matmul,
        lower=lower_matmul,
        opcodes=frozenset({"gemm_int8", "move"}),
        macs=lambda match: value(match.bound["product"]).numel() * shape(_product(match.bound["product"]).left)[-1],
        engine=engine_matmul,
    ),
    first=True,
)
