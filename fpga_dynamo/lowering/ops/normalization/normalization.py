"""Layer, group and instance norm, batch norm by the batch's own statistics: one command that reads its rows twice.

Pattern, legality and commands; core: hls_kernels/cores/reduce,
tests: tests/lowering/test_normalization.py. Inference batch norm is folded into a convolution
(convolution/convolution.py) or runs as an element-wise scale and shift (batch_norm.py, elementwise/pointwise.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.graph import GraphInfo, arguments, aten, operand, refuse_float, shape
from fpga_dynamo.ir.operators import Operator, first_of
from fpga_dynamo.ir.sizes.size import Size, SizeError
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.ops.calls import image, per_channel, rows
from fpga_dynamo.lowering.ops.reduction.reduction import emit_rowwise
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_and_first_item

_LAYER, _GROUP = aten.native_layer_norm.default, aten.native_group_norm.default
_BATCH = aten._native_batch_norm_legit.no_stats
"""What an instance norm is made of: each image's channels are channels of a batch of one."""


def like_group_norm(x: torch.Tensor, *_: Any) -> torch.Tensor:
    """What lies like the group norm of `x`, whatever its groups are."""
    return _GROUP(x, None, None, *x.shape[:2], x[0, 0].numel(), 1, 1e-5)[0]


@dataclass(frozen=True)
class NormParts:
    """statistics: whether the mean and the inverse deviation are used as well."""

    statistics: bool


def match_norm(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[NormParts]:
    found = anchor_and_first_item(pattern, node, graph)
    if found is None:
        return Match(pattern, (node,), (node,), NormParts(statistics=True))
    return Match(pattern, found.nodes, found.outputs, NormParts(statistics=False))


def check_norm(match: Match[NormParts], graph: GraphInfo) -> str | None:
    if match.bound.statistics:
        return "the mean and inverse deviation are used, and the reduce core returns the normalized values only"
    node = match.nodes[0]
    source = operand(node, 0)
    if why := refuse_float(source, "input"):
        return why
    affine = node.args[2:4] if node.target is _LAYER else node.args[1:3]
    for what, parameter in zip(("scale", "shift"), affine, strict=True):
        if isinstance(parameter, Node):
            if why := refuse_float(parameter, f"{what}"):
                return why
            if not graph.is_static(parameter):
                return f"{what} is computed in the graph; the core reads parameters that are known before the call"
    return refuse_float(match.root, "result")


def lower_norm(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.nodes[0]
    x = emitter.view(operand(node, 0))
    if node.target is _LAYER:
        sizes, gamma, beta, eps = arguments(node)[1:5]
        rank = len(x.shape)
        dims = tuple(range(rank - len(sizes), rank))
        scale, shift = (emitter.weight_rows(p) if isinstance(p, Node) else None for p in (gamma, beta))
        return [emit_rowwise(emitter, "REDUCE_NORM", x, dims, scale, shift, float(eps))]
    if node.target is _BATCH:
        dims = tuple(d for d in range(len(x.shape)) if d != 1)
        scale, shift = (_per_channel(emitter, p, len(x.shape)) for p in node.args[1:3])
        return [emit_rowwise(emitter, "REDUCE_NORM", x, dims, scale, shift, float(arguments(node)[5]))]
    gamma, beta, _, channels, _, groups, eps = arguments(node)[1:8]
    if isinstance(channels, Size):
        raise SizeError(f"{node} normalizes groups of a dynamic number of channels, which is not supported")
    assert isinstance(groups, int) and isinstance(channels, int)
    batch, per_group = x.shape[0], channels // groups
    grouped = _split_channels(x, groups, per_group)
    affine = (_per_channel(emitter, p, len(x.shape)) for p in (gamma, beta))
    scale, shift = (None if v is None else _split_channels(v, groups, per_group) for v in affine)
    dims = tuple(range(2, len(grouped.shape)))
    y = emit_rowwise(emitter, "REDUCE_NORM", grouped, dims, scale, shift, float(eps))
    out = y.reshape((batch, channels, *x.shape[2:]))
    if out is None:
        out = emitter.tensor(shape(match.root))
        emitter.copy(y, _split_channels(out, groups, per_group))
    return [out]


def _split_channels(x: View, groups: int, per_group: int) -> View:
    shape_ = (x.shape[0], groups, per_group, *x.shape[2:])
    strides = (x.strides[0], x.strides[1] * per_group, x.strides[1], *x.strides[2:])
    return replace(x, shape=shape_, strides=strides)


def _per_channel(emitter: Emitter, parameter: object, rank: int) -> View | None:
    if not isinstance(parameter, Node):
        return None
    view = emitter.weight_rows(parameter)
    ones = (1,) * (rank - 2)
    return replace(view, shape=(1, *view.shape, *ones), strides=(0, 1, *[0] * (rank - 2)))


PATTERNS = (
    Pattern(
        name="norm",
        anchors=(_LAYER, _GROUP, _BATCH),
        match=match_norm,
        check=check_norm,
        lower=lower_norm,
        opcodes=frozenset({"reduce", "move"}),
        operators={
            # Beside a ReLU of as many bytes, eager mode's layer norm takes 4.3 times as long (4 MB, two cores with
            # AVX-512).
            _LAYER: Operator(
                lambda t: rows(t, [16], *per_channel(t, 2, parameter=True), 1e-5),
                passes=2,
                laid_out=lambda x, *_: x.new_empty(x.shape),
            ),
            _GROUP: Operator(
                lambda t: image(t, *per_channel(t, 2, parameter=True), 1, 16, 64, 4, 1e-5), laid_out=like_group_norm
            ),
            _BATCH: Operator(
                lambda t: image(t, *per_channel(t, 2, parameter=True), True, 0.1, 1e-5), laid_out=first_of(_BATCH)
            ),
        },
    ),
)
