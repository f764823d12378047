"""When the commands of a list end, by the dependences between their windows, sets of weights and passes.

What :func:`cycles` says of a command alone overlaps in a list: windows and weights load while the array still works on
the command before, and a window may load as soon as the rows that it reads are stored. Here each window, set and pass
gets a begin and an end, by the rules of hls_kernels/engine: two windows, two sets of weights and of parameters, one
array, and ports that share the memory's bandwidth. Nothing is looked at cycle by cycle, so a list takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fpga_dynamo.ir.view import ceil_div

from .bank import Bank
from .command import Band, CommandGeometry, IdleCommand, MacCommand, Peers
from .cycles import (
    BEHIND_WRITES,
    BURST,
    EPILOGUE,
    PASS,
    STORE,
    TURN,
    WINDOW,
    MemoryTiming,
    bursts,
    cycles,
    find_tiles,
    further,
    reads_function,
    residual_load,
    seen,
    set_load,
    store_bursts,
    window_cycles,
    window_load,
)
from .sizes import FUNCTION_LINES, FUNCTION_WORDS, EngineSizes
from .vector import VectorCommand
from .vector_timing import vector_stores

_PLAN = 90
"""From a command's record to its plan, which loaders wait for at the begin of a list only."""
_FIRST_PLAN = 1000
"""The same of units together, whose lists are short: a record is read, and planned in the 850 cycles of code.plan."""
_FEED = 40
"""From a full window to the first sums: feed and array."""
_DRAIN = 6
"""From the epilogue's last word to the last line that is stored."""
_REPORT_AFTER = 2
"""Bursts of a window after which the store waits for the answers to those before."""
_AHEAD = 128
"""Lines that the streams behind the loader and before the store hold."""
_SET = 12
"""Cycles of what loads weights between two sets."""
_TAPS = 14
"""Cycles of feed for a command before its first window, beside two for each position of the kernel."""
_ROOM = 0.3
"""Of a bank's time, what loaders leave to the results of the command at work."""
_BARRIER = 16
"""From a unit's last response until its peers have heard that all have done with a command."""

Command = MacCommand | VectorCommand | IdleCommand


@dataclass
class _Store:
    """How far a command's results are: for its bands, the cycle in which memory has answered."""

    command: Command
    rows_done: list[tuple[int, float]]
    end: float

    def when(self, pixels: int) -> float:
        """The cycle from which on the first `pixels` pixels of each plane can be read."""
        for done, at in self.rows_done:
            if done >= pixels:
                return at
        return self.end


@dataclass(frozen=True)
class _Load:
    """A window that is to be loaded: of a command of the list, for the rows of a band, the number-th of a head."""

    index: int
    geometry: CommandGeometry
    band: int
    number: int
    memory: MemoryTiming

    @property
    def cost(self) -> float:
        """What a line takes of the memory.

        All windows but the first two load while results of the command are stored.
        """
        g, band = self.geometry, self.geometry.all_bands[self.band]
        c, read, written = g.command, g.input_lines(band), g.output_lines(band)
        if self.number < 2 or not read:
            return 1.0
        blocks = min(c.out_blocks, c.set_tiles * c.tile_blocks) if g.sets_outside else c.out_blocks
        turns = min(bursts(read, g.in_plane, c.in_blocks), bursts(written, g.stored_plane, blocks))
        return 1 + TURN * turns / (read * c.in_blocks)


class Timeline:
    """Adds command after command; `ends` are the cycles in which their last line is stored.

    met: of a unit that has peers, the cycles in which all of them have done with a command.
    """

    def __init__(self, sizes: EngineSizes, memory: MemoryTiming, met: Sequence[float] = ()) -> None:
        self.sizes, self.memory, self._barriers = sizes, memory, met
        self._seen = memory  # by the command that is being added
        self.ends: list[float] = []
        self._stores: list[_Store] = []
        port = min(1.0, memory.lines_per_cycle)
        self._maps = Bank(memory.bank, port)
        # Units together have a bank each, for its weights and for as many lines of maps as each of them moves.
        self._weights = Bank(memory.bank, port) if memory.units == 1 else self._maps
        self._load = self._window = self._weight_load = float(_PLAN if memory.units == 1 else _FIRST_PLAN)
        self._window_free = [0.0, 0.0]  # of the two windows: when the array has done with them
        self._set_free = [0.0, 0.0]
        self._array = self._epilogue = self._store = self._residual = self._stored = 0.0
        self._set_number = 0
        self._stored_share = 0.0
        self._function: int | None = None  # the one loaded into the epilogue
        self._expected: int | None = None  # the number of the first window of the command that is added next
        self._loads: list[_Load] = []  # in the order in which windows are loaded
        self._windows: list[float] = []  # when those are full that have been looked at
        self._done: list[tuple[int, float]] = []  # of the command that is being added: as in _Store.

    def add(self, command: Command, following: Command | None = None) -> float:
        """The cycle in which the command ends. following: the next command, whose windows load during this one."""
        first = self._expected
        if isinstance(command, MacCommand) and first is None:
            first = self._expect(command, len(self.ends))
        self._expected = self._expect(following, len(self.ends) + 1) if isinstance(following, MacCommand) else None
        if isinstance(command, VectorCommand):
            return self._add_vector(command)
        if isinstance(command, IdleCommand):
            self.ends.append(self._store + self.memory.write)
            self._stores.append(_Store(command, [], self.ends[-1]))
            return self.ends[-1]
        assert first is not None
        found, self._seen = cycles(command, self.sizes, self.memory), seen(command, self.sizes, self.memory)
        taken = found.stored / self.memory.bank / found.busiest
        self._stored_share = 0.0 if command.second_operand_is_map else min(_ROOM, taken)
        c, index, g = command, len(self._stores), self._loads[first].geometry
        also = [self._stores[index - n].end for n in (c.residual_after, c.weight_after) if n]
        also += self._peers_done(c.peers, Peers.RESIDUAL, c.residual_after) + self._peers_done(
            c.peers, Peers.WEIGHT, c.weight_after
        )
        others = max(also, default=0.0)
        self._done = []
        sets: dict[int, float] = {}
        turns = ceil_div(self.sizes.pixels, 1 if c.stores_32_bits or c.has_sums else self.sizes.words)
        one_image = c.images == 1 and g.heads == 1
        self._array += _TAPS + 2 * g.taps
        until: tuple[int, float] | None = None  # pixels that are stored, and from when on they can be read
        for _head in range(g.heads):
            weights = -1
            passes = _passes(g)
            for number, (outer, inner, order) in enumerate(passes):
                w, s = (inner, outer) if g.sets_outside else (outer, inner)
                if order.new_window:
                    window = first
                    first += 1
                    while len(self._windows) <= window:
                        assert self._fill()
                if order.new_set:
                    weights = self._load_set(g, s, others if c.second_operand_is_map else 0.0, sets)
                    self._load_function(c)
                band = g.all_bands[w % g.bands]
                tiles = min(c.set_tiles, g.tiles - s * c.set_tiles)
                blocks = min(c.set_tiles * c.tile_blocks, c.out_blocks - s * c.set_tiles * c.tile_blocks)
                work = band.groups * max(tiles * g.steps, turns * blocks)
                if order.new_set and (g.sets > 1 or number == 0):
                    self._array += find_tiles(g, s)
                begin = max(self._array + PASS, self._windows[window], sets[weights])
                self._array = begin + work
                if number + 1 == len(passes) or passes[number + 1][2].new_window:
                    # The window after the next one takes its place, while this one's results are stored.
                    self._window_free[window % 2] = self._array
                    while len(self._windows) <= min(window + 2, len(self._loads) - 1) and self._fill():
                        pass
                told = self._out(g, band, blocks, begin, others, turns)
                if until and order.new_window:
                    self._done.append((until[0], max(until[1], told)))
                    until = None
                self._set_free[weights % 2] = self._array
                if order.last_set and one_image:
                    until = (band.begin + band.rows) * c.out_width, self._store + self._seen.write
        end = self._store + self._seen.write
        self._stores.append(_Store(c, self._done, end))
        self.ends.append(end)
        return end

    def _add_vector(self, command: VectorCommand) -> float:
        """Of the vector side, which loads and stores through the same ports."""
        c = command
        self._seen = further(self.memory)
        waits = self._stores[len(self._stores) - c.input_after] if c.input_after else None
        after = [self.ends[len(self.ends) - c.other_after]] if c.other_after else []
        after += self._peers_done(c.peers, Peers.INPUT, c.input_after)
        after += self._peers_done(c.peers, Peers.RESIDUAL, c.other_after)
        others = max(after, default=0.0)

        def there(pixels: int | None) -> float:
            own = 0.0 if waits is None else waits.end if pixels is None else waits.when(pixels)
            return max(own, others)

        done, loaded = vector_stores(command, self.sizes, self._seen, self._load, there, self._store)
        read = self._maps.move(max(self._load, there(None)) + self._seen.read, command.lines(self.sizes))
        self._load = max(read, loaded)
        end = max(done[-1][1], self._store)
        self._store = self._stored = end - self._seen.write
        self._stores.append(_Store(command, [d for d in done if d[0]], end))
        self.ends.append(end)
        return end

    def _peers_done(self, peers: Peers, operand: Peers, after: int) -> list[float]:
        """When all units have done with the command that made an operand, if others have made a part of it."""
        return [self._barriers[len(self._stores) - after] + _BARRIER] if after and operand in peers else []

    def _out(self, g: CommandGeometry, band: Band, blocks: int, begin: float, others: float, turns: int) -> float:
        """Epilogue and store of a pass whose sums the array begins at `begin`, and cannot be far ahead of.

        Answers when the bursts are stored after which earlier results are reported.
        """
        c = g.command
        lines = g.output_lines(band) * blocks
        added = begin
        count = blocks * store_bursts(g, band)
        if c.has_residual:
            # As far ahead of the epilogue as the streams between them allow.
            asked = max(self._residual, others, self._epilogue - _AHEAD)
            # The array waits for the first line with its first sums.
            first_line = asked + self._seen.read + BEHIND_WRITES
            self._array += max(0.0, first_line - begin - _FEED - g.steps)
            loaded = asked + residual_load(g, band, blocks, self._seen)
            self._residual = added = max(self._maps.move(asked + self._seen.read, lines, lines / count), loaded)
        words = band.groups * turns * blocks
        if self.sizes.words > 1:
            words += blocks * (1 + c.has_residual)
        self._epilogue = max(self._epilogue + EPILOGUE + words, self._array + _FEED + turns * c.tile_blocks)
        if c.has_sums:
            added = max(added, self._maps.move(max(begin, others), band.rows * c.out_width * blocks))
        self._epilogue = max(self._epilogue, added)
        first = max(self._store, begin + _FEED + EPILOGUE)
        # What was stored before is reported when two bursts have gone, and memory has answered.
        told = max(0.0, self._stored + self._seen.write - first - _REPORT_AFTER * (lines / count + BURST))
        of_burst = lines if lines == g.stored_plane * blocks else lines / count
        written = self._maps.move(first, lines, of_burst, write=True)
        moved = max(written, first + told + STORE + count * BURST + lines)
        self._store = max(moved, self._epilogue + _DRAIN)
        self._stored = max(written, self._store)
        self._array = max(self._array, self._epilogue - _FEED - EPILOGUE, moved - _AHEAD - EPILOGUE)
        return max(first, begin + _FEED + EPILOGUE + (self._array - begin) * min(1.0, _REPORT_AFTER / count))

    def _expect(self, command: MacCommand, index: int) -> int:
        """Notes the windows that a command loads; answers the number of its first."""
        g, first = CommandGeometry(command, self.sizes), len(self._loads)
        for _head in range(g.heads):
            loads, memory = range(g.window_loads), seen(command, self.sizes, self.memory)
            self._loads += [_Load(index, g, load % g.windows % g.bands, load, memory) for load in loads]
        return first

    def _ready(self, load: _Load) -> float | None:
        """From when on a window's input can be read; None if what is needed for that is not known yet."""
        g, c, index = load.geometry, load.geometry.command, load.index
        if not c.input_after:
            return 0.0
        maker = index - c.input_after
        heard = 0.0
        if Peers.INPUT in c.peers:
            if maker >= len(self._barriers):
                return None
            heard = self._barriers[maker] + _BARRIER
        band = g.all_bands[load.band]
        pixels = (band.last + 1) * c.in_width
        partly = c.images == 1 and g.heads == 1 and band.last < c.in_height - 1
        if maker < len(self._stores):
            made = self._stores[maker]
            return max(heard, made.when(pixels) if partly else made.end)
        if not partly or maker > len(self._stores):
            return None
        return next((max(heard, at) for done, at in self._done if done >= pixels), None)

    def _fill(self) -> bool:
        """Looks at the next window; False if it is not known yet when its input will be there."""
        number = len(self._windows)
        load = self._loads[number]
        ready = self._ready(load)
        if ready is None:
            return False
        g, band = load.geometry, load.geometry.all_bands[load.band]
        lines, words = window_cycles(g, band)
        begin = max(self._load, ready)
        of_burst = lines if lines == g.in_plane * g.command.in_blocks else lines / g.command.in_blocks
        first = begin + load.memory.read
        read = self._maps.move(first, lines, of_burst, least=load.cost, left=self._stored_share)
        loaded = max(begin + window_load(g, band, load.memory), read)
        # What fills the window is a stream behind the loader.
        begin_fill = max(self._window, self._window_free[number % 2], first)
        behind = max(0.0, 1 - _AHEAD / max(lines, 1))
        self._load = max(loaded, begin_fill + words * behind)
        self._window = max(begin_fill + words, loaded) + WINDOW
        self._windows.append(self._window)
        return True

    def _load_set(self, g: CommandGeometry, index: int, ready: float, sets: dict[int, float]) -> int:
        number = self._set_number
        self._set_number += 1
        lines, took = set_load(g, index)
        bank = self._maps if g.command.second_operand_is_map else self._weights
        begin = max(self._weight_load, self._set_free[number % 2], ready + self.memory.read if ready else 0.0)
        self._weight_load = max(bank.move(begin, lines, turns=g.command.second_operand_is_map), begin + took) + _SET
        sets[number] = self._weight_load
        return number

    def _load_function(self, c: MacCommand) -> None:
        """Of a command behind its first set, if the epilogue has another: it takes the lines as it needs them."""
        if not reads_function(c, self.sizes, self._function):
            return
        self._function = c.table
        begin = max(self._epilogue, self._weight_load + self.memory.read)
        self._epilogue = begin + max(FUNCTION_WORDS, self._weights.move(begin, FUNCTION_LINES) - begin)
        self._weight_load = self._epilogue


@dataclass(frozen=True)
class _Step:
    new_window: bool
    new_set: bool
    last_set: bool


def _passes(g: CommandGeometry) -> Sequence[tuple[int, int, _Step]]:
    """Of a head: (outer, inner) indices of windows and sets, and what changes with each."""
    result = []
    outer, inner = (g.sets, g.windows) if g.sets_outside else (g.windows, g.sets)
    for o in range(outer):
        for i in range(inner):
            of_set, of_window = _Step(True, i == 0, o + 1 == g.sets), _Step(i == 0, True, i + 1 == g.sets)
            result.append((o, i, of_set if g.sets_outside else of_window))
    return result


def ends(commands: Sequence[Command], sizes: EngineSizes, memory: MemoryTiming) -> list[float]:
    """The cycles in which the commands of a list end."""
    return ends_together([commands], sizes, memory)


def ends_together(lists: Sequence[Sequence[Command]], sizes: EngineSizes, memory: MemoryTiming) -> list[float]:
    """The cycles in which the commands of a list for each unit end, on the slowest unit. memory: of one bank."""
    met: list[float] = []
    memory = replace(memory, units=len(lists))
    timelines = [Timeline(sizes, memory, met) for _ in lists]
    for index in range(len(lists[0])):
        found = []
        for timeline, commands in zip(timelines, lists, strict=True):
            found.append(timeline.add(commands[index], commands[index + 1] if index + 1 < len(commands) else None))
        met.append(max(found))
    return met
