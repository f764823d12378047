"""A 1x1 convolution as a product of matrices over the pixels. Core: ops/matmul/gemm.py."""

from __future__ import annotations

from typing import TypedDict

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.records import Gemm
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, View, align
from fpga_dynamo.lowering.ops.convolution.implementation import Convolution, ConvolutionShape, Implementation
from fpga_dynamo.lowering.ops.convolution.parts import append, packed_bias, packed_weight
from fpga_dynamo.lowering.ops.epilogue import fields
from fpga_dynamo.lowering.ops.images import image_strides
from fpga_dynamo.lowering.ops.matmul.gemm import GEMM
from fpga_dynamo.lowering.ops.packing import panel_vectors


def pitches(shape: ConvolutionShape, x: View, y: View, residual: View | None) -> tuple[int, int, int] | None:
    """Distances between the pixels of input, result and addend; None if the pixels are no rows of matrices."""
    if shape.kernel != (1, 1) or shape.groups != 1 or not shape.pointwise:
        return None
    from_x, to_y = _as_rows(x), _as_rows(y)
    added = 0 if residual is None else _as_rows(residual)
    return None if from_x is None or to_y is None or added is None else (from_x, to_y, added)


def _as_rows(view: View) -> int | None:
    """Distance between the pixels of an image batch if it is the same throughout and channels are contiguous."""
    flat = View(view.buffer, (view.shape[0], view.shape[2], view.shape[3]), image_strides(view))
    if view.strides[1] != 1 and view.shape[1] != 1:
        return None
    if flat.numel == 1:
        return align(view.shape[1])
    rows = flat.reshape((flat.numel,))
    return None if rows is None else rows.strides[0]


def _can(s: ConvolutionShape, target: Target) -> str | None:
    return "only 1x1 kernels over pixels at equal distances are supported" if s.pitches is None else None


class _Sizes(TypedDict):
    batch: tuple[int, int]
    rows: int
    columns: int
    depth: int
    vectors: int


def _sizes(s: ConvolutionShape, target: Target) -> _Sizes:
    batch, columns, height, width = s.result
    return {
        "batch": (1, 1),
        "rows": batch * height * width,
        "columns": columns,
        "depth": s.source[1],
        "vectors": panel_vectors(columns, target.tiles["MAX_VECTORS"]),
    }


def _emit(c: Convolution, emitter: Emitter) -> None:
    assert c.shape.pitches is not None
    x_pitch, y_pitch, residual_pitch = c.shape.pitches
    w, vectors = packed_weight(c, GEMM.opcode, emitter)
    b = packed_bias(c, 1, VEC * vectors, emitter)
    command = Gemm(
        a=Operand.of(c.x),
        b=Operand(w),
        bias=None if b is None else Operand(b),
        residual=None if c.residual is None else Operand.of(c.residual),
        output=Operand.of(c.y),
        b_packed=1,
        a_stride=(0, 0, x_pitch, 1),
        out_stride=(0, 0, y_pitch),
        residual_stride=(0, 0, residual_pitch),
        alpha=1.0,
        b_format=emitter.format_of(w),
        **_sizes(c.shape, emitter.target),
        **fields(c.activation, emitter.target.enums),
    )
    append(command, c, w, b, emitter)


PRODUCT = Implementation("product", GEMM.opcode, _can, lambda s, target: Gemm(**_sizes(s, target)), _emit)
