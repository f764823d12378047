"""Convolution of one, two or three dimensions, transposed or not, with its epilogue: [batch norm] + [addition] +
[activation] in one command.

Patterns and legality, and how any convolution becomes ones of images; the ways to compute those, and which is taken:
choice.py; weight packing: ops/packing.py; tests: tests/lowering/test_convolution.py, tests/lowering/test_winograd.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, operand, refuse_float, shape, value
from fpga_dynamo.ir.operators import Operator
from fpga_dynamo.ir.sizes.size import identical, values
from fpga_dynamo.ir.view import View, numel
from fpga_dynamo.lowering.ops.batch_norm import BATCH_NORM, is_batch_norm, is_packable
from fpga_dynamo.lowering.ops.calls import image
from fpga_dynamo.lowering.ops.convolution.axes import Axis, axes
from fpga_dynamo.lowering.ops.convolution.choice import choose
from fpga_dynamo.lowering.ops.convolution.implementation import (
    Convolution,
    ConvolutionParameters,
    ConvolutionShape,
    Implementation,
)
from fpga_dynamo.lowering.ops.convolution.product import pitches
from fpga_dynamo.lowering.ops.convolution.volumes import EquivalentImages, as_images
from fpga_dynamo.lowering.ops.convolution.winograd import WINOGRAD
from fpga_dynamo.lowering.ops.epilogue import ACTIVATION, ADD, Activation, activation, residual_of
from fpga_dynamo.lowering.ops.matmul.gemm import GEMM
from fpga_dynamo.lowering.patterns import Match, Pattern, Step, follow


@dataclass(frozen=True)
class ConvolutionParts:
    """The nodes of a convolution's epilogue. way: what has been chosen to compute it, if that is settled."""

    batch_norm: Node | None
    add: Node | None
    activation: Node | None
    way: Implementation | None = None


_NORM = Step("batch_norm", (BATCH_NORM,), lambda v, n: n.args[0] is v, through=0)


def match_convolution(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[ConvolutionParts]:
    """The convolution and as much of its epilogue as follows along single users."""
    steps = [_NORM] if _foldable(node, graph) else []
    nodes, last, links = follow(node, [*steps, ADD, ACTIVATION], graph)
    parts = ConvolutionParts(links.get("batch_norm"), links.get("add"), links.get("activation"))
    return Match(pattern, (node, *nodes), (last,), parts)


def match_winograd(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[ConvolutionParts] | None:
    """The same, if Winograd's method is faster for it than the sums."""
    whole = _whole(node, graph)
    opcodes = frozenset[str]().union(*(kernel.opcodes for kernel in graph.target.kernels))
    way = None if whole is None else choose(whole, graph.target, opcodes)
    if way is None or way.opcode != WINOGRAD.opcode:
        return None
    match = match_convolution(pattern, node, graph)
    return replace(match, bound=replace(match.bound, way=way))


def _whole(node: Node, graph: GraphInfo) -> ConvolutionShape | None:
    """A convolution that is one of images as it is, at the sizes' hints; None for all others."""
    source, result = values(shape(operand(node, 0))), values(shape(node))
    if len(source) != 4 or argument(node, "transposed", 6) or not all(isinstance(n, int) for n in (*source, *result)):
        return None
    height, width = (replace(axis, count=n) for (axis,), n in zip(axes(node), result[2:], strict=True))
    static = graph.is_static(operand(node, 1))
    return ConvolutionShape(source, result, height, width, argument(node, "groups", 8), static=static)


def _foldable(node: Node, graph: GraphInfo) -> bool:
    users = list(node.users)
    return len(users) == 1 and is_batch_norm(users[0]) and is_packable(users[0], graph)


def check_convolution(match: Match[ConvolutionParts], graph: GraphInfo) -> str | None:
    node = match.nodes[0]
    source, weight, bias = operand(node, 0), operand(node, 1), node.args[2]
    for what, given in (("input", source), ("weight", weight), ("bias", bias)):
        if isinstance(given, Node) and (why := refuse_float(given, what)):
            return why
    if why := refuse_float(match.root, "result"):
        return why
    rank = len(shape(source))
    if rank not in (3, 4, 5):
        return f"{rank - 2}-D convolution is not supported; the cores support 1-D to 3-D"
    for what, given in (("weight", weight), ("bias", bias)):
        if isinstance(given, Node) and not graph.from_inputs(given):
            return f"{what} is computed in the graph; the core reads parameters that are packed before the call"
    return None


def macs_convolution(match: Match[ConvolutionParts]) -> int:
    return macs_of(match.nodes[0])


def macs_of(node: Node) -> int:
    """Multiply-accumulates of an `aten.convolution`."""
    pixels = operand(node, 0) if argument(node, "transposed", 6) else node
    return value(pixels).numel() * numel(shape(operand(node, 1))[1:])


def parameters_of(match: Match[ConvolutionParts], emitter: Emitter) -> ConvolutionParameters:
    node = match.nodes[0]
    bias = node.args[2]
    norm = match.bound.batch_norm
    eps = None if norm is None else float(argument(norm, "eps", 6))
    statistics = [None] * 4 if norm is None else list(norm.args[1:5])
    weight = operand(node, 1)
    operands = [emitter.expression(n) if isinstance(n, Node) else None for n in (weight, bias, *statistics)]
    return ConvolutionParameters(eps, operands, bias is not None or norm is not None, weight.name, f"{node.name} bias")


def residual_image(match: Match[ConvolutionParts], emitter: Emitter) -> View | None:
    """The image that is added to the convolution's, channels-last in the arena."""
    add = match.bound.add
    if add is None:
        return None
    before = next(arg for arg in add.all_input_nodes if arg in match.nodes)
    other = residual_of(before, add)
    assert other is not None
    return emitter.channels_last(emitter.in_arena(emitter.view(other)))


def lower_convolution(match: Match[ConvolutionParts], emitter: Emitter) -> Sequence[View]:
    node, way = match.nodes[0], match.bound.way
    out = emitter.image(match.root)
    x, residual = emitter.view(operand(node, 0)), residual_image(match, emitter)
    if len(shape(node)) < 5 and not _readable(x, by_vectors=is_depthwise(node) or way is not None):
        x = emitter.channels_last(x)
    opcodes = (match.pattern.opcodes | {GEMM.opcode}) & emitter.kernel.opcodes
    parameters = parameters_of(match, emitter)
    act = activation(match.bound.activation) or Activation()
    for part in parts_of_images(node, x, out, residual, emitter):
        one = Convolution(part.shape, part.x, part.y, part.residual, parameters, act, part.macs)
        chosen = way or choose(part.shape, emitter.target, opcodes)
        assert chosen is not None, "the sums are always possible"
        chosen.emit(one, emitter)
    return [out]


def is_depthwise(node: Node) -> bool:
    """Whether each channel is convolved by itself."""
    groups = argument(node, "groups", 8)
    return shape(operand(node, 1))[1] == 1 and groups == shape(node)[1] and groups > 1


@dataclass(frozen=True)
class ImageConvolution:
    """A convolution of images that a convolution of any kind comes down to, or one of several."""

    shape: ConvolutionShape
    x: View
    y: View
    residual: View | None
    macs: int


def parts_of_images(
    node: Node, x: View, y: View, residual: View | None, emitter: Emitter, around: float = 0.0
) -> Iterator[ImageConvolution]:
    """The convolutions of images that together write `y`, one for each phase of a transposed one.

    around: what lies outside of the image, as its elements have it.
    """
    groups, transposed = argument(node, "groups", 8), bool(argument(node, "transposed", 6))
    phases = axes(node)
    rank, macs = len(phases), macs_of(node)
    if rank == 1:  # images of height 1
        phases = [[Axis((0,), 1, 0, 1, 1)], *phases]
        x, y = x.unsqueeze(2), y.unsqueeze(2)
        residual = None if residual is None else residual.unsqueeze(2)
    for place in itertools.product(*phases):
        part, plus = (v if v is None else _phase(v, place) for v in (y, residual))
        assert part is not None
        taps = tuple(axis.taps for axis in place[-rank:])
        for images in _images(x, part, plus, place, groups, emitter, around):
            form = (groups, transposed, taps, images.folded) if transposed or images.folded else None
            source, height = _beginning(images.x, 2, images.height)
            source, width = _beginning(source, 3, images.width)
            size = ConvolutionShape(source.shape, images.y.shape, height, width, groups, form)
            size = replace(size, pitches=pitches(size, source, images.y, images.residual))
            own = macs if identical(images.y.numel, y.numel) else macs * images.y.numel // y.numel
            yield ImageConvolution(size, source, images.y, images.residual, own)


def _readable(x: View, *, by_vectors: bool) -> bool:
    """Whether the cores' load stages take an image as it lies: in the arena, channels or columns contiguous.

    by_vectors: whether whole vectors of channels are read, which only channels-last images have.
    """
    if x.buffer.in_weights or by_vectors:
        return False
    return x.strides[1] == 1 or x.shape[1] == 1 or x.strides[-1] == 1 or x.shape[-1] == 1


def _images(
    x: View, y: View, residual: View | None, place: Sequence[Axis], groups: int, emitter: Emitter, around: float
) -> Iterable[EquivalentImages]:
    if len(place) == 2:
        return [EquivalentImages(x, y, residual, place[0], place[1], folded=False)]
    depth, height, width = place
    return as_images(x, y, residual, (depth, height, width), groups, emitter, around)


def _phase(view: View, place: Sequence[Axis]) -> View:
    """The pixels of a result that a phase of each axis writes."""
    for dim, axis in enumerate(place, 2):
        view = view.narrow(dim, axis.first, axis.count, axis.step)
    return view


def _beginning(x: View, dim: int, axis: Axis) -> tuple[View, Axis]:
    """The image and an axis whose padding is not negative: what windows begin behind is left out."""
    skipped = -axis.padding
    if skipped <= 0:
        return x, axis
    if skipped >= x.shape[dim]:  # no window reads anything
        return x, replace(axis, padding=(axis.count - 1) * axis.stride + len(axis.taps) * axis.dilation)
    return x.narrow(dim, skipped, x.shape[dim] - skipped), replace(axis, padding=0)


PATTERNS = (
    Pattern(
        name="winograd",
        anchors=(aten.convolution.default,),
        match=match_winograd,
        check=check_convolution,
        lower=lower_convolution,
        opcodes=frozenset({WINOGRAD.opcode, "move"}),
        macs=macs_convolution,
        in_place=True,
    ),
    Pattern(
        name="convolution",
        anchors=(aten.convolution.default,),
        match=match_convolution,
        check=check_convolution,
        lower=lower_convolution,
        opcodes=frozenset({"conv2d", "depthwise", "move"}),
        macs=macs_convolution,
        in_place=True,
        operators={
            aten.convolution.default: Operator(
                lambda t: image(t, t(16, 16, 3, 3, parameter=True), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
            )
        },
    ),
)
