"""A convolution as the sum over its windows. Core: hls_kernels/cores/conv2d."""

from __future__ import annotations

from typing import Any

from fpga_dynamo.codegen.core import CORES, Bands, Core, Fields
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.records import Conv2d
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, View, ceil_div
from fpga_dynamo.lowering.ops.convolution.implementation import Convolution, Implementation, Shape
from fpga_dynamo.lowering.ops.convolution.parts import (
    append,
    cut_window,
    packed_bias,
    packed_weight,
    panels_of,
    window,
)
from fpga_dynamo.lowering.ops.packing import panel_vectors, weight_words


def _cycles(f: Fields, target: Target) -> float:
    steps = ceil_div(f["batch"] * f["out_height"] * f["out_width"], target.tiles["ROWS"])
    taps = f["kernel"][0] * f["kernel"][1]
    return f["groups"] * steps * panels_of(f) * taps * f["in_channels"]


def _floats(f: Fields, target: Target) -> int:
    channels, out = f["in_channels"], f["out_channels"]
    inputs = f["batch"] * f["groups"] * channels * f["in_height"] * f["in_width"]
    outputs = f["batch"] * f["groups"] * out * f["out_height"] * f["out_width"]
    taps = f["kernel"][0] * f["kernel"][1]
    weights = weight_words(f["groups"] * channels * out * taps, f.get("weight_format"), target)
    return inputs + outputs + weights


CONV2D = CORES.add(
    Core(
        "conv2d",
        _cycles,
        _floats,
        parts=lambda f, target: f["batch"] * f["out_height"] * f["groups"] * panels_of(f),
        bands=Bands("input", cut_window),
        redirects=True,
    )
)


def _can(s: Shape, target: Target) -> str | None:
    return "depthwise weights would fill one lane of each weight panel" if s.depthwise else None


def _sizes(s: Shape, target: Target) -> dict[str, Any]:
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


DIRECT = Implementation("direct", CONV2D.opcode, _can, _sizes, _emit, stays=0.95, settles=8000)
"""A gain of less than 5 % is not worth the coarser rounding of what follows; nor is one of a few microseconds."""
