"""Pooling: max, average and adaptive windows over two or three axes, with a ReLU before or after it in one command.

Windows over volumes are taken in two steps, over the slices and then along the depth: maxima, sums and the numbers that
they are divided by are products of one factor for an axis.

Core's description, pattern, legality and commands; core: hls_kernels/cores/pool,
tests: tests/lowering/test_pooling.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from fpga_dynamo.codegen.core import CORES, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.graph import GraphInfo, argument, aten, operand, refuse_float, shape
from fpga_dynamo.ir.operators import Arguments, Operator, Tensors
from fpga_dynamo.ir.records import Pool, PoolInt8
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import CHANNELS_LAST, View, align, ceil_div
from fpga_dynamo.lowering.ops.calls import image, volume
from fpga_dynamo.lowering.ops.convolution.volumes import slices
from fpga_dynamo.lowering.ops.epilogue import ACTIVATION, Activation, activation, fields
from fpga_dynamo.lowering.ops.images import from_image_to_image, images_floats, images_parts, result_vectors
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_and_first_item, follow, sole_user


def pool_cycles(c: Pool | PoolInt8, target: Target) -> float:
    """A vector of the image a cycle; an adaptive window is as large as the largest of them."""
    height, width = c.kernel
    if c.adaptive:
        height, width = ceil_div(c.in_height, c.out_height), ceil_div(c.in_width, c.out_width)
    return result_vectors(c) * max(height, 1) * max(width, 1)


POOL = CORES.add(Core[Pool](Pool.opcode, pool_cycles, images_floats, images_parts, zero_copy=True))

_MAX = (
    aten.max_pool2d_with_indices.default,
    aten.max_pool3d_with_indices.default,
    aten.adaptive_max_pool2d.default,
    aten.adaptive_max_pool3d.default,
)
_AVERAGE = (aten.avg_pool2d.default, aten.avg_pool3d.default)
_ADAPTIVE_AVERAGE = (aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default)
_ADAPTIVE = (*_ADAPTIVE_AVERAGE, aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
_VOLUMES = (
    aten.max_pool3d_with_indices.default,
    aten.avg_pool3d.default,
    aten._adaptive_avg_pool3d.default,
    aten.adaptive_max_pool3d.default,
)


@dataclass(frozen=True)
class PoolParts:
    """activation: behind the pool. relu: in front of it. indices: whether they are used as well."""

    activation: Node | None = None
    relu: Node | None = None
    indices: bool = False


def match_pool(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[PoolParts]:
    """The pool, an activation behind it, or a ReLU in front of a max-pool, with which it commutes."""
    nodes: list[Node] = [node]
    last = node
    if node.target in _MAX:
        found = anchor_and_first_item(pattern, node, graph)
        if found is None:
            return Match(pattern, (node,), (node,), PoolParts(indices=True))
        last = found.root
        nodes = list(found.nodes)
    more, end, links = follow(last, [ACTIVATION], graph)
    relu = None
    source = operand(node, 0)
    if (
        node.target in _MAX
        and not links
        and source.target is aten.relu.default
        and sole_user(source) is node
        and source not in graph.claimed
    ):
        nodes.insert(0, source)
        relu = source
    return Match(pattern, (*nodes, *more), (end,), PoolParts(links.get("activation"), relu))


def _pool_node(match: Match[PoolParts]) -> Node:
    return match.nodes[1] if match.bound.relu is not None else match.nodes[0]


def _input(match: Match[PoolParts]) -> Node:
    return operand(match.nodes[0], 0)


def check_pool(match: Match[PoolParts], graph: GraphInfo) -> str | None:
    if match.bound.indices:
        return "the indices are used, and the pool core returns the values only"
    if why := refuse_float(_input(match), "input"):
        return why
    if _divisor(_pool_node(match)) < 0:
        return "a negative divisor_override is not supported"
    return refuse_float(match.root, "result")


@dataclass(frozen=True)
class PoolWindow:
    """Settings by axis, and what an average is divided by (0: the number of pixels)."""

    adaptive: bool
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    count_include_pad: bool = False
    divisor: int = 0

    def of(self, *axes: int | None, divisor: int) -> dict[str, Any]:
        """The record's fields for two axes; None is one whose windows are single pixels."""
        fields_ = {
            name: tuple(default if axis is None else getattr(self, name)[axis] for axis in axes)
            for name, default in (("kernel", 1), ("stride", 1), ("padding", 0), ("dilation", 1))
        }
        return {
            **fields_,
            "adaptive": int(self.adaptive),
            "count_include_pad": int(self.count_include_pad),
            "divisor": divisor,
        }


def lower_pool(match: Match[PoolParts], emitter: Emitter) -> Sequence[View]:
    node = _pool_node(match)
    x = emitter.view(_input(match))
    axes = 3 if node.target in _VOLUMES else 2
    batched = len(x.shape) == axes + 2
    x = emitter.channels_last(x if batched else x.unsqueeze(0))
    out = emitter.image(match.root) if batched else emitter.image(match.root, (1, *shape(match.root)))
    act = activation(match.bound.activation) or Activation()
    if match.bound.relu is not None:
        act = Activation("ACT_RELU")
    window = window_of(node, axes)
    kind = "POOL_MAX" if node.target in _MAX else "POOL_AVERAGE"
    if axes == 2:
        _emit(emitter, kind, x, out, window.of(0, 1, divisor=window.divisor), act)
    else:
        _emit_volume(emitter, kind, x, out, window, act)
    return [out if batched else out.select(0, 0)]


def _emit_volume(emitter: Emitter, kind: str, x: View, out: View, window: PoolWindow, act: Activation) -> None:
    batch, channels, depth = x.shape[:3]
    height, width = out.shape[3:]
    images = slices(x)
    if images is None:
        dense = emitter.relaid(x, CHANNELS_LAST[5], align(channels))
        images = slices(dense)
    middle = emitter.tensor((batch, channels, depth, height, width), CHANNELS_LAST[5], pitch=align(channels))
    target, rows = slices(middle), middle.reshape((batch, channels, depth, height * width))
    result = out.reshape((batch, channels, out.shape[2], height * width))
    assert images is not None and target is not None and rows is not None and result is not None, "dense images"
    sums = 1 if window.divisor else 0
    _emit(emitter, kind, images, target, window.of(1, 2, divisor=sums), Activation())
    _emit(emitter, kind, rows, result, window.of(0, None, divisor=window.divisor), act)


def _emit(emitter: Emitter, kind: str, x: View, out: View, window: dict[str, Any], act: Activation) -> None:
    enums = emitter.target.enums
    command = Pool(kind=enums[kind], **from_image_to_image(x, out), **window, **fields(act, enums))
    emitter.command(command, reads=[x], writes=[out])


def _divisor(node: Node) -> int:
    """What the sums of an average are divided by instead of the number of pixels; 0 if that is not given."""
    return int(argument(node, "divisor_override", 6) or 0) if node.target in _AVERAGE else 0


def window_of(node: Node, axes: int) -> PoolWindow:
    """The windows of a pooling over so many axes."""

    def sizes(name: str, position: int, default: Any) -> tuple[int, ...]:
        given = argument(node, name, position, default)
        values = [given] if isinstance(given, int) else list(given or default)
        return tuple(int(size) for size in (values if len(values) == axes else values * axes))

    if node.target in _ADAPTIVE:
        return PoolWindow(True, (1,) * axes, (1,) * axes, (0,) * axes, (1,) * axes)
    kernel = sizes("kernel_size", 1, None)
    stride, padding = sizes("stride", 2, kernel), sizes("padding", 3, 0)
    if node.target in _MAX:
        return PoolWindow(False, kernel, stride, padding, sizes("dilation", 4, 1))
    counts = bool(argument(node, "count_include_pad", 5, True))
    return PoolWindow(False, kernel, stride, padding, (1,) * axes, counts, _divisor(node))


def _in_halves(t: Tensors) -> Arguments:
    return image(t, [2, 2])


PATTERNS = (
    Pattern(
        name="pool",
        anchors=(*_MAX, *_AVERAGE, *_ADAPTIVE_AVERAGE),
        match=match_pool,
        check=check_pool,
        lower=lower_pool,
        opcodes=frozenset({"pool", "move"}),
        in_place=True,
        operators={
            # Beside a ReLU of as many bytes, eager mode's maxima take 84 times as long (5 channels-last), averages 20
            # times (4 MB, two cores with AVX-512).
            aten.max_pool2d_with_indices.default: Operator(_in_halves, passes=4, images=(0,), like=0),
            aten.max_pool2d_with_indices_backward.default: Operator(images=(0, 1), like=1),
            aten.avg_pool2d.default: Operator(_in_halves, passes=4),
            aten.adaptive_max_pool2d.default: Operator(_in_halves),
            aten._adaptive_avg_pool2d.default: Operator(_in_halves),
            **dict.fromkeys((*_VOLUMES,), Operator(lambda t: volume(t, [2, 2, 2]))),
        },
    ),
)
