"""Data movement: cat, stack, constant padding, flip, repeat, scatter into a slice — strided copies.

Pattern, legality and commands; core: hls_kernels/cores/move,
tests: tests/lowering/test_movement.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.walks import pad_left
from fpga_dynamo.ir.command import Bits, Operand
from fpga_dynamo.ir.dtypes import BYTES, FLOATS, INTEGERS, span_of, stored
from fpga_dynamo.ir.elements import F32
from fpga_dynamo.ir.graph import (
    GraphInfo,
    argument,
    aten,
    normalise_dims,
    operand,
    refuse_number,
    refuse_value,
    shape,
    value,
)
from fpga_dynamo.ir.operators import Call, Operator
from fpga_dynamo.ir.records import Move
from fpga_dynamo.ir.view import CHANNELS_LAST, View, align, common_dtype
from fpga_dynamo.lowering.ops.calls import rows
from fpga_dynamo.lowering.ops.signal.numbers import computes_with_complex
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone

_OF_PAIRS = frozenset(
    {
        aten.cat.default,
        aten.stack.default,
        aten.constant_pad_nd.default,
        aten.flip.default,
        aten.repeat.default,
        aten.slice_scatter.default,
        aten.select_scatter.default,
    }
)
"""Copies by :meth:`Emitter.copy` alone, which knows that complex numbers are pairs."""


def check_movement(match: Match, graph: GraphInfo) -> str | None:
    node = match.root
    pairs = value(node).dtype is torch.complex64 and node.target in _OF_PAIRS
    if pairs and not computes_with_complex(graph.target):
        return "complex64 is not supported: the recipe has no core that computes with it"
    refuse = refuse_number if pairs else refuse_value
    for source in node.all_input_nodes:
        if why := refuse(source, f"operand {source}"):
            return why
        if value(source).dtype != value(node).dtype:
            return f"the cast from {value(source).dtype} to {value(node).dtype} is not supported"
    fills = {aten.constant_pad_nd.default: ("value", 2), aten.full.default: ("fill_value", 1)}
    if node.target in fills:
        number = argument(node, *fills[node.target], 0)
        if not isinstance(number, (int, float)):
            return "the fill value is not known before the call"
        if pairs and number:
            return "a complex tensor can be filled with 0 only"
        if not _representable(number, node):
            return "the fill value is out of range for the dtype on the device"
    return refuse(node, "result")


def _representable(number: float, node: Node) -> bool:
    low, high = span_of(value(node).dtype)
    return value(node).dtype not in INTEGERS or low <= number <= high


def like(sources: Sequence[View], size: Sequence[int], emitter: Emitter, node: Node) -> View:
    """A new tensor with dimensions in the memory order of the first of `sources`, which will be copied into it.

    An image stays one (and may have a place).
    """
    source, dtype = sources[0], common_dtype(sources)
    if len(size) == 4 and source.order() == CHANNELS_LAST[4] and len(source.shape) == 4 and source.unit == 1:
        return replace(emitter.image(node, element=source.element), dtype=dtype)
    order = source.order() if len(source.shape) == len(size) and 0 not in source.strides else range(len(size))
    return emitter.tensor(size, tuple(order), dtype=dtype, element=source.element)


def operands_of(nodes: Sequence[Node], emitter: Emitter) -> list[View]:
    """Where the values of `nodes` lie, all in the same elements: 8-bit integers in a byte, others in a word."""
    element = BYTES.get(value(nodes[0]).dtype, F32)
    narrow = element.is_narrow and emitter.kernel.takes("move", element)
    return [emitter.integers(node) if narrow else emitter.view(node) for node in nodes]


# --- cat and stack ----------------------------------------------------------------------------------------------------


def cat_parts(node: Node) -> tuple[list[Node], int]:
    parts = list(argument(node, "tensors", 0))
    return parts, argument(node, "dim", 1, 0) % len(shape(node))


def joined_images(match: Match) -> Sequence[Node]:
    """The images whose channels a `cat` puts one after the other; nothing for other concatenations."""
    parts, dim = cat_parts(match.root)
    images = len(shape(match.root)) == 4 and dim == 1 and value(match.root).dtype in FLOATS | BYTES.keys()
    return parts if images else ()


def lower_cat(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    parts, dim = cat_parts(node)
    sources = operands_of(parts, emitter)
    out = emitter.defined(node)  # by a part that has its place in it (place.py)
    if out is None:
        images = [s for s in sources if len(s.shape) == 4 and s.order() == CHANNELS_LAST[4]]
        out = like([*images[:1], *sources], shape(node), emitter, node)
    start = 0
    for source in sources:
        place = out.narrow(dim, start, source.shape[dim])
        start += source.shape[dim]
        if (source.buffer, source.offset) != (place.buffer, place.offset):
            emitter.copy(source, place, layout_change=False)
    return [out]


def lower_stack(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    parts, dim = cat_parts(node)
    sources = operands_of(parts, emitter)
    out = emitter.tensor(shape(node), dtype=common_dtype(sources), element=sources[0].element)
    for i, source in enumerate(sources):
        emitter.copy(source, out.select(dim, i), layout_change=False)
    return [out]


# --- others -----------------------------------------------------------------------------------------------------------


def fill(emitter: Emitter, out: View, number: float) -> None:
    """The whole buffer of `out`, padding included, so that later vectors read no garbage."""
    number = stored(number, out.dtype)
    move = Move(
        output=Operand(out.buffer),
        fill=Bits(number) if isinstance(number, int) else number,
        dims=pad_left((out.buffer.length,), 6, 1),
        out_stride=pad_left((1,), 6, 0),
        format=emitter.format_of(out),
    )
    emitter.command(move, reads=[], writes=[out])


def lower_full(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    out = emitter.tensor(shape(node), dtype=value(node).dtype)
    fill(emitter, out, argument(node, "fill_value", 1))
    return [out]


def lower_pad(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    (source,) = operands_of([operand(node, 0)], emitter)
    pads = list(argument(node, "pad", 1))
    number = argument(node, "value", 2, 0)
    out = unplaced(source, shape(node), emitter)
    if any(p > 0 for p in pads):
        fill(emitter, out, number)
    inner = out
    for i in range(len(pads) // 2):
        dim, (before, after) = len(source.shape) - 1 - i, pads[2 * i : 2 * i + 2]
        kept = source.shape[dim] + min(before, 0) + min(after, 0)
        if kept <= 0:
            return [out]
        source, inner = source.narrow(dim, max(-before, 0), kept), inner.narrow(dim, max(before, 0), kept)
    emitter.copy(source, inner, layout_change=False)
    return [out]


def unplaced(source: View, size: Sequence[int], emitter: Emitter) -> View:
    """As :func:`like`, in a buffer of its own, which may be filled whole."""
    image = len(size) == 4 and source.order() == CHANNELS_LAST[4]
    order = CHANNELS_LAST[4] if image else tuple(range(len(size)))
    pitch = align(size[1]) if image else None
    return emitter.tensor(size, order, dtype=source.dtype, pitch=pitch, element=source.element)


def lower_flip(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    (source,) = operands_of([operand(node, 0)], emitter)
    given = argument(node, "dims", 1)
    dims = normalise_dims(given, len(source.shape)) if given else ()
    offset, strides = source.offset, list(source.strides)
    for d in dims:
        offset += (source.shape[d] - 1) * strides[d]
        strides[d] = -strides[d]
    out = like([source], shape(node), emitter, node)
    emitter.copy(replace(source, offset=offset, strides=tuple(strides)), out, layout_change=False)
    return [out]


def lower_repeat(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    (source,) = operands_of([operand(node, 0)], emitter)
    repeats = list(argument(node, "repeats", 1))
    out = emitter.tensor(shape(node), dtype=source.dtype, element=source.element)
    lead = len(repeats) - len(source.shape)
    sizes = (*[1] * lead, *source.shape)
    strides = (*[0] * lead, *source.strides)
    # Each dimension in two: how often, and how far; a stride of 0 repeats.
    dims = [n for pair in zip(repeats, sizes, strict=True) for n in pair]
    ins = [s for stride in strides for s in (0, stride)]
    outs = [s for stride, size in zip(out.strides, sizes, strict=True) for s in (stride * size, stride)]
    given = replace(source, shape=tuple(dims), strides=tuple(ins))
    emitter.copy(given, replace(out, shape=tuple(dims), strides=tuple(outs)), layout_change=False)
    return [out]


def _copied_base(node: Node, emitter: Emitter) -> tuple[View, View]:
    """A copy of the tensor that the scatter `node` changes, and what is to be written into it."""
    base, part = operands_of([operand(node, 0), operand(node, 1)], emitter)
    out = like([base, part], shape(node), emitter, node)
    emitter.copy(base, out, layout_change=False)
    return out, part


def lower_slice_scatter(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    out, part = _copied_base(node, emitter)
    dim = argument(node, "dim", 2, 0) % len(out.shape)
    start, step, size = argument(node, "start", 3), argument(node, "step", 5, 1), out.shape[dim]
    first = 0 if start is None else max(0, min(size, start + size if start < 0 else start))
    emitter.copy(part, out.narrow(dim, first, part.shape[dim], step), layout_change=False)
    return [out]


def lower_select_scatter(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    out, part = _copied_base(node, emitter)
    emitter.copy(part, out.select(argument(node, "dim", 2), argument(node, "index", 3)), layout_change=False)
    return [out]


_MOVE = frozenset({"move"})
_JOINING: Call = lambda t: (([t(4, 16), t(4, 16)],), {})  # noqa: E731
_LOWERINGS: Mapping[Any, tuple[str, Callable[[Match, Emitter], Sequence[View]], Operator]] = {
    aten.stack.default: ("stack", lower_stack, Operator(_JOINING)),
    aten.full.default: ("full", lower_full, Operator()),
    aten.constant_pad_nd.default: ("pad", lower_pad, Operator(lambda t: rows(t, [1, 1]))),
    aten.flip.default: ("flip", lower_flip, Operator(lambda t: rows(t, [0]), laid_out=aten.flip.default)),
    aten.repeat.default: ("repeat", lower_repeat, Operator(lambda t: rows(t, [2, 2]))),
    aten.slice_scatter.default: (
        "slice_scatter",
        lower_slice_scatter,
        Operator(lambda t: rows(t, t(2, 16), 0, 0, 2)),
    ),
    aten.select_scatter.default: (
        "select_scatter",
        lower_select_scatter,
        Operator(lambda t: rows(t, t(16), 0, 0)),
    ),
}

PATTERNS = (
    Pattern(
        name="cat",
        anchors=(aten.cat.default,),
        match=anchor_alone,
        check=check_movement,
        lower=lower_cat,
        opcodes=_MOVE,
        in_place=True,
        concatenates=joined_images,
        operators={aten.cat.default: Operator(_JOINING, laid_out=aten.cat.default)},
    ),
    *(
        Pattern(name, (anchor,), anchor_alone, check_movement, lower, _MOVE, operators={anchor: facts})
        for anchor, (name, lower, facts) in _LOWERINGS.items()
    ),
)
