"""Operators of quantised graphs that compute with integers of eight bits.

What is refused here is computed in float32, between a dequantising and a quantising command.

The patterns stand ahead of those of the same operators that compute in float32.
"""

from fpga_dynamo.lowering.ops.quantised import (  # noqa: F401
    between,
    casts,
    convolution,
    elementwise,
    engine_channels,
    engine_multiply,
    engine_norm,
    integer_products,
    matmul,
    own_scales,
    pooling,
)
