"""Gradient of a convolution's weights: a matrix product over all pixels.

For tap (i, j), input channel c and output channel o it is the sum over pixels t of input[t + shift(i, j), c] *
gradient[t, o]. Both images are laid out so that t is one dimension throughout the batch: equally many rows and columns,
zeros where there are no pixels. A shift is then an offset, and a row of taps (where its pixels lie side by side) is a
longer row of the left matrix. A product of such a zero with an infinity or NaN may make a tap NaN that is finite in
eager mode. So the graph falls back to eager mode for gradients that are not finite.

Pattern, legality and commands; core: hls_kernels/cores/gemm, tests: tests/lowering/test_backward.py. The gradients
of input and bias are ops of their own (lowering/tracing/backward.py).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, operand, refuse_float, shape, value
from fpga_dynamo.ir.operators import Operator
from fpga_dynamo.ir.records import Gemm
from fpga_dynamo.ir.view import VEC, Buffer, View, align, ceil_div, dense, numel
from fpga_dynamo.lowering.ops.calls import images
from fpga_dynamo.lowering.ops.epilogue import Activation, fields
from fpga_dynamo.lowering.ops.movement.movement import fill
from fpga_dynamo.lowering.ops.packing import panel_vectors
from fpga_dynamo.lowering.ops.reduction.compose import elementwise, reduced
from fpga_dynamo.lowering.patterns import Match, Pattern


@dataclass(frozen=True)
class GradientAxis:
    """One axis of a convolution: sizes of its input and output, and how windows lie.

    joined: whether the taps of one window are read side by side, as one longer row; else each phase of the stride is
    laid out by itself, so that neighbouring windows are neighbours.
    """

    size: int
    out: int
    kernel: int
    stride: int
    padding: int
    dilation: int
    joined: bool

    @property
    def step(self) -> int:
        """Places from one window to the next."""
        return self.stride if self.joined else 1

    @property
    def windows(self) -> int:
        """Windows that the layout has room for, those counted that begin where there are no pixels."""
        if self.joined:
            return max(self.out, ceil_div(self.stride * (self.out - 1) + self.kernel, self.stride))
        return self.out + self.dilation * (self.kernel - 1) // self.stride

    @property
    def places(self) -> int:
        return self.windows * self.step

    @property
    def phases(self) -> dict[int, list[tuple[int, int]]]:
        """For each phase the taps in it, as (tap, windows that it is shifted by)."""
        if self.joined:
            return {0: [(0, 0)]}
        found: dict[int, list[tuple[int, int]]] = {}
        for tap in range(self.kernel):
            shift, phase = divmod(self.dilation * tap, self.stride)
            found.setdefault(phase, []).append((tap, shift))
        return found

    def pixels(self, phase: int) -> tuple[int, int, int, int]:
        """The pixels of a phase: first place, how many, first input pixel, distance between input pixels."""
        apart = 1 if self.joined else self.stride
        first = max(0, ceil_div(self.padding - phase, apart))
        last = min(self.places - 1, (self.size - 1 + self.padding - phase) // apart)
        return first, max(0, last - first + 1), apart * first + phase - self.padding, apart


def match_weight_gradient(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    items = [user for user in node.users if user.target is operator.getitem]
    wanted = [item for item in items if item.args[1] == 1]
    if len(wanted) != 1 or list(argument(node, "output_mask", 10)) != [False, True, False]:
        return None
    return Match(pattern, (node, *items), (wanted[0],))


def check_weight_gradient(match: Match, graph: GraphInfo) -> str | None:
    node = match.nodes[0]
    for position, what in enumerate(("gradient", "input", "weight")):
        if why := refuse_float(operand(node, position), what):
            return why
    if len(shape(operand(node, 1))) not in (3, 4):
        return f"the weights' gradient over {len(shape(operand(node, 1))) - 2} dimensions is not supported"
    return refuse_float(match.root, "result")


def finite_weight_gradient(match: Match) -> tuple[tuple[int, int], ...]:
    """Where zeros stand beside the pixels: around images, or where windows between two rows would be.

    A number that is not finite meets all channels of the other image, so one row of each group and one column tell.
    """
    rows, columns, *taps = shape(match.root)
    if all(size == 1 for size in taps) and not any(argument(match.nodes[0], "padding", 5)):
        return ()
    return (0, rows // argument(match.nodes[0], "groups", 9)), (1, columns)


def macs_weight_gradient(match: Match) -> int:
    _, gradient = _operands(match.nodes[0])
    return numel(shape(match.root)[1:]) * numel(shape(gradient))


def _operands(node: Node) -> tuple[Node, Node]:
    """What windows are taken of, and what there is one of for each window."""
    gradient, source = operand(node, 0), operand(node, 1)
    return (gradient, source) if argument(node, "transposed", 7) else (source, gradient)


def lower_weight_gradient(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.nodes[0]
    x, gradient = (_image(emitter.view(given)) for given in _operands(node))
    wanted = shape(match.root)
    out_channels, channels = wanted[:2]
    kernel = (1, *wanted[2:]) if len(wanted) == 3 else wanted[2:]
    groups = int(argument(node, "groups", 9))
    stride, padding, dilation = (_two(argument(node, name, i), of_height) for name, i, of_height in _SETTINGS)
    join = groups == 1 and dilation[1] == 1 and kernel[1] > 1
    height, width = (
        GradientAxis(
            size=x.shape[2 + d],
            out=gradient.shape[2 + d],
            kernel=kernel[d],
            stride=stride[d],
            padding=padding[d],
            dilation=dilation[d],
            joined=join and d == 1,
        )
        for d in (0, 1)
    )
    if groups > 1 and channels == 1 and groups == out_channels:
        found = _depthwise(emitter, x, gradient, height, width)
    else:
        found = _contraction(emitter, x, gradient, height, width, groups, macs_weight_gradient(match))
    return [_weights(emitter, found, groups, match.root)]


_SETTINGS = (("stride", 4, 1), ("padding", 5, 0), ("dilation", 6, 1))


def _two(given: Any, of_height: int) -> tuple[int, int]:
    return (of_height, int(given[0])) if len(given) == 1 else (int(given[0]), int(given[1]))


def _image(view: View) -> View:
    return view if len(view.shape) == 4 else view.unsqueeze(2)


# --- layout -----------------------------------------------------------------------------------------------------------


def _laid_out(emitter: Emitter, x: View, height: GradientAxis, width: GradientAxis) -> View:
    """x (N, C, H, W) as (phase of rows, phase of columns, N, row, column, C), dense, with zeros around it."""
    rows, columns = list(height.phases), list(width.phases)
    size = (len(rows), len(columns), x.shape[0], height.places, width.places, x.shape[1])
    out = View(Buffer(align(numel(size)) + VEC), size, dense(size))
    source = emitter.in_arena(x).permute((0, 2, 3, 1))
    whole = True
    copies = []
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            to_row, height_count, from_row, row_step = height.pixels(row)
            to_column, width_count, from_column, column_step = width.pixels(column)
            whole = whole and height_count == height.places and width_count == width.places
            if height_count and width_count:
                part = source.narrow(1, from_row, height_count, row_step).narrow(
                    2, from_column, width_count, column_step
                )
                place = out.select(0, i).select(0, j).narrow(1, to_row, height_count).narrow(2, to_column, width_count)
                copies.append((part, place))
    if not whole:
        fill(emitter, out, 0.0)
    for part, place in copies:
        emitter.copy(part, place)
    return out


def _spread(emitter: Emitter, gradient: View, height: GradientAxis, width: GradientAxis) -> View:
    """The gradient (N, C, H, W) as (N, row, column, C), with zeros for positions without a window."""
    plain = (
        GradientAxis(height.out, height.windows, 1, 1, 0, 1, joined=False),
        GradientAxis(width.out, width.windows, 1, 1, 0, 1, joined=False),
    )
    return _laid_out(emitter, gradient, *plain).select(0, 0).select(0, 0)


def _as_they_lie(view: View, height: GradientAxis, width: GradientAxis) -> View | None:
    """(phase, phase, N, row, column, C) of an image without a copy, for windows of one pixel that lie side by side."""
    one = all(a.kernel == a.stride == 1 and a.padding == 0 for a in (height, width))
    pixels = view.permute((0, 2, 3, 1))
    if not one or view.buffer.in_weights or (view.strides[1] != 1 and view.shape[1] != 1):
        return None
    joined = pixels.reshape((numel(pixels.shape[:3]), pixels.shape[3]))
    if joined is None:
        return None
    # The stride of an axis of one pixel says nothing, yet commands go from pixel to pixel by the last axis's.
    _, rows, columns, _ = pixels.shape
    pixel = joined.strides[0]
    return replace(pixels, strides=(rows * columns * pixel, columns * pixel, pixel, 1)).unsqueeze(0).unsqueeze(0)


# --- commands ---------------------------------------------------------------------------------------------------------

_ROWS_WORTH = 42
"""Rows of a part of the product at least: each part reads all of the gradient."""


def _contraction(
    emitter: Emitter, x: View, gradient: View, height: GradientAxis, width: GradientAxis, groups: int, macs: int
) -> View:
    """(kernel row, kernel column, group, input channel, output channel), rows padded."""
    left, right = _as_they_lie(x, height, width), _as_they_lie(gradient, height, width)
    left = _laid_out(emitter, x, height, width) if left is None else left
    right = _spread(emitter, gradient, height, width) if right is None else right.select(0, 0).select(0, 0)
    channels, columns = x.shape[1] // groups, gradient.shape[1] // groups
    rows = channels * (width.kernel if width.joined else 1)
    out = emitter.tensor((height.kernel, width.kernel, groups, channels, columns), pitch=align(columns))
    depth = ((x.shape[0] - 1) * height.windows + height.out - 1) * width.windows + width.out
    vectors = panel_vectors(columns, emitter.target.tiles["MAX_VECTORS"])
    pixel = left.strides[4] * width.step
    for i, row_taps in enumerate(height.phases.values()):
        for j, column_taps in enumerate(width.phases.values()):
            for column, column_shift in column_taps:
                first, shift = row_taps[0]
                count = len(row_taps)
                tap_step, shift_step = (row_taps[1][0] - first, row_taps[1][1] - shift) if count > 1 else (0, 0)
                source = left.select(0, i).select(0, j)
                place = out.select(0, first).select(0, column)
                product = Gemm(
                    slices=groups * ceil_div(count * rows, _ROWS_WORTH) * ceil_div(columns, VEC * vectors),
                    a=Operand(left.buffer, source.offset + (shift * width.windows + column_shift) * pixel),
                    b=Operand.of(right),
                    output=Operand.of(place),
                    batch=(count, groups),
                    rows=rows,
                    columns=columns,
                    depth=depth,
                    a_stride=(shift_step * width.windows * pixel, channels, 1, pixel),
                    b_stride=(0, columns, right.strides[2], 1),
                    out_stride=(tap_step * out.strides[0], out.strides[2], out.strides[3]),
                    vectors=vectors,
                    alpha=1.0,
                    **fields(Activation(), emitter.target.enums),
                )
                own = macs * count * rows // (channels * height.kernel * width.kernel)
                emitter.command(product, reads=[left, right], writes=[out], macs=own)
    return out


def _depthwise(emitter: Emitter, x: View, gradient: View, height: GradientAxis, width: GradientAxis) -> View:
    """The same for one channel a group: a product of images and a sum for each tap."""
    channels = x.shape[1]
    laid = _laid_out(emitter, x, height, width)
    gradient = emitter.channels_last(gradient)
    out = emitter.tensor((height.kernel, width.kernel, channels, 1, 1))
    for i, row_taps in enumerate(height.phases.values()):
        for j, column_taps in enumerate(width.phases.values()):
            for row, row_shift in row_taps:
                for column, column_shift in column_taps:
                    window = laid.select(0, i).select(0, j).narrow(1, row_shift, height.out)
                    window = window.narrow(2, column_shift, width.out).permute((0, 3, 1, 2))
                    product = elementwise(emitter, lambda p, a, b: p.op("MUL", a, b), [gradient, window])
                    total = reduced(emitter, "REDUCE_SUM", product, (0, 2, 3), keep=False)
                    place = out.select(0, row).select(0, column).select(2, 0).select(1, 0)
                    emitter.copy(total, place, layout_change=False)
    return out


def _weights(emitter: Emitter, found: View, groups: int, node: Node) -> View:
    """(kernel row, kernel column, group, input channel, output channel) in the shape and order of the weights.

    What a result of the graph would be copied to in the end is so copied while a cache still has it.
    """
    by_group = found.permute((2, 4, 3, 0, 1))
    wanted, strides = shape(node), value(node).stride()
    by_size = sorted(range(len(wanted)), key=lambda d: -strides[d])
    order = tuple(range(len(wanted))) if groups > 1 else tuple(by_size)
    weights = emitter.tensor(wanted, order, pitch=wanted[order[-1]])
    image = weights if len(wanted) == 4 else weights.unsqueeze(2)
    if groups == 1:
        emitter.copy(by_group.select(0, 0), image)
        return weights
    split = image.reshape(by_group.shape)
    assert split is not None, "dense rows can be cut again"
    emitter.copy(by_group, split)
    return weights


PATTERNS = (
    Pattern(
        name="convolution_weight_gradient",
        anchors=(aten.convolution_backward.default,),
        match=match_weight_gradient,
        check=check_weight_gradient,
        lower=lower_weight_gradient,
        opcodes=frozenset({"gemm", "pointwise", "reduce", "move"}),
        macs=macs_weight_gradient,
        must_be_finite=finite_weight_gradient,
        operators={
            aten.convolution_backward.default: Operator(
                lambda t: images(
                    t, t(16, 16, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, False]
                )
            )
        },
    ),
)
