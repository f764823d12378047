"""What the sequencer's cores use at least: their arrays of multiply-accumulate units and their largest local memories.

Both are sizes of the sources, so they are counted, and no clang is needed; all other logic comes on top.
"""

from __future__ import annotations

from ..design import Kernel
from ..hls.operators import Operators
from ..hls.resources import Component, Resources
from . import memories

_LANES = 16  # of a vector
_MAC_CORES = ("conv2d", "winograd", "gemm", "attention")  # each has an array: it is instantiated per caller
_INT8_CORES = ("conv2d_int8", "gemm_int8")
_BF16_CORES = ("gemm_bf16",)
_SLAB_CORES = ("conv2d", "gemm", "attention", *_INT8_CORES, *_BF16_CORES)
_PORTS = ((True, False), (True, True), (True, False))  # commands, arena, weights: whether they read, and write
_PORT_BITS = 512


def mac_array(tiles: dict[str, int], operators: Operators) -> Resources:
    """One array of ROWS x MAX_VECTORS * 16 multipliers and adders of float32."""
    units = tiles["ROWS"] * tiles["MAX_VECTORS"] * _LANES
    return (operators.unit("fmul") + operators.unit("fadd")) * units


def int8_array(tiles: dict[str, int]) -> Resources:
    """One array of as many sums, four products of 8 bits each, two of which share a DSP."""
    return Resources(dsp=tiles["ROWS"] * tiles["MAX_VECTORS"] * _LANES * 4 / 2)


def bf16_array(tiles: dict[str, int], operators: Operators) -> Resources:
    """One array of as many sums of two products of bfloat16 each, which are multiplied and added up as float32."""
    return mac_array(tiles, operators) * 2


def least(kernel: Kernel, tiles: dict[str, int], operators: Operators, has_uram: bool) -> Component:
    """The counted parts of a sequencer."""
    part = Component("kernel", kernel.name, Resources(), "counted")
    for core in kernel.cores:
        if core.name in _MAC_CORES:
            part.parts.append(Component("array", f"MAC array of {core.name}", mac_array(tiles, operators), "counted"))
        if core.name in _INT8_CORES:
            part.parts.append(Component("array", f"array of {core.name}", int8_array(tiles), "counted"))
        if core.name in _BF16_CORES:
            array = bf16_array(tiles, operators)
            part.parts.append(Component("array", f"array of {core.name}", array, "counted"))
        if core.name in _SLAB_CORES:
            slab = memories.cost(memories.Memory(32, tiles["SLAB_FLOATS"]), has_uram=has_uram)
            part.parts.append(Component("memory", f"slab of {core.name}", slab, "counted"))
    ports = operators.control(len(kernel.arguments))
    for reads, writes in _PORTS:
        ports += operators.port(_PORT_BITS, reads=reads, writes=writes)
    part.parts.append(Component("ports", "m_axi and control", ports, "formula"))
    return part
