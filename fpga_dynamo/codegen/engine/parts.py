"""Splits a command whose weights, window row or kernel do not fit into an engine's memories.

Depthwise commands are split by channels. Other sums are split by rows of the kernel and by blocks of input channels.
All parts but the last store their sums, 32 bits each; all but the first start from the stored sums. So the result is
bit-identical to that of a single command. Only the first part adds the offsets for zero points.

A row that is wider than the window is split by rows of the kernel too, not by columns. A window is filled with whole
rows as they lie in memory, in long bursts. Parts of the columns would need a burst for each row and block, and two
parts would share words at both ends. Partial sums cost a line a pixel and block each way, in parallel with the array. A
row of one block that is wider than the window alone is not cut here: width_tiling.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fpga_dynamo.ir.view import ceil_div

from .choose import DoesNotFitError, chosen, flattened, tiled
from .command import NO_OPERAND, CommandGeometry, Flags, MacCommand, Operation
from .cycles import PARAMS_LINES, MemoryTiming, cycles
from .sizes import CHANNELS, EngineSizes

Span = tuple[int, int]
"""The first, and what is behind the last."""


@dataclass(frozen=True)
class TransposedKernel:
    """A kernel's columns are a command's rows (width_tiling.py), and its rows, if there are several, channels of one.

    group: output channels that have their inputs to themselves; 0: it works channel by channel.
    """

    group: int


@dataclass(frozen=True)
class CommandPart:
    """A command of those that one becomes. block: where in the output's blocks of channels it begins.

    rows, channels: what it sums, of the kernel's rows and of the input's channels; None: all of them.
    transposed: how the kernel lies before they are cut, if not as it came.
    Sums lie at line 0, and what leaves sums has the result's address, until somebody has a place for them.
    """

    command: MacCommand
    block: int = 0
    rows: Span | None = None
    channels: Span | None = None
    transposed: TransposedKernel | None = None


def parts_of(command: MacCommand, sizes: EngineSizes, memory: MemoryTiming) -> list[CommandPart]:
    """A command, cut for the engine, in as many parts as it needs.

    Addresses of input, output, residual and params are the parts'; weights are not: each part is packed by itself.
    Raises DoesNotFitError if the least that can be a part is too much.
    """
    if command.one_to_one:
        return _channel_parts(command, sizes, memory)
    try:
        return [CommandPart(chosen(command, sizes, memory))]
    except DoesNotFitError as error:
        return _summed(command, sizes, memory, error)


def sums_lines(command: MacCommand) -> int:
    """Lines of the sums that a part leaves: one for 16 channels of a pixel."""
    c = command
    return c.images * c.out_blocks * c.out_height * c.out_width


# --- channel by channel -----------------------------------------------------------------------------------------------


def _channel_parts(command: MacCommand, sizes: EngineSizes, memory: MemoryTiming) -> list[CommandPart]:
    pieces = 1
    while True:
        blocks = ceil_div(command.in_blocks, pieces)
        firsts = range(0, command.in_blocks, blocks)
        parts = [_of_channels(command, first, blocks, sizes) for first in firsts]
        try:
            return [CommandPart(chosen(part, sizes, memory), first) for first, part in zip(firsts, parts, strict=True)]
        except DoesNotFitError as error:
            if blocks == 1:
                cut = _summed(parts[0], sizes, memory, error)
                return [
                    _moved(part, parts[0], to, first) for first, to in zip(firsts, parts, strict=True) for part in cut
                ]
        pieces *= 2


def _moved(part: CommandPart, first: MacCommand, to: MacCommand, block: int) -> CommandPart:
    """What is a part of `first`, as the same part of another block's command."""
    c = part.command
    moved = replace(c, input=c.input + to.input - first.input, output=c.output + to.output - first.output)
    moved = replace(moved, params=c.params + to.params - first.params)
    if c.has_residual:
        moved = replace(moved, residual=c.residual + to.residual - first.residual)
    return replace(part, command=moved, block=block)


def _of_channels(command: MacCommand, first: int, blocks: int, sizes: EngineSizes) -> MacCommand:
    c, count = command, min(blocks, command.in_blocks - first)
    in_plane = ceil_div(c.in_height * c.in_width, sizes.beat)
    out_plane = c.out_plane or ceil_div(c.out_height * c.out_width, sizes.beat)
    part = replace(c, in_blocks=count, out_blocks=count, input=c.input + first * in_plane)
    part = replace(part, output=c.output + first * out_plane, params=c.params + first * PARAMS_LINES)
    return replace(part, residual=c.residual + first * out_plane) if c.has_residual else part


# --- partial sums -----------------------------------------------------------------------------------------------------


def _summed(command: MacCommand, sizes: EngineSizes, memory: MemoryTiming, why: DoesNotFitError) -> list[CommandPart]:
    """The parts of fewest cycles by the formula. Raises `why` if no split fits."""
    if command.second_operand_is_map or command.operation is Operation.MAXIMUM or sizes.is_float:
        raise why  # floats are cut in lowering, and leave a result of each piece (lowering/ops/engine/floats/depth.py)
    c = flattened(tiled(command, sizes), sizes)
    if not sizes.partial_sums:
        if any(_candidates(c, replace(sizes, partial_sums=True))):
            raise DoesNotFitError(
                f"{why}, and the recipe has no partial sums; int8 recipes of other platforms have them"
            ) from why
        raise why
    found: dict[float, list[CommandPart]] = {}
    for parts in _candidates(c, sizes):
        found.setdefault(_cycles(parts, sizes, memory), parts)
    if not found:
        raise why
    return [replace(part, command=chosen(part.command, sizes, memory)) for part in found[min(found)]]


def _cycles(parts: list[CommandPart], sizes: EngineSizes, memory: MemoryTiming) -> float:
    """Of all parts; those of a size count as the first of them."""
    known: dict[tuple[object, ...], float] = {}
    total = 0.0
    for part in parts:
        c = part.command
        size = (c.kernel, c.in_blocks, c.has_sums, c.raw)
        if size not in known:
            known[size] = cycles(chosen(c, sizes, memory), sizes, memory).total
        total += known[size]
    return total


def _candidates(c: MacCommand, sizes: EngineSizes) -> Iterator[list[CommandPart]]:
    """Ways to cut a command with tiles: for each number of rows the fewest parts of channels that fit, and one more."""
    dense = not c.one_to_one and c.tile_depth == c.in_blocks and c.out_blocks * CHANNELS <= c.group_out
    for rows in _shares(c.kernel[0]):
        all_blocks = _shares(c.in_blocks) if dense else [c.in_blocks]
        fitting = (found for blocks in all_blocks if (found := _fitting(c, rows, blocks, sizes)))
        for _, parts in zip(range(2), fitting, strict=False):
            yield parts


def _shares(count: int) -> list[int]:
    """What the largest of 1, 2, … about equal parts has."""
    return list(dict.fromkeys(ceil_div(count, parts) for parts in range(1, count + 1)))


def _fitting(c: MacCommand, rows: int, blocks: int, sizes: EngineSizes) -> list[CommandPart]:
    """Parts of so many rows and blocks; none if one does not fit where it is cut as small as it can be."""
    found: list[CommandPart] = []
    for part in _cut(c, rows, blocks, sizes):
        if CommandGeometry(replace(part.command, band_rows=1, set_tiles=1), sizes).refusal() is not None:
            return []
        found.append(part)
    return found if len(found) > 1 else []  # one alone has been tried


def _cut(c: MacCommand, rows: int, blocks: int, sizes: EngineSizes) -> Iterator[CommandPart]:
    """Parts of so many rows of the kernel and blocks of the input's channels."""
    in_plane = ceil_div(c.in_height * c.in_width * c.pixel_channels, sizes.line_elements)
    for row in range(0, c.kernel[0], rows):
        for first in range(0, c.in_blocks, blocks):
            count, behind = min(blocks, c.in_blocks - first), min(row + rows, c.kernel[0])
            of_rows: Span | None = (row, behind) if rows < c.kernel[0] else None
            of_channels: Span | None = None
            part = replace(c, kernel=(behind - row, c.kernel[1]), input=c.input + first * in_plane)
            part = replace(part, padding=(c.padding[0] - row * c.dilation[0], c.padding[1]))
            if blocks < c.in_blocks:
                of_channels = (first * CHANNELS, (first + count) * CHANNELS)
                part = replace(part, in_blocks=count, tile_depth=count)
                part = replace(part, group_in=min(c.group_in - of_channels[0], count * CHANNELS))
            if row or first:
                part = replace(part, sums=0)
            if behind < c.kernel[0] or first + count < c.in_blocks:
                part = replace(part, flags=Flags.RAW, residual=NO_OPERAND)
            yield CommandPart(part, rows=of_rows, channels=of_channels)
