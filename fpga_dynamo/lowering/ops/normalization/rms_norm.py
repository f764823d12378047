"""RMS norm, which a graph spells out as x * rsqrt(mean(x^2) + eps) * scale: one command that reads its rows twice.

Pattern, legality and commands; core: hls_kernels/cores/reduce,
tests: tests/lowering/test_normalization.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.graph import (
    GraphInfo,
    argument,
    arguments,
    aten,
    normalise_dims,
    operand,
    refuse_float,
    shape,
    value,
)
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.ops.reduction.reduction import emit_rowwise
from fpga_dynamo.lowering.patterns import Match, Pattern, sole_user

_ADD = (aten.add.Tensor, aten.add.Scalar)


@dataclass(frozen=True)
class RmsNormParts:
    """scale: what the normalized rows are multiplied by."""

    scale: Node | None


def match_rms_norm(
    pattern: Pattern, square: Node, graph: GraphInfo, are_same: Callable[[object, object], bool] = operator.is_
) -> Match[RmsNormParts] | None:
    """From x^2 along single users to the product with x, and that with a scale if there is one.

    are_same: whether two nodes have the value x.
    """
    if square.args[1] != 2:
        return None
    source = operand(square, 0)
    mean = _user(square, (aten.mean.dim,))
    plus = mean and _user(mean, _ADD)
    root = plus and _user(plus, (aten.rsqrt.default,))
    product = root and _user(root, (aten.mul.Tensor,))
    if not (mean and plus and root and product):
        return None
    values = product.args[0] if product.args[1] is root else product.args[1]
    if product.args[0] is product.args[1] or not are_same(values, source):
        return None
    if not argument(mean, "keepdim", 2, False) or not isinstance(plus.args[1], (int, float)) or plus.kwargs:
        return None
    nodes = [square, mean, plus, root, product]
    scaled = _user(product, (aten.mul.Tensor,))
    if scaled is not None:
        scale = scaled.args[1] if scaled.args[0] is product else scaled.args[0]
        dims = normalise_dims(argument(mean, "dim", 1), len(shape(source)))
        if isinstance(scale, Node) and graph.is_static(scale) and _scales(scale, source, dims):
            return Match(pattern, (*nodes, scaled), (scaled,), RmsNormParts(scale))
    return Match(pattern, tuple(nodes), (product,), RmsNormParts(None))


def _user(node: Node, targets: tuple[object, ...]) -> Node | None:
    user = sole_user(node)
    return user if user is not None and user.target in targets else None


def _scales(scale: Node, source: Node, dims: tuple[int, ...]) -> bool:
    """Whether `scale` has one number for each element of a row, and rows are the last dimensions."""
    size = shape(source)
    return dims == tuple(range(len(size) - len(dims), len(size))) and shape(scale) == size[len(size) - len(dims) :]


def check_rms_norm(match: Match[RmsNormParts], graph: GraphInfo) -> str | None:
    scale = match.bound.scale
    if len({value(node).dtype for node in match.nodes}) > 1:
        return "operands of different dtypes are not supported: eager mode rounds between them"
    if scale is not None and (why := refuse_float(scale, "scale")):
        return why
    return refuse_float(operand(match.nodes[0], 0), "input") or refuse_float(match.root, "result")


def lower_rms_norm(match: Match[RmsNormParts], emitter: Emitter) -> Sequence[View]:
    square, mean, plus = match.nodes[:3]
    x = emitter.view(operand(square, 0))
    scale = match.bound.scale
    rows = None if scale is None else emitter.weight_rows(scale)
    dims = normalise_dims(argument(mean, "dim", 1), len(x.shape))
    return [emit_rowwise(emitter, "REDUCE_RMS_NORM", x, dims, rows, None, float(arguments(plus)[1]))]


PATTERNS = (
    Pattern(
        name="rms_norm",
        anchors=(aten.pow.Tensor_Scalar,),
        match=match_rms_norm,
        check=check_rms_norm,
        lower=lower_rms_norm,
        opcodes=frozenset({"reduce", "move"}),
    ),
)
