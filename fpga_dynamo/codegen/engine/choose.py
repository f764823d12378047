"""How a command is cut for an engine: tiles of channels, bands of rows, sets of weights, and which loop is outside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fpga_dynamo.ir.view import ceil_div

from .command import CommandGeometry, MacCommand, Order, WeightKind
from .cycles import MemoryTiming, cycles, short_share
from .sizes import CHANNELS, EngineSizes

_MOST_BANDS = 64
"""Beyond so many, the number of bands grows by an eighth from one try to the next."""
_SHORT = 0.2
"""A cut whose bursts are all short counts as this part slower. So about 95 % of a network's beats pass in bursts of 16
and more, for at most 2 % of its time on the cycle simulator."""


class DoesNotFitError(Exception):
    """A row of the kernel over one block of channels is more than the engine's memories hold."""


def tiled(command: MacCommand, sizes: EngineSizes) -> MacCommand:
    """With its tiles: as many output channels as the array makes, where all of them read the same input."""
    c = command
    if c.one_to_one:
        return replace(c, group_in=CHANNELS, group_out=CHANNELS, tile_blocks=1, tile_depth=1)
    dense = ceil_div(c.out_blocks * CHANNELS, c.group_out) == 1 or c.in_blocks == 1
    blocks = min(sizes.blocks, c.out_blocks) if dense or c.group_out % sizes.out_channels == 0 else 1
    if dense:
        return replace(c, tile_blocks=blocks, tile_depth=c.in_blocks)
    channels = blocks * CHANNELS
    depth = 1
    for begin in range(0, c.out_blocks * CHANNELS, channels):
        first = begin // c.group_out * c.group_in
        last = ((begin + channels - 1) // c.group_out + 1) * c.group_in - 1
        depth = max(depth, last // CHANNELS - first // CHANNELS + 1)
    return replace(c, tile_blocks=blocks, tile_depth=min(depth, c.in_blocks))


def flattened(command: MacCommand, sizes: EngineSizes) -> MacCommand:
    """A 1 x 1 convolution of stride 1 as rows of a line each, so that bands may have any size.

    Not of a column that is a part of a plane (width_tiling.py): what lies behind it in its last line is another's.
    """
    c = command
    if c.in_width == 1 and c.out_plane:
        return c
    plain = c.kernel == c.stride == (1, 1) and c.padding == (0, 0) and not (c.folded or c.has_sums or c.raw)
    if not plain or (c.in_height, c.in_width) != (c.out_height, c.out_width):
        return c
    rows = ceil_div(c.in_height * c.in_width, sizes.beat)
    return replace(c, in_height=rows, out_height=rows, in_width=sizes.beat, out_width=sizes.beat)


def chosen(command: MacCommand, sizes: EngineSizes, memory: MemoryTiming) -> MacCommand:
    """The cut of fewest cycles by the formula, where short bursts count as slower than they are.

    Raises DoesNotFitError, which says what is too large.
    """
    command = flattened(tiled(command, sizes), sizes)
    best: tuple[float, MacCommand] | None = None
    refusal: str | None = None
    for cut in _cuts(command, sizes):
        why = CommandGeometry(cut, sizes).refusal()
        if why is not None:
            refusal = why
            continue
        total = cycles(cut, sizes, memory).total
        if best is None or total < best[0]:  # else short bursts change nothing
            total *= 1 + _SHORT * short_share(cut, sizes)
        if best is None or total < best[0]:
            best = (total, cut)
    if best is None:
        raise DoesNotFitError(refusal or "has no cut")
    return best[1]


def _cuts(command: MacCommand, sizes: EngineSizes) -> Iterator[MacCommand]:
    least = CommandGeometry(replace(command, band_rows=1, set_tiles=1), sizes)
    most = min(sizes.set_tiles, sizes.weight_steps // least.steps if command.has_weights else sizes.set_tiles)
    fewest = ceil_div(least.tiles, max(most, 1))
    for rows in _rows(command.out_height):
        # One more than the fewest may be more alike.
        for sets in dict.fromkeys(min(n, least.tiles) for n in (fewest, fewest + 1, 2 * fewest, 4 * fewest)):
            cut = replace(command, band_rows=rows, set_tiles=ceil_div(least.tiles, sets))
            yield replace(cut, order=Order.WINDOWS)
            if sets > 1 and rows < command.out_height:
                yield replace(cut, order=Order.SETS)


def _rows(height: int) -> Iterator[int]:
    """Rows of a band: those of 1, 2, … bands."""
    bands, before = 1, 0
    while bands <= height:
        rows = ceil_div(height, bands)
        if rows != before:
            yield rows
        before = rows
        bands += 1 if bands < _MOST_BANDS else bands // 8


def weight_lines(command: MacCommand, sizes: EngineSizes) -> int:
    """Lines of the command's packed weights."""
    g = CommandGeometry(command, sizes)
    if not command.has_weights or command.second_operand_is_map:
        return 0
    if command.weight_kind is WeightKind.DIAGONAL:
        return g.tiles * ceil_div(g.taps, sizes.beat)
    return g.tiles * g.steps * command.tile_blocks * sizes.weight_lines
