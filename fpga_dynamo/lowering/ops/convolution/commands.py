"""The commands of a convolution of channels-last images: direct, depthwise, or as a product of matrices.

Cores: hls_kernels/cores/conv2d; ops/matmul/gemm.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from fpga_dynamo.codegen.core import CORES, Bands, Core, Fields
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import FieldValue, ImageRows, Operand
from fpga_dynamo.ir.graph import value
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, Buffer, View, align, ceil_div
from fpga_dynamo.ir.weights import Expression
from fpga_dynamo.lowering.ops.convolution.axes import Axis
from fpga_dynamo.lowering.ops.epilogue import Activation, fields
from fpga_dynamo.lowering.ops.images import image_strides, images_floats, images_parts, result_vectors
from fpga_dynamo.lowering.ops.matmul.gemm import GEMM
from fpga_dynamo.lowering.ops.packing import (
    Form,
    format_of,
    pack_bias,
    pack_depthwise,
    pack_weight,
    panel_vectors,
    weight_words,
)

# --- cores ------------------------------------------------------------------------------------------------------------


def _cut_window(f: Fields, image: ImageRows, begin: int, end: int) -> dict[str, FieldValue]:
    low, high = image.needed(begin, end)
    return {
        "in_height": high - low,
        "out_height": end - begin,
        "padding": (max(0, image.padding - begin * image.stride), f["padding"][1]),
    }


def _direct_cycles(f: Fields, target: Target) -> float:
    steps = ceil_div(f["batch"] * f["out_height"] * f["out_width"], target.tiles["ROWS"])
    taps = f["kernel"][0] * f["kernel"][1]
    return f["groups"] * steps * direct_panels(f) * taps * f["in_channels"]  # type: ignore[no-any-return]


def direct_panels(f: Fields) -> int:
    """Panels of one group's weights."""
    return ceil_div(f["out_channels"], VEC * f["vectors"])


def _direct_floats(f: Fields, target: Target) -> int:
    channels, out = f["in_channels"], f["out_channels"]
    inputs = f["batch"] * f["groups"] * channels * f["in_height"] * f["in_width"]
    outputs = f["batch"] * f["groups"] * out * f["out_height"] * f["out_width"]
    weights = weight_words(f["groups"] * channels * out * f["kernel"][0] * f["kernel"][1], f.get("weight_format"))
    return inputs + outputs + weights  # type: ignore[no-any-return]


CONV2D = CORES.add(
    Core(
        "conv2d",
        _direct_cycles,
        _direct_floats,
        parts=lambda f, target: f["batch"] * f["out_height"] * f["groups"] * direct_panels(f),
        bands=Bands("input", _cut_window),
        redirects=True,
    )
)

DEPTHWISE = CORES.add(
    Core(
        "depthwise",
        cycles=lambda f, target: result_vectors(f) * (f["kernel"][0] * f["kernel"][1] + 1),
        moved=images_floats,
        parts=images_parts,
        bands=Bands("input", _cut_window),
        redirects=True,
    )
)


# --- commands ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameters:
    """What the packs of a convolution are made from: operands of :func:`packing.folded`, whether there is a bias at
    all, and names for the packs."""

    eps: float | None
    operands: list[Expression | None]
    has_bias: bool
    weight_name: str
    bias_name: str


@dataclass(frozen=True)
class Convolution:
    """y = activation(convolution of x, + bias, + residual): images of (batch, channels, height, width)."""

    x: View
    y: View
    residual: View | None
    height: Axis
    width: Axis
    groups: int
    form: Form
    parameters: Parameters
    activation: Activation
    macs: int

    @property
    def kernel(self) -> tuple[int, int]:
        return len(self.height.taps), len(self.width.taps)

    @property
    def channels(self) -> tuple[int, int]:
        """In and out, of one group."""
        return self.x.shape[1] // self.groups, self.y.shape[1] // self.groups

    @property
    def depthwise(self) -> bool:
        return self.channels == (1, 1) and self.groups > 1

    @property
    def pointwise(self) -> bool:
        """Whether each pixel becomes the one in its place."""
        return self.height.trivial(self.x.shape[2]) and self.width.trivial(self.x.shape[3])

    @property
    def meets_zeros(self) -> bool:
        """Whether weights may be multiplied by more than the image: around it, or in front of a volume."""
        return not self.pointwise or (self.form is not None and self.form[3])


def emit_convolution(c: Convolution, emitter: Emitter) -> None:
    """Appends the command."""
    product = c.kernel == (1, 1) and c.groups == 1 and GEMM.opcode in emitter.kernel.opcodes
    if c.depthwise:
        _emit_depthwise(c, emitter)
    elif product and _product_pitches(c) is not None:
        _emit_product(c, emitter)
    else:
        _emit_direct(c, emitter)


def readable(x: View, depthwise: bool) -> bool:
    """Whether the cores' load stages take an image as it lies: in the arena, channels or columns contiguous."""
    if x.buffer.in_weights or depthwise:
        return False
    return x.strides[1] == 1 or x.shape[1] == 1 or x.strides[-1] == 1 or x.shape[-1] == 1


def _emit_depthwise(c: Convolution, emitter: Emitter) -> None:
    p, channels = c.parameters, align(c.groups)
    taps = c.kernel[0] * c.kernel[1]
    w = emitter.pack(pack_depthwise, (p.eps, c.form), p.operands, taps * channels, f"{p.weight_name} [tap][channel]")
    b = _bias(c, 1, VEC, emitter)
    emitter.command(
        DEPTHWISE.opcode,
        reads=[c.x, c.residual, w, b],
        writes=[c.y],
        macs=c.macs,
        image=_image_rows(c, emitter),
        input=Operand.of(c.x),
        weight=Operand(w),
        bias=None if b is None else Operand(b),
        channels=c.groups,
        in_stride=image_strides(c.x),
        **_window(c, emitter),
    )


def _emit_direct(c: Convolution, emitter: Emitter) -> None:
    in_channels, out_channels = c.channels
    w, vectors = _weight(c, CONV2D.opcode, emitter)
    b = _bias(c, c.groups, VEC * vectors, emitter)
    emitter.command(
        CONV2D.opcode,
        reads=[c.x, c.residual, w, b],
        writes=[c.y],
        macs=c.macs,
        image=_image_rows(c, emitter),
        input=Operand.of(c.x),
        weight=Operand(w),
        bias=None if b is None else Operand(b),
        groups=c.groups,
        in_channels=in_channels,
        out_channels=out_channels,
        in_stride=_input_strides(c.x),
        vectors=vectors,
        **format_of(w, "weight_format", emitter.target),
        **_window(c, emitter),
    )


def _emit_product(c: Convolution, emitter: Emitter) -> None:
    """A 1x1 convolution is a matrix product over the pixels."""
    pitches = _product_pitches(c)
    assert pitches is not None
    x_pitch, y_pitch, residual_pitch = pitches
    depth, columns = c.channels
    batch, _, height, width = c.y.shape
    rows = batch * height * width
    w, vectors = _weight(c, GEMM.opcode, emitter)
    b = _bias(c, 1, VEC * vectors, emitter)
    emitter.command(
        GEMM.opcode,
        reads=[c.x, c.residual, w, b],
        writes=[c.y],
        macs=c.macs,
        image=_image_rows(c, emitter),
        a=Operand.of(c.x),
        b=Operand(w),
        bias=None if b is None else Operand(b),
        residual=None if c.residual is None else Operand.of(c.residual),
        output=Operand.of(c.y),
        b_packed=1,
        batch=(1, 1),
        rows=rows,
        columns=columns,
        depth=depth,
        a_stride=(0, 0, x_pitch, 1),
        out_stride=(0, 0, y_pitch),
        residual_stride=(0, 0, residual_pitch),
        vectors=vectors,
        alpha=1.0,
        **format_of(w, "b_format", emitter.target),
        **fields(c.activation, emitter.target.enums),
    )


def _window(c: Convolution, emitter: Emitter) -> dict[str, Any]:
    """The fields that the records of both kinds of convolution have."""
    batch, _, out_height, out_width = c.y.shape
    return {
        "batch": batch,
        "in_height": c.x.shape[2],
        "in_width": c.x.shape[3],
        "out_height": out_height,
        "out_width": out_width,
        "kernel": c.kernel,
        "stride": (c.height.stride, c.width.stride),
        "padding": (c.height.padding, c.width.padding),
        "dilation": (c.height.dilation, c.width.dilation),
        "output": Operand.of(c.y),
        "out_stride": image_strides(c.y),
        "residual": None if c.residual is None else Operand.of(c.residual),
        "residual_stride": (0, 0, 0) if c.residual is None else image_strides(c.residual),
        **fields(c.activation, emitter.target.enums),
    }


def _image_rows(c: Convolution, emitter: Emitter) -> ImageRows | None:
    """How the convolution can be cut into bands of rows; None if it has several images or sizes that change."""
    if emitter.graph.sizes is not None or c.y.shape[0] != 1:
        return None
    return ImageRows(
        count=c.y.shape[2],
        inputs=c.x.shape[2],
        taps=c.kernel[0],
        stride=c.height.stride,
        padding=c.height.padding,
        dilation=c.height.dilation,
        input_pitch=c.x.strides[2],
        output_pitch=c.y.strides[2],
        residual_pitch=0 if c.residual is None else c.residual.strides[2],
    )


def _weight(c: Convolution, opcode: str, emitter: Emitter) -> tuple[Buffer, int]:
    """The packed weights, and the width of their panels in vectors.

    With a batch norm folded in they are no longer numbers of 16 bits.
    """
    in_channels, out_channels = c.channels
    vectors = panel_vectors(out_channels, emitter.target.tiles["MAX_VECTORS"])
    width = VEC * vectors
    count = c.groups * ceil_div(out_channels, width) * c.kernel[0] * c.kernel[1] * in_channels * width
    params = (c.groups, vectors, c.parameters.eps, c.form, c.meets_zeros)
    name = f"{c.parameters.weight_name} [panel][k][{width}]"
    weight = c.parameters.operands[0]
    dtype = torch.float32 if c.parameters.eps is not None or weight is None else value(weight.node).dtype
    element = emitter.kernel.weight_element(opcode, dtype)
    return emitter.pack(pack_weight, params, c.parameters.operands, count, name, element), vectors


def _bias(c: Convolution, groups: int, width: int, emitter: Emitter) -> Buffer | None:
    if not c.parameters.has_bias:
        return None
    channels = c.y.shape[1]
    params = (groups, width, c.parameters.eps, channels)
    floats = groups * align(channels // groups, width)
    return emitter.pack(pack_bias, params, c.parameters.operands, floats, c.parameters.bias_name)


def _product_pitches(c: Convolution) -> tuple[int, int, int] | None:
    """Distances between the pixels of input, output and residual; None if the pixels are no rows of matrices."""
    if not c.pointwise:
        return None
    x, y = _as_rows(c.x), _as_rows(c.y)
    residual = 0 if c.residual is None else _as_rows(c.residual)
    return None if x is None or y is None or residual is None else (x, y, residual)


def _as_rows(view: View) -> int | None:
    """Distance between the pixels of an image batch if it is the same throughout and channels are contiguous."""
    flat = View(view.buffer, (view.shape[0], view.shape[2], view.shape[3]), image_strides(view))
    if view.strides[1] != 1 and view.shape[1] != 1:
        return None
    if flat.numel == 1:
        return align(view.shape[1])
    rows = flat.reshape((flat.numel,))
    return None if rows is None else rows.strides[0]


def _input_strides(x: View) -> tuple[int, ...]:
    """Strides for the record, where a size of 1 has whatever stride it likes: 1 is the one that helps."""
    strides = list(x.strides)
    for d in (1, 3):
        if x.shape[d] == 1:
            strides[d] = 1
    return tuple(strides)
