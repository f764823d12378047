"""Commands -> the words of a command list, as the record tables in the xclbin's manifest lay them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.lowering.command import Auxiliary, Bits, Command, Operand
from fpga_dynamo.lowering.target import RecordField, Target
from fpga_dynamo.lowering.view import Buffer, align
from fpga_dynamo.lowering.weights import WeightBuffer

ABSENT = 0xFFFFFFFF


@dataclass(frozen=True)
class CommandList:
    """words: records, then what they refer to. fixups: (word, buffer, offset) that wait for the weights' addresses."""

    words: npt.NDArray[np.uint32]
    count: int
    fixups: tuple[tuple[int, WeightBuffer, int], ...]

    def bound(self, weights: Mapping[Buffer, int]) -> npt.NDArray[np.uint32]:
        """The words with every weight at its offset (floats)."""
        words = self.words.copy()
        for word, buffer, offset in self.fixups:
            words[word] = weights[buffer] + offset
        return words


def encode(commands: Sequence[Command], offsets: Mapping[Buffer, int], target: Target) -> CommandList:
    """`offsets`: place of every arena buffer, in floats.

    Raises :class:`FpgaError` for an opcode or a field that the xclbin does not have, or a value that does not fit it.
    """
    size = target.command_words
    words = np.zeros(len(commands) * size, np.uint32)
    tail: list[int] = []
    shared: dict[tuple[int, ...], int] = {}
    fixups: list[tuple[int, WeightBuffer, int]] = []
    for i, command in enumerate(commands):
        if command.opcode not in target.opcodes:
            raise FpgaError(f"{_who(command)}: the xclbin has no opcode '{command.opcode}'")
        record = {field.name: field for field in target.records[command.opcode]}
        base = i * size
        words[base] = target.opcodes[command.opcode]
        for name, given in command.fields.items():
            field = record.get(name)
            if field is None:
                raise FpgaError(
                    f"{_who(command)}: record '{command.opcode}_command' of the xclbin has no field '{name}' "
                    f"(fields: {', '.join(record)})"
                )
            values = list(given) if isinstance(given, (tuple, list)) else [given]
            if len(values) != field.count:
                raise FpgaError(
                    f"{_who(command)}: field '{name}' of '{command.opcode}_command' takes {field.count} values, "
                    f"not {given!r}"
                )
            for j, value in enumerate(values):
                word = base + field.word + j
                if isinstance(value, Auxiliary):
                    if value.words not in shared:
                        shared[value.words] = len(words) + len(tail)
                        tail += [*value.words, *[0] * (align(len(value.words)) - len(value.words))]
                    words[word] = shared[value.words]
                elif isinstance(value, Operand) and isinstance(value.buffer, WeightBuffer):
                    fixups.append((word, value.buffer, value.offset))
                elif isinstance(value, Operand):
                    words[word] = offsets[value.buffer] + value.offset
                else:
                    try:
                        words[word] = _bits(value, field)
                    except (TypeError, ValueError) as error:
                        raise FpgaError(
                            f"{_who(command)}: field '{name}' of '{command.opcode}_command' takes {field.type}, "
                            f"not {value!r}"
                        ) from error
    return CommandList(np.concatenate([words, np.array(tail, np.uint32)]), len(commands), tuple(fixups))


def _who(command: Command) -> str:
    return f"pattern '{command.pattern}' on {' '.join(command.nodes)}" if command.nodes else "a command"


def _bits(value: object, field: RecordField) -> int:
    if value is None:
        return ABSENT if field.type == "uint32_t" else 0
    if isinstance(value, Bits):
        return value.integer & 0xFFFFFFFF
    if field.type == "float":
        return int(np.float32(value).view(np.uint32))  # type: ignore[arg-type]
    return int(value) & 0xFFFFFFFF  # type: ignore[call-overload]
