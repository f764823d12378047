"""Cycles of a command of the vector side, and how many of its heads go through together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fpga_dynamo.ir.view import ceil_div

from .choose import DoesNotFitError
from .command import NO_OPERAND
from .cycles import MemoryTiming
from .sizes import EngineSizes
from .vector import VectorCommand, VectorFlags, VectorOperation

_LEAST_ROWS = 8
"""Rows that a sweep goes through at least."""
_GROUP = 10
"""Cycles of a process between two groups: rows of the group, and a lock."""
_BURST = 6
"""Of a loader or the store for a burst, beside its lines."""
_COLLECT, _WEIGH, _SCALE, _APPLY, _MOVE, _INTERLEAVE = 16, 14, 84, 34, 3, 4
"""Depths of the loops, as in hls_kernels/engine/qor.toml."""
_FLOATS_COLLECT, _FLOATS_WEIGH, _FLOATS_ROW, _FLOATS_APPLY = 30, 48, 92, 24
"""The same of floats; row: cycles spent once a row, before its second sweep and before its third."""
_REQUESTS, _GATHER, _RUN, _TILE = 70, 4, 10, 15
"""Of gather: cycles until the first runs are asked for, those of a head beside its words, of a run beside its words
where several units share a network, and from a tile's first word to that of its transpose."""
_RUNS_AHEAD = 16
"""Runs that are asked for at a time."""
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
