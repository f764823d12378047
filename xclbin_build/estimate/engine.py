"""What the dataflow engine (hls_kernels/engine) takes by its sizes: its array, memories, streams and ports.

These are sizes of the sources, so they are counted, and no clang is needed. The logic of the processes comes on top; it
is counted from the sources' IR (`kernels.py`).
"""

from __future__ import annotations

from ..engine import Engine
from . import memories
from .operators import Operators
from .resources import Part, Resources

ELEMENT_BYTES = {"int8": 1, "bfloat16": 2, "float32": 4}
WORD = 16  # channels of a word, CHANNELS of hls_kernels/engine/config.hpp
LINE_BITS = 512
_JOB_BITS, _JOB_WORDS = 32, 64  # jobs.hpp
_LINE_STREAM, _SHORT_STREAM = 128, 4  # depths in streams.hpp


def products(engine: Engine) -> int:
    """DSPs of the array. int8: two products share one; floating point: a multiplier and an adder each."""
    each = engine.pixels * engine.out_channels * engine.in_channels
    return each // 2 if engine.element == "int8" else 0


def array_units(engine: Engine, operators: Operators) -> Resources:
    """Multipliers and adders of a floating-point array: a tree of IC products, and the sum that it is added to."""
    if engine.element == "int8":
        return Resources(dsp=products(engine))
    each = engine.pixels * engine.out_channels * engine.in_channels
    return (operators.unit("fmul") + operators.unit("fadd")) * each


def stream(bits: int, depth: int) -> Resources:
    """A stream: up to 32 deep a shift register of LUTs and one of flip-flops (UG574), else block RAM."""
    if depth <= 32:
        return Resources(lut=bits + 20, ff=bits + 20)
    return Resources(bram36=memories.bram18(bits, depth) / 2, lut=40, ff=2 * bits)


def window(engine: Engine, storage: str) -> Resources:
    """Two memories of P banks of a word."""
    bits = WORD * 8 * ELEMENT_BYTES[engine.element]
    bank = memories.cost(memories.Memory(bits, 2 * engine.window_rows, storage))
    return bank * engine.pixels


def weights(engine: Engine, storage: str) -> Resources:
    """Two memories of a step's weights for each block of 16 output channels, in banks of a beat."""
    bits = WORD * engine.in_channels * 8 * ELEMENT_BYTES[engine.element]
    beat = 8 * engine.port_bytes
    bank = memories.cost(memories.Memory(beat, 2 * engine.weight_steps, storage))
    return bank * (bits // beat) * (engine.out_channels // WORD)


def params(engine: Engine) -> Resources:
    """Two memories of offset, scale and bias of 16 channels, and the tables of the lanes."""
    tiles = memories.cost(memories.Memory(3 * 32 * WORD, 2 * engine.set_tiles, "lutram"))
    found = tiles * (engine.out_channels // WORD)
    if engine.element == "int8":
        found += memories.cost(memories.Memory(8, 512, "lutram")) * engine.lanes
    return found


def least(engine: Engine, name: str, operators: Operators) -> Part:
    """The counted parts of the engine: all but the logic of its processes."""
    storage = "uram" if engine.uram else "bram"
    blocks = engine.out_channels // WORD
    element_bits = 8 * ELEMENT_BYTES[engine.element]
    sum_bits = 32 * (engine.pixels * engine.out_channels + engine.pixels)
    streams = stream(_JOB_BITS, _JOB_WORDS) * 10
    beat = 8 * engine.port_bytes
    streams += stream(beat, _LINE_STREAM * LINE_BITS // beat)
    streams += stream(LINE_BITS, _LINE_STREAM) * (1 + 3 * blocks)
    streams += stream(engine.pixels * engine.in_channels * element_bits, _SHORT_STREAM)
    streams += stream(sum_bits, 2) + stream(LINE_BITS + 4, _SHORT_STREAM) * 2
    widths = {"commands": 32, "weights": beat, "input": beat, "residual": LINE_BITS, "output": LINE_BITS}
    ports = operators.control(len(widths) + 1)
    for port, bits in widths.items():
        ports += operators.port(bits, reads=port != "output", writes=port == "output")
    return Part("kernel", name, Resources(), "counted", parts=[
        Part("array", "array", array_units(engine, operators), "counted"),
        Part("memory", "window", window(engine, storage), "counted"),
        Part("memory", "weights", weights(engine, storage), "counted"),
        Part("memory", "params", params(engine), "counted"),
        Part("streams", "between processes", streams, "formula"),
        Part("ports", "m_axi and control", ports, "formula"),
    ])  # fmt: skip
