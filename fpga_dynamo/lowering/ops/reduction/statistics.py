"""Reductions of several commands: variance, vector norms, logsumexp, any and all, the number of true elements.

Element-wise commands before and behind the sum or extremum of the reduce core. Pattern, legality and commands; cores:
hls_kernels/cores/reduce and pointwise, tests: tests/lowering/test_statistics.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.micro import MicroProgram, Operand
from fpga_dynamo.ir.graph import (
    EXACT_INTEGERS,
    GraphInfo,
    argument,
    aten,
    normalise_dims,
    operand,
    refuse_float,
    refuse_value,
    shape,
    value,
)
from fpga_dynamo.ir.operators import Operator, facts_among
from fpga_dynamo.ir.view import View, numel
from fpga_dynamo.lowering.ops.calls import rows
from fpga_dynamo.lowering.ops.elementwise.pointwise import emit_elementwise, emit_rounded
from fpga_dynamo.lowering.ops.reduction.compose import undefined_mean
from fpga_dynamo.lowering.ops.reduction.reduction import emit_deviation, emit_moments, emit_reduction
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone, anchor_and_items

_VARIANCE: dict[Any, tuple[bool, bool]] = {
    aten.var.correction: (False, False),
    aten.std.correction: (True, False),
    aten.var_mean.correction: (False, True),
    aten.std_mean.correction: (True, True),
}
"""Whether the root is taken, and whether the mean is a result too."""

_ANY = (aten.any.default, aten.any.dim, aten.any.dims)
_ALL = (aten.all.default, aten.all.dim, aten.all.dims)
_SUMS = (aten.sum.default, aten.sum.dim_IntList)
_OVER_ALL = (aten.any.default, aten.all.default, aten.sum.default)


def _dims(node: Node) -> tuple[int, ...]:
    position = 2 if node.target is aten.linalg_vector_norm.default else 1
    given = None if node.target in _OVER_ALL else argument(node, "dim", position)
    return normalise_dims(given, len(shape(operand(node, 0))))


def _kept(size: Sequence[int], dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if d in dims else n for d, n in enumerate(size))


def _seen_as(view: View, wanted: tuple[int, ...]) -> View:
    """A reduced view without its dimensions of 1, or with them; every other dimension is as it was."""
    strides = [s for n, s in zip(view.shape, view.strides, strict=True) if n != 1]
    return replace(view, shape=wanted, strides=tuple(strides.pop(0) if n != 1 else 1 for n in wanted))


def _map(emitter: Emitter, rule: Callable[[MicroProgram, list[Operand]], Operand], *inputs: View) -> View:
    return emit_elementwise(emitter, rule, inputs, inputs[0].shape)


# --- legality ---------------------------------------------------------------------------------------------------------


def check_floats(match: Match, graph: GraphInfo) -> str | None:
    node = match.nodes[0]
    if why := refuse_float(operand(node, 0), "input"):
        return why
    if not shape(operand(node, 0)):
        return "a 0-D tensor is not supported"
    return next((why for output in match.outputs if (why := refuse_float(output, "result"))), None)


def check_variance(match: Match, graph: GraphInfo) -> str | None:
    root, _ = _VARIANCE[match.nodes[0].target]
    if root and "REDUCE_DEVIATION" not in graph.target.enums:
        return "the reduce core of the xclbin has no REDUCE_DEVIATION; rebuild the xclbin"
    return check_floats(match, graph)


def check_truth(match: Match, graph: GraphInfo) -> str | None:
    source = operand(match.root, 0)
    if why := refuse_value(source, "input") or refuse_value(match.root, "result"):
        return why
    if match.pattern.name == "truth" and value(match.root).dtype is not torch.bool:
        return "a uint8 result is not supported; bool is"
    if not shape(source):
        return "a 0-D tensor is not supported"
    # Elsewhere no dimension means all of them.
    none = match.root.target in (aten.any.dims, aten.all.dims) and argument(match.root, "dim", 1) == []
    return "a reduction over no dimension is not supported" if none else None


def check_count(match: Match, graph: GraphInfo) -> str | None:
    node = match.root
    if value(operand(node, 0)).dtype is not torch.bool or value(node).dtype is not torch.int64:
        return "integer sums are not supported: they exceed float32's precision; the reduce core counts bool only"
    if numel([shape(operand(node, 0))[d] for d in _dims(node)]) > EXACT_INTEGERS:
        return "counts above 2^24 elements are not supported, the limit of exact float32 integers"
    return check_truth(match, graph)


# --- variance ---------------------------------------------------------------------------------------------------------


def match_variance(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    with_mean = _VARIANCE[node.target][1]
    return anchor_and_items(pattern, node, graph) if with_mean else anchor_alone(pattern, node, graph)


def lower_variance(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.nodes[0]
    root, with_mean = _VARIANCE[node.target]
    x, dims = emitter.in_arena(emitter.view(operand(node, 0))), _dims(node)
    correction = argument(node, "correction", 2)
    count = numel([x.shape[d] for d in dims])
    degrees = max(count - (1 if correction is None else correction), 0)

    share = math.sqrt(degrees / count) if root else degrees / count
    # Divided by zero, a variance that underflows would be NaN instead of infinite; a deviation does not underflow.
    scaled = root or degrees == 0
    mean, biased = (emit_deviation if scaled else emit_moments)(emitter, x, dims, shape(match.root))
    result = _map(emitter, lambda p, v: p.op("DIV", v[0], share), biased) if degrees != count else biased
    if not with_mean:
        return [result]
    both = (result, undefined_mean(emitter, mean, biased))
    return [both[int(argument(item, "index", 1))] for item in match.outputs]


# --- norms and logarithms ---------------------------------------------------------------------------------------------


_LARGEST = float(torch.finfo(torch.float32).max)
_SMALLEST = 1 / _LARGEST


def check_order(match: Match, graph: GraphInfo) -> str | None:
    order = float(argument(match.root, "ord", 1, 2))
    if math.isfinite(order) and order != 0 and not _SMALLEST <= abs(order) <= _LARGEST:
        return f"a norm of order {order} is not supported: the order, or its inverse, is beyond the range of float32"
    return check_floats(match, graph)


def lower_vector_norm(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    order = float(argument(node, "ord", 1, 2))
    x, dims = emitter.view(operand(node, 0)), _dims(node)
    if order != 0 and all(x.shape[d] == 1 for d in dims):
        order = 1.0  # as eager mode: the size of one element, whose power may be out of range
    kind = {math.inf: "REDUCE_MAX", -math.inf: "REDUCE_MIN"}.get(order, "REDUCE_SUM")

    def term(p: MicroProgram, v: list[Operand]) -> Operand:
        if order == 2:
            return p.op("MUL", v[0], v[0])
        if order == 0:
            return p.op("NE", v[0], 0.0)
        size = p.op("ABS", v[0])
        return size if abs(order) in (1, math.inf) and order != -1 else p.op("POW", size, order)

    def root(p: MicroProgram, v: list[Operand]) -> Operand:
        return p.op("SQRT", v[0]) if order == 2 else p.op("POW", v[0], 1 / order)

    terms = _map(emitter, term, x)
    total = emit_reduction(emitter, kind, terms, dims, shape(node))
    return [total if order in (0, 1, math.inf, -math.inf) else _map(emitter, root, total)]


def lower_logsumexp(match: Match, emitter: Emitter) -> Sequence[View]:
    """The largest element is taken out of the sum, unless it is infinite."""
    node = match.root
    x, dims = emitter.in_arena(emitter.view(operand(node, 0))), _dims(node)

    def finite(p: MicroProgram, largest: Operand) -> Operand:
        return p.op("WHERE", p.op("EQ", p.op("ABS", largest), math.inf), 0.0, largest)

    def term(p: MicroProgram, v: list[Operand]) -> Operand:
        return p.op("EXP", p.op("SUB", v[0], finite(p, v[1])))

    def logarithm(p: MicroProgram, v: list[Operand]) -> Operand:
        return p.op("ADD", p.op("LOG", v[0]), finite(p, v[1]))

    largest = emit_reduction(emitter, "REDUCE_MAX", x, dims, _kept(x.shape, dims))
    sums = emit_reduction(emitter, "REDUCE_SUM", _map(emitter, term, x, largest), dims, shape(node))
    return [_map(emitter, logarithm, sums, _seen_as(largest, sums.shape))]


# --- truth values -----------------------------------------------------------------------------------------------------


def lower_truth(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    x = emit_rounded(operand(node, 0), emitter)
    if x.dtype is not torch.bool:
        x = replace(_map(emitter, lambda p, v: p.op("NE", v[0], 0.0), x), dtype=torch.bool)
    kind = "REDUCE_MAX" if node.target in _ANY else "REDUCE_MIN"
    return [emit_reduction(emitter, kind, x, _dims(node), shape(node), torch.bool)]


def lower_count(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    total = emit_reduction(emitter, "REDUCE_SUM", emitter.view(operand(node, 0)), _dims(node), shape(node))
    return [replace(_map(emitter, lambda p, v: p.op("FLOAT_TO_INT", v[0]), total), dtype=torch.int64)]


_COMPOSITE = frozenset({"reduce", "pointwise", "move"})
_Lower = Callable[[Match, Emitter], Sequence[View]]
_ROWS: tuple[tuple[str, tuple[Any, ...], Any, Any, _Lower], ...] = (
    ("variance", tuple(_VARIANCE), match_variance, check_variance, lower_variance),
    ("vector_norm", (aten.linalg_vector_norm.default,), anchor_alone, check_order, lower_vector_norm),
    ("logsumexp", (aten.logsumexp.default,), anchor_alone, check_floats, lower_logsumexp),
    ("truth", (*_ANY, *_ALL), anchor_alone, check_truth, lower_truth),
    ("count", _SUMS, anchor_alone, check_count, lower_count),
)
_OPERATORS = {
    **dict.fromkeys((*_VARIANCE, aten.logsumexp.default), Operator(lambda t: rows(t, [1]))),
    **dict.fromkeys((aten.any.dims, aten.all.dims), Operator(lambda t: rows(t, [1]))),
    **dict.fromkeys((aten.any.dim, aten.all.dim), Operator(lambda t: rows(t, 1))),
    aten.linalg_vector_norm.default: Operator(lambda t: rows(t, 2, [1])),
}
PATTERNS = tuple(
    Pattern(name, anchors, match, check, lower, _COMPOSITE, operators=facts_among(_OPERATORS, anchors))
    for name, anchors, match, check, lower in _ROWS
)
