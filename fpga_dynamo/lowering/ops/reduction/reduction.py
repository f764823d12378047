"""Reductions over any dimensions: sum, mean, product, max, min, argmax, argmin; softmax and log-softmax.

Core's description, pattern, legality and commands; core: hls_kernels/cores/reduce,
tests: tests/lowering/test_reduction.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.core import CORES, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.walks import collapse, pad_left
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.dtypes import HALVES
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
from fpga_dynamo.ir.operators import Operator, Span, facts_among
from fpga_dynamo.ir.records import Reduce
from fpga_dynamo.ir.sizes.size import Size
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, Buffer, View, align, ceil_div, dense, numel
from fpga_dynamo.lowering.ops.calls import rows
from fpga_dynamo.lowering.ops.elementwise.pointwise import emit_rounded
from fpga_dynamo.lowering.ops.epilogue import Activation, fields
from fpga_dynamo.lowering.ops.io_scales import FLOATS, InputOutputScales
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone, anchor_and_items

SOFTMAX_PASSES = 3
"""Over a row: the largest, the exponentials with their sum, the results."""

_PASSES = {
    "REDUCE_SOFTMAX": SOFTMAX_PASSES,
    "REDUCE_LOG_SOFTMAX": SOFTMAX_PASSES,
    "REDUCE_NORM": 3,
    "REDUCE_RMS_NORM": 2,
    "REDUCE_MOMENTS": 2,
    "REDUCE_DEVIATION": 2,
}
"""How often a row is read, where that is more than once."""


def _elements(c: Reduce) -> int:
    return numel(c.kept) * numel(c.reduced)


def _passes(c: Reduce, target: Target) -> int:
    return next((n for kind, n in _PASSES.items() if target.enums.get(kind) == c.kind), 1)


REDUCE = CORES.add(
    Core[Reduce](
        Reduce.opcode,
        cycles=lambda c, target: ceil_div(_elements(c), VEC) * _passes(c, target),
        moved=lambda c, target: _elements(c) * (2 if _passes(c, target) > 1 else 1),
        parts=lambda c, target: numel(c.kept),
        zero_copy=True,
    )
)

_KINDS: dict[Any, str] = {
    aten.sum.default: "REDUCE_SUM",
    aten.sum.dim_IntList: "REDUCE_SUM",
    aten.mean.default: "REDUCE_MEAN",
    aten.mean.dim: "REDUCE_MEAN",
    aten.prod.default: "REDUCE_PROD",
    aten.prod.dim_int: "REDUCE_PROD",
    aten.amax.default: "REDUCE_MAX",
    aten.amin.default: "REDUCE_MIN",
    aten.max.default: "REDUCE_MAX",
    aten.min.default: "REDUCE_MIN",
    aten.argmax.default: "REDUCE_ARGMAX",
    aten.argmin.default: "REDUCE_ARGMIN",
}
_OF_ALL = frozenset(getattr(aten, name).default for name in ["sum", "mean", "prod", "max", "min"])
_POSITIONS = ("REDUCE_ARGMAX", "REDUCE_ARGMIN")
_WITH_SECOND = ("REDUCE_MOMENTS", "REDUCE_DEVIATION")
_WITH_INDEX: dict[Any, tuple[str, str]] = {
    aten.max.dim: ("REDUCE_MAX", "REDUCE_ARGMAX"),
    aten.min.dim: ("REDUCE_MIN", "REDUCE_ARGMIN"),
}
_SOFTMAX: dict[Any, str] = {aten._softmax.default: "REDUCE_SOFTMAX", aten._log_softmax.default: "REDUCE_LOG_SOFTMAX"}


def _dims(node: Node) -> tuple[int, ...]:
    rank = len(shape(operand(node, 0)))
    if node.target in _OF_ALL:
        return tuple(range(rank))
    return normalise_dims(argument(node, "dim", 1), rank)


def check_reduction(match: Match, graph: GraphInfo) -> str | None:
    node = match.nodes[0]
    source = operand(node, 0)
    if why := refuse_float(source, "input"):
        return why
    if not shape(source):
        return "a 0-D tensor is not supported"
    if any((why := refuse_value(output, "result")) for output in match.outputs):
        return why
    if _KINDS.get(node.target) not in _POSITIONS and node.target not in _WITH_INDEX:
        return refuse_float(node, "result")
    return None


def lower_reduction(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.nodes[0]
    kind, fake = _KINDS[node.target], value(node)
    return [emit_reduction(emitter, kind, _source(kind, node, emitter), _dims(node), shape(node), fake.dtype)]


def _source(kind: str, node: Node, emitter: Emitter) -> View:
    """The input; rounded for a position, since rounding makes equals of which the first counts."""
    source = operand(node, 0)
    return emit_rounded(source, emitter) if kind in _POSITIONS else emitter.view(source)


def emit_reduction(
    emitter: Emitter,
    kind: str,
    x: View,
    dims: tuple[int, ...],
    wanted: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
) -> View:
    """One reduction command over `dims` of `x`; the view has the shape `wanted`, with those dimensions as 1 or not."""
    return _emit_results(emitter, kind, x, dims, wanted, dtype)[0]


def emit_moments(emitter: Emitter, x: View, dims: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[View, View]:
    """Mean and biased variance over `dims` of `x`, by one command; shapes as of :func:`emit_reduction`."""
    mean, variance = _emit_results(emitter, "REDUCE_MOMENTS", x, dims, wanted, torch.float32)
    return mean, variance


def emit_deviation(emitter: Emitter, x: View, dims: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[View, View]:
    """Mean and the square root of the biased variance, whose square may be beyond the range of float32."""
    mean, deviation = _emit_results(emitter, "REDUCE_DEVIATION", x, dims, wanted, torch.float32)
    return mean, deviation


def _emit_results(
    emitter: Emitter, kind: str, x: View, dims: tuple[int, ...], wanted: tuple[int, ...], dtype: torch.dtype
) -> list[View]:
    positional = kind in _POSITIONS
    x, kept, reduced = _in_rows(emitter, emitter.in_arena(x), dims, logical=positional)
    kept_shape = tuple(x.shape[d] for d in kept)
    pitch = align(kept_shape[-1]) if kept_shape and len(kept_shape) > 1 and kept_shape[-1] >= VEC else None
    strides = dense(kept_shape, pitch=pitch)
    floats = max(strides[0] * kept_shape[0], pitch or 1) if kept_shape else 1
    dtype = torch.float32 if dtype in HALVES else dtype  # not rounded yet
    by_dim = dict(zip(kept, strides, strict=True))
    keeps = len(wanted) == len(x.shape)
    out_strides = tuple(by_dim.get(d, 1) for d in range(len(x.shape)) if keeps or d in by_dim)
    results = [
        View(Buffer(align(floats)), wanted, out_strides, 0, dtype) for _ in range(2 if kind in _WITH_SECOND else 1)
    ]
    k_sizes, (k_in, k_out) = collapse(kept_shape, (tuple(x.strides[d] for d in kept), strides))
    r_sizes, (r_in,) = collapse([x.shape[d] for d in reduced], ([x.strides[d] for d in reduced],))
    _emit(emitter, kind, x, results, (k_sizes, k_in, k_out), (r_sizes, r_in, (0,) * len(r_sizes)))
    return results


def lower_softmax(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.nodes[0]
    x = emitter.view(operand(node, 0))
    dims = normalise_dims(argument(node, "dim", 1), len(x.shape))
    return [emit_rowwise(emitter, softmax_kind(node), x, dims)]


def softmax_kind(node: Node) -> str:
    """Of a softmax or a log-softmax."""
    return _SOFTMAX[node.target]


def emit_rowwise(
    emitter: Emitter,
    kind: str,
    x: View,
    dims: tuple[int, ...],
    scale: View | None = None,
    shift: View | None = None,
    eps: float = 0.0,
    ends: InputOutputScales = FLOATS,
) -> View:
    """A command that keeps the input's size: softmax, norms. scale and shift broadcast to x's shape, in weights.

    What lies in bytes has its reduced dimensions innermost.
    """
    x = emitter.in_arena(x)
    if len(set(x.strides)) < len(x.strides) and any(s == 0 and n > 1 for s, n in zip(x.strides, x.shape, strict=True)):
        x = emitter.relaid(x, tuple(range(len(x.shape))))
    affine = [v.expand(x.shape).strides for v in (scale, shift) if v is not None]
    assert all(strides == affine[0] for strides in affine)
    extra = affine[0] if affine else (0,) * len(x.shape)
    x, kept, reduced = _in_rows(emitter, x, dims, extra)
    out = emitter.tensor(x.shape, x.order(), dtype=ends.element.dtype, pitch=_pitch_like(x), element=ends.element)
    sizes = {}
    for name, group in (("kept", kept), ("reduced", reduced)):
        triples = [[v[d] for d in group] for v in (x.strides, out.strides, extra)]
        sizes[name] = collapse([x.shape[d] for d in group], triples)
    (k_sizes, (k_in, k_out, k_aff)), (r_sizes, (r_in, r_out, r_aff)) = sizes["kept"], sizes["reduced"]
    _emit(
        emitter,
        kind,
        x,
        [out],
        (k_sizes, k_in, k_out),
        (r_sizes, r_in, r_out),
        scale=scale,
        shift=shift,
        eps=eps,
        affine=(k_aff, r_aff),
        ends=ends,
    )
    return out


def _pitch_like(x: View) -> int | None:
    """Rows of the result as far apart as an image's pixels, so that it stays an image."""
    inner = x.order()[-1]
    return align(x.shape[inner]) if len(x.shape) == 4 and inner == 1 else None


def _in_rows(
    emitter: Emitter, x: View, dims: tuple[int, ...], *extras: Sequence[int], logical: bool = False
) -> tuple[View, list[int], list[int]]:
    """`x` as a record can say it, by a copy if need be, and its kept and reduced dimensions: see :func:`_split`."""
    split = _split(x, dims, extras, logical=logical)
    if split is None:
        x = emitter.relaid(x, (*[d for d in range(len(x.shape)) if d not in dims], *dims))
        split = _split(x, dims, extras, logical=logical)
        assert split is not None, "row-major rows collapse to one kept and one reduced dimension"
    return x, *split


def _split(
    x: View,
    dims: tuple[int, ...],
    extras: Sequence[Sequence[int]],
    *,
    logical: bool,
) -> tuple[list[int], list[int]] | None:
    """Kept and reduced dimensions in memory order if the record can say them: at most three each, one contiguous."""
    order = x.order()
    kept = [d for d in order if d not in dims]
    reduced = list(dims) if logical else [d for d in order if d in dims]
    for group in (kept, reduced):
        if len(collapse([x.shape[d] for d in group], [[v[d] for d in group] for v in (x.strides, *extras)])[0]) > 3:
            return None
    contiguous = any(
        x.strides[last] == 1 for group in (kept, reduced) for last in [d for d in group if x.shape[d] > 1][-1:]
    )
    alone = all(size == 1 for size in x.shape)
    return (kept, reduced) if contiguous or alone else None


_Walk = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _emit(
    emitter: Emitter,
    kind: str,
    x: View,
    results: Sequence[View],
    kept: _Walk,
    reduced: _Walk,
    *,
    scale: View | None = None,
    shift: View | None = None,
    eps: float = 0.0,
    affine: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
    ends: InputOutputScales = FLOATS,
) -> None:
    def six(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
        return (*pad_left(a, 3, 0), *pad_left(b, 3, 0))

    command = Reduce(
        kind=emitter.target.enums[kind],
        input=Operand.of(x),
        output=Operand.of(results[0]),
        second=Operand.of(results[1]) if len(results) > 1 else None,
        scale=None if scale is None else Operand.of(scale),
        shift=None if shift is None else Operand.of(shift),
        kept=pad_left(kept[0], 3, 1),
        reduced=pad_left(reduced[0], 3, 1),
        in_stride=six(kept[1], reduced[1]),
        out_stride=six(kept[2], reduced[2]),
        affine_stride=six(*affine),
        eps=eps,
        **fields(Activation(), emitter.target.enums),
        **ends.fields(x, results[0], emitter),
    )
    emitter.command(command, reads=[x, scale, shift], writes=results)


def lower_with_index(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.nodes[0]
    results = []
    for item in match.outputs:
        kind, fake = _WITH_INDEX[node.target][argument(item, "index", 1)], value(item)
        x = _source(kind, node, emitter)
        results.append(emit_reduction(emitter, kind, x, _dims(node), shape(item), fake.dtype))
    return results


def check_softmax(match: Match, graph: GraphInfo) -> str | None:
    if argument(match.nodes[0], "half_to_float", 2, False):
        return "half precision is not supported"
    return check_reduction(match, graph)


def _position_bounds(node: Node, of_operand: Callable[[Node], Span]) -> Span | None:
    count = numel(shape(operand(node, 0)))
    return None if isinstance(count, Size) else (0, max(count - 1, 0))


_ALONG_ONE = Operator(lambda t: rows(t, 1))
# Beside a ReLU of as many bytes, eager mode's softmax takes 4.2 times as long (4 MB, two cores with AVX-512).
_SOFTMAX_PASSES = 2
_OPERATORS = {
    **{op: Operator(lambda t: rows(t, [1]), laid_out=op) for op in (aten.sum.dim_IntList, aten.mean.dim)},
    **{op: Operator(laid_out=op) for op in (aten.amax.default, aten.amin.default)},
    **dict.fromkeys((aten.prod.dim_int, *_WITH_INDEX), _ALONG_ONE),
    **{op: Operator(lambda t: rows(t, 1, False), passes=_SOFTMAX_PASSES, laid_out=op) for op in _SOFTMAX},
    **dict.fromkeys((aten.argmax.default, aten.argmin.default), Operator(bounds=_position_bounds)),
}
_REDUCE = frozenset({"reduce", "move"})
PATTERNS = tuple(
    Pattern(name, anchors, match, check, lower, _REDUCE, operators=facts_among(_OPERATORS, anchors))
    for name, anchors, match, check, lower in (
        ("reduction", tuple(_KINDS), anchor_alone, check_reduction, lower_reduction),
        ("reduction_with_index", tuple(_WITH_INDEX), anchor_and_items, check_reduction, lower_with_index),
        ("softmax", tuple(_SOFTMAX), anchor_alone, check_softmax, lower_softmax),
    )
)
