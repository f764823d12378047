"""Convolutions of 8-bit integers, of any dimensions and groups, with their epilogue in one command.

Pattern, legality and commands; cores: hls_kernels/cores/conv2d_int8, tests: tests/lowering/test_quantised.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.fx import Node

from fpga_dynamo.codegen.core import CORES, Bands, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.elements import I8
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, operand, refuse_value, shape
from fpga_dynamo.ir.quantised import dequantized
from fpga_dynamo.ir.records import Conv2dInt8, DepthwiseInt8
from fpga_dynamo.ir.sizes.size import identical
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, View, align, ceil_div
from fpga_dynamo.lowering.ops.convolution.convolution import ImageConvolution, is_depthwise, macs_of, parts_of_images
from fpga_dynamo.lowering.ops.convolution.parts import cut_window, image_rows, panels_of
from fpga_dynamo.lowering.ops.images import image_strides, images_parts, result_vectors
from fpga_dynamo.lowering.ops.packing import int8_panel_vectors
from fpga_dynamo.lowering.ops.quantised.epilogue import (
    QuantizedEpilogue,
    fields,
    quantized_epilogue,
    residual_integers,
    table_in,
)
from fpga_dynamo.lowering.ops.quantised.packing import (
    QUAD,
    ProductParameters,
    WeightLayout,
    Weights,
    groups_joined,
    pack_int8_depthwise,
    pack_int8_weight,
    row_quads,
    weights_of,
)
from fpga_dynamo.lowering.patterns import Match, Pattern


def _cycles(c: Conv2dInt8, target: Target) -> float:
    steps = ceil_div(c.batch * c.out_height * c.out_width, target.tiles["ROWS"])
    quads = c.kernel[0] * row_quads(c.kernel[1], c.in_channels, c.dilation[1])
    return c.groups * steps * panels_of(c) * quads


def _words(c: Conv2dInt8, target: Target) -> int:
    channels, out = c.in_channels, c.out_channels
    inputs = c.batch * c.groups * channels * c.in_height * c.in_width
    outputs = c.batch * c.groups * out * c.out_height * c.out_width
    weights = c.groups * channels * out * c.kernel[0] * c.kernel[1]
    wide = target.element(c.out_format).bytes
    return (inputs + wide * outputs + weights) // 4


CONV2D_INT8 = CORES.add(
    Core[Conv2dInt8](
        Conv2dInt8.opcode,
        _cycles,
        _words,
        parts=lambda c, target: c.batch * c.out_height * c.groups * panels_of(c),
        bands=Bands("input", cut_window),
        zero_copy=True,
    )
)


def _depthwise_words(c: DepthwiseInt8, target: Target) -> int:
    pixels = c.in_height * c.in_width + target.element(c.out_format).bytes * c.out_height * c.out_width
    return c.batch * c.channels * pixels // 4


DEPTHWISE_INT8 = CORES.add(
    Core[DepthwiseInt8](
        DepthwiseInt8.opcode,
        lambda c, target: result_vectors(c) * c.kernel[1] * ceil_div(c.kernel[0], QUAD),
        _depthwise_words,
        parts=images_parts,
        bands=Bands("input", cut_window),
        zero_copy=True,
    )
)


def match_convolution(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[QuantizedEpilogue] | None:
    """A convolution of dequantised values, what they are made of, and its epilogue."""
    source = operand(node, 0)
    if dequantized(source) is None:
        return None
    end = quantized_epilogue(node, graph)
    return Match(pattern, (source, node, *end.nodes), (end.last,), end)


def check_convolution(match: Match[QuantizedEpilogue], graph: GraphInfo) -> str | None:
    source, node = match.nodes[:2]
    found = dequantized(source)
    assert found is not None
    bias = node.args[2]
    if isinstance(weights := weights_of(operand(node, 1), graph), str):
        return weights
    if isinstance(bias, Node) and not graph.from_inputs(bias):
        return "a bias that the graph computes is not supported"
    for what, given in (("input", found[0]), ("result", match.root)):
        if why := refuse_value(given, what):
            return why
    return _refuse_sizes(node, weights, graph.target)


def _refuse_sizes(node: Node, weights: Weights, target: Target) -> str | None:
    rank = len(shape(node)) - 2
    if rank not in (1, 2, 3):
        return f"{rank}-D int8 convolution is not supported"
    groups, transposed = argument(node, "groups", 8), bool(argument(node, "transposed", 6))
    kernel = shape(operand(node, 1))
    channels = kernel[0] // groups if transposed else kernel[1]
    if transposed and weights.axis not in (None, 1):
        return "a weight scale per input channel is not supported; use one per tensor or output channel"
    if not transposed and weights.axis not in (None, 0):
        return "a weight scale per input channel is not supported; use one per tensor or output channel"
    if is_depthwise(node) and rank < 3:
        return None
    channels *= groups_joined(groups, channels)
    if rank == 3 and groups > 1:
        return "grouped int8 3-D convolution is not supported"
    depth = align(channels * (kernel[2] if rank == 3 else 1), QUAD)
    for size in kernel[-2:] if rank > 1 else kernel[-1:]:
        depth *= size
    most = 4 * target.tiles["SLAB_FLOATS"] - 64
    return f"windows of {depth} elements are not supported; the core holds {most}" if depth > most else None


def takes_quads(node: Node, image: Node) -> bool:
    """Whether `node` is a convolution of `image` that multiplies all of its channels, up to four, at once."""
    if node.target is not aten.convolution.default or argument(node, "transposed", 6):
        return False
    kernel = shape(operand(node, 1))
    few = len(kernel) == 4 and kernel[1] <= QUAD and argument(node, "groups", 8) == 1
    return few and node.args[0] is image and image not in node.args[1:]


def _is_quads(x: View) -> bool:
    """Whether each pixel of an image with few channels begins a quad."""
    steps = [s for d, (s, n) in enumerate(zip(x.strides, x.shape, strict=True)) if n > 1 and d != 1]
    together = x.strides[1] == 1 or x.shape[1] == 1
    return together and not x.buffer.in_weights and all(identical(at % QUAD, 0) for at in (x.offset, *steps))


def lower_convolution(match: Match[QuantizedEpilogue], emitter: Emitter) -> Sequence[View]:
    source, node = match.nodes[:2]
    found, end = dequantized(source), match.bound
    weights = weights_of(operand(node, 1), emitter.graph)
    assert found is not None and isinstance(weights, Weights)
    integers, scale = found
    out = emitter.image(match.root, element=end.element)
    x = emitter.in_arena(emitter.integers(integers))
    if not (takes_quads(node, source) and _is_quads(x)):
        x = emitter.channels_last(x)
    residual = residual_integers(end, emitter)
    residual = None if residual is None else emitter.channels_last(residual)
    bias = node.args[2] if isinstance(node.args[2], Node) else None
    for part in parts_of_images(node, x, out, residual, emitter, scale.zero):
        parameters = ProductParameters(weights, bias, scale, end, part.shape.form)
        shared = {
            **part.shape.images,
            **_window(part),
            **fields(end, part.y, part.residual, emitter),
            "in_format": emitter.format_of(x),
            "pad": scale.zero,
        }
        if part.shape.depthwise:
            _emit_depthwise(part, parameters, shared, emitter)
        else:
            _emit(part, parameters, shared, emitter)
    return [out]


def _window(part: ImageConvolution) -> dict[str, Any]:
    height, width = part.shape.height, part.shape.width
    return {
        "input": Operand.of(part.x),
        "kernel": part.shape.kernel,
        "stride": (height.stride, width.stride),
        "padding": (height.padding, width.padding),
        "dilation": (height.dilation, width.dilation),
        "in_stride": image_strides(part.x),
        "out_stride": image_strides(part.y),
        "residual_stride": (0, 0, 0) if part.residual is None else image_strides(part.residual),
    }


def _emit(part: ImageConvolution, parameters: ProductParameters, shared: dict[str, Any], emitter: Emitter) -> None:
    in_channels, out_channels = part.shape.channels
    joined = groups_joined(part.shape.groups, in_channels)
    groups, in_channels, out_channels = part.shape.groups // joined, joined * in_channels, joined * out_channels
    vectors = int8_panel_vectors(out_channels, emitter.target)
    rows, columns = part.shape.kernel
    quads = row_quads(columns, in_channels, part.shape.width.dilation)
    weights = parameters.weights.integers
    weight = emitter.pack(
        pack_int8_weight,
        WeightLayout(groups, vectors, part.shape.form, columns, quads < columns * ceil_div(in_channels, QUAD), joined),
        [emitter.expression(weights)],
        groups * align(out_channels, VEC * vectors) * rows * quads * QUAD,
        f"{weights.name} [panel][k / 4][{VEC * vectors}][4]",
        I8,
    )
    constants = parameters.pack(groups, VEC * vectors, out_channels, emitter, weight.name)
    command = Conv2dInt8(
        weight=Operand(weight),
        parameters=Operand(constants),
        groups=groups,
        in_channels=in_channels,
        out_channels=out_channels,
        vectors=vectors,
        **shared,
    )
    reads = [part.x, part.residual, weight, constants, table_in(shared)]
    image = image_rows(part.shape.height, part.x, part.y, part.residual, emitter)
    emitter.command(command, reads=reads, writes=[part.y], macs=part.macs, image=image)


def _emit_depthwise(
    part: ImageConvolution, parameters: ProductParameters, shared: dict[str, Any], emitter: Emitter
) -> None:
    channels = part.shape.groups
    height, width = part.shape.kernel
    weights = parameters.weights.integers
    weight = emitter.pack(
        pack_int8_depthwise,
        (part.shape.form,),
        [emitter.expression(weights)],
        width * align(height, QUAD) * align(channels),
        f"{weights.name} [column][row / 4][channel][4]",
        I8,
    )
    # As one group of so many panels of a vector each: what the core reads is laid out alike.
    constants = parameters.pack(1, VEC, channels, emitter, weight.name)
    command = DepthwiseInt8(weight=Operand(weight), parameters=Operand(constants), channels=channels, **shared)
    reads = [part.x, part.residual, weight, constants, table_in(shared)]
    image = image_rows(part.shape.height, part.x, part.y, part.residual, emitter)
    emitter.command(command, reads=reads, writes=[part.y], macs=part.macs, image=image)


CONVOLUTION = Pattern(
    name="convolution_int8",
    anchors=(aten.convolution.default,),
    match=match_convolution,
    check=check_convolution,
    lower=lower_convolution,
    opcodes=frozenset({"conv2d_int8", "depthwise_int8", "move"}),
    macs=lambda match: macs_of(match.nodes[1]),
    in_place=True,
)

PATTERNS = (CONVOLUTION,)
