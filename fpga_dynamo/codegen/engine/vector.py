"""The vector side's command as an object, `vector_command` in hls_kernels/engine/vector/record.hpp, and its cycles."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum, IntFlag

from fpga_dynamo.ir.view import ceil_div

from .choose import DoesNotFitError
from .command import NO_OPERAND, Peers, record_bytes
from .cycles import MemoryTiming
from .sizes import CHANNELS, EngineSizes

VECTOR = 49
EXPONENT_BITS = 24
"""Fractional bits of softmax's exponentials."""
FLOAT_EXPONENTIAL_BITS = 27
"""Fractional bits of the exponentials that those of floats are made from, of steps of 1/256."""
_ROWS = 256
"""Rows of a group, at most."""
_LEAST_ROWS = 8
"""Rows that a sweep goes through at least."""
_MOST_CHANNELS = 4095
"""Of a normalised row."""
GAMMA_FRACTION, BETA_FRACTION = 17, 22
"""Fractional bits of layer norm's parameters."""
_GROUP = 10
"""Cycles of a process between two groups: rows of the group, and a lock."""
_BURST = 6
"""Of a loader or the store for a burst, beside its lines."""
_COLLECT, _WEIGH, _SCALE, _APPLY, _MOVE, _INTERLEAVE = 16, 14, 84, 34, 3, 4
"""Depths of the loops, as in hls_kernels/engine/qor.toml."""
_FLOATS_COLLECT, _FLOATS_WEIGH, _FLOATS_ROW, _FLOATS_APPLY = 30, 48, 92, 24
"""The same of floats; row: cycles spent once a row, before its second sweep and before its third."""
_GATHER_BITS = 20
"""Of the numbers of words and runs of a block that words are moved to."""
_REQUESTS, _GATHER, _RUN, _TILE = 70, 4, 10, 15
"""Of gather: cycles until the first runs are asked for, those of a head beside its words, of a run beside its words
where several units share a network, and from a tile's first word to that of its transpose."""
_RUNS_AHEAD, _LINE_RUNS = 16, 4
"""Runs that are asked for at a time, and of a line of their table."""
_EXPONENTIALS, _TABLE, _REALS = 256, 256, 264
"""Cycles of filling tables at the begin of a command."""
_CAST = 16
"""Depth of the loop that casts."""
_PARAMS_EARLIER = 20
"""By how much parameters begin to fill tables before the first group's loader begins, fitted to counted commands."""
_BEGIN = 260
"""From the begin of a list until a first command's loader begins: its record is fetched, its plan worked out."""
_LAST_JOB = 150
"""By which a first command's store begins later than it has lines, if these pass by no memories: its job comes last."""


class VectorOperation(IntEnum):
    SOFTMAX = 0
    NORM = 1
    ADD = 2
    MULTIPLY = 3
    INTERLEAVE = 4
    GATHER = 5
    CONSTANT = 6
    TRANSPOSE = 7
    QUANTIZE = 8
    DEQUANTIZE = 9


class VectorFlags(IntFlag):
    NONE = 0
    TABLE = 1
    SHARED = 2
    WIDE = 4
    CAUSAL = 8
    UNCENTERED = 16


@dataclass(frozen=True)
class VectorCommand:
    """Addresses and strides between heads count lines of 64 bytes, those of gather's input words of 16 channels.

    record.hpp says what each operation computes.
    """

    opcode: int = VECTOR
    slices: int = 1
    operation: VectorOperation = VectorOperation.ADD
    flags: VectorFlags = VectorFlags.NONE
    input: int = 0
    other: int = NO_OPERAND
    params: int = 0
    output: int = 0
    input_after: int = 0
    other_after: int = 0
    channels: int = 1
    pixels: int = 1
    heads: tuple[int, int] = (1, 1)
    input_head: tuple[int, int] = (0, 0)
    other_head: tuple[int, int] = (0, 0)
    output_head: tuple[int, int] = (0, 0)
    group_lines: int = 1
    epsilon: float = 1.0
    row_scale: float = 1.0
    input_scale: int = 0
    other_factor: int = 0
    input_zero: int = 0
    other_zero: int = 0
    zero: int = 0
    low: int = -128
    high: int = 127
    peers: Peers = Peers.NONE
    plane: int = 0
    turns: tuple[int, int] = (0, 0)
    row: int = 0
    taken: tuple[int, int] = (0, 0)
    runs: int = 0

    def words(self) -> bytes:
        """The record: 64 little-endian words."""
        return record_bytes(self)

    @property
    def blocks(self) -> int:
        """Blocks of channels."""
        return ceil_div(self.channels, CHANNELS)

    @property
    def has_other(self) -> bool:
        return self.other != NO_OPERAND

    @property
    def shares_other(self) -> bool:
        """All rows of a head have the same second operand."""
        return VectorFlags.SHARED in self.flags

    @property
    def reduces(self) -> bool:
        """Each row needs sums over all of it before its first result."""
        return self.operation in (VectorOperation.SOFTMAX, VectorOperation.NORM)

    @property
    def params_lines(self) -> int:
        """Lines of exponentials, of gamma and beta or of runs, and of the table."""
        if self.gathers:
            return ceil_div(self.runs, _LINE_RUNS)
        if self.operation is VectorOperation.CONSTANT:
            return self.constant_lines
        own = {VectorOperation.SOFTMAX: 16, VectorOperation.NORM: 2 * self.blocks}.get(self.operation, 0)
        return own + (4 if VectorFlags.TABLE in self.flags else 0)

    @property
    def interleaves(self) -> bool:
        return self.operation is VectorOperation.INTERLEAVE

    @property
    def gathers(self) -> bool:
        return self.operation in (VectorOperation.GATHER, VectorOperation.TRANSPOSE)

    @property
    def transposes(self) -> bool:
        return self.operation is VectorOperation.TRANSPOSE

    @property
    def constant_lines(self) -> int:
        """Of a constant: lines of all blocks, which lie in int8."""
        return self.heads[0] * self.heads[1] * ceil_div(self.pixels, 4)

    @property
    def casts(self) -> bool:
        """Float32 becomes int8, or the other way."""
        return self.operation in (VectorOperation.QUANTIZE, VectorOperation.DEQUANTIZE)

    @property
    def moves_words(self) -> bool:
        """Words pass by the lanes, and a head is one block."""
        return self.interleaves or self.gathers or self.operation is VectorOperation.CONSTANT or self.casts

    @property
    def wide(self) -> bool:
        """The input is float32, a line for each pixel, on an engine of bfloat16."""
        return VectorFlags.WIDE in self.flags

    @property
    def whole(self) -> bool:
        """All rows of a head are one command's."""
        return self.flags & (VectorFlags.WIDE | VectorFlags.CAUSAL) != 0

    def planes(self, sizes: EngineSizes) -> tuple[int, int, int]:
        """Lines of a block of the input, of the second operand, and of the result."""
        own = ceil_div(self.pixels, sizes.beat)
        if self.operation is VectorOperation.CONSTANT:
            return 0, 0, own
        if self.moves_words:
            return ceil_div(self.taken[0], sizes.beat), ceil_div(self.taken[1], sizes.beat), own
        first = own * sizes.beat if self.wide else own
        return first, (0 if not self.has_other else 1 if self.shares_other else own), own

    def lines(self, sizes: EngineSizes) -> int:
        """Lines of the input. Of words that are gathered a run begins and ends within a line."""
        if self.gathers:
            own = ceil_div(self.pixels, sizes.beat)
            return self.heads[0] * self.heads[1] * (own + self.runs)
        return self.heads[0] * self.heads[1] * self.blocks * self.planes(sizes)[0]

    def moved_lines(self, sizes: EngineSizes) -> int:
        """Lines that pass the ports."""
        if self.gathers:
            heads = self.heads[0] * self.heads[1]
            return self.lines(sizes) + heads * (ceil_div(self.pixels, sizes.beat) + self.params_lines)
        return self.heads[0] * self.heads[1] * self.blocks * sum(self.planes(sizes)) + self.params_lines

    def refusal(self, sizes: EngineSizes) -> str | None:
        """Why an engine of these sizes cannot run the command, as the end of a sentence; None if it can."""
        lines = min(self.group_lines, ceil_div(self.pixels, sizes.beat))
        if not sizes.has_vector_side:
            return "needs the vector side, which this engine does not have"
        if self.casts and not sizes.casts:
            return "quantizes or scales, which this engine cannot do"
        if self.casts and max(self.pixels, *self.taken) >> (_GATHER_BITS + 1):
            return f"casts more words at a time than the {2 << _GATHER_BITS} that are counted"
        if self.interleaves and max(self.pixels, self.turns[1]) >> (_GATHER_BITS + 2):
            return f"interleaves more words of a block than the {4 << _GATHER_BITS} that are counted"
        moves = self.moves_words and not (self.interleaves or self.casts)
        if moves and not sizes.gather:
            return "gathers words or copies constants, which this engine cannot do"
        if moves and max(self.pixels, *self.taken, self.runs) >> _GATHER_BITS:
            return f"moves more words of a block than the {1 << _GATHER_BITS} that are counted"
        of_floats = VectorFlags.WIDE | VectorFlags.CAUSAL
        if sizes.is_float and (not self.reduces or self.flags & ~of_floats or self.has_other):
            return "is not supported by a bfloat16 engine, which supports softmax and layer norm of a feature map"
        if VectorFlags.UNCENTERED in self.flags and self.operation is not VectorOperation.NORM:
            return "has a flag that a norm alone may have"
        if self.flags & of_floats and self.operation is not VectorOperation.SOFTMAX:
            return "has flags that a softmax alone may have"
        if self.operation is VectorOperation.NORM and self.channels > _MOST_CHANNELS and not sizes.is_float:
            return f"normalizes {self.channels} channels, more than {_MOST_CHANNELS}"
        if self.operation is VectorOperation.NORM and self.other != NO_OPERAND:
            return "has a second operand besides the normalized one"
        if lines * sizes.beat > _ROWS:
            return f"has groups of {lines * sizes.beat} rows, and the engine holds the sums of {_ROWS}"
        words = lines * self.blocks * sizes.beat
        if words > sizes.vector_depth:
            return f"has groups of {words} words, more than the engine's {sizes.vector_depth}"
        if self.operation is VectorOperation.NORM and self.blocks > sizes.vector_blocks:
            most = sizes.vector_blocks * CHANNELS
            return f"has {self.channels} channels, more than the engine's {most} of gamma and beta"
        return None


def float32(x: float) -> float:
    """The nearest float32, as a field has it. Not by a tensor, whose number is not known while a graph is traced."""
    return ctypes.c_float(x).value


def interleaved(input_pixels: int, other_pixels: int, turns: tuple[int, int], rows: int = 1) -> VectorCommand:
    """The command that interleaves words of two maps, without addresses and heads. rows: of the output."""
    pixels = input_pixels + other_pixels
    return VectorCommand(
        operation=VectorOperation.INTERLEAVE,
        channels=CHANNELS,
        pixels=pixels,
        turns=turns,
        row=pixels // rows,
        taken=(input_pixels, other_pixels),
    )


def vector_cycles(command: VectorCommand, sizes: EngineSizes, memory: MemoryTiming) -> float:
    """Cycles of a command alone, from the begin of its list to the last line's response."""
    begin = _BEGIN + (_LAST_JOB if command.moves_words and not command.gathers else 0)
    return vector_stores(command, sizes, memory, begin)[0][-1][1]


def vector_stores(
    command: VectorCommand,
    sizes: EngineSizes,
    memory: MemoryTiming,
    begin: float,
    there: Callable[[int | None], float] = lambda _: 0.0,
    store: float = 0.0,
) -> tuple[list[tuple[int, float]], float]:
    """Of each group the pixels that are stored with it (0 of several heads), and when memory has answered; and when the
    loader has done.

    begin: of the command's loader. there: from when on so many pixels of the input can be read, or (None) all. store:
    when the store has done with the command before.

    A recurrence over the groups: each process begins with a group when it has done with the one before, has its rows,
    and has one of two memories to put them into. Held against the cycle simulator by
    tests/hls_kernels/test_engine_vector.py.
    """
    c = command
    if c.gathers or c.operation is VectorOperation.CONSTANT:
        return _gather_stores(c, sizes, memory, begin, there, store)
    if c.interleaves or c.casts:
        return _interleave_stores(c, sizes, memory, begin, there, store)
    plane = ceil_div(c.pixels, sizes.beat)
    turns = sizes.vector_parts * (1 if c.wide else sizes.beat)  # cycles of a line
    lines_ahead = 128
    load, found = begin, []
    heads = c.heads[0] * c.heads[1]
    table = _TABLE if VectorFlags.TABLE in c.flags else 0
    own = {VectorOperation.SOFTMAX: _EXPONENTIALS, VectorOperation.NORM: 2 * c.blocks * sizes.vector_parts}
    ready = load + own.get(c.operation, 0) - _PARAMS_EARLIER
    collect, weigh, apply = [0.0, 0.0], [ready if c.reduces else 0.0] * 2, [ready + table] * 2
    depths = (_FLOATS_COLLECT, _FLOATS_WEIGH, _FLOATS_APPLY) if sizes.is_float else (_COLLECT, _WEIGH, _APPLY)
    center = scale = 0.0
    for _head in range(heads):
        for first in range(0, plane, c.group_lines):
            lines = min(c.group_lines, plane - first)
            rows = lines * sizes.beat
            last_block = max(rows, _LEAST_ROWS) * sizes.vector_parts
            walked = last_block * c.blocks
            bursts = 1 if lines == (c.plane or plane) else c.blocks
            read = lines * (sizes.beat if c.wide else 1)
            passed = read + lines * (1 + (c.other != NO_OPERAND))
            moved = max(read / memory.lines_per_cycle, passed / memory.bank) * c.blocks
            moved = max(read * c.blocks + bursts * _BURST, round(moved))
            pixels = (first + lines) * sizes.beat
            load = max(load, there(None if heads > 1 or first + lines == plane else pixels))
            first_line = load + _GROUP + memory.read
            load = max(first_line + moved, collect[-1] + walked - lines_ahead * turns)
            ready = max(collect[-1] + _GROUP, weigh[-2] + _GROUP, first_line)
            collect.append(max(ready + walked, load + turns) + depths[0])
            ready = max(weigh[-1], collect[-1], apply[-2])
            if sizes.is_float:  # the first row's center comes a division behind its sum, and the group's last one's
                center = max(collect[-1], center + _GROUP + last_block) + _FLOATS_ROW
                ready = max(ready, center - last_block)
            weigh.append(ready + _GROUP + walked + depths[1])
            ready = max(apply[-1], weigh[-1])
            if sizes.is_float:
                scale = max(weigh[-1], scale + _GROUP + last_block) + _FLOATS_ROW
                ready = max(ready, scale - last_block)
            elif c.operation is VectorOperation.SOFTMAX:  # its first scale comes a division behind its sum
                ready = max(ready, weigh[-1] - rows * sizes.vector_parts + _SCALE)
            # Lines wait until the store has done with what was before, but for those that its stream holds.
            apply.append(max(ready + _GROUP + walked + depths[2], store + lines * c.blocks - lines_ahead))
            stored = _GROUP + lines * c.blocks + c.blocks * _BURST + memory.write * (bursts > 1)
            store = max(store + stored, apply[-1] + _MOVE)
            found.append((0 if heads > 1 else pixels, store + memory.write))
    return found, load


def _interleave_stores(
    c: VectorCommand,
    sizes: EngineSizes,
    memory: MemoryTiming,
    begin: float,
    there: Callable[[int | None], float],
    store: float,
) -> tuple[list[tuple[int, float]], float]:
    """Of words that pass one by one, block after block: the loaders are ahead by what their streams hold.

    A cast takes a cycle for each word of float32.
    """
    first, second, plane = c.planes(sizes)
    steps = sizes.beat * max(first, plane) if c.casts else c.pixels
    depth = _CAST if c.casts else _INTERLEAVE
    load = max(begin, there(None))
    passed = begin + _REALS if c.operation is VectorOperation.DEQUANTIZE else 0.0
    found: list[tuple[int, float]] = []
    moved = round((first + second + plane) / memory.lines_per_cycle)
    if c.casts:  # input and output have ports of their own
        moved = round(max(first / memory.lines_per_cycle, (first + plane) / memory.bank))
    for _head in range(c.heads[0] * c.heads[1]):
        loaded = _GROUP + memory.read + max(first, second) * sizes.line_beats
        load = max(load + loaded, passed)
        start = max(passed, load - loaded + _GROUP + memory.read)
        passed = max(start + _GROUP + max(steps, moved), load) + depth
        store = _store_words(c, plane, memory, passed, store, found)
    return found, load


def _store_words(
    c: VectorCommand, plane: int, memory: MemoryTiming, passed: float, store: float, found: list[tuple[int, float]]
) -> float:
    """When the store can begin with the next plane; the groups of this one, and when they are written, go to `found`.

    passed: when the last word of the plane leaves the vector side. Between planes the store waits for the memory's
    response to the plane before.
    """
    groups = ceil_div(plane, c.group_lines)
    stored = plane + groups * (_GROUP + _BURST)
    last = plane - (groups - 1) * c.group_lines
    before = found[-1][1] if found else 0.0
    store = max(store + stored, passed + _MOVE + (_GROUP + _BURST if groups > 1 else 0) + min(last, 1))
    found += [(0, store + memory.write)] * groups
    return max(store, before + _MOVE)


def _gather_stores(
    c: VectorCommand,
    sizes: EngineSizes,
    memory: MemoryTiming,
    begin: float,
    there: Callable[[int | None], float],
    store: float,
) -> tuple[list[tuple[int, float]], float]:
    """Of words that pass one by one. Runs are asked for some ahead, each a request of the memory's latency.

    A constant's words come as a table does.
    """
    plane = ceil_div(c.pixels, sizes.beat)
    heads = c.heads[0] * c.heads[1]
    moved, waiting, load = plane / memory.lines_per_cycle, 0.0, max(begin, there(None))
    if c.gathers:
        read = c.lines(sizes) / heads
        moved = max(read / memory.lines_per_cycle, (read + plane) / memory.bank, c.params_lines * sizes.line_beats)
        waiting = c.runs * memory.read / _RUNS_AHEAD
    words = plane * sizes.beat + (_RUN * c.runs if memory.units > 1 else 0)
    head = max(words, waiting, moved) + _GROUP + _GATHER
    if c.transposes:
        head = max(head, words + _TILE + _GROUP)
    load = max(load, begin + memory.read) + _REQUESTS + (memory.read if c.gathers else 0.0)
    found: list[tuple[int, float]] = []
    for _head in range(heads):
        load += head
        store = _store_words(c, plane, memory, load, store, found)
    return found, load


def grouped(command: VectorCommand, sizes: EngineSizes, memory: MemoryTiming) -> VectorCommand:
    """With groups of the fewest cycles. Raises DoesNotFitError, which says what is too large."""
    plane = ceil_div(command.pixels, sizes.beat)
    cuts = [replace(command, group_lines=n) for n in sorted({min(plane, 1 << k) for k in range(7)})]
    fitting = [cut for cut in cuts if cut.refusal(sizes) is None]
    if not fitting:
        raise DoesNotFitError(cuts[0].refusal(sizes) or "has no cut")
    return min(fitting, key=lambda cut: vector_cycles(cut, sizes, memory))
