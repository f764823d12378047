"""A convolution of each channel by itself. Core: hls_kernels/cores/conv2d (opcode depthwise)."""

from __future__ import annotations

from fpga_dynamo.codegen.core import CORES, Bands, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.records import Depthwise
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, align
from fpga_dynamo.lowering.ops.convolution.implementation import (
    Convolution,
    ConvolutionShape,
    ImageSizes,
    Implementation,
)
from fpga_dynamo.lowering.ops.convolution.parts import append, cut_window, packed_bias, window
from fpga_dynamo.lowering.ops.images import image_strides, images_floats, images_parts, result_vectors
from fpga_dynamo.lowering.ops.packing import pack_depthwise

DEPTHWISE = CORES.add(
    Core[Depthwise](
        Depthwise.opcode,
        cycles=lambda c, target: result_vectors(c) * (c.kernel[0] * c.kernel[1] + 1),
        moved=images_floats,
        parts=images_parts,
        bands=Bands("input", cut_window),
        zero_copy=True,
    )
)


def _can(s: ConvolutionShape, target: Target) -> str | None:
    return None if s.depthwise else "groups of more than one channel are not supported"


class _Sizes(ImageSizes):
    channels: int
    kernel: tuple[int, int]


def _sizes(s: ConvolutionShape, target: Target) -> _Sizes:
    return {**s.images, "channels": s.groups, "kernel": s.kernel}


def _emit(c: Convolution, emitter: Emitter) -> None:
    p, s = c.parameters, c.shape
    floats = s.kernel[0] * s.kernel[1] * align(s.groups)
    w = emitter.pack(pack_depthwise, (p.eps, s.form), p.operands, floats, f"{p.weight_name} [tap][channel]")
    b = packed_bias(c, 1, VEC, emitter)
    command = Depthwise(
        input=Operand.of(c.x),
        weight=Operand(w),
        bias=None if b is None else Operand(b),
        in_stride=image_strides(c.x),
        **_sizes(s, emitter.target),
        **window(c, emitter.target),
    )
    append(command, c, w, b, emitter)


BY_CHANNEL = Implementation(
    "by channel", DEPTHWISE.opcode, _can, lambda s, target: Depthwise(**_sizes(s, target)), _emit
)
