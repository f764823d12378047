"""How many cycles a command takes on an engine: max(compute, each process, memory) + what cannot overlap.

The terms are loop counts of hls_kernels/engine/processes, with an initiation interval of 1 each. For an xclbin that
Vitis built, the intervals are those that synthesis achieved (`EngineSizes.intervals`). Latencies and the cycles between
loops are those of hls_kernels/engine/qor.toml in round figures. Held against the cycle simulator by
tests/hls_kernels/test_engine_networks.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from fpga_dynamo.ir.view import ceil_div

from .command import Band, CommandGeometry, Flags, MacCommand, WeightKind
from .shared import BankLoad, crossing
from .sizes import CHANNELS, SEGMENT, EngineSizes

PASS = 24
"""Cycles of the array between two passes: its pipeline runs empty."""
WINDOW = 24
"""Cycles of what fills windows between two of them: its pipeline runs empty."""
_FIND = 6
"""Cycles of feed for a set of which each tile reads some channels only, beside two for each tile."""
EPILOGUE = 40
"""Depth of the epilogue, which every pass has to itself."""
STORE = 8
"""Cycles of the store for a pass, beside its lines."""
BURST = 7
"""And for each of its bursts."""
_PIPELINE = 120
"""From the last word of a window to the first line that is stored: fill, feed, array, epilogue, pack."""
_WINDOW_BEGIN = 8
"""Of the loader before a window's first request."""
REQUEST = 4
"""Cycles of a burst beside its lines."""
_RESIDUAL = 8
"""Cycles of what loads residuals between two passes."""
TURN = 4.0
"""Lines that might have passed while the memory goes from reading to writing, or back."""
_PASS_LINES = 24
"""Lines that might have passed while a pass begins to read, or to write: fitted, so that bands are not too short."""
BEHIND_WRITES = 130
"""Cycles that a read waits in memory while results of the same pass are written."""
REQUESTS_AHEAD = 8
"""Bursts of a window that are asked for before the first one is read."""
_MAP_BLOCK = 7
"""Cycles of the loader of weights between two blocks of 16 x 16 elements of a map."""
LONG_BURST = 16
"""Beats of a burst that is worth its request."""
PAGE = 64
"""Lines of 4 KiB, whose border no burst crosses."""
PARAMS_LINES = 3
"""Lines of a block's offsets, scales and biases."""


@dataclass(frozen=True)
class MemoryTiming:
    """What the memory behind the ports gives: lines a cycle, and cycles from a request to its data.

    lines_per_cycle: the most that a port moves: bytes a second / clock / 64.
    read: latency to the first beat.
    write: latency to the response.
    shared: lines a cycle of all ports of a bank together; by default as much as one port.
    units: how many compute units share a network, and as many banks.
    """

    lines_per_cycle: float
    read: int = 100
    write: int = 100
    shared: float | None = None
    units: int = 1

    @property
    def bank(self) -> float:
        return self.shared if self.shared is not None else self.lines_per_cycle


@dataclass(frozen=True)
class Cycles:
    """Of a command: what each process works, lines that pass the ports, and what no other command can hide."""

    array: int
    epilogue: int
    load: int
    fill: int
    weights: int
    residual: int
    store: int
    lines: int
    begin: int
    memory: float
    stored: int
    weight_lines: int

    @property
    def busiest(self) -> float:
        """The longest of what runs side by side."""
        loads = max(self.load, self.fill, self.weights, self.residual)
        return max(self.array, self.epilogue, loads, self.store, self.memory)

    @property
    def total(self) -> float:
        return self.busiest + self.begin

    @property
    def bound(self) -> str:
        """The name of the longest."""
        terms = ("array", "epilogue", "load", "fill", "weights", "residual", "store", "memory")
        return max(terms, key=lambda name: float(getattr(self, name)))


def cycles(command: MacCommand, sizes: EngineSizes, memory: MemoryTiming) -> Cycles:
    """The formula. Raises nothing: sizes that do not fit are refused by :meth:`CommandGeometry.refusal`."""
    found = _cycles(command, sizes, seen(command, sizes, memory))
    if memory.units == 1:
        return found
    # Of a share the windows are few: often nothing is left of the command before to hide the first set behind.
    first = set_load(CommandGeometry(command, sizes), 0)[1]
    return replace(found, begin=max(found.begin, round(first) + memory.read + memory.write + _PIPELINE))


def seen(command: MacCommand, sizes: EngineSizes, memory: MemoryTiming) -> MemoryTiming:
    """The memory as a command's ports see it, with what those of other units cost them."""
    if memory.units == 1:
        return memory
    near = further(memory)
    alone = _cycles(command, sizes, near)
    time = alone.busiest * memory.bank
    g = CommandGeometry(command, sizes)
    read = g.input_lines(g.all_bands[0])
    burst = PAGE if read == g.in_plane else read
    load = BankLoad(alone.weight_lines / time, (alone.lines - alone.weight_lines) / time, burst)
    wait = round(load.wait)
    return replace(near, read=near.read + wait, write=near.write + wait)


def further(memory: MemoryTiming) -> MemoryTiming:
    """With the way to the banks of other units."""
    way = round(crossing(memory.units))
    return replace(memory, read=memory.read + way, write=memory.write + way)


def _cycles(command: MacCommand, sizes: EngineSizes, memory: MemoryTiming) -> Cycles:
    """Of a command, by the memory as its own ports see it."""
    c, g = command, CommandGeometry(command, sizes)
    turns = ceil_div(sizes.pixels, 1 if c.stores_32_bits or c.has_sums else sizes.words)
    passes = g.heads * g.windows * g.sets
    images = g.heads * c.images
    array = epilogue = load = fill = residual = stores = input_lines = 0
    last_tile = c.out_blocks - (g.tiles - 1) * c.tile_blocks  # blocks
    again = g.sets if g.sets_outside else 1
    for band in g.all_bands:
        steps = g.steps
        array += band.groups * ((g.tiles - 1) * max(steps, turns * c.tile_blocks) + max(steps, turns * last_tile))
        epilogue += band.groups * turns * c.out_blocks + g.sets * EPILOGUE
        if sizes.words > 1:
            epilogue += c.out_blocks * (1 + c.has_residual)
        stores += g.sets * STORE + c.out_blocks * (store_bursts(g, band) * BURST + g.output_lines(band))
        if c.has_residual:
            residual += round(residual_load(g, band, g.command.out_blocks, memory)) + (g.sets - 1) * memory.read
        if c.has_sums:
            residual += round(sums_load(g, band, c.out_blocks, memory)) + (g.sets - 1) * memory.read
        lines, words = window_cycles(g, band)
        input_lines += lines * again
        load += round(window_load(g, band, memory)) * again
        fill += (words + WINDOW) * again
    found = sum(find_tiles(g, i) for i in range(g.sets))
    sets = [set_load(g, i) for i in range(g.sets)]
    weights = round(g.heads * (g.set_loads // g.sets) * sum(took for _, took in sets))
    if g.sets > 1:
        # The next command's first set waits for the memory of this one's last but one, while the last one is loaded.
        busy = min(band.groups for band in g.all_bands) * c.set_tiles * g.steps
        weights += max(0, round(busy - sets[-1][1]))
    weight_lines = g.heads * (g.set_loads // g.sets) * sum(read for read, _ in sets)
    store, others, sums = _result_lines(c, g)
    lines, words = window_cycles(g, g.all_bands[0])
    moved = images * input_lines + weight_lines + store + others + sums
    # Residuals and results take turns.
    burst = g.output_lines(g.all_bands[0]) / store_bursts(g, g.all_bands[0])
    turns_lost = 2 * others * (with_turnaround(burst) - 1) + _PASS_LINES * passes * (3 if c.has_residual else 1)
    result = Cycles(
        array=images * array + PASS * passes + g.heads * (g.set_loads // g.sets) * found,
        epilogue=images * epilogue,
        load=images * load,
        fill=images * fill,
        weights=weights,
        residual=images * residual,
        store=images * stores,
        lines=moved,
        begin=max(lines, words) + memory.read + memory.write + _PIPELINE,
        memory=(moved + turns_lost) / memory.bank,
        stored=g.heads * store,
        weight_lines=weight_lines,
    )
    longer = {term: getattr(result, term) * interval for term, interval in sizes.intervals}
    return replace(result, **longer) if longer else result


def moved_lines(command: MacCommand, sizes: EngineSizes) -> int:
    """Lines that a command reads and writes: what `cycles` has as cycles of ports, without what ports wait.

    Without a function, which is read where the list's last one was another.
    """
    c, g = command, CommandGeometry(command, sizes)
    images, again = g.heads * c.images, g.sets if g.sets_outside else 1
    read = images * again * sum(g.input_lines(band) for band in g.all_bands) * c.in_blocks
    block_lines = CHANNELS * CHANNELS // sizes.line_elements
    weights = c.out_blocks * PARAMS_LINES + _table_lines(c, sizes)
    if c.second_operand_is_map:
        weights += c.out_blocks * c.tile_depth * block_lines
    elif c.weight_kind is WeightKind.DIAGONAL and c.has_weights:
        weights += g.tiles * ceil_div(g.taps, sizes.beat)
    elif c.has_weights:
        weights += g.tiles * g.steps * c.tile_blocks * sizes.weight_lines
    weights *= g.heads * g.set_loads // g.sets
    return read + weights + sum(_result_lines(c, g))


def _result_lines(c: MacCommand, g: CommandGeometry) -> tuple[int, int, int]:
    """Lines of the result, of the residual and of the sums that a command begins with."""
    blocks = g.heads * c.images * c.out_blocks
    stored = blocks * sum(g.output_lines(band) for band in g.all_bands)
    return stored, blocks * g.out_plane * c.has_residual, blocks * c.out_height * c.out_width * c.has_sums


def _table_lines(c: MacCommand, sizes: EngineSizes) -> int:
    """Of a command's own table; a function is no part of the command (:func:`reads_function`)."""
    return 4 if c.flags & (Flags.TABLE | Flags.MIDDLE_TABLE) and not sizes.is_float else 0


def reads_function(c: MacCommand, sizes: EngineSizes, held: int | None) -> bool:
    """Whether a function of bfloat16 results is read for a command. held: the one that the list's last one left."""
    return Flags.TABLE in c.flags and sizes.has_functions and c.table != held


def short_share(command: MacCommand, sizes: EngineSizes) -> float:
    """Of the lines of maps that a command moves, the part that passes in bursts of fewer than LONG_BURST beats.

    Maps begin at a border of 4 KiB, which no burst crosses.
    """
    c, g = command, CommandGeometry(command, sizes)
    again = g.sets if g.sets_outside else 1
    of_set = min(c.out_blocks, c.set_tiles * c.tile_blocks)
    short = 0.0
    lines = 0
    for band in g.all_bands:
        read, first = g.input_lines(band), band.first * g.row_elements // sizes.line_elements
        runs = (1, read * c.in_blocks) if read == g.in_plane else (c.in_blocks, read)
        short += again * _short_lines(first, g.in_plane, *runs, sizes.line_beats)
        lines += again * c.in_blocks * read
        written, first = g.output_lines(band), band.begin * c.out_width // sizes.beat
        if written == g.stored_plane:
            runs, sets = (1, written * of_set), c.out_blocks / of_set
        else:
            runs, sets = (c.out_blocks, written), 1.0
        short += sets * _short_lines(first, g.stored_plane, *runs, 1)
        lines += c.out_blocks * written
        if c.has_residual:
            short += sets * _short_lines(first, g.out_plane, *runs, sizes.line_beats)
            lines += c.out_blocks * written
    return short / max(lines, 1)


@cache
def _short_lines(first: int, plane: int, runs: int, lines: int, beats: int) -> int:
    """Of runs of so many lines, one in each plane, the lines that pass in short bursts. beats: of a line."""
    short = 0
    for run in range(runs):
        at = (first + run * plane) % PAGE
        head = min(lines, PAGE - at)
        short += sum(part for part in (head, (lines - head) % PAGE) if part * beats < LONG_BURST)
    return short


def window_cycles(g: CommandGeometry, band: Band) -> tuple[int, int]:
    """Lines that a band's window takes to read, and cycles to fill."""
    c, sizes = g.command, g.sizes
    read = g.input_lines(band) * c.in_blocks
    if c.folded:
        return read, max(0, band.last - band.first + 1) * g.pitch
    rows = max(0, band.last - band.first + 1)
    at_once = sizes.fill if c.stride[1] == 1 or (c.stride[1] == 2 and sizes.fill == 4 and sizes.pixels > 4) else 1
    begin = band.first * c.in_width
    if g.straight:
        return read, c.in_blocks * ceil_div(begin % sizes.beat % at_once + rows * c.in_width, at_once)
    # A row's words come in parts that end where its lines do.
    words = sum(ceil_div((begin + row * c.in_width) % at_once + c.in_width, at_once) for row in range(rows))
    return read, c.in_blocks * words


def find_tiles(g: CommandGeometry, index: int) -> int:
    """Cycles in which feed works out which channels each tile of a set reads, before its first window."""
    c = g.command
    if c.tile_depth == c.in_blocks:
        return 0
    return _FIND + 2 * min(c.set_tiles, g.tiles - index * c.set_tiles)


def with_turnaround(burst: float) -> float:
    """What a line costs of the memory's time where others go the other way: each burst lies in another row."""
    return 1 + TURN / max(1.0, min(burst, 64.0))


def bursts(lines: int, plane: int, planes: int) -> int:
    """Bursts of so many lines of each plane; planes that are whole follow each other."""
    return ceil_div(lines * planes, PAGE) if lines == plane else planes * ceil_div(lines, PAGE)


def store_bursts(g: CommandGeometry, band: Band) -> int:
    """Bursts of a block's lines of a band: the two blocks of a tile take turns."""
    return 1 if g.command.tile_blocks == 1 else ceil_div(g.output_lines(band), SEGMENT)


def residual_load(g: CommandGeometry, band: Band, blocks: int, memory: MemoryTiming) -> float:
    """Cycles of what reads the residual of a pass, of so many blocks: as :func:`window_load`, but behind writes."""
    count, latency = store_bursts(g, band), memory.read + BEHIND_WRITES
    of_burst = g.output_lines(band) / count * g.sizes.line_beats
    return _RESIDUAL + latency + blocks * count * burst_cycles(of_burst, latency, memory)


def sums_load(g: CommandGeometry, band: Band, blocks: int, memory: MemoryTiming) -> float:
    """Cycles of what reads the partial sums of a pass, a line for each pixel of a block."""
    pixels, latency = band.rows * g.command.out_width, memory.read + BEHIND_WRITES
    count = ceil_div(pixels, SEGMENT)
    of_burst = pixels / count * g.sizes.line_beats
    return _RESIDUAL + latency + blocks * count * burst_cycles(of_burst, latency, memory)


def window_load(g: CommandGeometry, band: Band, memory: MemoryTiming) -> float:
    """Cycles of the loader for a band's window: each block's lines in a burst, a single one of planes that are whole.

    A burst takes its lines and what a request and a loop take, and so many requests are on their way that short bursts
    wait for memory.
    """
    c, lines = g.command, g.input_lines(band)
    count = 1 if lines == g.in_plane else c.in_blocks
    of_burst = lines * c.in_blocks / count * g.sizes.line_beats
    return _WINDOW_BEGIN + memory.read + count * burst_cycles(of_burst, memory.read, memory)


def burst_cycles(beats: float, latency: float, memory: MemoryTiming) -> float:
    """Of a loader for each of many bursts, of which REQUESTS_AHEAD are on their way.

    Units that share a command ask at once: while the bursts of others pass, none of a unit's own do, and so it waits
    for the latency of its own as well.
    """
    passes, waits = beats + REQUEST, latency / REQUESTS_AHEAD
    return max(passes, waits) if memory.units == 1 else passes + waits


def set_load(g: CommandGeometry, index: int) -> tuple[int, float]:
    """Of a set of tiles: lines of weights and parameters in memory, and cycles that the loader takes for them."""
    c, sizes = g.command, g.sizes
    tiles = min(c.set_tiles, g.tiles - index * c.set_tiles)
    blocks = min(c.set_tiles * c.tile_blocks, c.out_blocks - index * c.set_tiles * c.tile_blocks)
    params = blocks * PARAMS_LINES + (_table_lines(c, sizes) if index == 0 else 0)
    params_beats = params * sizes.line_beats
    block_lines = CHANNELS * CHANNELS // sizes.line_elements
    if not c.has_weights:
        return params, params_beats + sizes.parts
    if c.second_operand_is_map:
        held = 0 if c.weight_kind is WeightKind.TRANSPOSED else block_lines
        read = blocks * c.tile_depth * block_lines
        block = block_lines * sizes.line_beats + held + _MAP_BLOCK
        return params + read, params_beats + blocks * c.tile_depth * block
    if c.weight_kind is WeightKind.DIAGONAL:
        taps = ceil_div(g.taps, sizes.beat) * sizes.beat
        return tiles * taps // sizes.beat + params, tiles * taps * sizes.parts + params_beats
    packed = tiles * g.steps * c.tile_blocks * sizes.weight_lines
    return packed + params, packed * sizes.line_beats + params_beats
