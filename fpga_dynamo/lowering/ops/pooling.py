"""Pooling: max, average and adaptive windows, with a ReLU before or after it in the same command.

Pattern, legality and commands; cycles: lowering/cost.py, core: hls_kernels/cores/pool.hpp,
tests: tests/lowering/test_pooling.py.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from torch.fx import Node

from fpga_dynamo.lowering.command import Operand
from fpga_dynamo.lowering.emitter import Emitter
from fpga_dynamo.lowering.graph import GraphInfo, argument, aten, operand, pair, refuse_float, shape
from fpga_dynamo.lowering.ops.convolution import image_strides
from fpga_dynamo.lowering.ops.epilogue import ACTIVATION, Activation, activation, fields
from fpga_dynamo.lowering.patterns import TABLE, Match, Pattern, follow, sole_user
from fpga_dynamo.lowering.view import VEC, View, ceil_div

_MAX = (aten.max_pool2d_with_indices.default, aten.adaptive_max_pool2d.default)
_ADAPTIVE = (aten._adaptive_avg_pool2d.default, aten.adaptive_max_pool2d.default)


def match_pool(pattern: Pattern, node: Node, graph: GraphInfo) -> Match:
    """The pool, an activation behind it, or a ReLU in front of a max-pool, with which it commutes."""
    nodes: list[Node] = [node]
    last = node
    if node.target in _MAX:
        items = [user for user in node.users if user.target is operator.getitem]
        first = [item for item in items if item.args[1] == 0]
        if len(first) != 1 or len(items) != len(node.users):
            return Match(pattern, (node,), (node,), {"indices": True})
        if any(item.users for item in items if item.args[1] != 0):
            return Match(pattern, (node,), (node,), {"indices": True})
        last = first[0]
        nodes += items
    more, end, links = follow(last, [ACTIVATION], graph)
    bound: dict[str, Any] = dict(links)
    source = operand(node, 0)
    if (
        node.target in _MAX
        and not links
        and source.target is aten.relu.default
        and sole_user(source) is node
        and source not in graph.claimed
    ):
        nodes.insert(0, source)
        bound["relu"] = source
    return Match(pattern, (*nodes, *more), (end,), bound)


def _pool_node(match: Match) -> Node:
    return match.nodes[1] if "relu" in match.bound else match.nodes[0]


def _input(match: Match) -> Node:
    return operand(match.nodes[0], 0)


def check_pool(match: Match, graph: GraphInfo) -> str | None:
    if "indices" in match.bound:
        return "its indices are used; the pool core gives values only"
    if why := refuse_float(_input(match), "its input"):
        return why
    if len(shape(_input(match))) != 4:
        return "an image without a batch dimension has no core"
    if _divisor(_pool_node(match)) < 0:
        return "its sums are divided by a negative number; the pool core divides by positive ones"
    return refuse_float(match.root, "its result")


def lower_pool(match: Match, emitter: Emitter) -> Sequence[View]:
    node = _pool_node(match)
    x = emitter.channels_last(emitter.view(_input(match)))
    out = emitter.image(match.root)
    batch, channels, in_height, in_width = x.shape
    _, _, out_height, out_width = out.shape
    act = activation(match.bound.get("activation")) or Activation()
    if "relu" in match.bound:
        act = Activation("ACT_RELU")
    kind = "POOL_MAX" if node.target in _MAX else "POOL_AVERAGE"
    emitter.command(
        "pool",
        reads=[x],
        writes=[out],
        slices=max(1, min(64, batch * out_height * ceil_div(channels, VEC))),
        kind=emitter.target.enums[kind],
        input=Operand.of(x),
        output=Operand.of(out),
        batch=batch,
        channels=channels,
        in_height=in_height,
        in_width=in_width,
        out_height=out_height,
        out_width=out_width,
        in_stride=image_strides(x),
        out_stride=image_strides(out),
        **_window(node),
        **fields(act, emitter.target.enums),
    )
    return [out]


def _divisor(node: Node) -> int:
    """What the sums of an average are divided by instead of the number of pixels; 0 if that is not given."""
    return int(argument(node, "divisor_override", 6) or 0) if node.target is aten.avg_pool2d.default else 0


def _window(node: Node) -> dict[str, Any]:
    if node.target in _ADAPTIVE:
        unit = {"kernel": (1, 1), "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}
        return {"adaptive": 1, "count_include_pad": 0, "divisor": 0, **unit}
    kernel = pair(argument(node, "kernel_size", 1))
    stride = pair(argument(node, "stride", 2) or kernel)
    padding = pair(argument(node, "padding", 3, 0))
    window = {"adaptive": 0, "kernel": kernel, "stride": stride, "padding": padding}
    if node.target in _MAX:
        return {**window, "dilation": pair(argument(node, "dilation", 4, 1)), "count_include_pad": 0, "divisor": 0}
    return {
        **window,
        "dilation": (1, 1),
        "count_include_pad": int(argument(node, "count_include_pad", 5, True)),
        "divisor": _divisor(node),
    }


TABLE.add(
    Pattern(
        name="pool",
        anchors=(*_MAX, aten.avg_pool2d.default, aten._adaptive_avg_pool2d.default),
        match=match_pool,
        check=check_pool,
        lower=lower_pool,
        opcodes=frozenset({"pool", "move"}),
    )
)
