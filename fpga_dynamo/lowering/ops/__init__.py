"""The built-in patterns, one file an op family; the order of import is the order of priority."""

from fpga_dynamo.lowering.ops import (  # noqa: F401
    borders,
    convolution,
    gathering,
    indexing,
    matmul,
    movement,
    normalization,
    pooling,
    reduction,
    resampling,
    rms_norm,
    scattering,
    shuffle,
    statistics,
    triangles,
    winograd,
)
