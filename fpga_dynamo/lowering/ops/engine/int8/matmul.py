"""Matrix products on the hardware engine; see ops/quantised/matmul.py."""

from __future__ import annotations

from collections.abc import Sequence

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import RefusedError, of_engine
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.graph import argument, shape, value
from fpga_dynamo.ir.quantised import DynamicScale, Scale
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.engine_patterns import EnginePattern
from fpga_dynamo.lowering.ops.engine.common.head_products import seen_as
from fpga_dynamo.lowering.ops.engine.common.rows import linear, matrix_weights
from fpga_dynamo.lowering.ops.engine.int8.epilogue import engine_fields, engine_residual
from fpga_dynamo.lowering.ops.engine.int8.params import engine_params
from fpga_dynamo.lowering.ops.engine.int8.products import engine_product
from fpga_dynamo.lowering.ops.quantised.matmul import MATMUL
from fpga_dynamo.lowering.ops.quantised.packing import ProductParameters, Weights, is_transposed
from fpga_dynamo.lowering.ops.quantised.product import IntegerProduct
from fpga_dynamo.lowering.patterns import Match


def engine_matmul(match: Match[IntegerProduct], emitter: EngineEmitter) -> Sequence[View]:
    product = match.bound
    of_engine(product.left, "left operand", emitter.sizes)
    if argument(product.node, "beta", 3, 1) != 1 or argument(product.node, "alpha", 4, 1) != 1:
        raise RefusedError("scaling by alpha or beta is not supported")
    if isinstance(product.scale, DynamicScale):
        raise RefusedError("dynamic (run-time) scale is not supported")
    if product.weights is not None:
        return _linear(match, product, product.scale, emitter)
    return engine_product(match, emitter)


def _linear(
    match: Match[IntegerProduct], product: IntegerProduct, scale: Scale, emitter: EngineEmitter
) -> Sequence[View]:
    """By weights: a convolution of 1 x 1, whose pixels are the rows; of a flattened image one as large as the image."""
    integers, node, end, weights = product.left, product.node, product.epilogue, product.weights
    if not isinstance(weights, Weights):
        raise RefusedError(str(weights))
    if len(shape(product.right)) > 2:
        raise RefusedError("a batch of constant matrices as right operand is not supported")
    if weights.axis not in (None, 1):
        raise RefusedError("a weight scale per reduced element is not supported; use one per output channel")
    if product.bias is not None and not emitter.graph.is_static(product.bias):
        raise RefusedError("the addend is not a constant bias vector")
    depth, columns = shape(product.right)
    of = linear(integers, node, match.root, columns, emitter, pad=scale.zero, **engine_fields(end, emitter))
    transposed = is_transposed(product.right)
    parameters = ProductParameters(weights, product.bias, scale, end, is_matrix=not transposed)
    matrix = emitter.expression(weights.integers)
    emitter.mac(
        of.command,
        of.x,
        of.y,
        engine_params(parameters.pack(1, CHANNELS, columns, emitter, match.root.name), end, emitter),
        matrix_weights(matrix, weights.integers.name, of, emitter, transposed=transposed),
        residual=engine_residual(end, emitter, lambda view: view, emitter.rows),
        macs=value(node).numel() * depth,
    )
    return [seen_as(of.out, match.root)]


PATTERNS = (EnginePattern(MATMUL, engine_matmul),)
