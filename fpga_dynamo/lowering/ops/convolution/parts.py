"""What commands of convolutions have in common: packed parameters, fields of the window, bands of rows."""

from __future__ import annotations

import torch

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import FieldValue, ImageRows, Operand, Record
from fpga_dynamo.ir.graph import value
from fpga_dynamo.ir.records import Conv2d, Conv2dInt8, Depthwise, DepthwiseInt8, Winograd
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, Buffer, View, align, ceil_div
from fpga_dynamo.lowering.ops.convolution.axes import Axis
from fpga_dynamo.lowering.ops.convolution.implementation import Convolution
from fpga_dynamo.lowering.ops.epilogue import ActivationFields, fields
from fpga_dynamo.lowering.ops.images import image_strides
from fpga_dynamo.lowering.ops.packing import pack_bias, pack_weight, panel_vectors

Windowed = Conv2d | Conv2dInt8 | Depthwise | DepthwiseInt8
"""The records of sums over windows."""


def panels_of(c: Conv2d | Conv2dInt8 | Winograd) -> int:
    """Panels of one group's weights."""
    return ceil_div(c.out_channels, VEC * c.vectors)


def cut_window(c: Windowed, image: ImageRows, begin: int, end: int) -> dict[str, FieldValue]:
    """What a command for rows [begin, end) of the result has in other fields."""
    low, high = image.needed(begin, end)
    return {
        "in_height": high - low,
        "out_height": end - begin,
        "padding": (max(0, image.padding - begin * image.stride), c.padding[1]),
    }


def image_rows(axis: Axis, x: View, y: View, residual: View | None, emitter: Emitter) -> ImageRows | None:
    """How a convolution can be cut into bands of rows; None if it has several images or sizes that change."""
    if emitter.graph.sizes is not None or y.shape[0] != 1:
        return None
    return ImageRows(
        count=y.shape[2],
        inputs=x.shape[2],
        taps=len(axis.taps),
        stride=axis.stride,
        padding=axis.padding,
        dilation=axis.dilation,
        input_pitch=x.strides[2],
        output_pitch=y.strides[2],
        residual_pitch=0 if residual is None else residual.strides[2],
    )


def append(
    record: Record, c: Convolution, weight: Buffer, bias: Buffer | None, emitter: Emitter, *, banded: bool = True
) -> None:
    """The command. banded: whether it may be cut into bands of rows."""
    image = image_rows(c.shape.height, c.x, c.y, c.residual, emitter) if banded else None
    emitter.command(record, reads=[c.x, c.residual, weight, bias], writes=[c.y], macs=c.macs, image=image)


class ResultFields(ActivationFields):
    """The fields of the result, the residual and the activation."""

    output: Operand
    out_stride: tuple[int, int, int]
    residual: Operand | None
    residual_stride: tuple[int, int, int]


class WindowFields(ResultFields):
    """The fields that the records of the sums over windows have besides their sizes."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]


def ends(c: Convolution, target: Target) -> ResultFields:
    return {
        "output": Operand.of(c.y),
        "out_stride": image_strides(c.y),
        "residual": None if c.residual is None else Operand.of(c.residual),
        "residual_stride": (0, 0, 0) if c.residual is None else image_strides(c.residual),
        **fields(c.activation, target.enums),
    }


def window(c: Convolution, target: Target) -> WindowFields:
    height, width = c.shape.height, c.shape.width
    return {
        "stride": (height.stride, width.stride),
        "padding": (height.padding, width.padding),
        "dilation": (height.dilation, width.dilation),
        **ends(c, target),
    }


def packed_weight(c: Convolution, opcode: str, emitter: Emitter) -> tuple[Buffer, int]:
    """The packed weights, and the width of their panels in vectors.

    With a batch norm folded in they are no longer numbers of 16 bits.
    """
    p, s = c.parameters, c.shape
    in_channels, out_channels = s.channels
    vectors = panel_vectors(out_channels, emitter.target.tiles["MAX_VECTORS"])
    width = VEC * vectors
    count = s.groups * ceil_div(out_channels, width) * s.kernel[0] * s.kernel[1] * in_channels * width
    params = (s.groups, vectors, p.eps, s.form, s.meets_zeros)
    weight = p.operands[0]
    dtype = torch.float32 if p.eps is not None or weight is None else value(weight.node).dtype
    element = emitter.kernel.weight_element(opcode, dtype)
    return emitter.pack(
        pack_weight, params, p.operands, count, f"{p.weight_name} [panel][k][{width}]", element
    ), vectors


def packed_bias(c: Convolution, groups: int, width: int, emitter: Emitter) -> Buffer | None:
    """The packed bias; None without a bias."""
    p, channels = c.parameters, c.y.shape[1]
    if not p.has_bias:
        return None
    floats = groups * align(channels // groups, width)
    return emitter.pack(pack_bias, (groups, width, p.eps, channels), p.operands, floats, p.bias_name)
