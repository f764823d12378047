"""What computes with floating-point values between integers: softmax, layer norm, resize.

One command each, which reads and writes bytes: nothing is dequantised or quantised beside it. Either end may be floats.
Patterns and commands; cores: hls_kernels/cores/reduce and move; tests: test_quantised_float_operators.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.graph import GraphInfo, argument, arguments, aten, normalise_dims, operand, refuse_value, shape
from fpga_dynamo.ir.quantised import dequantized, quantizes
from fpga_dynamo.ir.sizes.size import Size
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, View, align
from fpga_dynamo.lowering.ops.io_scales import InputOutputScales, takes_bytes
from fpga_dynamo.lowering.ops.movement.resampling import BILINEAR, NEAREST, emit_resize
from fpga_dynamo.lowering.ops.normalization.normalization import NormParts, check_norm, match_norm
from fpga_dynamo.lowering.ops.reduction.reduction import emit_rowwise, softmax_kind
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone, sole_user

TOO_OLD = "the xclbin has no int8 element-wise cores; rebuild it"
Parts = TypeVar("Parts")
_LAYER_NORM = aten.native_layer_norm.default
_SOFTMAX = (aten._softmax.default, aten._log_softmax.default)


def _between(inner: Match[Parts], graph: GraphInfo) -> Match[Match[Parts]] | None:
    """What `inner` covers with the dequantising node in front of it and the quantising one behind, or one of these."""
    source, user = operand(inner.nodes[0], 0), sole_user(inner.root)
    before = (source,) if dequantized(source) is not None and len(source.users) == 1 else ()
    behind = (user,) if user is not None and quantizes(user) is not None and user not in graph.claimed else ()
    if not before and not behind:
        return None
    return Match(inner.pattern, (*before, *inner.nodes, *behind), behind or inner.outputs, inner)


def _ends(match: Match) -> InputOutputScales:
    found = dequantized(match.nodes[0])
    return InputOutputScales(None if found is None else found[1], quantizes(match.root))


def _input(match: Match[Match], emitter: Emitter) -> View:
    """The operand as it lies: bytes, or floats."""
    found = dequantized(match.nodes[0])
    if found is not None:
        return emitter.in_arena(emitter.integers(found[0]))
    return emitter.in_arena(emitter.view(operand(match.bound.nodes[0], 0)))


def _refused(match: Match[Match], graph: GraphInfo, opcode: str) -> str | None:
    if not takes_bytes(graph.target, opcode):
        return TOO_OLD
    found = dequantized(match.nodes[0])
    read = operand(match.bound.nodes[0], 0) if found is None else found[0]
    return refuse_value(read, "input") or refuse_value(match.root, "result")


# --- along rows -------------------------------------------------------------------------------------------------------


def fits(row: Any, target: Target) -> bool:
    """Whether the reduce core holds rows of so many bytes: four at a time, if they are short."""
    if isinstance(row, Size):
        return False
    short = row <= 1024
    return (4 * align(row, VEC) if short else align(row, 4 * VEC)) <= target.tiles["REDUCE_ROW"]


def _in_rows(x: View, dim: int, emitter: Emitter) -> View:
    """`x` with neighbours of a row side by side."""
    if x.strides[dim] == 1 or x.shape[dim] == 1:
        return x
    return emitter.relaid(x, (*(d for d in range(len(x.shape)) if d != dim), dim))


def match_softmax(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[Match] | None:
    return _between(anchor_alone(pattern, node, graph), graph)


def check_softmax(match: Match[Match], graph: GraphInfo) -> str | None:
    node = match.bound.root
    if argument(node, "half_to_float", 2, False):
        return "half precision is not supported"
    return _refused_rows(match, graph, _dim(node))


def _dim(node: Node) -> int:
    return normalise_dims(argument(node, "dim", 1), len(shape(operand(node, 0))))[0]


def _refused_rows(match: Match[Match], graph: GraphInfo, dim: int) -> str | None:
    size = shape(operand(match.bound.nodes[0], 0))
    if not size:
        return "a 0-D tensor is not supported"
    if not fits(size[dim], graph.target):
        return "the rows are longer than the core's int8 buffer"
    return _refused(match, graph, "reduce")


def lower_softmax(match: Match[Match], emitter: Emitter) -> Sequence[View]:
    node, ends = match.bound.root, _ends(match)
    dim = _dim(node)
    x = _in_rows(_input(match, emitter), dim, emitter)
    return [emit_rowwise(emitter, softmax_kind(node), x, (dim,), ends=ends)]


def match_layer_norm(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[Match[NormParts]] | None:
    inner = match_norm(pattern, node, graph)
    return None if inner.bound.statistics else _between(inner, graph)


def check_layer_norm(match: Match[Match[NormParts]], graph: GraphInfo) -> str | None:
    inner = match.bound
    if len(arguments(inner.nodes[0])[1]) != 1:
        return "a reduction over several dimensions is not supported"
    return check_norm(inner, graph) or _refused_rows(match, graph, -1)


def lower_layer_norm(match: Match[Match], emitter: Emitter) -> Sequence[View]:
    node = match.bound.nodes[0]
    gamma, beta = node.args[2:4]
    x = _input(match, emitter)
    dim = len(x.shape) - 1
    x = _in_rows(x, dim, emitter)
    scale, shift = (emitter.weight_rows(p) if isinstance(p, Node) else None for p in (gamma, beta))
    eps = float(argument(node, "eps", 4))
    return [emit_rowwise(emitter, "REDUCE_NORM", x, (dim,), scale, shift, eps, _ends(match))]


# --- resize -----------------------------------------------------------------------------------------------------------


def match_resize(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[Match] | None:
    return _between(anchor_alone(pattern, node, graph), graph)


def check_resize(match: Match[Match], graph: GraphInfo) -> str | None:
    return _refused(match, graph, "resample")


def lower_resize(match: Match[Match], emitter: Emitter) -> Sequence[View]:
    return [emit_resize(emitter, match.bound.root, _input(match, emitter), match.root, _ends(match))]


RESIZE = Pattern(
    "resize_int8",
    (*NEAREST, *BILINEAR),
    match_resize,
    check_resize,
    lower_resize,
    frozenset({"resample", "move"}),
    in_place=True,
)

_ROWS = frozenset({"reduce", "move"})

PATTERNS = (
    RESIZE,
    Pattern("norm_int8", (_LAYER_NORM,), match_layer_norm, check_layer_norm, lower_layer_norm, _ROWS),
    Pattern("softmax_int8", _SOFTMAX, match_softmax, check_softmax, lower_softmax, _ROWS),
)
