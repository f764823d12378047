"""A list of engine commands as a launch of the runtime: its words, and its commands as `explain` tells them."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from itertools import accumulate

import numpy as np

from fpga_dynamo.ir.command import Command as CommandReport
from fpga_dynamo.ir.command import OwnRecord
from fpga_dynamo.ir.launch import CommandList
from fpga_dynamo.ir.weights import WeightBuffer

from .command import COMMAND_BYTES, IdleCommand, MacCommand
from .commands import Emitted, Lists
from .cycles import moved_lines, reads_function
from .sizes import FUNCTION_LINES, LINE_BYTES, EngineSizes
from .target import EngineTarget
from .timeline import ends_together
from .vector import VectorCommand

OPCODES = {MacCommand: "mac", VectorCommand: "vector"}
"""What a recipe calls the commands of an engine."""


def _positions(record: type) -> Mapping[str, int]:
    """The word at which each field of a record begins."""
    found, word = {}, 0
    for field in fields(record):
        found[field.name] = word
        word += len(field.default) if isinstance(field.default, tuple) else 1
    return found


_WORDS = {record: _positions(record) for record in OPCODES}


def moved_bytes(launch: Sequence[Emitted], sizes: EngineSizes) -> list[int]:
    """Of each command of a launch, what passes the ports of all units, by its cut; functions where they are read."""
    held: dict[int, int] = {}  # the function that a unit has
    found = []
    for emitted in launch:
        lines = 0
        for unit, command in enumerate(emitted.commands):
            if isinstance(command, MacCommand):
                lines += moved_lines(command, sizes)
                if reads_function(command, sizes, held.get(unit)):
                    lines += FUNCTION_LINES
                    held[unit] = command.table
            elif isinstance(command, VectorCommand):
                lines += command.moved_lines(sizes)
        found.append(lines * LINE_BYTES)
    return found


def modelled_ends(launch: Sequence[Emitted], engine: EngineTarget) -> list[float]:
    """The cycle in which each command of a launch ends, by the cost model."""
    lists = [[emitted.commands[unit] for emitted in launch] for unit in range(engine.units)]
    # A command may end before one that stands before it, if others than its unit work on that.
    return list(accumulate(ends_together(lists, engine.sizes, engine.memory), max))


def encoded(launch: Sequence[Emitted], lists: Lists, units: int) -> CommandList:
    """The words of each unit's list, one behind the other, whose constants wait for their places."""
    commands = [emitted.commands[unit] for unit in range(units) for emitted in launch]
    words = np.frombuffer(b"".join(command.words() for command in commands), "<u4").astype(np.uint32)
    lines = sorted(lists.packs)
    fixups: list[tuple[int, WeightBuffer, int]] = []
    for i, command in enumerate(commands):
        if isinstance(command, IdleCommand):
            continue
        for name, line in _constants(command).items():
            at = lines[bisect.bisect(lines, line) - 1]
            buffer = lists.packs[at]
            assert line < at + buffer.pack.beats, f"command {i} has {name} in line {line}, where no pack is"
            fixups.append((i * COMMAND_BYTES // 4 + _WORDS[type(command)][name], buffer, line - at))
    return CommandList(words, len(launch), tuple(fixups), in_beats=True)


def _constants(command: MacCommand | VectorCommand) -> dict[str, int]:
    """The fields that are lines of the weights' region."""
    if isinstance(command, VectorCommand):
        return {"params": command.params} if command.params_lines else {}
    found = {"params": command.params}
    if command.has_weights and not command.second_operand_is_map:
        found["weight"] = command.weight
    if command.table:
        found["table"] = command.table
    return found


def command_reports(
    launch: Sequence[Emitted], engine: EngineTarget, names: Callable[[Emitted], tuple[str, ...]]
) -> list[CommandReport]:
    """The commands with what they move, and the cycles from one's end to the next one's by the cost model.

    Of several units that share a command, all together, with the record of the first that is not idle. names: of the
    nodes that a command is for.
    """
    ends = modelled_ends(launch, engine)
    found = []
    moved = moved_bytes(launch, engine.sizes)
    for emitted, size, before, end in zip(launch, moved, [0.0, *ends], ends, strict=False):
        command = emitted.command
        record = OwnRecord(OPCODES[type(command)], {f.name: getattr(command, f.name) for f in fields(command)})
        made, macs = emitted.pattern, emitted.macs
        found.append(CommandReport(record, (), (), names(emitted), made, macs=macs, bytes=size, cycles=end - before))
    return found
