"""Commands of the hardware engine for convolutions and windows over images, whatever its elements are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.command import MacCommand, WeightKind
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.layout import of_part, pack_weight, weight_bytes
from fpga_dynamo.codegen.engine.maps import DTYPES, MapImages, RefusedError, images_of, of_engine
from fpga_dynamo.codegen.engine.parts import CommandPart
from fpga_dynamo.codegen.engine.sizes import CHANNELS, EngineSizes
from fpga_dynamo.codegen.engine.width_tiling import is_too_wide
from fpga_dynamo.ir.elements import BF16, F32, I8, Element
from fpga_dynamo.ir.graph import argument, operand, pair, shape
from fpga_dynamo.ir.view import View, ceil_div
from fpga_dynamo.ir.weights import Expression
from fpga_dynamo.lowering.ops.convolution.axes import Axis, axes
from fpga_dynamo.lowering.ops.convolution.convolution import is_depthwise
from fpga_dynamo.lowering.ops.packing import Form, formed
from fpga_dynamo.lowering.ops.pooling import PoolWindow

_ELEMENTS = {element.dtype: element for element in (I8, BF16, F32)}

Line = Callable[[MacCommand, int], int]
"""What answers the line of the parameters for a cut command that begins with a block of channels."""

WeightLine = Callable[[CommandPart], int]
"""What answers the line of a part's weights."""


def element_of(sizes: EngineSizes) -> Element:
    """The engine's elements, as packs call them."""
    return _ELEMENTS[DTYPES[sizes.element_bytes]]


# --- convolutions -----------------------------------------------------------------------------------------------------


def refuse_convolution(node: Node, emitter: EngineEmitter) -> None:
    """Raises RefusedError for one that no command computes."""
    rank, bias = len(shape(node)) - 2, node.args[2]
    if bool(argument(node, "transposed", 6)) and not emitter.sizes.interleaves:
        raise RefusedError("transposed convolution needs the vector side of an int8 engine")
    if rank not in (1, 2):
        raise RefusedError(f"{rank}-D convolution is not supported; the engine supports 2-D")
    if isinstance(bias, Node) and not emitter.graph.from_inputs(bias):
        raise RefusedError("a bias that the graph computes is not supported")


def convolution_command(node: Node, place: Sequence[Axis] | None = None, **fields: Any) -> MacCommand:
    """The command for images as they are, but for addresses and the order of its input.

    place: of a transposed convolution a phase of each axis.
    """
    size, channels, groups = shape(node), shape(operand(node, 0))[1], argument(node, "groups", 8)
    place = [phases[0] for phases in axes(node)] if place is None else place
    height, width = place[0] if len(place) == 2 else None, place[-1]
    out_blocks = ceil_div(size[1], CHANNELS)
    dense = groups == 1
    return MacCommand(
        weight_kind=WeightKind.DIAGONAL if is_depthwise(node) and channels == size[1] else WeightKind.PACKED,
        in_blocks=ceil_div(channels, CHANNELS),
        in_height=shape(operand(node, 0))[2] if height else 1,
        in_width=shape(operand(node, 0))[-1],
        out_blocks=out_blocks,
        out_height=height.count if height else 1,
        out_width=width.count,
        kernel=(len(height.taps) if height else 1, len(width.taps)),
        stride=(height.stride if height else 1, width.stride),
        padding=(height.padding if height else 0, width.padding),
        dilation=(height.dilation if height else 1, width.dilation),
        group_in=channels if dense else channels // groups,
        group_out=out_blocks * CHANNELS if dense else size[1] // groups,
        images=size[0],
        **fields,
    )


def convolution_input(source: Node, command: MacCommand, emitter: EngineEmitter) -> tuple[MapImages, MacCommand]:
    """Where the input lies, blocked, or with few channels side by side if the host can write it so."""
    of_engine(source, "input", emitter.sizes)
    channels = shape(source)[1]
    if (patches := _patches(source, command, emitter)) is not None:
        command = replace(command, in_blocks=patches.blocks, in_height=patches.height, in_width=patches.width)
        return patches, replace(command, kernel=(1, 1), stride=(1, 1), group_in=patches.channels)
    side_by_side = next((n for n in (1, 2, 4, 8) if n >= channels), CHANNELS)
    fits = command.dilation[1] == 1 and (CHANNELS // side_by_side) % command.stride[1] == 0
    of_few = replace(command, pixel_channels=side_by_side)
    fits = fits and not command.one_to_one and command.group_in == channels
    if side_by_side < CHANNELS and fits and not is_too_wide(of_few, emitter.sizes):
        folded = emitter.folded(source, side_by_side)
        if folded is not None:
            x = MapImages(folded, folded.images, channels, command.in_height, command.in_width)
            return x, of_few
    return emitter.images(as_image(emitter.view(source)), "input"), command


def _patches(source: Node, command: MacCommand, emitter: EngineEmitter) -> MapImages | None:
    """Where the input lies with patches as channels, of a kernel with more positions than the engine's table has.

    That the host can write so if no two windows overlap, as where a vision transformer embeds patches.
    """
    c = command
    apart = c.kernel == c.stride and c.padding == (0, 0) and c.dilation == (1, 1)
    if not apart or c.one_to_one or c.group_in != shape(source)[1] or len(shape(source)) != 4:
        return None
    return emitter.patches(source, c.kernel) if c.kernel[0] * c.kernel[1] > emitter.sizes.taps else None


def image_result(root: Node, emitter: EngineEmitter) -> View:
    """Where a convolution's result goes: images, of one row if it has three dimensions."""
    size = shape(root)
    return emitter.result(root, (*size[:2], 1, size[2])).select(2, 0) if len(size) == 3 else emitter.result(root)


def as_image(view: View) -> View:
    """A view of four dimensions: an image of one dimension has a height of 1."""
    return view.unsqueeze(2) if len(view.shape) == 3 else view


def convolution_weights(
    weight: Expression,
    name: str,
    emitter: EngineEmitter,
    channels: tuple[int, int] | None = None,
    form: Form = None,
) -> WeightLine:
    """The weights of parts.

    channels: of the input, from the first to before the second; all if left out. form: which weights; all.
    """

    def pack(part: CommandPart) -> int:
        # Of units that share it, and channel by channel, a command has some of the output's channels.
        own = (emitter.sizes, channels, form, part)
        element = element_of(emitter.sizes)
        count = weight_bytes(part.command, emitter.sizes) // element.bytes
        return emitter.put(
            emitter.pack(pack_for_engine, own, [weight], count, f"{name} as the engine reads it", element)
        )

    return pack


def pack_for_engine(params: tuple[Any, ...], weight: torch.Tensor) -> torch.Tensor:
    """The weights of a part; params: also the input's channels that it is a part of, and the form."""
    sizes, channels, form, part = params
    command = part.command
    weight = formed(form, weight)
    uncut = part.transposed is None and part.rows is None
    if weight.dim() == 4 and uncut and tuple(weight.shape[2:]) != command.kernel:
        weight = weight.flatten(1).view(weight.shape[0], -1, 1, 1)  # of patches, whose pixels are channels
    if channels is not None:
        weight = weight[:, channels[0] : channels[1]]
    return pack_weight((command, sizes), of_part(weight.unsqueeze(2) if weight.dim() == 3 else weight, part))


# --- windows, channel by channel --------------------------------------------------------------------------------------


def windows(
    root: Node,
    x: MapImages,
    window: PoolWindow,
    fields: dict[str, Any],
    params: Line,
    emitter: EngineEmitter,
    residual: MapImages | None = None,
) -> View:
    """A command that takes sums by ones (or maxima) over windows of each channel; its result."""
    size = (x.images, x.channels, *(shape(root)[-2:] if len(shape(root)) == 4 else (1, 1)))
    out = emitter.result(root, None if len(shape(root)) == 4 else size)
    y = images_of(out, "result")
    command = window_command(x, y, window, fields)
    emitter.mac(command, x, y, params, ones(emitter) if command.has_weights else None, residual=residual)
    if len(shape(root)) == 4:
        return out
    return View(out.buffer, tuple(shape(root)), out.strides[:2], out.offset)


def window_command(x: MapImages, y: MapImages, window: PoolWindow, fields: Mapping[str, Any]) -> MacCommand:
    """The command that goes over windows of each channel of x and leaves y."""
    return MacCommand(
        in_blocks=x.blocks,
        in_height=x.height,
        in_width=x.width,
        out_blocks=x.blocks,
        out_height=y.height,
        out_width=y.width,
        kernel=pair(window.kernel),
        stride=pair(window.stride),
        padding=pair(window.padding),
        dilation=pair(window.dilation),
        images=x.images,
        **fields,
    )


def uniform_windows(window: PoolWindow, size: tuple[int, int], out: tuple[int, int]) -> PoolWindow:
    """The same windows with one size and step. Raises RefusedError if adaptive ones have several."""
    if not window.adaptive:
        return window
    if any(n % m for n, m in zip(size, out, strict=True)):
        raise RefusedError("windows of different sizes are not supported")
    step = (size[0] // out[0], size[1] // out[1])
    return PoolWindow(False, step, step, (0, 0), (1, 1))


def ones(emitter: EngineEmitter) -> WeightLine:
    """Weights that add up each channel."""

    def pack(part: CommandPart) -> int:
        element, cut = element_of(emitter.sizes), part.command
        count = weight_bytes(cut, emitter.sizes) // element.bytes
        return emitter.put(emitter.pack(pack_ones, (cut, emitter.sizes), [], count, "ones", element))

    return pack


def pack_ones(params: tuple[Any, ...]) -> torch.Tensor:
    command, sizes = params
    dtype = DTYPES[sizes.element_bytes]
    weight = torch.ones(command.out_blocks * CHANNELS, 1, *command.kernel, dtype=dtype)
    if command.weight_kind is WeightKind.PACKED:  # of rows that are channels: each adds up its own
        one = torch.eye(CHANNELS, dtype=dtype).repeat(1, command.in_blocks)
        weight = one[:, :, None, None].expand(-1, -1, *command.kernel)
    return pack_weight((command, sizes), weight)
