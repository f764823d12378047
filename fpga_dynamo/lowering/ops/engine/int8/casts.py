"""The borders of an int8 graph on the hardware engine: float32 inputs are quantized, integers scaled, by commands.

Tests: tests/lowering/test_engine_casts.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import RefusedError, of_engine
from fpga_dynamo.ir.graph import operand
from fpga_dynamo.ir.quantised import dequantized, quantizes
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.engine_patterns import EnginePattern
from fpga_dynamo.lowering.ops.quantised.casts import PATTERNS as CASTS
from fpga_dynamo.lowering.patterns import Match


def engine_quantize(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    """No view of what the host writes: each reader gets it in the order that it asks for."""
    node, scale = match.root, quantizes(match.root)
    if scale is None:
        raise RefusedError("the quantization scale is not known before the call, or the input is not float32")
    of_engine(node, "result", emitter.sizes)
    source = operand(node, 0)
    if emitter.host_gives(source):
        emitter.rounded[node] = scale
        return []
    return [emitter.quantize(emitter.view(source), scale)]


def engine_dequantize(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    found = dequantized(match.root)
    if found is None:
        raise RefusedError("the quantization scale is not known before the call")
    integers, scale = found
    of_engine(integers, "input", emitter.sizes)
    return [emitter.dequantize(emitter.view(integers), scale)]


_EMIT = {"quantize": engine_quantize, "dequantize": engine_dequantize}
PATTERNS = tuple(EnginePattern(pattern, _EMIT[pattern.name], last=True) for pattern in CASTS)
