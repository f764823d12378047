"""Records of the built-in cores, as hls_kernels/command.hpp has them.

Written by ``python -m fpga_dynamo.tools.records``; do not edit it by hand. What fields mean, and their units, is said
there. What is left out is 0, of operands None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from fpga_dynamo.ir.command import Place, Real, Record

ABSENT = 4294967295
"""The offset of an absent operand."""

SLICES_OF_STREAM = -1
"""What the `slices` of a stream's commands say: the lane that has the stream runs them whole."""

MOST_STREAMS = 32
"""Lengths that the record of a group of streams has room for."""


@dataclass(kw_only=True, eq=False)
class Epilogue(Record):
    """An activation of the result."""

    activation: int = 0
    act_a: Real = 0.0
    act_b: Real = 0.0


@dataclass(kw_only=True, eq=False)
class Images(Record):
    """Images that are read and written."""

    input: Place = None
    output: Place = None
    batch: int = 0
    in_height: int = 0
    in_width: int = 0
    out_height: int = 0
    out_width: int = 0


@dataclass(kw_only=True, eq=False)
class Window(Record):
    """How windows lie in an image."""

    kernel: Annotated[Sequence[int], 2] = (0,) * 2
    stride: Annotated[Sequence[int], 2] = (0,) * 2
    padding: Annotated[Sequence[int], 2] = (0,) * 2
    dilation: Annotated[Sequence[int], 2] = (0,) * 2


@dataclass(kw_only=True, eq=False)
class Convolution(Images, Epilogue):
    """Convolution of images, with a residual."""

    weight: Place = None
    residual: Place = None
    out_stride: Annotated[Sequence[int], 3] = (0,) * 3
    residual_stride: Annotated[Sequence[int], 3] = (0,) * 3


@dataclass(kw_only=True, eq=False)
class Product(Epilogue):
    """Product of matrices, with a residual."""

    a: Place = None
    b: Place = None
    residual: Place = None
    output: Place = None
    b_packed: int = 0
    batch: Annotated[Sequence[int], 2] = (0,) * 2
    rows: int = 0
    columns: int = 0
    depth: int = 0
    b_stride: Annotated[Sequence[int], 4] = (0,) * 4
    out_stride: Annotated[Sequence[int], 3] = (0,) * 3
    residual_stride: Annotated[Sequence[int], 3] = (0,) * 3
    vectors: int = 0


@dataclass(kw_only=True, eq=False)
class Int8Result(Record):
    """Quantization of the result."""

    out_format: int = 0
    out_zero: int = 0
    out_low: int = 0
    out_high: int = 0


@dataclass(kw_only=True, eq=False)
class Int8Epilogue(Int8Result):
    """Requantization of sums, and of a residual."""

    parameters: Place = None
    table: Place = None
    residual_format: int = 0
    residual_zero: int = 0
    residual_factor: int = 0
    middle: int = 0
    middle_zero: int = 0
    middle_factor: int = 0
    middle_table: Place = None
    inverse_scale: Real = 0.0


@dataclass(kw_only=True, eq=False)
class Attention(Record):
    """``attention_command``."""

    opcode: ClassVar[str] = "attention"
    query: Place = None
    key: Place = None
    value: Place = None
    mask: Place = None
    output: Place = None
    batch: Annotated[Sequence[int], 2] = (0,) * 2
    rows: int = 0
    keys: int = 0
    width: int = 0
    value_width: int = 0
    query_stride: Annotated[Sequence[int], 3] = (0,) * 3
    key_stride: Annotated[Sequence[int], 4] = (0,) * 4
    value_stride: Annotated[Sequence[int], 4] = (0,) * 4
    mask_stride: Annotated[Sequence[int], 4] = (0,) * 4
    out_stride: Annotated[Sequence[int], 3] = (0,) * 3
    scale: Real = 0.0
    mask_in_weights: int = 0
    masked_to_zero: int = 0


@dataclass(kw_only=True, eq=False)
class Conv2d(Window, Convolution):
    """``conv2d_command``."""

    opcode: ClassVar[str] = "conv2d"
    bias: Place = None
    groups: int = 0
    in_channels: int = 0
    out_channels: int = 0
    in_stride: Annotated[Sequence[int], 4] = (0,) * 4
    vectors: int = 0
    weight_format: int = 0


@dataclass(kw_only=True, eq=False)
class Depthwise(Window, Convolution):
    """``depthwise_command``."""

    opcode: ClassVar[str] = "depthwise"
    bias: Place = None
    channels: int = 0
    in_stride: Annotated[Sequence[int], 3] = (0,) * 3


@dataclass(kw_only=True, eq=False)
class Conv2dInt8(Window, Convolution, Int8Epilogue):
    """``conv2d_int8_command``."""

    opcode: ClassVar[str] = "conv2d_int8"
    groups: int = 0
    in_channels: int = 0
    out_channels: int = 0
    in_stride: Annotated[Sequence[int], 3] = (0,) * 3
    vectors: int = 0
    in_format: int = 0
    pad: int = 0


@dataclass(kw_only=True, eq=False)
class DepthwiseInt8(Window, Convolution, Int8Epilogue):
    """``depthwise_int8_command``."""

    opcode: ClassVar[str] = "depthwise_int8"
    channels: int = 0
    in_stride: Annotated[Sequence[int], 3] = (0,) * 3
    in_format: int = 0
    pad: int = 0


@dataclass(kw_only=True, eq=False)
class Fft(Record):
    """``fft_command``."""

    opcode: ClassVar[str] = "fft"
    input: Place = None
    output: Place = None
    twiddles: Place = None
    spread: Place = None
    before: Place = None
    behind: Place = None
    in_real: int = 0
    out_real: int = 0
    inverse: int = 0
    points: int = 0
    in_count: int = 0
    in_step: int = 0
    out_count: int = 0
    out_step: int = 0
    kept: Annotated[Sequence[int], 4] = (0,) * 4
    in_stride: Annotated[Sequence[int], 5] = (0,) * 5
    out_stride: Annotated[Sequence[int], 5] = (0,) * 5
    before_stride: Annotated[Sequence[int], 2] = (0,) * 2
    behind_stride: Annotated[Sequence[int], 2] = (0,) * 2
    scale: Real = 0.0
    passes: int = 0
    radix: Annotated[Sequence[int], 14] = (0,) * 14


@dataclass(kw_only=True, eq=False)
class Gemm(Product):
    """``gemm_command``."""

    opcode: ClassVar[str] = "gemm"
    bias: Place = None
    a_stride: Annotated[Sequence[int], 4] = (0,) * 4
    alpha: Real = 0.0
    b_format: int = 0


@dataclass(kw_only=True, eq=False)
class GemmBf16(Product):
    """``gemm_bf16_command``."""

    opcode: ClassVar[str] = "gemm_bf16"
    bias: Place = None
    a_stride: Annotated[Sequence[int], 4] = (0,) * 4
    alpha: Real = 0.0
    a_format: int = 0
    b_format: int = 0
    residual_format: int = 0
    out_format: int = 0


@dataclass(kw_only=True, eq=False)
class GemmInt8(Product, Int8Epilogue):
    """``gemm_int8_command``."""

    opcode: ClassVar[str] = "gemm_int8"
    a_stride: Annotated[Sequence[int], 3] = (0,) * 3
    a_format: int = 0
    a_zero: int = 0
    b_format: int = 0
    b_zero: int = 0
    row_scale: Place = None
    row_zero: Place = None
    row_stride: Annotated[Sequence[int], 3] = (0,) * 3


@dataclass(kw_only=True, eq=False)
class Move(Record):
    """``move_command``."""

    opcode: ClassVar[str] = "move"
    input: Place = None
    output: Place = None
    from_weights: int = 0
    fill: Real = 0.0
    dims: Annotated[Sequence[int], 6] = (0,) * 6
    in_stride: Annotated[Sequence[int], 6] = (0,) * 6
    out_stride: Annotated[Sequence[int], 6] = (0,) * 6
    format: int = 0


@dataclass(kw_only=True, eq=False)
class Gather(Record):
    """``gather_command``."""

    opcode: ClassVar[str] = "gather"
    table: Place = None
    index: Place = None
    output: Place = None
    table_in_weights: int = 0
    limit: int = 0
    row_stride: int = 0
    dims: Annotated[Sequence[int], 4] = (0,) * 4
    table_stride: Annotated[Sequence[int], 4] = (0,) * 4
    index_stride: Annotated[Sequence[int], 4] = (0,) * 4
    out_stride: Annotated[Sequence[int], 4] = (0,) * 4
    format: int = 0


@dataclass(kw_only=True, eq=False)
class Resample(Images, Int8Result):
    """``resample_command``."""

    opcode: ClassVar[str] = "resample"
    mode: int = 0
    channels: int = 0
    align_corners: int = 0
    scale: Annotated[Sequence[Real], 2] = (0.0,) * 2
    in_stride: Annotated[Sequence[int], 3] = (0,) * 3
    out_stride: Annotated[Sequence[int], 3] = (0,) * 3
    in_format: int = 0
    in_zero: int = 0
    in_scale: Real = 0.0
    out_inverse: Real = 0.0


@dataclass(kw_only=True, eq=False)
class Convert(Record):
    """``convert_command``."""

    opcode: ClassVar[str] = "convert"
    input: Place = None
    output: Place = None
    count: int = 0
    format: int = 0
    narrow: int = 0


@dataclass(kw_only=True, eq=False)
class Streams(Record):
    """``streams_command``."""

    opcode: ClassVar[str] = "streams"
    count: int = 0
    length: Annotated[Sequence[int], 32] = (0,) * 32


@dataclass(kw_only=True, eq=False)
class Pointwise(Record):
    """``pointwise_command``."""

    opcode: ClassVar[str] = "pointwise"
    program: Place = None
    instructions: int = 0
    constants: Place = None
    constant_count: int = 0
    inputs: int = 0
    outputs: int = 0
    dims: Annotated[Sequence[int], 4] = (0,) * 4
    broadcast: int = 0
    in_weights: int = 0
    stream: Annotated[Sequence[Place], 10] = (None,) * 10
    stride0: Annotated[Sequence[int], 10] = (0,) * 10
    stride1: Annotated[Sequence[int], 10] = (0,) * 10
    stride2: Annotated[Sequence[int], 10] = (0,) * 10


@dataclass(kw_only=True, eq=False)
class Pool(Epilogue, Images, Window):
    """``pool_command``."""

    opcode: ClassVar[str] = "pool"
    kind: int = 0
    channels: int = 0
    adaptive: int = 0
    count_include_pad: int = 0
    divisor: int = 0
    in_stride: Annotated[Sequence[int], 3] = (0,) * 3
    out_stride: Annotated[Sequence[int], 3] = (0,) * 3


@dataclass(kw_only=True, eq=False)
class PoolInt8(Images, Window, Int8Result):
    """``pool_int8_command``."""

    opcode: ClassVar[str] = "pool_int8"
    kind: int = 0
    channels: int = 0
    adaptive: int = 0
    count_include_pad: int = 0
    divisor: int = 0
    in_stride: Annotated[Sequence[int], 3] = (0,) * 3
    out_stride: Annotated[Sequence[int], 3] = (0,) * 3
    in_format: int = 0
    in_zero: int = 0
    divisors: Annotated[Sequence[int], 6] = (0,) * 6
    scales: Annotated[Sequence[int], 6] = (0,) * 6


@dataclass(kw_only=True, eq=False)
class Quantize(Record):
    """``quantize_command``."""

    opcode: ClassVar[str] = "quantize"
    input: Place = None
    output: Place = None
    dims: Annotated[Sequence[int], 5] = (0,) * 5
    in_stride: Annotated[Sequence[int], 5] = (0,) * 5
    out_stride: Annotated[Sequence[int], 5] = (0,) * 5
    out_format: int = 0
    inverse_scale: Real = 0.0
    zero: int = 0
    low: int = 0
    high: int = 0
    scales: Place = None
    zeros: Place = None
    scale_stride: Annotated[Sequence[int], 5] = (0,) * 5


@dataclass(kw_only=True, eq=False)
class Dequantize(Record):
    """``dequantize_command``."""

    opcode: ClassVar[str] = "dequantize"
    input: Place = None
    output: Place = None
    from_weights: int = 0
    dims: Annotated[Sequence[int], 5] = (0,) * 5
    in_stride: Annotated[Sequence[int], 5] = (0,) * 5
    out_stride: Annotated[Sequence[int], 5] = (0,) * 5
    in_format: int = 0
    zero: int = 0
    scale: Real = 0.0
    scales: Place = None
    zeros: Place = None
    scale_stride: Annotated[Sequence[int], 5] = (0,) * 5


@dataclass(kw_only=True, eq=False)
class AddInt8(Int8Result):
    """``add_int8_command``."""

    opcode: ClassVar[str] = "add_int8"
    a: Place = None
    b: Place = None
    output: Place = None
    table: Place = None
    dims: Annotated[Sequence[int], 5] = (0,) * 5
    a_stride: Annotated[Sequence[int], 5] = (0,) * 5
    b_stride: Annotated[Sequence[int], 5] = (0,) * 5
    out_stride: Annotated[Sequence[int], 5] = (0,) * 5
    a_format: int = 0
    a_zero: int = 0
    a_factor: int = 0
    b_format: int = 0
    b_zero: int = 0
    b_factor: int = 0


@dataclass(kw_only=True, eq=False)
class LookupInt8(Record):
    """``lookup_int8_command``."""

    opcode: ClassVar[str] = "lookup_int8"
    input: Place = None
    output: Place = None
    table: Place = None
    in_format: int = 0
    dims: Annotated[Sequence[int], 5] = (0,) * 5
    in_stride: Annotated[Sequence[int], 5] = (0,) * 5
    out_stride: Annotated[Sequence[int], 5] = (0,) * 5


@dataclass(kw_only=True, eq=False)
class Reduce(Epilogue, Int8Result):
    """``reduce_command``."""

    opcode: ClassVar[str] = "reduce"
    kind: int = 0
    input: Place = None
    output: Place = None
    scale: Place = None
    shift: Place = None
    second: Place = None
    kept: Annotated[Sequence[int], 3] = (0,) * 3
    reduced: Annotated[Sequence[int], 3] = (0,) * 3
    in_stride: Annotated[Sequence[int], 6] = (0,) * 6
    out_stride: Annotated[Sequence[int], 6] = (0,) * 6
    affine_stride: Annotated[Sequence[int], 6] = (0,) * 6
    eps: Real = 0.0
    in_format: int = 0
    in_zero: int = 0
    in_scale: Real = 0.0
    out_inverse: Real = 0.0


@dataclass(kw_only=True, eq=False)
class Scan(Record):
    """``scan_command``."""

    opcode: ClassVar[str] = "scan"
    kind: int = 0
    backward: int = 0
    input: Place = None
    output: Place = None
    kept: Annotated[Sequence[int], 4] = (0,) * 4
    length: int = 0
    in_stride: Annotated[Sequence[int], 5] = (0,) * 5
    out_stride: Annotated[Sequence[int], 5] = (0,) * 5


@dataclass(kw_only=True, eq=False)
class Winograd(Convolution):
    """``winograd_command``."""

    opcode: ClassVar[str] = "winograd"
    bias: Place = None
    tile_size: int = 0
    in_channels: int = 0
    out_channels: int = 0
    padding: Annotated[Sequence[int], 2] = (0,) * 2
    in_stride: Annotated[Sequence[int], 3] = (0,) * 3
    vectors: int = 0


@dataclass(kw_only=True, eq=False)
class Zip(Record):
    """``zip_command``."""

    opcode: ClassVar[str] = "zip"
    kind: int = 0
    a: Place = None
    b: Place = None
    output: Place = None
    a_from_weights: int = 0
    b_from_weights: int = 0
    a_real: int = 0
    b_real: int = 0
    out_real: int = 0
    a_conjugated: int = 0
    b_conjugated: int = 0
    dims: Annotated[Sequence[int], 5] = (0,) * 5
    a_stride: Annotated[Sequence[int], 5] = (0,) * 5
    b_stride: Annotated[Sequence[int], 5] = (0,) * 5
    out_stride: Annotated[Sequence[int], 5] = (0,) * 5


RECORDS: Mapping[str, type[Record]] = {
    "attention": Attention,
    "conv2d": Conv2d,
    "depthwise": Depthwise,
    "conv2d_int8": Conv2dInt8,
    "depthwise_int8": DepthwiseInt8,
    "fft": Fft,
    "gemm": Gemm,
    "gemm_bf16": GemmBf16,
    "gemm_int8": GemmInt8,
    "move": Move,
    "gather": Gather,
    "resample": Resample,
    "convert": Convert,
    "streams": Streams,
    "pointwise": Pointwise,
    "pool": Pool,
    "pool_int8": PoolInt8,
    "quantize": Quantize,
    "dequantize": Dequantize,
    "add_int8": AddInt8,
    "lookup_int8": LookupInt8,
    "reduce": Reduce,
    "scan": Scan,
    "winograd": Winograd,
    "zip": Zip,
}
"""The classes of this file by opcode."""
