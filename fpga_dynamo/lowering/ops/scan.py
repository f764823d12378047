"""Scans along a dimension: cumulative sums, products and log-sum-exps, forward and, between two flips, backward.

Core, pattern, legality and commands; core: hls_kernels/cores/scan, tests: tests/lowering/test_scan.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.core import CORES, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.walks import collapse, pad_left
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.dtypes import FLOATS, HALVES, INTEGERS, span_of
from fpga_dynamo.ir.graph import (
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
from fpga_dynamo.ir.operators import Operator, Span
from fpga_dynamo.ir.records import Scan
from fpga_dynamo.ir.sizes.size import Size
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, View, align, ceil_div, dense, numel
from fpga_dynamo.lowering.ops.calls import rows
from fpga_dynamo.lowering.ops.elementwise.integers import span
from fpga_dynamo.lowering.ops.elementwise.pointwise import emit_rounded, emit_unary
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone, sole_user

_KINDS: dict[Any, str] = {
    aten.cumsum.default: "SCAN_SUM",
    aten.cumprod.default: "SCAN_PRODUCT",
    aten.logcumsumexp.default: "SCAN_LOG_SUM_EXP",
}
_FEW_ROWS = 2 * VEC
"""Below so many contiguous rows each is a part of its own, as in the core."""


def _elements(c: Scan) -> int:
    return numel(c.kept) * c.length


def _cycles(c: Scan, target: Target) -> float:
    """A vector a cycle; of blocks that are transposed, one to be read, one to be scanned and one to be written."""
    return ceil_div(_elements(c), VEC) * (3 if c.in_stride[-1] == 1 else 1)


def _parts(c: Scan, target: Target) -> int:
    rows = numel(c.kept)
    return rows if not isinstance(rows, Size) and rows < _FEW_ROWS else ceil_div(rows, VEC)


CORES.add(Core[Scan](Scan.opcode, _cycles, lambda c, target: 2 * _elements(c), _parts, zero_copy=True))


def _dims(node: Node, name: str = "dim") -> tuple[int, ...]:
    return normalise_dims(argument(node, name, 1), len(shape(operand(node, 0))))


@dataclass(frozen=True)
class BackwardParts:
    """The scan between two flips."""

    scan: Node


def _scan_of(match: Match) -> Node:
    return match.bound.scan if isinstance(match.bound, BackwardParts) else match.root


def match_backward(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[BackwardParts] | None:
    """A scan between two flips of its dimension, which is what the gradient of a scan is made of."""
    scan = sole_user(node)
    last = None if scan is None or scan.target not in _KINDS or scan in graph.claimed else sole_user(scan)
    if scan is None or last is None or last.target is not aten.flip.default or last in graph.claimed:
        return None
    if not shape(node) or any(_dims(flip, "dims") != _dims(scan) for flip in (node, last)):
        return None
    return Match(pattern, (node, scan, last), (last,), BackwardParts(scan))


def check_scan(match: Match, graph: GraphInfo) -> str | None:
    node = _scan_of(match)
    source, result = operand(node, 0), value(node).dtype
    if why := refuse_value(source, "input") or refuse_value(node, "result"):
        return why
    if result in FLOATS:
        whole = value(source).dtype in INTEGERS
        return "a scan of integers in 16-bit floats is not supported" if whole and result in HALVES else None
    if _KINDS[node.target] == "SCAN_LOG_SUM_EXP":
        return refuse_float(source, "input")
    return _refuse_integers(node, source, result)


def _refuse_integers(node: Node, source: Node, result: torch.dtype) -> str | None:
    """Why the card cannot scan into integers: one may be beyond the int32 that the card holds it as."""
    if value(source).dtype in FLOATS:
        return "a scan of floats in an integer dtype is not supported"
    if result not in (torch.int64, torch.int32):
        return f"the result is {str(result).removeprefix('torch.')}; int64 and int32 are supported"
    low, high = _span(source)
    if low >= -1 and high <= 1:
        return None
    if _KINDS[node.target] == "SCAN_PRODUCT":
        return "products of integers may overflow int32, the device's integer type"
    least, most = _sums(node, span)
    fits = span_of(torch.int32)
    if result is torch.int64 and not (fits[0] <= least and most <= fits[1]):
        return "int64 sums may overflow int32, the device's integer type"
    return None


def _span(node: Node, of_integers: Callable[[Node], Span] = span) -> Span:
    return (0, 1) if value(node).dtype is torch.bool else of_integers(node)


def _sums(node: Node, of_integers: Callable[[Node], Span]) -> Span:
    """The least and the greatest that cumulative sums of integers may be."""
    length = numel([shape(operand(node, 0))[d] for d in _dims(node)])
    most = 1 << 30 if isinstance(length, Size) else length
    low, high = _span(operand(node, 0), of_integers)
    return min(low, low * most), max(high, high * most)


def _bounds(node: Node, of_integers: Callable[[Node], Span]) -> Span | None:
    return _sums(node, of_integers) if value(operand(node, 0)).dtype in (*INTEGERS, torch.bool) else None


def lower_scan(match: Match, emitter: Emitter) -> Sequence[View]:
    backward = isinstance(match.bound, BackwardParts)
    node = _scan_of(match)
    source = operand(operand(node, 0), 0) if backward else operand(node, 0)
    kind, given, result = _KINDS[node.target], value(source).dtype, value(node).dtype
    x = emitter.view(source)
    if result in INTEGERS:
        if kind == "SCAN_SUM":
            x = emit_unary("FLOAT_TO_INT", x, result, emitter) if given is torch.bool else x
            return [replace(emit_scan(emitter, "SCAN_INT_SUM", x, _dims(node), backward=backward), dtype=result)]
        x = x if given is torch.bool else emit_unary("INT_TO_FLOAT", x, torch.float32, emitter)
        product = emit_scan(emitter, kind, x, _dims(node), backward=backward)
        return [emit_unary("FLOAT_TO_INT", product, result, emitter)]
    if given is not result:  # which eager converts to first
        x = emit_unary("INT_TO_FLOAT", x, result, emitter) if given in INTEGERS else emit_rounded(source, emitter)
        x = emit_unary(f"ROUND_{HALVES[result]}", x, result, emitter) if result in HALVES else x
    # Not rounded yet if it has 16 bits.
    return [replace(emit_scan(emitter, kind, x, _dims(node), backward=backward), dtype=torch.float32)]


def emit_scan(emitter: Emitter, kind: str, x: View, dims: tuple[int, ...], *, backward: bool = False) -> View:
    """One command that scans `x` along the dimension in `dims`, or a scalar along none. The result lies like `x`."""
    x = emitter.in_arena(x)
    plan = _walk(emitter, x, dims)
    if plan is None:
        x = emitter.relaid(x, x.order())
        plan = _walk(emitter, x, dims)
        assert plan is not None, "a dense tensor has one contiguous dimension, and two groups that are kept"
    out, sizes, ins, outs = plan
    length, in_step, out_step = (x.shape[dims[0]], x.strides[dims[0]], out.strides[dims[0]]) if dims else (1, 0, 0)
    command = Scan(
        kind=emitter.target.enums[kind],
        backward=int(backward),
        input=Operand.of(x),
        output=Operand.of(out),
        kept=pad_left(sizes, 4, 1),
        length=length,
        in_stride=(*pad_left(ins, 4, 0), in_step),
        out_stride=(*pad_left(outs, 4, 0), out_step),
    )
    emitter.command(command, reads=[x], writes=[out])
    return out


_Walk = tuple[View, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _walk(emitter: Emitter, x: View, dims: tuple[int, ...]) -> _Walk | None:
    """The result's view, and the kept dimensions in memory order: sizes, strides of input and of output. None if a
    record cannot say them, or neither the last of them nor the scanned one is contiguous in both."""
    order = x.order()
    out = emitter.tensor(x.shape, order, dtype=x.dtype, pitch=_pitch(x, order))
    kept = [d for d in order if d not in dims]
    sizes, (ins, outs) = collapse([x.shape[d] for d in kept], [[v.strides[d] for d in kept] for v in (x, out)])
    rows = all(x.strides[d] == 1 and out.strides[d] == 1 for d in dims if x.shape[d] != 1)
    columns = bool(sizes) and ins[-1] == 1 and outs[-1] == 1
    return (out, sizes, ins, outs) if len(sizes) <= 4 and (rows or columns) else None


def _pitch(x: View, order: Sequence[int]) -> int | None:
    """An image stays one, and what is dense stays so, which spares a copy of a result."""
    if len(order) == 4 and order[-1] == 1:
        return align(x.shape[1])
    return x.shape[order[-1]] if x.strides == dense(x.shape, order) and order else None


# Of columns the core's sums are many times as fast as eager mode's, of rows they are not always, so nothing is claimed.
# Eager mode's log-sum-exps take 28 times as long as its sums.
_FACTS = {
    aten.cumsum.default: Operator(lambda t: rows(t, 1), laid_out=aten.cumsum.default, bounds=_bounds),
    aten.cumprod.default: Operator(lambda t: rows(t, 1), laid_out=aten.cumprod.default),
    aten.logcumsumexp.default: Operator(lambda t: rows(t, 1), passes=20),
}
_SCAN = frozenset({"scan", "pointwise", "move"})

PATTERNS = (
    Pattern("scan", tuple(_KINDS), anchor_alone, check_scan, lower_scan, _SCAN, operators=_FACTS),
    Pattern("scan_backward", (aten.flip.default,), match_backward, check_scan, lower_scan, _SCAN),
)
