"""Matrix products on the hardware engine; see matmul.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.command import MacCommand
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.layout import pack_weight, weight_bytes
from fpga_dynamo.codegen.engine.maps import Map, RefusedError, images_of, int8, rows_of
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.blocked import CHANNEL, IMAGE
from fpga_dynamo.ir.elements import I8
from fpga_dynamo.ir.graph import RESHAPE_TARGETS, argument, pair, shape, value
from fpga_dynamo.ir.quantised import OwnScale, Scale
from fpga_dynamo.ir.view import View, ceil_div
from fpga_dynamo.lowering.ops.quantised.engine_params import engine_params
from fpga_dynamo.lowering.ops.quantised.engine_products import engine_product, seen_as
from fpga_dynamo.lowering.ops.quantised.epilogue import engine_fields, engine_residual
from fpga_dynamo.lowering.ops.quantised.packing import Parameters, Weights, turns
from fpga_dynamo.lowering.ops.quantised.product import Product
from fpga_dynamo.lowering.patterns import Match


def engine_matmul(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    product: Product = match.bound["product"]
    int8(product.left, "its left operand")
    if argument(product.node, "beta", 3, 1) != 1 or argument(product.node, "alpha", 4, 1) != 1:
        raise RefusedError("it is scaled")
    if isinstance(product.scale, OwnScale):
        raise RefusedError("its scale is known as it runs only")
    if product.weights is not None:
        return _linear(match, product, product.scale, emitter)
    return engine_product(match, emitter)


def _linear(match: Match, product: Product, scale: Scale, emitter: EngineEmitter) -> Sequence[View]:
    """By weights: a convolution of 1 x 1, whose pixels are the rows; of a flattened image one as large as the image."""
    integers, node, end, weights = product.left, product.node, product.ending, product.weights
    if not isinstance(weights, Weights):
        raise RefusedError(str(weights))
    if len(shape(product.right)) > 2:
        raise RefusedError("its right operand is a batch of weights")
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
    same = shape(match.root) == shape(node)
    out = emitter.result(match.root, None if same else shape(node))
    if x.images > 1:  # the rows are images of a pixel each
        rows = Map(x.images, 1, columns, emitter.sizes, match.root.name)
        out = View(rows, tuple(shape(node)), (IMAGE, CHANNEL))
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
        engine_params(parameters.pack(1, CHANNELS, columns, emitter, match.root.name), end, emitter),
        pack,
        residual=residual,
        macs=value(node).numel() * depth,
    )
    return [seen_as(out, match.root)]


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
