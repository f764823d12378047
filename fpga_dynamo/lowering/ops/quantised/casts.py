"""Floating-point values to 8-bit integers and back, where no operator does it on its way.

Patterns and commands; core: hls_kernels/cores/quantize, tests: tests/lowering/test_quantised.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.codegen.core import CORES, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.walks import collapse, offsets, pad_left
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.elements import F32, Element
from fpga_dynamo.ir.graph import GraphInfo, aten, operand, refuse_value, shape, value
from fpga_dynamo.ir.operators import Operator
from fpga_dynamo.ir.quantised import DEQUANTIZE, QUANTIZE, dequantized, quantizes
from fpga_dynamo.ir.records import AddInt8, Dequantize, LookupInt8, Quantize
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import CHANNELS_LAST, VEC, View, align, ceil_div, numel
from fpga_dynamo.lowering.ops.calls import rows
from fpga_dynamo.lowering.ops.quantised.convolution import takes_quads
from fpga_dynamo.lowering.ops.quantised.packing import QUAD
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone

DIMS = 5
"""Of the records of this core."""


Elementwise = Quantize | Dequantize | AddInt8 | LookupInt8
"""The records of this core."""


def cycles(c: Elementwise, target: Target) -> float:
    """A vector a cycle."""
    return ceil_div(numel(c.dims), VEC)


def parts(c: Elementwise, target: Target) -> int:
    return ceil_div(numel(c.dims), VEC)


def moving(count: int) -> Callable[[Elementwise, Target], int]:
    """Words that a core moves: `count` bytes for each element."""
    return lambda c, target: count * numel(c.dims) // 4


CORES.add(Core[Quantize](Quantize.opcode, cycles, moving(5), parts, zero_copy=True))
CORES.add(Core[Dequantize](Dequantize.opcode, cycles, moving(5), parts, zero_copy=True))


def placed_like(source: View, node: Node, emitter: Emitter, element: Element) -> View:
    """A new tensor for the value of `node`: an image for those who read it as one, else in the order of `source`.

    Where nobody but convolutions takes its few channels, a pixel is a quad.
    """
    size = tuple(shape(node))
    if node not in emitter.placements and element.bytes == 1 and _for_quads(node):
        return emitter.tensor(size, CHANNELS_LAST[4], dtype=value(node).dtype, pitch=QUAD, element=element)
    if node in emitter.placements or (len(size) == 4 and (_is_image(source) or _for_images(node))):
        return emitter.image(node, element=element)
    order = source.order() if 0 not in source.strides else tuple(range(len(size)))
    pitch = align(size[order[-1]]) if size else None
    return emitter.tensor(size, order, dtype=value(node).dtype, pitch=pitch, element=element)


def _is_image(source: View) -> bool:
    return source.order() == CHANNELS_LAST.get(len(source.shape))


_READ_AS_IMAGES = (aten.convolution.default, aten.max_pool2d_with_indices.default)


def _for_images(node: Node) -> bool:
    """Whether the readers of a value, past dequantising ones, want channels-last images."""
    readers = [reader for user in node.users for reader in ([user] if user.target is not DEQUANTIZE else user.users)]
    return any(reader.target in _READ_AS_IMAGES for reader in readers)


def _for_quads(node: Node) -> bool:
    """Whether all that reads integers are convolutions that multiply their channels, up to four, at once."""
    reals = [user for user in node.users if user.target is DEQUANTIZE]
    readers = [(real, reader) for real in reals for reader in real.users]
    return 0 < len(reals) == len(node.users) and all(takes_quads(reader, real) for real, reader in readers)


def walk(out: View, *sources: View) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...], list[tuple[int, ...]]]:
    """Dimensions and strides of a record of this core (of `out` first), and where its commands begin.

    From outer to inner as they lie in `out`, whose innermost stride is 1.
    """
    order = out.order()
    views = [view.permute(order) for view in (out, *sources)]
    dims, strides = collapse(views[0].shape, [view.strides for view in views])
    if not dims or any(s[-1] != 1 for s in strides[:1]):
        dims, strides = (*dims, 1), tuple((*s, 1) for s in strides)
    begins = list(offsets(dims[:-DIMS], strides))
    return pad_left(dims[-DIMS:], DIMS, 1), tuple(pad_left(s[-DIMS:], DIMS, 0) for s in strides), begins


def _append_casts(
    record: Callable[..., Quantize | Dequantize], source: View, out: View, emitter: Emitter
) -> Sequence[View]:
    """Commands that convert `source` to `out`. record: of their operands, dimensions and strides."""
    dims, (out_stride, in_stride), begins = walk(out, source)
    for to, start in begins:
        command = record(
            input=Operand(source.buffer, source.offset + start),
            output=Operand(out.buffer, out.offset + to),
            dims=dims,
            in_stride=in_stride,
            out_stride=out_stride,
        )
        emitter.command(command, reads=[source], writes=[out])
    return [out]


def check_quantize(match: Match, graph: GraphInfo) -> str | None:
    node = match.root
    if quantizes(node) is None:
        return "the quantization scale is not known before the call, or the input is not float32"
    return refuse_value(operand(node, 0), "input") or refuse_value(node, "result")


def lower_quantize(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    scale = quantizes(node)
    assert scale is not None
    source = emitter.in_arena(emitter.view(operand(node, 0)))
    out = placed_like(source, node, emitter, scale.element)
    record = partial(
        Quantize,
        out_format=emitter.format_of(out),
        inverse_scale=1.0 / scale.scale,
        zero=scale.zero,
        low=scale.low,
        high=scale.high,
    )
    return _append_casts(record, source, out, emitter)


def check_dequantize(match: Match, graph: GraphInfo) -> str | None:
    node = match.root
    if dequantized(node) is None:
        return "the quantization scale is not known before the call, or the dtype is not int8 or uint8"
    return refuse_value(operand(node, 0), "input") or refuse_value(node, "result")


def lower_dequantize(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    found = dequantized(node)
    assert found is not None
    integers, scale = found
    source = emitter.in_arena(emitter.integers(integers))
    out = placed_like(source, node, emitter, F32)
    record = partial(Dequantize, in_format=emitter.format_of(source), zero=scale.zero, scale=scale.scale)
    return _append_casts(record, source, out, emitter)


def _grid(dtype: torch.dtype) -> tuple[Any, ...]:
    return 0.1, 0, *((0, 255) if dtype is torch.uint8 else (-128, 127)), dtype


_CASTS: tuple[tuple[str, Any, Any, Any, Operator], ...] = (
    (
        "quantize",
        QUANTIZE,
        check_quantize,
        lower_quantize,
        Operator(lambda t: rows(t, *_grid(torch.int8))),
    ),
    (
        "dequantize",
        DEQUANTIZE,
        check_dequantize,
        lower_dequantize,
        Operator(lambda t: ((t(4, 16, dtype=torch.int8), *_grid(torch.int8)), {})),
    ),
)


def stays_alone(one: Match, group: Match, graph: GraphInfo) -> None:
    """Casts merge with nothing; but as patterns that may, they are left what no operator takes along."""


PATTERNS = tuple(
    Pattern(
        name,
        (anchor,),
        anchor_alone,
        check,
        lower,
        frozenset({name, "move"}),
        merge=stays_alone,
        in_place=True,
        operators={anchor: facts},
    )
    for name, anchor, check, lower, facts in _CASTS
)
