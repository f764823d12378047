"""Convolution with its epilogue: [batch norm] + [addition] + [activation] in one command.

Pattern, legality, weight packing and commands; cycles: lowering/cost.py, core: hls_kernels/cores/conv2d.hpp,
tests: tests/lowering/test_convolution.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from fpga_dynamo.lowering.command import Operand
from fpga_dynamo.lowering.emitter import Emitter
from fpga_dynamo.lowering.graph import BATCH_NORM, GraphInfo, argument, aten, operand, refuse_float, shape, value
from fpga_dynamo.lowering.ops.epilogue import ACTIVATION, ADD, Activation, activation, fields, residual_of
from fpga_dynamo.lowering.ops.packing import pack_bias, pack_depthwise, pack_weight, panel_vectors
from fpga_dynamo.lowering.patterns import TABLE, Match, Pattern, Step, follow
from fpga_dynamo.lowering.view import VEC, View, align, ceil_div
from fpga_dynamo.lowering.weights import Expression

_NORM = Step("batch_norm", (BATCH_NORM,), lambda v, n: n.args[0] is v, through=0)


def match_convolution(pattern: Pattern, node: Node, graph: GraphInfo) -> Match:
    """The convolution and as much of its epilogue as follows along single users."""
    steps = [_NORM] if _foldable(node, graph) else []
    nodes, last, links = follow(node, [*steps, ADD, ACTIVATION], graph)
    return Match(pattern, (node, *nodes), (last,), dict(links))


def _foldable(node: Node, graph: GraphInfo) -> bool:
    users = list(node.users)
    if len(users) != 1 or users[0].target is not BATCH_NORM:
        return False
    return all(arg is None or graph.is_static(arg) for arg in users[0].args[1:5])  # type: ignore[arg-type]


def check_convolution(match: Match, graph: GraphInfo) -> str | None:
    node = match.nodes[0]
    source, weight, bias = operand(node, 0), operand(node, 1), node.args[2]
    if argument(node, "transposed", 6):
        return "transposed convolution has no core"
    for what, given in (("its input", source), ("its weight", weight), ("its bias", bias)):
        if isinstance(given, Node) and (why := refuse_float(given, what)):
            return why
    if why := refuse_float(match.root, "its result"):
        return why
    rank = len(shape(source))
    if rank not in (3, 4):
        return f"a convolution over {rank - 2} dimensions has no core"
    for what, given in (("weight", weight), ("bias", bias)):
        if isinstance(given, Node) and not graph.from_inputs(given):
            return f"its {what} is computed in the graph; the core takes packed parameters"
    return None


def macs_convolution(match: Match) -> int:
    node = match.nodes[0]
    weight = shape(operand(node, 1))
    taps = 1
    for size in weight[1:]:
        taps *= size
    return value(node).numel() * taps


def geometry(node: Node) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Stride, padding, dilation as (height, width), with a height of 1 in front for one dimension."""
    lists = [list(argument(node, name, i)) for i, name in ((3, "stride"), (4, "padding"), (5, "dilation"))]
    two = len(shape(node)) == 4
    defaults = (1, 0, 1)
    return tuple(  # type: ignore[return-value]
        (v[0], v[-1]) if two else (default, v[0]) for v, default in zip(lists, defaults, strict=True)
    )


def _is_depthwise(node: Node) -> bool:
    out_channels, in_channels = shape(operand(node, 1))[:2]
    groups = argument(node, "groups", 8)
    return in_channels == 1 and groups == out_channels and groups > 1


# --- commands ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameters:
    """What the packs of a convolution are made from: operands of :func:`folded`, and whether there is a bias at all."""

    eps: float | None
    operands: list[Expression | None]
    has_bias: bool


def parameters_of(match: Match, emitter: Emitter) -> Parameters:
    node = match.nodes[0]
    bias = node.args[2]
    norm = match.bound.get("batch_norm")
    eps = None if norm is None else float(argument(norm, "eps", 6))
    statistics = [None] * 4 if norm is None else list(norm.args[1:5])
    nodes = [operand(node, 1), bias, *statistics]
    operands = [emitter.expression(n) if isinstance(n, Node) else None for n in nodes]
    return Parameters(eps, operands, bias is not None or norm is not None)


def residual_image(match: Match, emitter: Emitter) -> View | None:
    """The image that is added to the convolution's, channels-last in the arena."""
    add = match.bound.get("add")
    if add is None:
        return None
    other = residual_of(norm_output(match, add), add)
    assert other is not None
    return emitter.channels_last(emitter.in_arena(as_image(emitter.view(other))))


def lower_convolution(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.nodes[0]
    source, weight = operand(node, 0), operand(node, 1)
    parameters = parameters_of(match, emitter)
    eps, operands, has_bias = parameters.eps, parameters.operands, parameters.has_bias
    stride, padding, dilation = geometry(node)
    act = activation(match.bound.get("activation")) or Activation()

    x = as_image(emitter.view(source))
    depthwise = _is_depthwise(node)
    if depthwise or not _conv_input_ok(x):
        x = emitter.channels_last(x)
    out = emitter.image(match.root)
    y = as_image(out)
    residual = residual_image(match, emitter)
    batch, out_channels, out_height, out_width = y.shape
    kernel = tuple(shape(weight)[2:])
    common: dict[str, Any] = {
        "batch": batch,
        "in_height": x.shape[2],
        "in_width": x.shape[3],
        "out_height": out_height,
        "out_width": out_width,
        "kernel": (1, *kernel) if len(kernel) == 1 else kernel,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "output": Operand.of(y),
        "out_stride": image_strides(y),
        "residual": None if residual is None else Operand.of(residual),
        "residual_stride": (0, 0, 0) if residual is None else image_strides(residual),
        **fields(act, emitter.target.enums),
    }
    macs = macs_convolution(match)
    if depthwise:
        channels = align(out_channels)
        taps = kernel[0] * (kernel[1] if len(kernel) > 1 else 1)
        w = emitter.pack(pack_depthwise, (eps,), operands, taps * channels, f"{weight.name} [tap][channel]")
        b = emitter.pack(pack_bias, (1, VEC, eps), operands, channels, f"{node.name} bias") if has_bias else None
        emitter.command(
            "depthwise",
            reads=[x, residual, w, b],
            writes=[y],
            macs=macs,
            slices=slices_of(batch * out_height, channels // VEC),
            input=Operand.of(x),
            weight=Operand(w),
            bias=None if b is None else Operand(b),
            channels=out_channels,
            in_stride=image_strides(x),
            **common,
        )
        return [out]
    groups = argument(node, "groups", 8)
    in_channels, channels = x.shape[1] // groups, out_channels // groups
    vectors = panel_vectors(channels, emitter.target.tiles["MAX_VECTORS"])
    width = VEC * vectors
    panels = ceil_div(channels, width)
    depth = common["kernel"][0] * common["kernel"][1] * in_channels
    w = emitter.pack(
        pack_weight,
        (groups, vectors, eps),
        operands,
        groups * panels * depth * width,
        f"{weight.name} [panel][k][{width}]",
    )
    b = None
    if has_bias:
        b = emitter.pack(pack_bias, (groups, width, eps), operands, groups * panels * width, f"{node.name} bias")
    pointwise = common["kernel"] == (1, 1) and stride == (1, 1) and padding == (0, 0) and groups == 1
    matrix = pointwise and "gemm" in emitter.kernel.opcodes
    if matrix and (rows := _as_rows(x)) and (target := _as_rows(y)):
        plus = None if residual is None else _as_rows(residual)
        if residual is None or plus is not None:
            _emit_gemm(
                emitter,
                x,
                rows,
                w,
                b,
                y,
                target,
                residual,
                plus,
                batch * out_height * out_width,
                channels,
                in_channels,
                vectors,
                act,
                macs,
            )
            return [out]
    emitter.command(
        "conv2d",
        reads=[x, residual, w, b],
        writes=[y],
        macs=macs,
        slices=slices_of(batch * out_height, groups * panels),
        input=Operand.of(x),
        weight=Operand(w),
        bias=None if b is None else Operand(b),
        groups=groups,
        in_channels=in_channels,
        out_channels=channels,
        in_stride=_input_strides(x),
        vectors=vectors,
        **common,
    )
    return [out]


def _emit_gemm(
    emitter: Emitter,
    x: View,
    x_pitch: int,
    w: Any,
    b: Any,
    y: View,
    y_pitch: int,
    residual: View | None,
    residual_pitch: int | None,
    rows: int,
    columns: int,
    depth: int,
    vectors: int,
    act: Activation,
    macs: int,
) -> None:
    """A 1x1 convolution is a matrix product over the pixels."""
    emitter.command(
        "gemm",
        reads=[x, residual, w, b],
        writes=[y],
        macs=macs,
        slices=slices_of(ceil_div(rows, 7), ceil_div(columns, VEC * vectors)),
        a=Operand.of(x),
        b=Operand(w),
        bias=None if b is None else Operand(b),
        residual=None if residual is None else Operand.of(residual),
        output=Operand.of(y),
        b_packed=1,
        batch=(1, 1),
        rows=rows,
        columns=columns,
        depth=depth,
        a_stride=(0, 0, x_pitch, 1),
        out_stride=(0, 0, y_pitch),
        residual_stride=(0, 0, residual_pitch or 0),
        vectors=vectors,
        alpha=1.0,
        **fields(act, emitter.target.enums),
    )


def norm_output(match: Match, add: Node) -> Node:
    """The operand of `add` that the match computes itself."""
    return next(arg for arg in add.args if arg in match.nodes)  # type: ignore[return-value]


def as_image(view: View) -> View:
    """A three-dimensional batch as an image of height 1."""
    return view if len(view.shape) == 4 else view.unsqueeze(2)


def image_strides(view: View) -> tuple[int, int, int]:
    return (view.strides[0], view.strides[2], view.strides[3])


def _conv_input_ok(x: View) -> bool:
    """Whether the load stage takes it: in the arena, channels or columns contiguous."""
    if x.buffer.in_weights:
        return False
    return x.strides[1] == 1 or x.shape[1] == 1 or x.strides[3] == 1 or x.shape[3] == 1


def _input_strides(x: View) -> tuple[int, ...]:
    """Strides for the record, where a size of 1 has whatever stride it likes: 1 is the one that helps."""
    strides = list(x.strides)
    for d in (1, 3):
        if x.shape[d] == 1:
            strides[d] = 1
    return tuple(strides)


def _as_rows(view: View) -> int | None:
    """Distance between the pixels of an image batch if it is the same throughout and channels are contiguous."""
    flat = View(view.buffer, (view.shape[0], view.shape[2], view.shape[3]), image_strides(view))
    if view.strides[1] != 1 and view.shape[1] != 1:
        return None
    if flat.numel == 1:
        return align(view.shape[1])
    rows = flat.reshape((flat.numel,))
    return None if rows is None else rows.strides[0]


def slices_of(outer: int, inner: int) -> int:
    return max(1, min(64, outer * inner))


TABLE.add(
    Pattern(
        name="convolution",
        anchors=(aten.convolution.default,),
        match=match_convolution,
        check=check_convolution,
        lower=lower_convolution,
        opcodes=frozenset({"conv2d", "depthwise", "move"}),
        macs=macs_convolution,
    )
)
