"""Element-wise products of two int8 maps on the hardware engine's vector side; on cores they are made in float32.

Factors may be broadcast, such as what squeeze and excitation scales its channels by. The arithmetic:
hls_kernels/engine/vector/record.hpp, tests: tests/lowering/test_engine_bits.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import RefusedError
from fpga_dynamo.codegen.engine.vector import VectorCommand, VectorOperation
from fpga_dynamo.ir.graph import aten, shape
from fpga_dynamo.ir.quantised import quantizes
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.engine_patterns import engine_only
from fpga_dynamo.lowering.ops.engine.int8.vector_side import element_wise, scale_of_elements
from fpga_dynamo.lowering.ops.quantised.elementwise import PairParts, match_two
from fpga_dynamo.lowering.ops.quantised.epilogue import limits
from fpga_dynamo.lowering.patterns import Match

_GREATEST = 255.0 * 255.0
"""Of a product of two differences of 8-bit integers."""


def engine_multiply(match: Match[PairParts], emitter: EngineEmitter) -> Sequence[View]:
    scale, of = quantizes(match.root), match.bound
    assert scale is not None
    whole = [i for i, arg in enumerate(of.operands) if shape(arg) == shape(match.root)]
    if not whole and not emitter.sizes.gather:
        raise RefusedError("two broadcast operands are not supported")
    first = whole[0] if whole else 0
    second = 1 - first
    left, right, a, b = of.integers[first], of.integers[second], of.scales[first], of.scales[second]
    low, high = limits(match.bound.activation, scale)
    command = VectorCommand(
        operation=VectorOperation.MULTIPLY,
        input_scale=scale_of_elements(a.scale * b.scale / scale.scale, _GREATEST),
        input_zero=a.zero,
        other_zero=b.zero,
        zero=scale.zero,
        low=low,
        high=high,
    )
    return [element_wise(match.root, command, left, right, None, emitter)]


PATTERNS = (engine_only("multiply_int8", (aten.mul.Tensor,), match_two, engine_multiply),)
