"""The assembler of micro-programs: whatever registers it chooses, the instructions compute what was written down."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpga_dynamo.codegen.micro import (
    CONSTANT_BASE,
    REGISTERS,
    STREAM_BASE,
    Assembly,
    MicroLimits,
    MicroProgram,
    Operand,
    limits_of,
)
from fpga_dynamo.errors import XclbinError
from fpga_dynamo.ir.target import Target

OPS: dict[str, Callable[..., int]] = {
    "ADD": lambda a, b: a + b,
    "SUB": lambda a, b: a - b,
    "NEG": lambda a: -a,
    "FMA": lambda a, b, c: a * b + c,
}
ARITY = {"ADD": 2, "SUB": 2, "NEG": 1, "FMA": 3}
INPUTS = 3
LIMITS = MicroLimits(streams=10, constants=16, instructions=64)
MODULUS = 1_000_003


def execute(assembly: Assembly, inputs: list[int]) -> dict[int, int]:
    """Runs the instructions as the core does: registers that nothing wrote hold nothing."""
    registers: dict[int, int] = {}
    outputs: dict[int, int] = {}

    def read(code: int) -> int:
        if code >= CONSTANT_BASE:
            return int(assembly.constants[code - CONSTANT_BASE])
        return inputs[code - STREAM_BASE] if code >= STREAM_BASE else registers[code]

    for line in assembly.instructions:
        operands = [read(code) for code in (line.a, line.b, line.c)[: line.arity]]
        result = operands[0] if line.name == "COPY" else OPS[line.name](*operands) % MODULUS
        if line.target >= STREAM_BASE:
            outputs[line.target - STREAM_BASE] = result
        else:
            assert 0 <= line.target < REGISTERS
            registers[line.target] = result
    return outputs


@st.composite
def programs(draw: Any) -> tuple[MicroProgram, Operand, dict[Operand, int]]:
    """A program, one of its values, and what every value is for the inputs 2, 3, 5."""
    inputs = [2, 3, 5]
    program = MicroProgram()
    values = {program.stream(i): inputs[i] for i in range(INPUTS)}
    for number in draw(st.lists(st.integers(0, 9), max_size=4, unique=True)):
        values[program.constant(float(number))] = number
    for _ in range(draw(st.integers(0, 30))):
        name = draw(st.sampled_from(sorted(OPS)))
        operands = [draw(st.sampled_from(list(values))) for _ in range(ARITY[name])]
        values[program.op(name, *operands)] = OPS[name](*(values[o] for o in operands)) % MODULUS
    return program, draw(st.sampled_from(list(values))), values


@given(programs())
@settings(max_examples=300, deadline=None)
def test_the_instructions_compute_the_expression(drawn: Any) -> None:
    program, result, values = drawn
    assembly = program.assemble(result, INPUTS, LIMITS)
    if assembly is not None:
        assert execute(assembly, [2, 3, 5]) == {INPUTS: values[result]}


def test_what_fits_the_registers_is_not_refused() -> None:
    program = MicroProgram()
    live = [program.op("ADD", program.stream(0), float(i)) for i in range(REGISTERS)]
    total = live[0]
    for value in live[1:]:
        total = program.op("ADD", total, value)
    assert program.assemble(total, 1, LIMITS) is not None


def test_one_value_too_many_for_the_registers_is_refused() -> None:
    program = MicroProgram()
    live = [program.op("ADD", program.stream(0), float(i)) for i in range(REGISTERS + 1)]
    total = live[0]
    for value in live[1:]:
        total = program.op("ADD", total, value)
    assert program.assemble(total, 1, LIMITS) is None


def test_one_constant_or_instruction_or_stream_too_many_is_refused() -> None:
    many = MicroProgram()
    value = many.stream(0)
    for i in range(LIMITS.constants + 1):
        value = many.op("ADD", value, float(i))
    assert many.assemble(value, 1, LIMITS) is None
    long = MicroProgram()
    value = long.stream(0)
    for _ in range(LIMITS.instructions):
        value = long.op("NEG", value)
    assert long.assemble(value, 1, LIMITS) is None
    assert MicroProgram().assemble(MicroProgram.stream(0), LIMITS.streams, LIMITS) is None


def test_limits_are_those_of_the_card(target: Target) -> None:
    stream = next(field for field in target.records["pointwise"] if field.name == "stream")
    tiles = {**target.tiles, "POINTWISE_CONSTANTS": 3, "POINTWISE_PROGRAM": 5}
    assert limits_of(replace(target, tiles=tiles)) == MicroLimits(stream.count, constants=3, instructions=5)


def test_equal_operations_and_constants_are_computed_once() -> None:
    program = MicroProgram()
    x = program.stream(0)
    assert program.op("ADD", x, 1.0) == program.op("ADD", x, 1.0)
    assert program.constant(0.1) == program.constant(struct.unpack("<f", struct.pack("<f", 0.1))[0])
    assert program.constant(0.0) != program.constant(-0.0)
    assert len(program.operations) == 1


def test_registers_are_given_out_in_the_same_order_in_every_process() -> None:
    program = MicroProgram()
    a, b = program.op("NEG", program.stream(0)), program.op("NEG", program.stream(1))
    total = program.op("ADD", b, a)  # frees both, of which a set of them would have no order
    assembly = program.assemble(program.op("NEG", program.op("NEG", total)), 2, LIMITS)
    assert assembly is not None
    assert [line.target for line in assembly.instructions] == [0, 1, 0, 0, STREAM_BASE + 2]


def test_what_the_result_does_not_need_is_left_out() -> None:
    program = MicroProgram()
    program.op("NEG", program.stream(1))
    result = program.op("ADD", program.stream(0), 1.0)
    assembly = program.assemble(result, 2, LIMITS)
    assert assembly is not None and len(assembly.instructions) == 1


def test_a_number_beyond_float32_is_infinite() -> None:
    program = MicroProgram()
    program.constant(1e300)
    program.constant(-1e300)
    assert program.constant_words == [0x7F800000, 0xFF800000]


def test_words_are_laid_out_as_the_record_says(target: Target) -> None:
    program = MicroProgram()
    result = program.op("FMA", program.stream(0), 2.0, program.op("NEG", program.stream(1)))
    assembly = program.assemble(result, 2, LIMITS)
    assert assembly is not None
    negation, fma = target.enums["MICRO_NEG"], target.enums["MICRO_FMA"]
    assert assembly.words(target.enums) == (
        negation | 0 << 8 | 17 << 16,
        0,
        fma | 18 << 8 | 16 << 16 | 32 << 24,
        0,
    )
    assert assembly.constant_words == (0x40000000,)
    assert str(assembly) == "k0 = 2.0\nr0 = neg(s1)\ns2 = fma(s0, k0, r0)"


def test_every_operation_has_an_opcode(target: Target) -> None:
    with pytest.raises(XclbinError, match="MICRO_NOTHING"):
        target.enums["MICRO_NOTHING"]
    assert {f"MICRO_{name}" for name in OPS} <= set(target.enums)
