"""Floating-point values to 8-bit integers and back by scales that are tensors: of all elements, or of each row.

Patterns and commands; core: hls_kernels/cores/quantize, tests: tests/lowering/test_quantised_tensor_scales.py. How such
scales are computed: lowering/passes/rewrite/qparams.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.elements import F32
from fpga_dynamo.ir.graph import GraphInfo, operand, refuse_float, refuse_value, shape
from fpga_dynamo.ir.operators import Arguments, Operator, Tensors
from fpga_dynamo.ir.quantised import DEQUANTIZE_DYNAMIC, QUANTIZE_DYNAMIC, DynamicScale, dynamic_scale
from fpga_dynamo.ir.records import Dequantize, Quantize
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.ops.calls import rows
from fpga_dynamo.lowering.ops.matmul.matmul import reshaped
from fpga_dynamo.lowering.ops.quantised.casts import placed_like, stays_alone, walk
from fpga_dynamo.lowering.patterns import Match, Pattern, anchor_alone

TOO_OLD = "the xclbin's cores do not support dynamic quantization; rebuild it"


def scales(scale: DynamicScale, size: tuple[int, ...], emitter: Emitter) -> tuple[View, View | None]:
    """The scale and the zero point of each element of `size`, of the same strides; no zero point where it is 0."""
    found = []
    for node in (scale.scale, scale.zero):
        if node is None:
            continue
        view = emitter.in_arena(emitter.view(node))
        own = (*size[:-1], 1) if scale.by_row else (1,) * len(size)
        found.append(reshaped(view, own, emitter))
    if len(found) == 2 and found[0].strides != found[1].strides:
        found = [emitter.relaid(view, tuple(range(len(size))), 1) for view in found]
    spread = [view.expand(size) for view in found]
    return spread[0], spread[1] if len(spread) == 2 else None


def takes_scales(target: Target) -> bool:
    """Whether the cores read scales from the arena: older ones have them in their records alone."""
    return any(field.name == "row_scale" for field in target.records.get("gemm_int8", ()))


def _check(match: Match, graph: GraphInfo) -> str | None:
    node = match.root
    scale = dynamic_scale(node)
    if scale is None:
        return "a float64 scale, or another conversion than float32 to int8 or uint8, is not supported"
    if not takes_scales(graph.target):
        return TOO_OLD
    own = (scale.scale, scale.zero) if scale.zero is not None else (scale.scale,)
    for part in own:
        if why := refuse_value(part, "scale"):
            return why
    return refuse_value(operand(node, 0), "input") or refuse_value(node, "result")


def check_quantize(match: Match, graph: GraphInfo) -> str | None:
    return refuse_float(operand(match.root, 0), "input") or _check(match, graph)


def lower_quantize(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    scale = dynamic_scale(node)
    assert scale is not None
    source = emitter.in_arena(emitter.view(operand(node, 0)))
    out = placed_like(source, node, emitter, scale.element)
    record = partial(Quantize, out_format=emitter.format_of(out), low=scale.low, high=scale.high)
    return _append_casts(record, source, out, node, scale, emitter)


def lower_dequantize(match: Match, emitter: Emitter) -> Sequence[View]:
    node = match.root
    scale = dynamic_scale(node)
    assert scale is not None
    source = emitter.in_arena(emitter.integers(operand(node, 0)))
    out = placed_like(source, node, emitter, F32)
    record = partial(Dequantize, in_format=emitter.format_of(source))
    return _append_casts(record, source, out, node, scale, emitter)


def _append_casts(
    record: Callable[..., Quantize | Dequantize],
    source: View,
    out: View,
    node: Node,
    scale: DynamicScale,
    emitter: Emitter,
) -> Sequence[View]:
    """Commands that convert `source` to `out`. record: of their operands, dimensions and strides."""
    own, zeros = scales(scale, tuple(shape(node)), emitter)
    dims, (out_stride, in_stride, scale_stride), begins = walk(out, source, own)
    for to, start, at in begins:
        fields = {} if zeros is None else {"zeros": Operand(zeros.buffer, zeros.offset + at)}
        command = record(
            input=Operand(source.buffer, source.offset + start),
            output=Operand(out.buffer, out.offset + to),
            dims=dims,
            in_stride=in_stride,
            out_stride=out_stride,
            scale_stride=scale_stride,
            scales=Operand(own.buffer, own.offset + at),
            **fields,
        )
        emitter.command(command, reads=[source, own, *([] if zeros is None else [zeros])], writes=[out])
    return [out]


def _call(by_row: bool, integers: bool) -> Callable[[Tensors], Arguments]:
    """A typical call on a matrix."""
    size = (4, 1) if by_row else (1,)

    def call(t: Tensors) -> Arguments:
        own = (t(*size, dtype=torch.float32).fill_(0.1), t(*size, dtype=torch.int32), -128, 127, torch.int8)
        if not integers:
            return rows(t, *own)
        return (t(4, 16, dtype=torch.int8), *own, *((torch.float32,) if by_row else ())), {}

    return call


PATTERNS = tuple(
    Pattern(
        name,
        anchors,
        anchor_alone,
        check,
        lower,
        frozenset({name.removesuffix("_by_tensor"), "move"}),
        merge=stays_alone,
        in_place=True,
        operators={op: Operator(_call(bool(by_row), name.startswith("de"))) for by_row, op in enumerate(anchors)},
    )
    for name, anchors, check, lower in (
        ("quantize_by_tensor", QUANTIZE_DYNAMIC, check_quantize, lower_quantize),
        ("dequantize_by_tensor", DEQUANTIZE_DYNAMIC, _check, lower_dequantize),
    )
)
