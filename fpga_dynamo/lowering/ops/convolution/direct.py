"""A convolution as the sum over its windows. Core: hls_kernels/cores/conv2d."""

from __future__ import annotations

from fpga_dynamo.codegen.core import CORES, Bands, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.records import Conv2d
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, View, ceil_div
from fpga_dynamo.lowering.ops.convolution.implementation import (
    Convolution,
    ConvolutionShape,
    ImageSizes,
    Implementation,
)
from fpga_dynamo.lowering.ops.convolution.parts import (
    append,
    cut_window,
    packed_bias,
    packed_weight,
    panels_of,
    window,
)
from fpga_dynamo.lowering.ops.packing import panel_vectors, weight_words


def _cycles(c: Conv2d, target: Target) -> float:
    steps = ceil_div(c.batch * c.out_height * c.out_width, target.tiles["ROWS"])
    taps = c.kernel[0] * c.kernel[1]
    return c.groups * steps * panels_of(c) * taps * c.in_channels


def _floats(c: Conv2d, target: Target) -> int:
    channels, out = c.in_channels, c.out_channels
    inputs = c.batch * c.groups * channels * c.in_height * c.in_width
    outputs = c.batch * c.groups * out * c.out_height * c.out_width
    taps = c.kernel[0] * c.kernel[1]
    weights = weight_words(c.groups * channels * out * taps, c.weight_format, target)
    return inputs + outputs + weights


CONV2D = CORES.add(
    Core[Conv2d](
        Conv2d.opcode,
        _cycles,
        _floats,
        parts=lambda c, target: c.batch * c.out_height * c.groups * panels_of(c),
        bands=Bands("input", cut_window),
        zero_copy=True,
    )
)


def _can(s: ConvolutionShape, target: Target) -> str | None:
    return "depthwise weights would fill one lane of each weight panel" if s.depthwise else None


class _Sizes(ImageSizes):
    groups: int
    in_channels: int
    out_channels: int
    kernel: tuple[int, int]
    vectors: int


def _sizes(s: ConvolutionShape, target: Target) -> _Sizes:
    in_channels, out_channels = s.channels
    return {
        **s.images,
        "groups": s.groups,
        "in_channels": in_channels,
        "out_channels": out_channels,
        "kernel": s.kernel,
        "vectors": panel_vectors(out_channels, target.tiles["MAX_VECTORS"]),
    }


def _emit(c: Convolution, emitter: Emitter) -> None:
    w, vectors = packed_weight(c, CONV2D.opcode, emitter)
    b = packed_bias(c, c.shape.groups, VEC * vectors, emitter)
    command = Conv2d(
        input=Operand.of(c.x),
        weight=Operand(w),
        bias=None if b is None else Operand(b),
        in_stride=_input_strides(c.x),
        weight_format=emitter.format_of(w),
        **_sizes(c.shape, emitter.target),
        **window(c, emitter.target),
    )
    append(command, c, w, b, emitter)


def _input_strides(x: View) -> tuple[int, ...]:
    """Strides for the record, where a size of 1 has whatever stride it likes: 1 is the one that helps."""
    strides = list(x.strides)
    for d in (1, 3):
        if x.shape[d] == 1:
            strides[d] = 1
    return tuple(strides)


DIRECT = Implementation(
    "direct",
    CONV2D.opcode,
    _can,
    lambda s, target: Conv2d(**_sizes(s, target)),
    _emit,
    stays=0.95,
    settles=8000,
)
"""A gain of less than 5 % is not worth the coarser rounding of what follows; nor is one of a few microseconds."""
