"""Weights of eight bits and the parameters of each output channel, in the order in which the cores read them.

Sums of products with zero points come down to sums of plain products: the sum over (x - zero) w is that over x w, less
zero times the sum of the weights, which is part of a channel's offset. Pixels around an image are `zero`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node

from fpga_dynamo.codegen.requantize import RequantizeError, channels
from fpga_dynamo.ir.graph import GraphInfo, arguments, aten, value
from fpga_dynamo.ir.quantised import DEQUANTIZE, DEQUANTIZE_CHANNELS, Scale
from fpga_dynamo.ir.view import VEC, Buffer, ceil_div
from fpga_dynamo.ir.weights import Expression, NotExactError, Packer
from fpga_dynamo.lowering.ops.packing import Form, formed
from fpga_dynamo.lowering.ops.quantised.epilogue import QuantizedEpilogue, greatest_residual

_TURNS = (aten.t.default, aten.permute.default, aten.transpose.int)

QUAD = 4
"""Products that a lane adds up at once."""

PARAMETERS = 3
"""Words of an output channel."""


@dataclass(frozen=True)
class Weights:
    """Static 8-bit integers and their scale: numbers, or the nodes of one for each channel along `axis`."""

    integers: Node
    scale: Node | float
    zero: Node | int
    axis: int | None


def weights_of(node: Any, graph: GraphInfo) -> Weights | str:
    """What the floating-point values `node` are made of; or why they are no weights of eight bits."""
    transposed = is_transposed(node)
    while isinstance(node, Node) and node.target in _TURNS:
        if len(value(node).shape) != 2:
            return "a transposed weight is supported in 2-D only"
        node = node.all_input_nodes[0]
    if not isinstance(node, Node) or node.target not in (DEQUANTIZE, DEQUANTIZE_CHANNELS):
        return "the weight is not int8 or uint8"
    if node.kwargs.get("out_dtype") not in (None, torch.float32):
        return "the weight is dequantized to another dtype than float32"
    integers = node.args[0]
    if not isinstance(integers, Node) or not graph.from_inputs(integers):
        return "a weight that the graph computes is not supported"
    if value(integers).dtype is not torch.int8:
        return f"the weight is {value(integers).dtype}; the core supports int8"
    scale, zero = arguments(node)[1:3]
    if any(isinstance(part, Node) and not graph.from_inputs(part) for part in (scale, zero)):
        return "a weight scale that the graph computes is not supported"
    if node.target is DEQUANTIZE:
        if isinstance(zero, int) and zero != 0:
            return "a weight zero point other than 0 is not supported"
        return Weights(integers, scale, zero, None)
    axis = node.args[3]
    assert isinstance(axis, int)
    rank = len(value(integers).shape)
    return Weights(integers, scale, zero, 1 - axis % 2 if transposed and rank == 2 else axis % rank)


def is_transposed(node: Node) -> bool:
    """Whether a matrix is its transpose in front of transpositions."""
    transposed = False
    while node.target in _TURNS:
        node, transposed = node.all_input_nodes[0], not transposed
    return transposed


def untransposed(node: Node) -> Node:
    """A matrix in front of transpositions."""
    while node.target in _TURNS:
        node = node.all_input_nodes[0]
    return node


@dataclass(frozen=True)
class RequantizationParameters:
    """Settings of :func:`pack_parameters`: how sums of products become elements of the result.

    groups, width: of the layout. weight_scale, weight_zero: of all weights; None if tensors have them, along `axis`.
    input_scale, input_zero, farthest: of the operand. result_scale: None if the results are floats.
    residual: the largest absolute value that is added, in units of the result.
    """

    groups: int
    width: int
    weight_scale: float | None
    weight_zero: int | None
    axis: int | None
    input_scale: float
    input_zero: int
    farthest: int
    result_scale: float | None
    residual: float
    form: Form
    is_matrix: bool


@dataclass(frozen=True)
class UniformParameters:
    """Settings of :func:`pack_one_scale`: `count` channels with the same scale and the same offset of their sums.

    width: of the layout. greatest: the largest absolute value of a sum. result_scale: None if the results are floats.
    """

    width: int
    count: int
    scale: float
    greatest: float
    result_scale: float | None
    offset: int


@dataclass(frozen=True)
class WeightLayout:
    """Settings of :func:`pack_int8_weight`.

    groups: of the command. joined: groups of the convolution in each of these (:func:`groups_joined`). columns: of a
    kernel row. adjoin: columns are not rounded up to quads.
    """

    groups: int
    vectors: int
    form: Form
    columns: int
    adjoin: bool
    joined: int = 1


@dataclass(frozen=True)
class ProductParameters:
    """What the parameters of a product are made of."""

    weights: Weights
    bias: Node | None
    source: Scale
    epilogue: QuantizedEpilogue
    form: Form = None
    is_matrix: bool = False

    def pack(self, groups: int, width: int, count: int, emitter: Packer, name: str) -> Buffer:
        """[group][panel][offset, scale, bias][width] of `count` output channels of a group."""
        w, end = self.weights, self.epilogue
        first = end.first_scale
        settings = RequantizationParameters(
            groups=groups,
            width=width,
            weight_scale=w.scale if isinstance(w.scale, float) else None,
            weight_zero=w.zero if isinstance(w.zero, int) else None,
            axis=w.axis,
            input_scale=self.source.scale,
            input_zero=self.source.zero,
            farthest=self.source.farthest,
            result_scale=None if end.in_floats or first is None else first.scale,
            residual=greatest_residual(end),
            form=self.form,
            is_matrix=self.is_matrix,
        )
        operands: list[Expression | None] = [
            emitter.expression(part) if isinstance(part, Node) else None
            for part in (w.integers, w.scale, w.zero, self.bias)
        ]
        words = groups * ceil_div(count, width) * PARAMETERS * width
        return emitter.pack(pack_parameters, settings, operands, words, f"{name} parameters")


def pack_int8_weight(settings: WeightLayout, weight: torch.Tensor) -> torch.Tensor:
    """int8 [group][panel][kernel row][quad][16 vectors][4]; zeros for what there is not.

    A kernel row has `columns` of all input channels, each column rounded up to whole quads unless they `adjoin`.
    """
    groups, width = settings.groups, VEC * settings.vectors
    weight = _join_groups(formed(settings.form, weight), groups * settings.joined, settings.joined)
    rows = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1, settings.columns)
    rows = rows.permute(0, 1, 3, 4, 2)
    if not settings.adjoin:
        rows = F.pad(rows, (0, -rows.shape[4] % QUAD))
    rows = rows.flatten(3)
    rows = F.pad(rows, (0, -rows.shape[3] % QUAD, 0, 0, 0, -rows.shape[1] % width))
    split = rows.reshape(groups, -1, width, rows.shape[2], rows.shape[3] // QUAD, QUAD)
    return split.permute(0, 1, 3, 4, 2, 5).contiguous().flatten()


def groups_joined(groups: int, channels: int) -> int:
    """How many groups of so many input channels a command computes as one, since a group begins with a quad."""
    if groups == 1:
        return 1
    counts = (n for n in range(1, groups) if groups % n == 0 and n * channels % QUAD == 0)
    return next(counts, groups)


def _join_groups(weight: torch.Tensor, groups: int, joined: int) -> torch.Tensor:
    """Weights [output channel][input channel][...] of groups, for so many groups as one: zeros between the groups."""
    if joined == 1:
        return weight
    each = weight.reshape(groups // joined, joined, weight.shape[0] // groups, 1, weight.shape[1], -1)
    own = torch.eye(joined, dtype=weight.dtype).reshape(joined, 1, joined, 1, 1)
    return (each * own).reshape(weight.shape[0], joined * weight.shape[1], *weight.shape[2:])


def pack_int8_depthwise(params: tuple[Any, ...], weight: torch.Tensor) -> torch.Tensor:
    """int8 [kernel column][kernel row / 4][channels][4 kernel rows], channels padded to a multiple of 16."""
    (form,) = params
    taps = formed(form, weight)[:, 0]
    taps = taps.reshape(taps.shape[0], -1, taps.shape[-1])  # a sequence is an image of one row
    taps = F.pad(taps, (0, 0, 0, -taps.shape[1] % 4, 0, -taps.shape[0] % VEC))
    split = taps.reshape(taps.shape[0], taps.shape[1] // 4, 4, taps.shape[2])
    return split.permute(3, 1, 0, 2).contiguous().flatten()


def pack_int8_matrix(params: tuple[Any, ...], matrix: torch.Tensor) -> torch.Tensor:
    """int8 [panel][k / 4][16 vectors][4] of a (k, n) matrix, given so or `transposed`; zeros for what there is not."""
    vectors, transposed = params
    matrix, width = matrix.t() if transposed else matrix, VEC * vectors
    padded = F.pad(matrix, (0, -matrix.shape[1] % width, 0, -matrix.shape[0] % 4))
    split = padded.reshape(padded.shape[0] // 4, 4, -1, width)
    return split.permute(2, 0, 3, 1).contiguous().flatten()


def pack_parameters(
    settings: RequantizationParameters,
    weight: torch.Tensor,
    scale: torch.Tensor | None,
    zero: torch.Tensor | None,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    """int32 [group][panel][offset, scale, bias][width], see hls_kernels/lib/requantize.hpp, or the bits of float32.

    Raises :class:`NotExactError` for a zero point of the weights other than 0, and what requantizing cannot hold.
    """
    form, result_scale = settings.form, settings.result_scale
    if (settings.weight_zero or 0) != 0 or (zero is not None and bool((zero != 0).any())):
        raise NotExactError("a weight has a zero point other than 0")
    rows = (weight.t() if settings.is_matrix else formed(form, weight)).flatten(1).to(torch.int64)
    count = rows.shape[0]
    if scale is None:
        assert settings.weight_scale is not None
        scales = torch.full((count,), settings.weight_scale, dtype=torch.float64)
    else:
        scales = scale.double().flatten()
    scales = scales.expand(count) if scales.numel() == 1 else scales
    if form is not None and form[1] and scales.numel() * form[0] == count:
        scales = scales.repeat(form[0])  # of each channel of a group
    if scales.numel() != count:
        axis = settings.axis
        raise NotExactError(f"a weight of {count} output channels has {scales.numel()} scales along axis {axis}")
    real = torch.zeros(count, dtype=torch.float64) if bias is None else bias.double().flatten()
    offset = -settings.input_zero * rows.sum(1)
    greatest = rows.abs().sum(1).double() * settings.farthest
    if bool((greatest + offset.abs() >= 2.0**31).any()):
        raise NotExactError("sums of products overflow int32")
    factors = scales * settings.input_scale
    if result_scale is None:
        parts = [offset.to(torch.int32), factors.float().view(torch.int32), real.float().view(torch.int32)]
    else:
        try:
            found = channels(
                factors / result_scale,
                real / result_scale,
                greatest,
                offset.to(torch.int32),
                residual=settings.residual,
            )
        except RequantizeError as error:
            raise NotExactError(str(error)) from error
        parts = [found.offset, found.scale, found.bias]
    own = torch.stack(parts).reshape(PARAMETERS, settings.groups, count // settings.groups)
    own = F.pad(own, (0, -own.shape[2] % settings.width)).reshape(PARAMETERS, settings.groups, -1, settings.width)
    return own.permute(1, 2, 0, 3).contiguous().flatten()


def pack_one_scale(settings: UniformParameters) -> torch.Tensor:
    """The parameters of all channels of an operation alike: one scale, and an offset of the sums.

    Raises :class:`NotExactError` for what requantizing cannot hold.
    """
    count, result_scale = settings.count, settings.result_scale
    if settings.greatest >= 2.0**31:
        raise NotExactError("sums of products overflow int32")
    scales, none = torch.full((count,), settings.scale, dtype=torch.float64), torch.zeros(count, dtype=torch.int32)
    offsets = torch.full((count,), settings.offset, dtype=torch.int32)
    if result_scale is None:
        parts = [offsets, scales.float().view(torch.int32), none]
    else:
        try:
            found = channels(scales / result_scale, 0.0, settings.greatest, settings.offset)
        except RequantizeError as error:
            raise NotExactError(str(error)) from error
        parts = [found.offset, found.scale, found.bias]
    own = F.pad(torch.stack(parts), (0, -count % settings.width)).reshape(PARAMETERS, -1, settings.width)
    return own.permute(1, 0, 2).contiguous().flatten()


def row_quads(columns: int, channels: int, dilation: int) -> int:
    """Quads of k of a kernel row, row_quads of hls_kernels/cores/conv2d_int8/source.hpp."""
    return ceil_div(columns * channels, QUAD) if dilation == 1 else columns * ceil_div(channels, QUAD)
