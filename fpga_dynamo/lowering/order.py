"""The order in which built-in patterns are asked: one literal list for the cores, one for each kind of engine.

Of patterns with a common anchor the first that matches, and is not refused, gets the nodes. Patterns of users are asked
before all of these. A module of :mod:`fpga_dynamo.lowering.ops` exports its own as `PATTERNS`; this file alone says
where they stand. `fpga-dynamo ops --patterns` prints the lists, tests/lowering/test_order.py holds them.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

from fpga_dynamo.codegen.engine.target import EngineTarget
from fpga_dynamo.errors import OptionError
from fpga_dynamo.ir.target import Target
from fpga_dynamo.lowering.engine_patterns import EnginePattern
from fpga_dynamo.lowering.ops import attention, host, pooling, scan
from fpga_dynamo.lowering.ops.convolution import convolution, gradient
from fpga_dynamo.lowering.ops.elementwise import pointwise, triangles
from fpga_dynamo.lowering.ops.engine.floats import attention as engine_attention
from fpga_dynamo.lowering.ops.engine.floats import factors, maps, products, rows
from fpga_dynamo.lowering.ops.engine.int8 import casts as engine_casts
from fpga_dynamo.lowering.ops.engine.int8 import channels, moves, multiply, norm, resize, vector_norms, vector_side
from fpga_dynamo.lowering.ops.engine.int8 import convolution as engine_convolution
from fpga_dynamo.lowering.ops.engine.int8 import elementwise as engine_elementwise
from fpga_dynamo.lowering.ops.engine.int8 import matmul as engine_matmul
from fpga_dynamo.lowering.ops.engine.int8 import pooling as engine_pooling
from fpga_dynamo.lowering.ops.indexing import gathering, indexing, scattering
from fpga_dynamo.lowering.ops.matmul import bf16, bf16_casts, matmul
from fpga_dynamo.lowering.ops.movement import borders, movement, resampling, shuffle
from fpga_dynamo.lowering.ops.normalization import normalization, rms_norm, training
from fpga_dynamo.lowering.ops.quantised import casts, float_operators, integer_products, tensor_scales
from fpga_dynamo.lowering.ops.quantised import convolution as convolution_int8
from fpga_dynamo.lowering.ops.quantised import elementwise as elementwise_int8
from fpga_dynamo.lowering.ops.quantised import matmul as matmul_int8
from fpga_dynamo.lowering.ops.quantised import pooling as pooling_int8
from fpga_dynamo.lowering.ops.reduction import reduction, softmax_backward, statistics
from fpga_dynamo.lowering.ops.signal import arithmetic, fourier, product
from fpga_dynamo.lowering.patterns import TABLE, Pattern

CORES: tuple[Pattern, ...] = (
    # int8, ahead of the patterns with the same anchors that compute in float32. They match between quantization nodes
    # only; what they refuse is computed in float32, between "dequantize" and "quantize".
    *pooling_int8.PATTERNS,
    *matmul_int8.PATTERNS,
    *elementwise_int8.PATTERNS,
    *convolution_int8.PATTERNS,
    *float_operators.PATTERNS,
    *shuffle.PATTERNS,  # Ahead of "cat", which matches the concatenation alone.
    *attention.PATTERNS,  # Ahead of the products, which match the two of an attention one by one.
    *scan.PATTERNS,  # Ahead of "flip": a backward pass flips what it sums.
    *bf16.PATTERNS,  # Ahead of "matmul", which multiplies bfloat16 in float32.
    *matmul.PATTERNS,
    *reduction.PATTERNS,
    *movement.PATTERNS,
    *pooling.PATTERNS,
    *convolution.PATTERNS,  # "winograd" ahead of "convolution", which supports all of them.
    *gradient.PATTERNS,
    *triangles.PATTERNS,
    *indexing.PATTERNS,
    *gathering.PATTERNS,
    *scattering.PATTERNS,
    *bf16_casts.PATTERNS,
    *borders.PATTERNS,
    *resampling.PATTERNS,
    *normalization.PATTERNS,  # Ahead of training's, which give the statistics too.
    *rms_norm.PATTERNS,
    *training.PATTERNS,
    *integer_products.PATTERNS,
    *softmax_backward.PATTERNS,
    *statistics.PATTERNS,  # "count" behind "reduction", which refuses integers.
    *arithmetic.PATTERNS,
    *fourier.PATTERNS,
    *product.PATTERNS,  # Behind "matmul", which refuses complex numbers.
    # Patterns that merge match what all others have left, whatever their place; so they stand last.
    *pointwise.PATTERNS,
    *casts.PATTERNS,
    *tensor_scales.PATTERNS,
)
"""What the cores compute."""

ENGINE_INT8: tuple[EnginePattern, ...] = (
    # Patterns of the engine alone.
    *channels.PATTERNS,  # Ahead of "cat_int8", whose parts are whole blocks of channels.
    *vector_side.PATTERNS,
    *vector_norms.PATTERNS,
    *norm.PATTERNS,  # "scale_int8" ahead of "multiply_int8", for parameters.
    *multiply.PATTERNS,
    *moves.PATTERNS,
    # Patterns of the cores, which the engine computes as well.
    *engine_pooling.PATTERNS,
    *engine_matmul.PATTERNS,
    *engine_elementwise.PATTERNS,
    *engine_convolution.PATTERNS,
    *resize.PATTERNS,
    *engine_casts.PATTERNS,
)
"""What an int8 engine computes."""

ENGINE_FLOATS: tuple[EnginePattern, ...] = (
    *rows.PATTERNS,
    *engine_attention.PATTERNS,  # Ahead of the products, which match the two of an attention one by one.
    *factors.PATTERNS,  # Ahead of "function", which multiplies by numbers only.
    *products.PATTERNS,  # Each product with its epilogue, then alone, for an epilogue that the engine refuses.
    *maps.PATTERNS,  # "sum" and "limits" ahead of "function", which needs a table.
)
"""What an engine of bfloat16 or float32 computes."""

TABLE.fill(CORES, host.OPERATORS)


def engine_patterns(*, floats: bool) -> tuple[EnginePattern, ...]:
    """What an engine of int8, or of floats, computes, in the order in which patterns are asked."""
    return ENGINE_FLOATS if floats else ENGINE_INT8


def patterns_of(target: Target) -> tuple[Pattern, ...]:
    """What is asked for an xclbin, in order."""
    if target.engine is None:
        return TABLE.patterns()
    return tuple(row.pattern for row in engine_patterns(floats=EngineTarget.of_card(target).sizes.is_float))


def pattern_names() -> tuple[str, ...]:
    """What option 'disable' accepts: names of patterns of the cores, of users, and of the engine alone."""
    engine = (row.pattern.name for row in (*ENGINE_INT8, *ENGINE_FLOATS))
    return tuple(dict.fromkeys((*TABLE.names(), *engine)))


def refuse_unknown(disabled: Collection[str]) -> None:
    """Raises :class:`OptionError` for a name that no pattern has."""
    known = pattern_names()
    unknown = set(disabled) - set(known)
    if unknown:
        near = difflib.get_close_matches(min(unknown), known, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else f" (patterns: {', '.join(known)})"
        raise OptionError(f"option 'disable' names no pattern: {', '.join(sorted(unknown))}{hint}")
