"""Batch norms, and products by a parameter of each channel, between 8-bit integers on the hardware engine.

Such products occur in networks that normalise in front of their convolutions, or scale a sum's channels. The command is
a 1 x 1 depthwise convolution by ones, whose epilogue has a scale, a bias and limits for each channel. The cores compute
them in float32. Tests: tests/lowering/test_engine_norm.py, test_engine_dimensions.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.command import WeightKind
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import MapImages, RefusedError, images_of, of_engine, rows_of
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.codegen.requantize import FRACTION, Channels, RequantizeError, channels
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, operand, shape, value
from fpga_dynamo.ir.quantised import Scale, dequantized
from fpga_dynamo.ir.view import View, align, numel
from fpga_dynamo.ir.weights import NotExactError, WeightBuffer
from fpga_dynamo.lowering.engine_patterns import engine_only
from fpga_dynamo.lowering.ops.batch_norm import BATCH_NORM, is_packable, value_of
from fpga_dynamo.lowering.ops.engine.common.head_products import seen_as
from fpga_dynamo.lowering.ops.engine.common.images import as_image, image_result, ones, window_command
from fpga_dynamo.lowering.ops.engine.int8.epilogue import engine_fields, engine_residual
from fpga_dynamo.lowering.ops.engine.int8.params import LAYOUTS, engine_params
from fpga_dynamo.lowering.ops.packing import folded
from fpga_dynamo.lowering.ops.pooling import PoolWindow
from fpga_dynamo.lowering.ops.quantised.epilogue import (
    QuantizedEpilogue,
    greatest_residual,
    quantized_epilogue,
)
from fpga_dynamo.lowering.ops.quantised.packing import PARAMETERS
from fpga_dynamo.lowering.patterns import Match, Pattern

_INTEGERS = torch.arange(-128, 128, dtype=torch.float64)
_SEEN = 256
"""Steps from the zero point beyond which every result is at a limit of its integers."""
_PIXEL = PoolWindow(False, (1, 1), (1, 1), (0, 0), (1, 1))


def match_norm(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[QuantizedEpilogue] | None:
    """Of dequantised values, by static statistics that nobody asks for, and its epilogue."""
    item = value_of(node)
    if item is None or dequantized(operand(node, 0)) is None or not is_packable(node, graph):
        return None
    if any(user.users for user in node.users if user is not item):
        return None
    end = quantized_epilogue(item, graph)
    if end.scale is None:
        return None
    return Match(pattern, (operand(node, 0), node, *node.users, *end.nodes), (end.last,), end)


def engine_norm(match: Match[QuantizedEpilogue], emitter: EngineEmitter) -> Sequence[View]:
    source, node = match.nodes[:2]
    end = match.bound
    found = dequantized(source)
    assert found is not None and end.first_scale is not None
    integers, scale = found
    of_engine(integers, "input", emitter.sizes)
    rows = len(shape(integers)) == 2
    if not rows and len(shape(integers)) not in (3, 4):
        raise RefusedError("input is neither images nor rows")
    constants = _settings(scale, end, shape(integers)[1 if rows else -3], float(argument(node, "eps", 6)))
    operands = [emitter.expression(part) if isinstance(part, Node) else None for part in node.args[1:5]]
    words = PARAMETERS * align(constants.count, CHANNELS)
    packed = emitter.pack(pack_norm, constants, operands, words, f"{node.name} parameters")
    return _by_channel(match.root, integers, scale, end, packed, emitter, rows=rows)


def match_scale(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[QuantizedEpilogue] | None:
    """A dequantised value by a parameter of each channel of images, or of each feature of rows, and its epilogue."""
    if len(node.args) != 2 or node.kwargs or not all(isinstance(arg, Node) for arg in node.args):
        return None
    values, scale = (operand(node, n) for n in ((0, 1) if dequantized(node.args[0]) else (1, 0)))
    if dequantized(values) is None or not graph.is_static(scale) or value(scale).dtype is not torch.float32:
        return None
    if shape(values) != shape(node) or _axis_of(scale, node) is None:
        return None
    end = quantized_epilogue(node, graph)
    return None if end.scale is None else Match(pattern, (values, node, *end.nodes), (end.last,), end)


def _axis_of(scale: Node, node: Node) -> int | None:
    """Of the channels that a product by `scale` has, with a number each; None for another product."""
    size = shape(node)
    axis = 1 if len(size) == 4 and len(shape(scale)) >= 3 else len(size) - 1
    own = (*(1,) * (len(size) - len(shape(scale))), *shape(scale))
    wanted = tuple(count if d == axis else 1 for d, count in enumerate(size))
    return axis if len(size) in (2, 3, 4) and own == wanted else None


def engine_scale(match: Match[QuantizedEpilogue], emitter: EngineEmitter) -> Sequence[View]:
    source, node = match.nodes[:2]
    end, found = match.bound, dequantized(source)
    assert found is not None and end.first_scale is not None
    integers, scale = found
    of_engine(integers, "input", emitter.sizes)
    numbers = operand(node, 1) if node.args[0] is source else operand(node, 0)
    axis = _axis_of(numbers, node)
    assert axis is not None
    constants = _settings(scale, end, shape(node)[axis])
    words = PARAMETERS * align(constants.count, CHANNELS)
    packed = emitter.pack(pack_scale, constants, [emitter.expression(numbers)], words, f"{node.name} parameters")
    return _by_channel(match.root, integers, scale, end, packed, emitter, rows=axis == len(shape(node)) - 1)


def _settings(scale: Scale, end: QuantizedEpilogue, count: int, eps: float = 0.0) -> NormParameters:
    assert end.first_scale is not None
    return NormParameters(
        input_scale=scale.scale,
        input_zero=scale.zero,
        farthest=scale.farthest,
        result_scale=end.first_scale.scale,
        residual=greatest_residual(end),
        eps=eps,
        count=count,
    )


def _by_channel(
    root: Node,
    integers: Node,
    scale: Scale,
    end: QuantizedEpilogue,
    packed: WeightBuffer,
    emitter: EngineEmitter,
    *,
    rows: bool,
) -> Sequence[View]:
    """The command that scales channels of images, or of `rows`, by packed parameters."""
    x = _rows(integers, emitter) if rows else emitter.images(as_image(emitter.view(integers)), "input")
    fields = {"weight_kind": WeightKind.DIAGONAL, "pad": scale.zero, **engine_fields(end, emitter)}
    seen = (lambda view: view) if rows else as_image
    residual = engine_residual(end, emitter, seen, emitter.rows if rows else emitter.images)
    out = _rows_result(root, emitter) if rows else image_result(root, emitter)
    y = rows_of(out, "result") if rows else images_of(as_image(out), "result")
    command = window_command(x, y, _PIXEL, fields)
    emitter.mac(command, x, y, engine_params(packed, end, emitter), ones(emitter), residual=residual)
    return [seen_as(out, root)]


def _rows_result(root: Node, emitter: EngineEmitter) -> View:
    size = shape(root)
    return emitter.result(root, (numel(size[:-1]), size[-1]) if len(size) == 4 else None)


def _rows(node: Node, emitter: EngineEmitter) -> MapImages:
    """Rows of features, all of a map."""
    x = emitter.rows(emitter.view(node), "input")
    return x if x.whole and x.images == 1 else rows_of(emitter.as_rows(emitter.view(node), "input"), "input")


@dataclass(frozen=True)
class NormParameters:
    """Settings of :func:`pack_norm`: scales and the input's zero point, and of the norm its `eps` and channels."""

    input_scale: float
    input_zero: int
    farthest: int
    result_scale: float
    residual: float
    eps: float
    count: int


def pack_norm(
    settings: NormParameters,
    gamma: torch.Tensor | None,
    beta: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
) -> torch.Tensor:
    """int32 [block][offset, scale, bias][16]. Raises :class:`NotExactError` for what requantizing cannot hold."""
    scale, shift = folded(settings.eps, torch.ones_like(mean), None, gamma, beta, mean, variance)
    return _pack(settings, scale, shift, lambda: _in_float32(settings, gamma, beta, mean, variance))


def pack_scale(settings: NormParameters, numbers: torch.Tensor) -> torch.Tensor:
    """The same of a number for each channel alone."""
    scale = numbers.detach().flatten().float()
    nothing = torch.zeros_like(scale).double()
    return _pack(settings, scale.double(), nothing, lambda: scale.view(-1, 1) * _real(settings))


def _pack(
    settings: NormParameters, scale: torch.Tensor, shift: torch.Tensor, eager: Callable[[], torch.Tensor]
) -> torch.Tensor:
    """eager: what eager mode makes of each integer from -128 to 127, by channels: (channels, 256) of float32."""
    result_scale, count = settings.result_scale, settings.count
    try:
        found = channels(
            scale * settings.input_scale / result_scale,
            shift / result_scale,
            float(settings.farthest),
            torch.full((count,), -settings.input_zero, dtype=torch.int32),
            residual=settings.residual,
        )
    except RequantizeError as error:
        raise NotExactError(str(error)) from error
    bias = found.bias
    if settings.residual == 0:  # else the sum is rounded with what is added, and not alone
        bias = _fitted(found, torch.round(eager() * (1.0 / result_scale)).double())
    own = torch.stack([found.offset, found.scale, bias])
    own = torch.nn.functional.pad(own, (0, -count % CHANNELS)).reshape(PARAMETERS, -1, CHANNELS)
    return own.permute(1, 0, 2).contiguous().flatten()


def _in_float32(
    settings: NormParameters,
    gamma: torch.Tensor | None,
    beta: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
) -> torch.Tensor:
    """What eager makes of each integer from -128 to 127, by channels: (channels, 256) of float32."""
    image = _real(settings).view(1, 1, 16, 16).expand(1, len(mean), 16, 16).contiguous()
    made = torch.nn.functional.batch_norm(image, mean.float(), variance.float(), gamma, beta, eps=settings.eps)
    return made.view(len(mean), 256)


def _real(settings: NormParameters) -> torch.Tensor:
    """What the integers from -128 to 127 stand for."""
    return (_INTEGERS.float() - settings.input_zero) * settings.input_scale


def _fitted(found: Channels, wanted: torch.Tensor) -> torch.Tensor:
    """Biases by which every integer becomes the one that is `wanted`, if there are such; else they are as they were.

    A norm's result may lie nearer to the border between two integers than a scale of 22 bits and more can tell, and
    then all of its pixels are a step from eager mode's. As there are 256 inputs only, each says within which bounds the
    bias has to be; in most channels these leave room beside the one that is nearest to the real number.
    """
    made = (_INTEGERS.view(1, -1) + found.offset.double().view(-1, 1)) * found.factors().view(-1, 1)
    above, below = ((wanted + half - made) * 2.0**FRACTION for half in (0.5, -0.5))
    # At the border itself the even integer is taken.
    even = torch.remainder(wanted, 2) == 0
    above = torch.where(even, torch.floor(above), torch.ceil(above) - 1)
    below = torch.where(even, torch.ceil(below), torch.floor(below) + 1)
    seen = wanted.abs() <= _SEEN
    most, least = torch.where(seen, above, math.inf).amin(1), torch.where(seen, below, -math.inf).amax(1)
    bias = found.bias.double()
    return torch.where(least <= most, torch.minimum(torch.maximum(bias, least), most), bias).int()


LAYOUTS["pack_norm"] = pack_norm
LAYOUTS["pack_scale"] = pack_scale


PATTERNS = (
    engine_only("batch_norm_int8", (BATCH_NORM,), match_norm, engine_norm),
    engine_only("scale_int8", (aten.mul.Tensor,), match_scale, engine_scale),
)
