"""What the dataflow engine (hls_kernels/engine) takes by its sizes: its array, memories, streams and ports.

These are sizes of the sources, so they are counted, and no clang is needed. The logic of the processes comes on top; it
is counted from the sources' IR (`kernels.py`).
"""

from __future__ import annotations

from ..engine import Engine
from ..hls.operators import Operators
from ..hls.resources import Component, Resources
from . import memories

ELEMENT_BYTES = {"int8": 1, "bfloat16": 2, "float32": 4}
WORD = 16  # channels of a word, CHANNELS of hls_kernels/engine/config.hpp
LINE_BITS = 512
_JOB_BITS, _JOB_WORDS = 32, 64  # jobs.hpp
_JOB_STREAMS, _VECTOR_JOB_STREAMS = 8, 8
_LINE_STREAM, _SHORT_LINES, _SHORT_STREAM = 128, 16, 4  # depths in streams.hpp
_TURNS = 8  # INTERLEAVE of hls_kernels/engine/config.hpp, of floats
_FUNCTION_ENTRIES = 4096  # of bfloat16, hls_kernels/engine/config.hpp
_CASCADE = 8  # DSPs, processes/mac_array.hpp
_VECTOR_ROWS = 256  # vector/plan.hpp
_ROW_SUMS_BITS, _ROW_SCALE_BITS = 128, 64  # vector/arithmetic.hpp
_ROW_PARTS = 16  # vector/streams.hpp


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


def skew(engine: Engine) -> Resources:
    """Registers in front of an int8 array: an activation waits for its place in the cascade, from the fourth on in a
    shift register; of weights those of the last of the four inputs that share a bank."""
    if engine.element != "int8":
        return Resources()
    acts = engine.pixels * engine.in_channels * 8
    pairs = engine.out_channels // 2 * engine.in_channels * 17
    return Resources(lut=acts * (_CASCADE - 3) / _CASCADE + pairs / 4, ff=acts + pairs)


def stream(bits: int, depth: int) -> Resources:
    """A stream: a register, or a shift register of LUTs, two of up to 16 places to a LUT (UG574) and one of up to 32; a
    deeper one is block RAM."""
    if depth <= 1:
        return Resources(lut=20, ff=bits + 20)
    if depth <= 32:
        return Resources(lut=(bits if depth > 16 else bits / 2) + 20, ff=bits + 20)
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
    stored = beat + beat // 16 if engine.element == "int8" else beat  # a bit more for each pair (elements.hpp)
    bank = memories.cost(memories.Memory(stored, 2 * engine.weight_steps, storage))
    return bank * (bits // beat) * (engine.out_channels // WORD)


def params(engine: Engine) -> Resources:
    """Two memories of offset, scale and bias of 16 channels, and the tables of the lanes."""
    blocks = engine.out_channels // WORD
    line = memories.Memory(32 * WORD, 2 * engine.set_tiles * blocks, "lutram" if blocks == 2 else "bram")
    found = memories.cost(line) * 3
    if engine.element == "int8":
        if engine.lanes == WORD:  # a copy for two lanes, of each of both tables (processes/epilogue.hpp)
            found += memories.cost(memories.Memory(8, 256, "bram")) * engine.lanes
        else:
            found += memories.cost(memories.Memory(8, 512, "lutram")) * engine.lanes
    elif engine.element == "bfloat16" and engine.activations:  # a copy for two lanes
        found += memories.cost(memories.Memory(64, _FUNCTION_ENTRIES // 4, "bram")) * (engine.lanes // 2)
    return found


def vector_memories(engine: Engine) -> Resources:
    """Two memories of a group's rows before and behind the second sweep: of int8 for words of the map and of the other,
    of floats for words of float32."""
    bits, count = (8, 4) if engine.element == "int8" else (32, 2)
    return memories.cost(memories.Memory(bits * WORD, 2 * engine.vector_depth, "bram")) * count


def vector_streams(engine: Engine) -> Resources:
    lines = _SHORT_LINES if engine.out_channels == WORD else _LINE_STREAM
    found = stream(_JOB_BITS, _JOB_WORDS) * _VECTOR_JOB_STREAMS
    if engine.element != "int8":  # no words in turn, but a process more
        found += stream(_JOB_BITS, _JOB_WORDS) + stream(LINE_BITS, _LINE_STREAM) * 2 + stream(LINE_BITS, lines) * 3
        return found + stream(64, _ROW_PARTS) * 2 + stream(32, _VECTOR_ROWS) * 2
    found += stream(LINE_BITS, _LINE_STREAM) * 2 + stream(LINE_BITS, lines) * 4
    return found + stream(_ROW_SUMS_BITS, _VECTOR_ROWS) * 2 + stream(_ROW_SCALE_BITS, _VECTOR_ROWS)


def least(engine: Engine, name: str, operators: Operators, banks: int = 1) -> Component:
    """The counted parts of the engine: all but the logic of its processes.

    banks: that its maps lie in. Each has a channel of three ports, with a unit that loads or stores of its own (UG1399,
    "M_AXI Channels"); it is counted as a whole adapter, so what channels share is counted too often.
    """
    storage = "uram" if engine.uram else "bram"
    blocks = engine.out_channels // WORD
    element_bits = 8 * ELEMENT_BYTES[engine.element]
    sum_bits = 32 * engine.pixels * (engine.out_channels + engine.row_sums)
    streams = stream(_JOB_BITS, _JOB_WORDS) * _JOB_STREAMS
    beat = 8 * engine.port_bytes
    streams += stream(beat, _LINE_STREAM * LINE_BITS // beat)
    short = _SHORT_LINES if blocks == 1 else _LINE_STREAM
    streams += stream(LINE_BITS, _LINE_STREAM) * 2 * blocks + stream(LINE_BITS, short) * (1 + blocks)
    streams += stream(engine.pixels * engine.in_channels * element_bits, _SHORT_STREAM)
    streams += stream(sum_bits, 1 if engine.element == "int8" else _TURNS) + stream(LINE_BITS + 4, _SHORT_STREAM) * 2
    widths = {"commands": 32, "weights": beat, "input": beat, "residual": beat, "output": LINE_BITS}
    channels = {port: banks if port in ("input", "residual", "output") else 1 for port in widths}
    ports = operators.control(sum(channels.values()) + 1)
    for port, bits in widths.items():
        ports += operators.port(bits, reads=port != "output", writes=port == "output") * channels[port]
    vector = [
        Component("memory", "vector side's memories", vector_memories(engine), "counted"),
        Component("streams", "vector side's streams", vector_streams(engine), "formula"),
    ]
    return Component("kernel", name, Resources(), "counted", parts=[
        Component("array", "array", array_units(engine, operators), "counted"),
        Component("array", "skew of its operands", skew(engine), "formula"),
        Component("memory", "window", window(engine, storage), "counted"),
        Component("memory", "weights", weights(engine, storage), "counted"),
        Component("memory", "params", params(engine), "counted"),
        Component("streams", "between processes", streams, "formula"),
        Component("ports", "m_axi and control", ports, "formula"),
        *(vector if engine.vector_lanes else []),
    ])  # fmt: skip
