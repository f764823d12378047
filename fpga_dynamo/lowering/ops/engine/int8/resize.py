"""Nearest upsampling of integers by whole factors on the hardware engine: all phases of the result are the image.

So it is put together as the phases of a transposed convolution are, word by word.
Tests: tests/lowering/test_engine_bits.py, test_engine_lowering.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import RefusedError, images_of, of_engine
from fpga_dynamo.ir.graph import operand, shape
from fpga_dynamo.ir.quantised import dequantized, quantizes
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.engine_patterns import EnginePattern
from fpga_dynamo.lowering.ops.engine.common.phases import image_of_phases
from fpga_dynamo.lowering.ops.movement.resampling import NEAREST
from fpga_dynamo.lowering.ops.quantised.float_operators import RESIZE
from fpga_dynamo.lowering.patterns import Match

MOST = 8
"""The largest factor: one command for each of its phases, and float32's inverses up to here are not below the exact."""


def engine_resize(match: Match[Match], emitter: EngineEmitter) -> Sequence[View]:
    """The commands of a resize whose bytes are those of its operand. Raises RefusedError for others."""
    node = match.bound.root
    if node.target not in NEAREST:
        raise RefusedError("bilinear resizing is not supported; the engine supports nearest")
    if not emitter.sizes.interleaves:
        raise RefusedError("resizing needs the vector side of an int8 engine")
    found, scale = dequantized(match.nodes[0]), quantizes(match.root)
    if found is None or scale is None or found[1] != scale:
        raise RefusedError("the result is float32, or its quantization scale differs from the input's")
    of_engine(found[0], "input", emitter.sizes)
    size, result = shape(operand(node, 0))[-2:], shape(node)[-2:]
    factors = [b // a for a, b in zip(size, result, strict=True)]
    whole = all(a * factor == b for a, factor, b in zip(size, factors, result, strict=True))
    if not whole or not 1 < max(factors) <= MOST:
        raise RefusedError(f"only enlargement by integer factors of at most {MOST} is supported")
    x = emitter.images(emitter.view(found[0]), "input")
    out = emitter.result(match.root)
    image_of_phases([[x] * factors[1]] * factors[0], images_of(out, "result"), emitter)
    return [out]


PATTERNS = (EnginePattern(RESIZE, engine_resize),)
