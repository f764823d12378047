"""Resizing of integers by whole factors on the hardware engine: all phases of the result are the image.

So it is put together as the phases of a transposed convolution are, word by word. Of nearest resizing a phase is the
input. Of bilinear resizing it is a convolution of 3 x 3, channel by channel, of the input with its border twice. The
factors are powers of two, whose weights float32 holds: so the result has the bits of eager mode.
Tests: tests/lowering/test_engine_bits.py, test_engine_lowering.py, test_engine_resize.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.engine.command import WeightKind
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.layout import of_part, pack_weight, weight_bytes
from fpga_dynamo.codegen.engine.maps import Map, MapImages, RefusedError, images_of, of_engine
from fpga_dynamo.codegen.engine.parts import CommandPart
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.elements import I8
from fpga_dynamo.ir.graph import operand, shape
from fpga_dynamo.ir.quantised import Scale, dequantized, quantizes
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.engine_patterns import EnginePattern
from fpga_dynamo.lowering.ops.engine.common.images import WeightLine, window_command
from fpga_dynamo.lowering.ops.engine.common.phases import image_of_phases
from fpga_dynamo.lowering.ops.engine.int8.pooling import uniform_params
from fpga_dynamo.lowering.ops.movement.resampling import NEAREST, resize_scales
from fpga_dynamo.lowering.ops.pooling import PoolWindow
from fpga_dynamo.lowering.ops.quantised.float_operators import RESIZE
from fpga_dynamo.lowering.ops.quantised.packing import UniformParameters
from fpga_dynamo.lowering.patterns import Match

MOST = 8
"""The largest factor: one command for each of its phases, and float32's inverses up to here are not below the exact."""
_BILINEAR = (1, 2, 4)
"""Factors of bilinear resizing: of 8 a product of weights exceeds 127."""
_TAPS = PoolWindow(False, (3, 3), (1, 1), (0, 0), (1, 1))

Taps = tuple[tuple[int, ...], ...]


def engine_resize(match: Match[Match], emitter: EngineEmitter) -> Sequence[View]:
    """The commands of a resize between integers. Raises RefusedError for others."""
    node = match.bound.root
    if not emitter.sizes.interleaves:
        raise RefusedError("resizing needs the vector side of an int8 engine")
    found, scale = dequantized(match.nodes[0]), quantizes(match.root)
    if found is None or scale is None:
        raise RefusedError("the input or the result is float32")
    of_engine(found[0], "input", emitter.sizes)
    size, result = shape(operand(node, 0))[-2:], shape(node)[-2:]
    factors = [b // a for a, b in zip(size, result, strict=True)]
    whole = all(a * factor == b for a, factor, b in zip(size, factors, result, strict=True))
    if not whole or not 1 < max(factors) <= MOST:
        raise RefusedError(f"only enlargement by integer factors of at most {MOST} is supported")
    if resize_scales(node, size, result) != tuple(1 / factor for factor in factors):
        raise RefusedError("the step between pixels is not the inverse of whole factors")
    if node.target not in NEAREST:
        phases = _bilinear(match, factors, found, scale, emitter)
    elif found[1] != scale:
        raise RefusedError("the quantization scale of the result differs from the input's")
    else:
        phases = [[emitter.images(emitter.view(found[0]), "input")] * factors[1]] * factors[0]
    out = emitter.result(match.root)
    image_of_phases(phases, images_of(out, "result"), emitter)
    return [out]


# --- bilinear ---------------------------------------------------------------------------------------------------------


def _bilinear(
    match: Match[Match], factors: Sequence[int], given: tuple[Node, Scale], result: Scale, emitter: EngineEmitter
) -> list[list[MapImages]]:
    """The phases of an enlargement whose corners are not aligned."""
    integers, scale = given
    if any(factor not in _BILINEAR for factor in factors):
        raise RefusedError("bilinear resizing is supported by factors of 2 and 4, with align_corners=False")
    if not emitter.sizes.gather:
        raise RefusedError("bilinear resizing is not supported")
    images, count, height, width = shape(integers)
    index = {dim: (0, *range(size), size - 1) for dim, size in ((2, height), (3, width))}
    size = (images, count, height + 2, width + 2)
    x = emitter.images(emitter.moved(emitter.view(integers), index, size, "the input"), "the input")
    total = 4 * factors[0] * factors[1]
    constants = UniformParameters(
        width=CHANNELS,
        count=count,
        scale=scale.scale / total,
        greatest=float(total * scale.farthest),
        result_scale=result.scale,
        offset=-total * scale.zero,
    )
    fields = {"weight_kind": WeightKind.DIAGONAL, "zero": result.zero, "low": result.low, "high": result.high}
    params = uniform_params(match.root, x, constants, emitter)
    phases = []
    for down in range(factors[0]):
        row = []
        for right in range(factors[1]):
            weights = [_taps(factors[0], down), _taps(factors[1], right)]
            taps = tuple(tuple(a * b for b in weights[1]) for a in weights[0])
            made = Map(images, height * width, count, emitter.sizes, f"{match.root.name}, phase {down} {right}")
            y = MapImages(made, images, count, height, width)
            emitter.mac(window_command(x, y, _TAPS, fields), x, y, params, _weights(taps, count, emitter))
            row.append(y)
        phases.append(row)
    return phases


def _taps(factor: int, phase: int) -> tuple[int, int, int]:
    """Weights of a pixel and its neighbours before and behind it, which add up to 2 * factor."""
    apart = 2 * phase + 1 - factor  # from the pixel's middle, in units of 1 / (2 * factor)
    return max(-apart, 0), 2 * factor - abs(apart), max(apart, 0)


def _weights(taps: Taps, count: int, emitter: EngineEmitter) -> WeightLine:
    def pack(part: CommandPart) -> int:
        own = (emitter.sizes, taps, count, part)
        return emitter.put(emitter.pack(pack_taps, own, [], weight_bytes(part.command, emitter.sizes), "taps", I8))

    return pack


def pack_taps(params: tuple[Any, ...]) -> torch.Tensor:
    """The same weights for each channel; params: sizes of the engine, the weights, channels, part of the command."""
    sizes, taps, count, part = params
    weight = torch.tensor(taps, dtype=torch.int8).expand(count, 1, 3, 3)
    return pack_weight((part.command, sizes), of_part(weight, part))


PATTERNS = (EnginePattern(RESIZE, engine_resize),)
