"""When the commands of a list end, by the dependences between their windows, sets of weights and passes.

What :func:`cycles` says of a command alone overlaps in a list: windows and weights load while the array still works on
the command before, and a window may load as soon as the rows that it reads are stored. Here each window, set and pass
gets a begin and an end, by the rules of hls_kernels/engine: two windows, two sets of weights and of parameters, one
array, and ports that share the memory's bandwidth. Nothing is looked at cycle by cycle, so a list takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .command import Band, Geometry, IdleCommand, MacCommand, Peers, divide_up
from .cycles import Memory, set_lines, window_cycles
from .sizes import SEGMENT, EngineSizes
from .vector import VectorCommand, vector_cycles

_PLAN = 90
"""From a command's record to its plan, which loaders wait for at the begin of a list only."""
_FEED = 40
"""From a full window to the first sums: feed and array."""
_EPILOGUE = 40
"""Depth of the epilogue, which every pass has to itself."""
_DRAIN = 6
"""From the epilogue's last word to the last line that is stored."""
_STORE = 8
"""Cycles of the store for a pass, beside its lines."""
_BURST = 7
"""And for each of its bursts."""
_AHEAD = 128
"""Lines that the streams before the store hold."""
_PASS = 10
"""Cycles of the array between two passes."""
_WINDOW = 20
"""Cycles of the loader between two windows."""
_MEET = 16
"""From a unit's last response until its peers have heard that all have done with a command."""

Command = MacCommand | VectorCommand | IdleCommand


@dataclass
class _Bank:
    """A memory that moves so many lines a cycle at most, whoever asks; a port alone may move fewer."""

    lines_per_cycle: float
    port: float
    free: float = 0.0

    def move(self, begin: float, lines: int) -> float:
        """When `lines` that a port asks for from cycle `begin` on have passed."""
        self.free = max(self.free, begin) + lines / self.lines_per_cycle
        return max(begin + lines / self.port, self.free)


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


class Timeline:
    """Adds command after command; `ends` are the cycles in which their last line is stored.

    met: of a unit that has peers, the cycles in which all of them have done with a command.
    """

    def __init__(self, sizes: EngineSizes, memory: Memory, met: Sequence[float] = ()) -> None:
        self.sizes, self.memory, self._met = sizes, memory, met
        self.ends: list[float] = []
        self._stores: list[_Store] = []
        port = min(1.0, memory.lines_per_cycle)
        self._maps, self._weights = _Bank(memory.bank, port), _Bank(memory.bank, port)
        self._load = self._weight_load = float(_PLAN)
        self._window_free = [0.0, 0.0]  # of the two windows: when the array has done with them
        self._set_free = [0.0, 0.0]
        self._array = self._epilogue = self._store = 0.0
        self._window_number = self._set_number = 0

    def add(self, command: Command) -> float:
        """The cycle in which the command ends."""
        if isinstance(command, VectorCommand):
            return self._add_vector(command)
        if isinstance(command, IdleCommand):
            self.ends.append(self._store + self.memory.write)
            self._stores.append(_Store(command, [], self.ends[-1]))
            return self.ends[-1]
        g = Geometry(command, self.sizes)
        c, index = command, len(self._stores)
        waits = self._stores[index - c.input_after] if c.input_after else None
        also = [self._stores[index - n].end for n in (c.residual_after, c.weight_after) if n]
        also += self._heard(c.peers, Peers.RESIDUAL, c.residual_after) + self._heard(
            c.peers, Peers.WEIGHT, c.weight_after
        )
        others = max(also, default=0.0)
        heard = max(self._heard(c.peers, Peers.INPUT, c.input_after), default=0.0)
        done: list[tuple[int, float]] = []
        windows: dict[int, float] = {}
        sets: dict[int, float] = {}
        turns = divide_up(self.sizes.pixels, 1 if c.raw or c.has_sums else self.sizes.words)
        one_image = c.images == 1 and g.heads == 1
        for _head in range(g.heads):
            window = weights = -1
            for outer, inner, order in _passes(g):
                w, s = (inner, outer) if g.sets_outside else (outer, inner)
                if order.new_window:
                    window = self._fill(g, w % g.bands, waits, heard, one_image, windows)
                if order.new_set:
                    weights = self._load_set(g, s, others if c.second_operand_is_map else 0.0, sets)
                band = g.all_bands[w % g.bands]
                tiles = min(c.set_tiles, g.tiles - s * c.set_tiles)
                blocks = min(c.set_tiles * c.tile_blocks, c.out_blocks - s * c.set_tiles * c.tile_blocks)
                work = band.groups * max(tiles * g.steps, turns * blocks)
                begin = max(self._array + _PASS, windows[window], sets[weights])
                self._array = begin + work
                self._out(g, band, blocks, begin, others, turns)
                self._window_free[window % 2] = self._array
                self._set_free[weights % 2] = self._array
                if order.last_set:
                    done.append(
                        ((band.begin + band.rows) * c.out_width if one_image else -1, self._store + self.memory.write)
                    )
        end = self._store + self.memory.write
        self._stores.append(_Store(c, [d for d in done if d[0] >= 0], end))
        self.ends.append(end)
        return end

    def _add_vector(self, command: VectorCommand) -> float:
        """Of the vector side, which loads and stores through the same ports."""
        c = command
        after = [self.ends[len(self.ends) - n] for n in (c.input_after, c.other_after) if n]
        after += self._heard(c.peers, Peers.INPUT, c.input_after) + self._heard(c.peers, Peers.RESIDUAL, c.other_after)
        begin = max(self._load, *after, 0.0)
        lines = command.lines(self.sizes)
        self._load = self._maps.move(begin + self.memory.read, lines)
        end = max(begin + vector_cycles(command, self.sizes, self.memory, begin=0), self._store)
        self._store = end - self.memory.write
        self._stores.append(_Store(command, [], end))
        self.ends.append(end)
        return end

    def _heard(self, peers: Peers, operand: Peers, after: int) -> list[float]:
        """When all units have done with the command that made an operand, if others have made a part of it."""
        return [self._met[len(self._stores) - after] + _MEET] if after and operand in peers else []

    def _out(self, g: Geometry, band: Band, blocks: int, begin: float, others: float, turns: int) -> None:
        """Epilogue and store of a pass whose sums the array begins at `begin`, and cannot be far ahead of."""
        c = g.command
        words = band.groups * turns * blocks
        if self.sizes.words > 1:
            words += blocks * (1 + c.has_residual)
        self._epilogue = max(self._epilogue + _EPILOGUE + words, self._array + _FEED + turns * c.tile_blocks)
        lines = g.output_lines(band) * blocks
        added = begin
        if c.has_residual:
            added = self._maps.move(max(begin, others), lines)
        if c.has_sums:
            added = max(added, self._maps.move(max(begin, others), band.rows * c.out_width * blocks))
        self._epilogue = max(self._epilogue, added)
        bursts = blocks * (1 if c.tile_blocks == 1 else divide_up(g.output_lines(band), SEGMENT))
        first = max(self._store, begin + _FEED + _EPILOGUE)
        moved = max(self._maps.move(first, lines), first + _STORE + bursts * _BURST + lines)
        self._store = max(moved, self._epilogue + _DRAIN)
        self._array = max(self._array, self._epilogue - _FEED - _EPILOGUE, moved - _AHEAD - _EPILOGUE)

    def _fill(
        self, g: Geometry, index: int, waits: _Store | None, heard: float, one_image: bool, windows: dict[int, float]
    ) -> int:
        c, band, number = g.command, g.all_bands[index], self._window_number
        self._window_number += 1
        ready = 0.0
        if waits is not None:
            partly = one_image and band.last < c.in_height - 1
            ready = waits.when((band.last + 1) * c.in_width) if partly else waits.end
        lines, words = window_cycles(g, band)
        # The loader is a stream ahead of what fills the window.
        begin = max(self._load, ready, heard)
        arrived = self._maps.move(begin + self.memory.read, lines)
        begin_fill = max(self._load, self._window_free[number % 2], begin + self.memory.read)
        self._load = max(arrived, begin_fill + words) + _WINDOW
        windows[number] = self._load
        return number

    def _load_set(self, g: Geometry, index: int, ready: float, sets: dict[int, float]) -> int:
        number = self._set_number
        self._set_number += 1
        lines = set_lines(g, index)
        bank = self._maps if g.command.second_operand_is_map else self._weights
        begin = max(self._weight_load, self._set_free[number % 2], ready + self.memory.read if ready else 0.0)
        self._weight_load = bank.move(begin, lines) + _PASS
        sets[number] = self._weight_load
        return number


@dataclass(frozen=True)
class _Step:
    new_window: bool
    new_set: bool
    last_set: bool


def _passes(g: Geometry) -> Sequence[tuple[int, int, _Step]]:
    """Of a head: (outer, inner) indices of windows and sets, and what changes with each."""
    result = []
    outer, inner = (g.sets, g.windows) if g.sets_outside else (g.windows, g.sets)
    for o in range(outer):
        for i in range(inner):
            of_set, of_window = _Step(True, i == 0, o + 1 == g.sets), _Step(i == 0, True, i + 1 == g.sets)
            result.append((o, i, of_set if g.sets_outside else of_window))
    return result


def ends(commands: Sequence[Command], sizes: EngineSizes, memory: Memory) -> list[float]:
    """The cycles in which the commands of a list end."""
    return ends_together([commands], sizes, memory)


def ends_together(lists: Sequence[Sequence[Command]], sizes: EngineSizes, memory: Memory) -> list[float]:
    """The cycles in which the commands of a list for each unit end, on the slowest unit. memory: a unit's part."""
    met: list[float] = []
    timelines = [Timeline(sizes, memory, met) for _ in lists]
    for commands in zip(*lists, strict=True):
        met.append(max(timeline.add(command) for timeline, command in zip(timelines, commands, strict=True)))
    return met
