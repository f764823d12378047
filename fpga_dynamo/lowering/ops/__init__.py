"""The built-in patterns, one file an op family; the order of import is the order of priority."""

from fpga_dynamo.lowering.ops import (  # noqa: F401
    attention,
    borders,
    conv_gradient,
    convolution,
    gathering,
    indexing,
    matmul,
    movement,
    normalization,
    normalization_training,
    pooling,
    reduction,
    resampling,
    rms_norm,
    scattering,
    shuffle,
    softmax_backward,
    statistics,
    triangles,
    winograd,
)
