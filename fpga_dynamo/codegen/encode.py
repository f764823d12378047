"""Commands -> the words of a command list, as the record tables in the xclbin's manifest lay them out."""

from __future__ import annotations

import difflib
import math
import operator
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.ir.command import Auxiliary, Bits, Command, Operand, OwnRecord
from fpga_dynamo.ir.launch import CommandList, Patches
from fpga_dynamo.ir.records import ABSENT
from fpga_dynamo.ir.sizes.size import Size, pinned
from fpga_dynamo.ir.sizes.size import value as hinted
from fpga_dynamo.ir.target import RecordField, Target
from fpga_dynamo.ir.view import Buffer, align
from fpga_dynamo.ir.weights import WeightBuffer

_NOTHING = {"int32_t": 0, "uint32_t": ABSENT, "float": 0}
"""Words of None."""

_RANGES = {"int32_t": (-(1 << 31), (1 << 31) - 1), "uint32_t": (0, 0xFFFFFFFF)}


def encode(
    commands: Sequence[Command], places: Mapping[Buffer, int], target: Target, patches: Patches | None = None
) -> CommandList:
    """`places`: of every arena buffer, in beats. `patches`: gets the words that depend on sizes, if any may.

    Raises :class:`FpgaError` for an opcode or a field that the xclbin does not have, or a value that does not fit it.
    """
    size = target.command_words
    words = [0] * (len(commands) * size)
    tail: list[int] = []
    shared: dict[tuple[int, ...], int] = {}
    fixups: list[tuple[int, WeightBuffer, int]] = []
    records: dict[str, Mapping[str, RecordField]] = {}
    for i, command in enumerate(commands):
        if command.opcode not in target.opcodes:
            raise FpgaError(f"{_who(command)}: the xclbin has no opcode '{command.opcode}'")
        record = records.get(command.opcode) or records.setdefault(command.opcode, fields_of(command.opcode, target))
        base = i * size
        words[base] = target.opcodes[command.opcode]
        for name, given in command.fields.items():
            entry = record.get(name)
            values: Sequence[Any] = given if type(given) is tuple else (given,)
            if entry is None and not isinstance(command.record, OwnRecord) and all(map(_is_left_out, values)):
                continue  # what an xclbin of older cores does not know, and need not
            if entry is None or len(values) != entry.count:
                try:
                    entry, values = field_values(command.opcode, record, name, given)
                except ValueError as error:
                    raise FpgaError(f"{_who(command)}: {error}") from error
            for word, item in enumerate(values, base + entry.word):
                kind = type(item)
                if kind is int and entry.type == "int32_t" and -0x80000000 <= item < 0x80000000:
                    words[word] = item & 0xFFFFFFFF
                elif item is None:
                    words[word] = _NOTHING[entry.type]
                elif kind is Operand:
                    if isinstance(item.buffer, WeightBuffer):
                        fixups.append((word, item.buffer, pinned(item.offset)))
                        continue
                    words[word] = places[item.buffer] * item.buffer.element.lanes + hinted(item.offset)
                    if patches is not None:
                        patches.arena.append((word, item.buffer, item.offset))
                elif kind is Auxiliary:
                    if item.words not in shared:
                        shared[item.words] = len(words) + len(tail)
                        tail += [*item.words, *[0] * (align(len(item.words)) - len(item.words))]
                    words[word] = shared[item.words]
                elif kind is Size and patches is not None and entry.type != "float":
                    words[word] = _checked_bits(hinted(item), entry, command)
                    patches.sizes.append((word, item))
                else:
                    words[word] = _checked_bits(item, entry, command)
    return CommandList(np.array(words + tail, np.uint32), len(commands), tuple(fixups), patches)


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
    """A field of a record and the values for it. Raises ValueError, with a message, for a number that does not fit."""
    entry = record.get(name)
    if entry is None:
        near = difflib.get_close_matches(name, record, n=1)
        hint = f"did you mean '{near[0]}'? It has" if near else "it has"
        raise ValueError(f"record '{opcode}_command' of the xclbin has no field '{name}'; {hint} {', '.join(record)}")
    values = list(given) if isinstance(given, (tuple, list)) else [given]
    if len(values) != entry.count:
        counted = f"{entry.count} value{'' if entry.count == 1 else 's'}"
        raise ValueError(f"field '{name}' of '{opcode}_command' expects {counted}, not {given!r}")
    return entry, values


def _is_left_out(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and value == 0)


def _float_bits(number: float) -> int:
    """Of the nearest float32, an infinity for what is too large."""
    try:
        return int.from_bytes(struct.pack("<f", number), "little")
    except OverflowError:
        return int.from_bytes(struct.pack("<f", math.copysign(math.inf, number)), "little")


def bits(value: object, field: RecordField) -> int:
    """The word of a plain value in a field of that type; None is ABSENT for an offset, and else 0.

    Raises ValueError, the end of a sentence, for a value that is no such number or does not fit.
    """
    if value is None:
        return _NOTHING[field.type]
    if isinstance(value, Bits):
        return value.integer & 0xFFFFFFFF
    if field.type == "float":
        try:
            return _float_bits(float(value))  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"expects float, not {value!r}") from error
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise ValueError(f"expects {field.type}, not {value!r}") from error
    least, most = _RANGES[field.type]
    if not least <= number <= most:
        raise ValueError(f"is {field.type} ({least} to {most}), and {number} is out of range")
    return number & 0xFFFFFFFF
