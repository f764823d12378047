"""Maps times a number for each channel that a graph computes, as in squeeze and excitation, on engines of floats.

The array multiplies maps by a second map only as matrices. So the numbers become matrices first: a block's 16 numbers
are spread over 16 pixels, of which pixel i keeps channel i alone, by depthwise convolutions with weights of 0 and 1.
Each block of the map is then multiplied by its diagonal, as a head of an attention is by its own matrix. All other
products are 0, so the one that counts is rounded once, as eager mode's is. Tests:
tests/lowering/test_engine_factors.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.command import MacCommand, WeightKind
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.layout import pack_weight, weight_bytes
from fpga_dynamo.codegen.engine.maps import DTYPES, Map, MapImages, images_of, of_engine
from fpga_dynamo.codegen.engine.parts import CommandPart
from fpga_dynamo.codegen.engine.sizes import CHANNELS, EngineSizes
from fpga_dynamo.ir.graph import GraphInfo, aten, shape
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.engine_patterns import engine_only
from fpga_dynamo.lowering.ops.engine.common.images import WeightLine, element_of, window_command
from fpga_dynamo.lowering.ops.engine.floats.epilogue import (
    WITHOUT_LIMITS,
    FloatEpilogue,
    channel_parameters,
    fields,
    limited,
    parameters,
)
from fpga_dynamo.lowering.ops.pooling import PoolWindow
from fpga_dynamo.lowering.patterns import Match, Pattern

_SIDE = 4
"""Rows and columns of the image that a block's numbers are spread over: 16 pixels, in two times four taps."""


@dataclass(frozen=True)
class FactorParts:
    """An image, the image of one pixel that it is multiplied by, and what follows."""

    epilogue: FloatEpilogue
    image: Node
    pixel: Node


def match_factors(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[FactorParts] | None:
    """An image by an image of one pixel, in either order, and limits or a function behind it."""
    left, right = node.args
    if not isinstance(left, Node) or not isinstance(right, Node) or left is right:
        return None
    if graph.is_static(left) or graph.is_static(right):
        return None
    image, pixel = (left, _narrow(right)) if shape(left) == shape(node) else (right, _narrow(left))
    if shape(image) != shape(node) or len(shape(node)) != 4 or shape(pixel) != (*shape(node)[:2], 1, 1):
        return None
    end = limited(node, graph)
    return Match(pattern, (node, *end.nodes), (end.last,), FactorParts(end, image, pixel))


def _narrow(node: Node) -> Node:
    """What a value repeats."""
    while node.target is aten.expand.default:
        node = node.all_input_nodes[0]
    return node


def engine_factors(match: Match[FactorParts], emitter: EngineEmitter) -> Sequence[View]:
    end = match.bound.epilogue
    image, pixel = match.bound.image, match.bound.pixel
    of_engine(image, "operand", emitter.sizes)
    of_engine(pixel, "channel factor", emitter.sizes)
    x = images_of(emitter.view(image), "operand")
    diagonals = _diagonals(images_of(emitter.view(pixel), "channel factor"), emitter)
    out = emitter.result(match.root)
    y = images_of(out, "result")
    # A head is a block of an image: its pixels are rows of 16 features.
    command = MacCommand(
        weight_kind=WeightKind.TRANSPOSED,
        weight_plane=diagonals.map.plane,
        in_width=x.pixels,
        out_width=x.pixels,
        heads=(x.images, x.blocks),
        input_head=(x.map.image_lines, x.map.plane),
        weight_head=(diagonals.map.image_lines, diagonals.map.plane),
        output_head=(y.map.image_lines, y.map.plane),
        **fields(end, emitter),
    )
    emitter.mac(command, x, y, parameters(end, None, CHANNELS, emitter), second=diagonals)
    return [out]


def _diagonals(numbers: MapImages, emitter: EngineEmitter) -> MapImages:
    """The numbers of each block as a matrix: an image of 4 x 4 pixels, of which pixel i has channel i, and else 0."""
    column = _spread(numbers, (_SIDE, 1), emitter)
    return _spread(column, (_SIDE, _SIDE), emitter)


def _spread(x: MapImages, size: tuple[int, int], emitter: EngineEmitter) -> MapImages:
    """Pixels repeated along an axis of one, as a convolution with so much padding that each tap reaches one of them."""
    kernel = (size[0] // x.height, size[1] // x.width)
    made = Map(x.images, size[0] * size[1], x.channels, emitter.sizes, f"{x.map.name} as {size[0]} x {size[1]}")
    y = MapImages(made, x.images, x.channels, *size)
    window = PoolWindow(False, kernel, (1, 1), (kernel[0] - 1, kernel[1] - 1), (1, 1))
    command = window_command(x, y, window, {"weight_kind": WeightKind.DIAGONAL, **WITHOUT_LIMITS})
    emitter.mac(command, x, y, channel_parameters(x.channels, 1.0, emitter), _masks(emitter))
    return y


def _masks(emitter: EngineEmitter) -> WeightLine:
    def pack(part: CommandPart) -> int:
        element, cut = element_of(emitter.sizes), part.command
        count = weight_bytes(cut, emitter.sizes) // element.bytes
        key = (cut.out_blocks, cut.kernel, emitter.sizes)
        return emitter.put(emitter.pack(pack_masks, key, [], count, "masks of diagonals", element))

    return pack


def pack_masks(params: tuple[int, tuple[int, int], EngineSizes]) -> torch.Tensor:
    """Weights of 0 and 1 of so many blocks, as the engine reads them; params: also the kernel, of a row or a column.

    Tap t reaches the pixel 3 - t, which keeps the channels of a block that stand there when these lie as 4 x 4.
    """
    blocks, kernel, sizes = params
    channel, taps = torch.arange(blocks * CHANNELS) % CHANNELS, torch.arange(_SIDE - 1, -1, -1)
    place = channel // _SIDE if kernel[1] == 1 else channel % _SIDE
    weight = (place[:, None] == taps).to(DTYPES[sizes.element_bytes])
    command = MacCommand(weight_kind=WeightKind.DIAGONAL, in_blocks=blocks, out_blocks=blocks, kernel=kernel)
    return pack_weight((command, sizes), weight.view(-1, 1, *kernel))


PATTERNS = (engine_only("factors", (aten.mul.Tensor,), match_factors, engine_factors),)
