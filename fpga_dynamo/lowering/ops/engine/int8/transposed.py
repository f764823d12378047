"""Transposed convolutions of integers on the hardware engine: a plain one for each phase, whose words are interleaved.

The phases are those of convolution/axes.py; tests: tests/lowering/test_engine_phases.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch.fx import Node

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import Map, MapImages, RefusedError, images_of
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.graph import argument, shape
from fpga_dynamo.ir.quantised import dequantized
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.ops.convolution.axes import Axis, axes
from fpga_dynamo.lowering.ops.convolution.convolution import macs_of
from fpga_dynamo.lowering.ops.engine.common.images import (
    as_image,
    convolution_command,
    convolution_input,
    convolution_weights,
    image_result,
)
from fpga_dynamo.lowering.ops.engine.common.phases import image_of_phases
from fpga_dynamo.lowering.ops.engine.int8.epilogue import engine_fields
from fpga_dynamo.lowering.ops.engine.int8.params import engine_params
from fpga_dynamo.lowering.ops.quantised.epilogue import QuantizedEpilogue
from fpga_dynamo.lowering.ops.quantised.packing import ProductParameters, Weights
from fpga_dynamo.lowering.patterns import Match


def engine_transposed(match: Match[QuantizedEpilogue], weights: Weights, emitter: EngineEmitter) -> Sequence[View]:
    """Commands for each phase, and those that put them together. Raises RefusedError."""
    node: Node = match.nodes[1]
    end = match.bound
    if weights.axis not in (None, 1):
        raise RefusedError("a weight scale per input channel is not supported; use one per tensor or output channel")
    if end.residual is not None:
        raise RefusedError("transposed convolution with a fused addition is not supported")
    phases = axes(node)
    grid = [
        [(*row, column) for column in phases[-1]] for row in ([(a,) for a in phases[0]] if len(phases) == 2 else [()])
    ]
    out = image_result(match.root, emitter)
    y = images_of(as_image(out), "result")
    single = len(grid) == len(grid[0]) == 1
    made = [[_phase(match, weights, place, y if single else None, emitter) for place in row] for row in grid]
    if not single:
        image_of_phases(made, y, emitter)
    return [out]


def _phase(
    match: Match[QuantizedEpilogue],
    weights: Weights,
    place: Sequence[Axis],
    y: MapImages | None,
    emitter: EngineEmitter,
) -> MapImages:
    """The command of a phase, and its result: `y`, or a map of its own."""
    source, node = match.nodes[:2]
    found, end = dequantized(source), match.bound
    assert found is not None
    if place[-1].padding < 0:
        raise RefusedError("transposed convolution with windows that begin right of the first column is not supported")
    command = convolution_command(node, place, pad=found[1].zero, **engine_fields(end, emitter))
    x, command = convolution_input(found[0], command, emitter)
    size = (command.out_height, command.out_width)
    if y is None:
        channels = shape(node)[1]
        own = Map(x.images, size[0] * size[1], channels, emitter.sizes, match.root.name)
        y = MapImages(own, x.images, channels, *size)
    taps = tuple(axis.taps for axis in place)
    form = (argument(node, "groups", 8), True, taps, False)
    bias = node.args[2] if isinstance(node.args[2], Node) else None
    parameters = ProductParameters(weights, bias, found[1], end, form)
    emitter.mac(
        command,
        x,
        y,
        engine_params(parameters.pack(1, CHANNELS, y.channels, emitter, node.name), end, emitter),
        convolution_weights(emitter.expression(weights.integers), weights.integers.name, emitter, form=form),
        macs=macs_of(node) * y.pixels // _pixels(node),
    )
    return y


def _pixels(node: Node) -> int:
    size = shape(node)
    return size[-1] * (size[2] if len(size) == 4 else 1)
