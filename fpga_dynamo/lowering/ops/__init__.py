"""The built-in patterns, a folder or file for each family of operators; importing them registers them.

Of patterns with a common anchor, those imported first are asked first.
"""

from fpga_dynamo.lowering.ops import scan  # noqa: F401 - takes flips along that `movement` would take

# isort: split
from fpga_dynamo.lowering.ops import attention, host, pooling  # noqa: F401
from fpga_dynamo.lowering.ops.convolution import convolution, gradient  # noqa: F401
from fpga_dynamo.lowering.ops.elementwise import pointwise, triangles  # noqa: F401
from fpga_dynamo.lowering.ops.engine import attention as engine_attention  # noqa: F401
from fpga_dynamo.lowering.ops.engine import factors, floats, floats_maps, floats_rows  # noqa: F401
from fpga_dynamo.lowering.ops.indexing import gathering, indexing, scattering  # noqa: F401
from fpga_dynamo.lowering.ops.matmul import bf16, matmul  # noqa: F401
from fpga_dynamo.lowering.ops.movement import borders, movement, resampling, shuffle  # noqa: F401
from fpga_dynamo.lowering.ops.normalization import normalization, rms_norm, training  # noqa: F401
from fpga_dynamo.lowering.ops.quantised import casts  # noqa: F401
from fpga_dynamo.lowering.ops.reduction import reduction, softmax_backward, statistics  # noqa: F401
from fpga_dynamo.lowering.ops.signal import arithmetic, fourier, product  # noqa: F401
