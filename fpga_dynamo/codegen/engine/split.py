"""One command over the compute units of a card: rows of its output, blocks of its channels, or heads.

All units access the same maps, so each command reads what it needs from anywhere and writes its part of the result. The
cost model alone chooses the split. Rows win for large maps, because each unit then reads a part of the input. Channels
win for large weights, because each unit then reads a part of these. In between both are used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from fpga_dynamo.ir.view import ceil_div

from .choose import DoesNotFitError, flattened, tiled
from .command import MacCommand
from .cycles import MemoryTiming, cycles
from .parts import CommandPart, parts_of
from .sizes import CHANNELS, EngineSizes
from .vector import VectorCommand, VectorOperation
from .vector_timing import grouped


@dataclass(frozen=True)
class Share:
    """What a unit computes of a command. first, blocks: its blocks of output channels, whose weights and params it has.

    parts: cut for the engine. Addresses are the whole command's with what has to be
    added, but for `params` and `weight` of constants: these begin where the unit's own do.
    """

    first: int
    blocks: int
    parts: tuple[CommandPart, ...]


@dataclass(frozen=True)
class _Grid:
    """So many parts of the rows, and of the channels; or of the heads."""

    rows: int = 1
    channels: int = 1
    heads: int = 1


def shares(command: MacCommand, units: int, sizes: EngineSizes, memory: MemoryTiming) -> tuple[Share | None, ...]:
    """The share of each unit; None of one that has nothing to do. Raises DoesNotFitError if no split fits.

    command: not yet cut. Partial sums stay with the unit that makes them.
    """
    return _shares(_without_addresses(command), units, sizes, replace(memory, units=units)).at(command)


def vector_shares(
    command: VectorCommand, units: int, sizes: EngineSizes, memory: MemoryTiming
) -> tuple[VectorCommand | None, ...]:
    """Of a command of the vector side: heads, or of a single one its rows. Raises DoesNotFitError."""
    c = command
    found: list[VectorCommand] = []
    axis = 0 if c.heads[0] >= c.heads[1] else 1
    if c.heads[axis] > 1 and units > 1 and c.operation is not VectorOperation.CONSTANT:
        for first, count in _runs(c.heads[axis], units):
            part = replace(c, heads=_with(c.heads, axis, count), input=c.input + first * c.input_head[axis])
            part = replace(part, output=c.output + first * c.output_head[axis])
            found.append(replace(part, other=c.other + first * c.other_head[axis]) if c.has_other else part)
    elif units > 1 and not (c.moves_words or c.whole):
        lines = ceil_div(c.pixels, sizes.beat)
        for first, count in _runs(lines, units):
            pixels = min(count * sizes.beat, c.pixels - first * sizes.beat)
            part = replace(c, pixels=pixels, plane=c.plane or lines, input=c.input + first, output=c.output + first)
            if c.has_other and not c.shares_other:
                part = replace(part, other=c.other + first)
            found.append(part)
    cut = [grouped(part, sizes, memory) for part in found] or [grouped(c, sizes, memory)]
    return (*cut, *[None] * (units - len(cut)))


# Shapes come again and again in a network; a result is found once, without addresses.


@dataclass(frozen=True)
class _Found:
    shares: tuple[Share | None, ...]

    def at(self, command: MacCommand) -> tuple[Share | None, ...]:
        return tuple(share and _placed(share, command) for share in self.shares)


def _without_addresses(command: MacCommand) -> MacCommand:
    c = replace(command, input=0, output=0, params=0, input_after=0, residual_after=0, weight_after=0)
    return replace(c, weight=0, residual=0 if c.has_residual else c.residual)


def _placed(share: Share, command: MacCommand) -> Share:
    c = command
    parts = []
    for of in share.parts:
        part = of.command
        moved = replace(part, input=part.input + c.input, output=part.output + c.output)
        moved = replace(moved, weight=part.weight + c.weight if c.second_operand_is_map else 0)
        moved = replace(moved, input_after=c.input_after, residual_after=c.residual_after, weight_after=c.weight_after)
        if part.has_residual:
            moved = replace(moved, residual=part.residual + c.residual)
        parts.append(replace(of, command=moved))
    return replace(share, parts=tuple(parts))


@lru_cache(maxsize=4096)
def _shares(command: MacCommand, units: int, sizes: EngineSizes, memory: MemoryTiming) -> _Found:
    best: tuple[float, list[Share]] | None = None
    refusal: DoesNotFitError | None = None
    for grid in _grids(command, units):
        try:
            found, longest = _cut(command, grid, sizes, memory)
        except DoesNotFitError as error:
            refusal = error
            continue
        if best is None or longest < best[0]:
            best = (longest, found)
    if best is None:
        raise refusal or DoesNotFitError("has no cut")
    return _Found((*best[1], *[None] * (units - len(best[1]))))


def _cut(command: MacCommand, grid: _Grid, sizes: EngineSizes, memory: MemoryTiming) -> tuple[list[Share], float]:
    """The shares of a grid, and the cycles of the longest."""
    found, longest, known = [], 0.0, {}
    for first, blocks, part in _parts(command, grid, sizes):
        # Of two shares of the same sizes the second is cut as the first.
        key = replace(part, input=0, output=0, weight=0, residual=0 if part.has_residual else part.residual)
        if key not in known:
            cut = parts_of(key, sizes, memory)
            known[key] = (cut, sum(cycles(part.command, sizes, memory).total for part in cut))
        cut, total = known[key]
        share = Share(first, blocks, tuple(cut))
        found.append(_placed(share, part))
        longest = max(longest, total)
    return found, longest


def _grids(command: MacCommand, units: int) -> Iterator[_Grid]:
    c = command
    yield _Grid()
    if c.has_sums or c.raw:
        return
    if c.heads != (1, 1):
        yield _Grid(heads=units)
        return
    if c.wide:
        return
    for rows in range(1, units + 1) if c.images == 1 else (1,):
        for channels in range(1, units // rows + 1) if _by_channels(c) else (1,):
            if rows * channels > 1:
                yield _Grid(rows, channels)


def _by_channels(command: MacCommand) -> bool:
    """Whether constants are the second operand, and each output channel reads all of the input or its own channel."""
    c = command
    return not c.second_operand_is_map and (c.one_to_one or c.out_blocks * CHANNELS <= c.group_out)


def _parts(command: MacCommand, grid: _Grid, sizes: EngineSizes) -> Iterator[tuple[int, int, MacCommand]]:
    """First block, blocks, and command of each part."""
    if grid.heads > 1:
        yield from ((0, command.out_blocks, part) for part in _of_heads(command, grid.heads))
        return
    if grid == _Grid():
        yield 0, command.out_blocks, command
        return
    # Rows of a 1 x 1 kernel may be cut anywhere.
    c = flattened(tiled(command, sizes), sizes) if grid.rows > 1 else command
    in_plane = ceil_div(c.in_height * c.in_width * c.pixel_channels, sizes.line_elements)
    plane = c.out_plane or ceil_div(c.out_height * c.out_width, sizes.beat)
    for begin, count in _row_runs(c.out_height, c.out_width, grid.rows, sizes.beat):
        for first, blocks in _runs(c.out_blocks, grid.channels):
            line = begin * c.out_width // sizes.beat + first * plane
            part = replace(
                c,
                out_height=count,
                out_blocks=blocks,
                out_plane=plane,
                output=c.output + line,
                padding=(c.padding[0] - begin * c.stride[0], c.padding[1]),
            )
            if c.has_residual:
                part = replace(part, residual=c.residual + line)
            if c.one_to_one:
                part = replace(part, in_blocks=blocks, input=c.input + first * in_plane)
            yield first, blocks, part


def _of_heads(command: MacCommand, units: int) -> Iterator[MacCommand]:
    c = command
    axis = 0 if c.heads[0] >= c.heads[1] else 1
    for first, count in _runs(c.heads[axis], units):
        part = replace(
            c,
            heads=_with(c.heads, axis, count),
            input=c.input + first * c.input_head[axis],
            output=c.output + first * c.output_head[axis],
        )
        if c.second_operand_is_map:
            part = replace(part, weight=c.weight + first * c.weight_head[axis])
        if c.has_residual:
            part = replace(part, residual=c.residual + first * c.residual_head[axis])
        yield part


def _with(pair: tuple[int, int], axis: int, value: int) -> tuple[int, int]:
    return (value, pair[1]) if axis == 0 else (pair[0], value)


def _runs(total: int, parts: int) -> list[tuple[int, int]]:
    """(first, count) of at most so many parts, as equal as possible."""
    parts = min(parts, total)
    ends = [total * i // parts for i in range(parts + 1)]
    return [(a, b - a) for a, b in pairwise(ends)]


def _row_runs(height: int, width: int, parts: int, beat: int) -> list[tuple[int, int]]:
    """(first, count) rows of each part: all begin where a line does, so that no two units write to the same line."""
    step = beat // math.gcd(width, beat)
    best: list[tuple[int, int]] = []
    # What is left over behind whole steps goes to the last part, or is a step like the others.
    for steps in {height // step, ceil_div(height, step)} - {0}:
        runs = [(first * step, count * step) for first, count in _runs(steps, parts)]
        runs[-1] = (runs[-1][0], height - runs[-1][0])
        if not best or max(n for _, n in runs) < max(n for _, n in best):
            best = runs
    return best
