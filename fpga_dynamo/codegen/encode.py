"""Commands -> the words of a command list, as the record tables in the xclbin's manifest lay them out."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Mapping, Sequence

import numpy as np

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.ir.command import Auxiliary, Bits, Command, Operand
from fpga_dynamo.ir.launch import CommandList, Patches
from fpga_dynamo.ir.sizes.size import Size, pinned
from fpga_dynamo.ir.sizes.size import value as hinted
from fpga_dynamo.ir.target import RecordField, Target
from fpga_dynamo.ir.view import Buffer, align
from fpga_dynamo.ir.weights import WeightBuffer

ABSENT = 0xFFFFFFFF

_RANGES = {"int32_t": (-(1 << 31), (1 << 31) - 1), "uint32_t": (0, 0xFFFFFFFF)}


def encode(
    commands: Sequence[Command], offsets: Mapping[Buffer, int], target: Target, patches: Patches | None = None
) -> CommandList:
    """`offsets`: place of every arena buffer, in floats. `patches`: gets the words that depend on sizes, if any may.

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
        record = fields_of(command.opcode, target)
        base = i * size
        words[base] = target.opcodes[command.opcode]
        for name, given in command.fields.items():
            try:
                entry, values = field_values(command.opcode, record, name, given)
            except ValueError as error:
                raise FpgaError(f"{_who(command)}: {error}") from error
            for j, item in enumerate(values):
                word = base + entry.word + j
                if isinstance(item, Auxiliary):
                    if item.words not in shared:
                        shared[item.words] = len(words) + len(tail)
                        tail += [*item.words, *[0] * (align(len(item.words)) - len(item.words))]
                    words[word] = shared[item.words]
                elif isinstance(item, Operand) and isinstance(item.buffer, WeightBuffer):
                    fixups.append((word, item.buffer, pinned(item.offset)))
                elif isinstance(item, Operand):
                    words[word] = offsets[item.buffer] + hinted(item.offset)
                    if patches is not None:
                        patches.arena.append((word, item.buffer, item.offset))
                elif isinstance(item, Size) and patches is not None and entry.type != "float":
                    words[word] = _checked_bits(hinted(item), entry, command)
                    patches.sizes.append((word, item))
                else:
                    words[word] = _checked_bits(item, entry, command)
    return CommandList(np.concatenate([words, np.array(tail, np.uint32)]), len(commands), tuple(fixups), patches)


def _who(command: Command) -> str:
    return f"pattern '{command.pattern}' on {' '.join(command.nodes)}" if command.nodes else "a command"


def _checked_bits(value: object, entry: RecordField, command: Command) -> int:
    try:
        return bits(value, entry)
    except ValueError as error:
        raise FpgaError(f"{_who(command)}: field '{entry.name}' of '{command.opcode}_command' {error}") from error


def fields_of(opcode: str, target: Target) -> Mapping[str, RecordField]:
    """The fields of the opcode's record, by name."""
    return {entry.name: entry for entry in target.records[opcode]}


def field_values(
    opcode: str, record: Mapping[str, RecordField], name: str, given: object
) -> tuple[RecordField, list[object]]:
    """A field of a record and the values for it. Raises ValueError, with a sentence, if it takes no such number."""
    entry = record.get(name)
    if entry is None:
        near = difflib.get_close_matches(name, record, n=1)
        hint = f"did you mean '{near[0]}'? It has" if near else "it has"
        raise ValueError(f"record '{opcode}_command' of the xclbin has no field '{name}'; {hint} {', '.join(record)}")
    values = list(given) if isinstance(given, (tuple, list)) else [given]
    if len(values) != entry.count:
        counted = f"{entry.count} value{'' if entry.count == 1 else 's'}"
        raise ValueError(f"field '{name}' of '{opcode}_command' takes {counted}, not {given!r}")
    return entry, values


def bits(value: object, field: RecordField) -> int:
    """The word of a plain value in a field of that type; None is ABSENT for an offset, and else 0.

    Raises ValueError, the end of a sentence, for a value that is no such number or does not fit.
    """
    if value is None:
        return ABSENT if field.type == "uint32_t" else 0
    if isinstance(value, Bits):
        return value.integer & 0xFFFFFFFF
    if field.type == "float":
        try:
            with np.errstate(over="ignore"):
                return int(np.float32(value).view(np.uint32))  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"takes float, not {value!r}") from error
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise ValueError(f"takes {field.type}, not {value!r}") from error
    least, most = _RANGES[field.type]
    if not least <= number <= most:
        raise ValueError(f"takes {field.type}, which {number} does not fit: it goes from {least} to {most}")
    return number & 0xFFFFFFFF
