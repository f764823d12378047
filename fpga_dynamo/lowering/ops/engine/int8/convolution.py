"""Convolutions of int8 values on the hardware engine; see ops/quantised/convolution.py."""

from __future__ import annotations

from collections.abc import Sequence

from torch.fx import Node

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import RefusedError, images_of
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.graph import argument, operand
from fpga_dynamo.ir.quantised import dequantized
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.engine_patterns import EnginePattern
from fpga_dynamo.lowering.ops.convolution.convolution import macs_of
from fpga_dynamo.lowering.ops.engine.common.images import (
    as_image,
    convolution_command,
    convolution_input,
    convolution_weights,
    image_result,
    refuse_convolution,
)
from fpga_dynamo.lowering.ops.engine.int8.epilogue import engine_fields, engine_residual
from fpga_dynamo.lowering.ops.engine.int8.params import engine_params
from fpga_dynamo.lowering.ops.engine.int8.transposed import engine_transposed
from fpga_dynamo.lowering.ops.quantised.convolution import CONVOLUTION
from fpga_dynamo.lowering.ops.quantised.epilogue import QuantizedEpilogue
from fpga_dynamo.lowering.ops.quantised.packing import ProductParameters, weights_of
from fpga_dynamo.lowering.patterns import Match


def engine_convolution(match: Match[QuantizedEpilogue], emitter: EngineEmitter) -> Sequence[View]:
    source, node = match.nodes[:2]
    found, end = dequantized(source), match.bound
    weights = weights_of(operand(node, 1), emitter.graph)
    assert found is not None
    if isinstance(weights, str):
        raise RefusedError(weights)
    refuse_convolution(node, emitter)
    if argument(node, "transposed", 6):
        return engine_transposed(match, weights, emitter)
    if weights.axis not in (None, 0):
        raise RefusedError("a weight scale per input channel is not supported; use one per tensor or output channel")
    command = convolution_command(node, pad=found[1].zero, **engine_fields(end, emitter))
    bias = node.args[2] if isinstance(node.args[2], Node) else None
    parameters = ProductParameters(weights, bias, found[1], end)
    x, command = convolution_input(found[0], command, emitter)
    out = image_result(match.root, emitter)
    y, residual = images_of(as_image(out), "result"), engine_residual(end, emitter, as_image, emitter.images)
    emitter.mac(
        command,
        x,
        y,
        engine_params(parameters.pack(1, CHANNELS, y.channels, emitter, node.name), end, emitter),
        convolution_weights(emitter.expression(weights.integers), weights.integers.name, emitter),
        residual=residual,
        macs=macs_of(node),
    )
    return [out]


PATTERNS = (EnginePattern(CONVOLUTION, engine_convolution),)
