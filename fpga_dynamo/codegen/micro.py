"""Assembler of the pointwise core's micro-programs (command.hpp, enum micro_op): expressions -> registers -> words."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from fpga_dynamo.ir.records import Pointwise
from fpga_dynamo.ir.target import Target

REGISTERS = 8
STREAM_BASE = 16
CONSTANT_BASE = 32
"""Codes of operands in an instruction word: registers from 0 on, streams and constants from these (command.hpp)."""


@dataclass(frozen=True)
class MicroLimits:
    """Most streams, constants and instructions of a micro-program."""

    streams: int
    constants: int
    instructions: int


def limits_of(target: Target) -> MicroLimits:
    """Streams as many as the record has places for, the others as the recipe's tiles say."""
    streams = (field.count for field in target.records.get(Pointwise.opcode, ()) if field.name == "stream")
    return MicroLimits(next(streams, 0), target.tiles["POINTWISE_CONSTANTS"], target.tiles["POINTWISE_PROGRAM"])


@dataclass(frozen=True)
class Operand:
    """A value in a micro-program: a temporary (SSA number), a stream or a constant."""

    kind: str  # "temporary", "stream", "constant"
    index: int


class MicroProgram:
    """Collects operations in SSA form; equal operations are computed once."""

    def __init__(self) -> None:
        self.operations: list[tuple[str, tuple[Operand, ...]]] = []
        self.constant_words: list[int] = []
        self._known: dict[tuple[str, tuple[Operand, ...]], Operand] = {}
        self._constant_index: dict[int, int] = {}

    def constant(self, number: float) -> Operand:
        """A number as a float32."""
        return self._word(struct.unpack("<I", struct.pack("<f", _to_float32(number)))[0])

    def integer(self, number: int) -> Operand:
        """A number as an int32, which it must fit."""
        return self._word(struct.unpack("<I", struct.pack("<i", number))[0])

    def _word(self, bits: int) -> Operand:
        if bits not in self._constant_index:
            self._constant_index[bits] = len(self.constant_words)
            self.constant_words.append(bits)
        return Operand("constant", self._constant_index[bits])

    @staticmethod
    def stream(index: int) -> Operand:
        return Operand("stream", index)

    def op(self, name: str, *args: Operand | float) -> Operand:
        """Appends operation MICRO_<NAME>; numbers become constants."""
        operands = tuple(a if isinstance(a, Operand) else self.constant(a) for a in args)
        key = (name, operands)
        if key not in self._known:
            self._known[key] = Operand("temporary", len(self.operations))
            self.operations.append(key)
        return self._known[key]

    def assemble(self, result: Operand, output_stream: int, limits: MicroLimits) -> Assembly | None:
        """Allocates registers, the result going straight to `output_stream`. None if the program does not fit."""
        if len(self.constant_words) > limits.constants or output_stream >= limits.streams:
            return None
        needed = self._needed(result)
        if len(needed) + 1 > limits.instructions:
            return None
        last_use: dict[int, int] = {}
        for position in needed:
            for operand in self.operations[position][1]:
                if operand.kind == "temporary":
                    last_use[operand.index] = position
        free = list(reversed(range(REGISTERS)))
        where: dict[int, int] = {}
        lines: list[Instruction] = []

        def code(operand: Operand) -> int:
            if operand.kind == "temporary":
                return where[operand.index]
            return operand.index + (STREAM_BASE if operand.kind == "stream" else CONSTANT_BASE)

        for position in needed:
            name, operands = self.operations[position]
            sources = [code(o) for o in operands]
            for operand in dict.fromkeys(operands):
                if operand.kind == "temporary" and last_use[operand.index] == position:
                    free.append(where[operand.index])
            if result == Operand("temporary", position):
                target = STREAM_BASE + output_stream
            else:
                if not free:
                    return None
                target = where[position] = free.pop()
            a, b, c = (*sources, 0, 0, 0)[:3]
            lines.append(Instruction(name, target, a, b, c, len(sources)))
        if result.kind != "temporary":
            lines.append(Instruction("COPY", STREAM_BASE + output_stream, code(result), arity=1))
        return Assembly(tuple(lines), tuple(self.constant_words))

    def _needed(self, result: Operand) -> list[int]:
        """Positions of the operations that `result` depends on, in order."""
        needed: set[int] = set()
        stack = [result]
        while stack:
            operand = stack.pop()
            if operand.kind == "temporary" and operand.index not in needed:
                needed.add(operand.index)
                stack += self.operations[operand.index][1]
        return sorted(needed)


@dataclass(frozen=True)
class Instruction:
    """One micro-instruction with operand codes as in command.hpp."""

    name: str
    target: int
    a: int
    b: int = 0
    c: int = 0
    arity: int = field(default=1, compare=False)

    def __str__(self) -> str:
        operands = ", ".join(_code_name(code) for code in (self.a, self.b, self.c)[: self.arity])
        return f"{_code_name(self.target)} = {self.name.lower()}({operands})"


@dataclass(frozen=True)
class Assembly:
    """A micro-program with registers allocated."""

    instructions: tuple[Instruction, ...]
    constant_words: tuple[int, ...]

    def words(self, enums: Mapping[str, int]) -> tuple[int, ...]:
        """Two 32-bit words an instruction."""
        out = []
        for line in self.instructions:
            out += [enums[f"MICRO_{line.name}"] | line.target << 8 | line.a << 16 | line.b << 24, line.c]
        return tuple(out)

    @property
    def constants(self) -> tuple[float, ...]:
        """The constants as floats, which they are but for those of integer operations."""
        return tuple(struct.unpack("<f", struct.pack("<I", word))[0] for word in self.constant_words)

    def __str__(self) -> str:
        constants = "".join(f"k{i} = {number!r}\n" for i, number in enumerate(self.constants))
        return constants + "\n".join(str(line) for line in self.instructions)


def _code_name(code: int) -> str:
    if code >= CONSTANT_BASE:
        return f"k{code - CONSTANT_BASE}"
    return f"s{code - STREAM_BASE}" if code >= STREAM_BASE else f"r{code}"


def _to_float32(number: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
