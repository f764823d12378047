"""Commands of the hardware engine for products of rows by weights: convolutions of 1 x 1, whose pixels are the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.command import MacCommand
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.layout import of_part, pack_weight, weight_bytes
from fpga_dynamo.codegen.engine.maps import Map, MapImages, RefusedError, images_of, rows_of
from fpga_dynamo.codegen.engine.parts import CommandPart
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.blocked import CHANNEL, IMAGE
from fpga_dynamo.ir.graph import RESHAPE_TARGETS, aten, shape
from fpga_dynamo.ir.view import View, ceil_div
from fpga_dynamo.ir.weights import Expression
from fpga_dynamo.lowering.ops.engine.common.images import WeightLine, as_image, element_of


@dataclass(frozen=True)
class Linear:
    """Rows x by weights to rows y, which are those of `out`. kernel: of a flattened image one as large as the image."""

    command: MacCommand
    x: MapImages
    y: MapImages
    out: View
    kernel: tuple[int, int]


def linear(left: Node, node: Node, root: Node, columns: int, emitter: EngineEmitter, **fields: Any) -> Linear:
    """The command for `left` by a matrix, as the product `node` whose epilogue is `root`. Raises RefusedError."""
    x, kernel = _operand(left, emitter)
    if x.images > 1 and kernel == (1, 1) and (x.pixels > 1 or len(shape(node)) != 2):
        x = rows_of(emitter.own(emitter.view(left), "left operand"), "left operand")
    same = shape(root) == shape(node)
    out = emitter.result(root, None if same else shape(node))
    if x.images > 1:  # the rows are images of a pixel each
        rows = Map(x.images, 1, columns, emitter.sizes, root.name)
        out = View(rows, tuple(shape(node)), (IMAGE, CHANNEL))
    y = rows_of(out, "result")
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
        **fields,
    )
    if not x.whole:  # some rows of a matrix: those of a pixel each, of which what lies above and below is left out
        if kernel != (1, 1):
            raise RefusedError("a slice of an image as left operand is not supported")
        command = replace(command, in_height=x.map.pixels, in_width=1, out_height=y.width, out_width=1)
        command = replace(command, padding=(-x.first, 0))
    return Linear(command, x, y, out, kernel)


def _operand(left: Node, emitter: EngineEmitter) -> tuple[MapImages, tuple[int, int]]:
    """The rows of `left`, and the kernel's size. A flattened image is read as it lies, by a kernel of its size."""
    if not emitter.is_given(left) and (image := _flattened_image(left)) is not None:
        try:
            x = images_of(as_image(emitter.view(image)), "left operand")
        except RefusedError:
            pass  # such rows are copied
        else:
            return x, (x.height, x.width)
    return emitter.rows(emitter.view(left), "left operand"), (1, 1)


def matrix_weights(
    matrix: Expression,
    name: str,
    of: Linear,
    emitter: EngineEmitter,
    *,
    transposed: bool,
    channels: tuple[int, int] | None = None,
) -> WeightLine:
    """The weights of parts; transposed: the matrix is one of output channels by input channels.

    channels: of the input, from the first to before the second; all if left out.
    """

    def pack(part: CommandPart) -> int:
        own, element = (emitter.sizes, transposed, of.kernel, channels, part), element_of(emitter.sizes)
        count = weight_bytes(part.command, emitter.sizes) // element.bytes
        return emitter.put(
            emitter.pack(pack_for_engine, own, [matrix], count, f"{name} as the engine reads it", element)
        )

    return pack


def pack_for_engine(params: tuple[Any, ...], matrix: torch.Tensor) -> torch.Tensor:
    sizes, transposed, kernel, channels, part = params
    weight = matrix if transposed else matrix.t()
    weight = weight.reshape(weight.shape[0], -1, *kernel)
    weight = weight if channels is None else weight[:, channels[0] : channels[1]]
    return pack_weight((part.command, sizes), of_part(weight, part))


def _flattened_image(rows: Node) -> Node | None:
    """The image of several pixels, maybe in one row, whose elements are the features of rows, channel by channel."""
    while rows.target is aten.clone.default:  # as a dropout that drops nothing leaves it
        rows = rows.all_input_nodes[0]
    if rows.target not in RESHAPE_TARGETS or len(shape(rows)) != 2:
        return None
    image = rows.all_input_nodes[0]
    size: Sequence[int] = shape(image)
    is_image = len(size) in (3, 4) and size[0] == shape(rows)[0] and prod(size[2:]) > 1
    return image if is_image else None
