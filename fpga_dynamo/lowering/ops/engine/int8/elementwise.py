"""Sums and differences of int8 values, and tables, on the engine's vector side; see ops/quantised/elementwise.py."""

from __future__ import annotations

from collections.abc import Sequence

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import RefusedError, of_engine
from fpga_dynamo.codegen.engine.vector import VectorCommand, VectorFlags
from fpga_dynamo.codegen.requantize import factor
from fpga_dynamo.ir.graph import shape
from fpga_dynamo.ir.quantised import dequantized, quantizes
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.engine_patterns import EnginePattern
from fpga_dynamo.lowering.ops.engine.int8.vector_side import element_wise, scale_of_elements
from fpga_dynamo.lowering.ops.quantised.elementwise import ADD, LOOKUP, PairParts
from fpga_dynamo.lowering.ops.quantised.epilogue import limits
from fpga_dynamo.lowering.ops.quantised.tables import table_of
from fpga_dynamo.lowering.patterns import Match


def engine_add(match: Match[PairParts], emitter: EngineEmitter) -> Sequence[View]:
    """On the vector side, element by element as the maps lie."""
    scale = quantizes(match.root)
    assert scale is not None
    (left, right), (a, b), (sign, other_sign) = match.bound.integers, match.bound.scales, match.bound.signs
    if shape(left) != shape(match.root) or emitter.is_constant(left):
        left, right, a, b, sign, other_sign = right, left, b, a, other_sign, sign
    broadcast = shape(left) != shape(match.root) or shape(right) != shape(match.root)
    if broadcast and not emitter.sizes.gather:
        raise RefusedError("a broadcast operand is not supported")
    low, high = limits(match.bound.activation, scale)
    command = VectorCommand(
        input_scale=scale_of_elements(sign * a.scale / scale.scale),
        input_zero=a.zero,
        other_factor=factor(other_sign * b.scale / scale.scale),
        other_zero=b.zero,
        zero=scale.zero,
        low=low,
        high=high,
    )
    return [element_wise(match.root, command, left, right, None, emitter)]


def engine_lookup(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    """A table on the vector side; nothing at all if each integer stands for itself."""
    found = dequantized(match.nodes[0])
    assert found is not None
    of_engine(found[0], "its input", emitter.sizes)
    of_engine(match.root, "result", emitter.sizes)
    entries = table_of(match.nodes)
    if all(entry == (i - 128) & 0xFF for i, entry in enumerate(entries)) and match.root not in emitter.placements:
        return [emitter.view(found[0])]
    command = VectorCommand(flags=VectorFlags.TABLE, input_scale=scale_of_elements(1.0))
    return [element_wise(match.root, command, found[0], None, entries, emitter)]


PATTERNS = (EnginePattern(LOOKUP, engine_lookup), EnginePattern(ADD, engine_add))
