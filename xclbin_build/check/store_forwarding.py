"""Store-to-load forwarding: a register carries a stored value to the load of the next iteration.

Vitis HLS contains LLVM's loop load elimination. AMD publishes its version (Xilinx/hls-llvm-project,
`LoopLoadElimination.cpp` and `LoopAccessAnalysis.cpp`), which supports any stride and never makes a second version of
the loop. The conditions here are the same:

* the loop has one exit and a known trip count
* only loads and stores access memory; the loop has no stream
* all accesses to the array move by the same stride
* one store, which every iteration executes, writes the loaded element
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ..hls import cfg, ir, scev
from ..hls.arrays import Kind
from ..hls.frontend import Kernel
from .addresses import Access

_MOST_DEPENDENCES = 100  # of a loop; LLVM stops looking there (`max-dependences` of LoopAccessAnalysis.cpp)
_MOST_PAIRS = 100_000  # of a store and another access to one array, which are compared with each other
_TOUCHES = ("__hls_fifo_", "__hls_burst_", "llvm.memcpy", "llvm.memmove", "llvm.memset")


class Moving(Protocol):
    """How addresses move from iteration to iteration (`Accesses`)."""

    def varies(self, access: Access) -> bool: ...
    def step(self, access: Access) -> int: ...


@dataclass(frozen=True)
class _Dependence:
    """What `source` touches, a destination touches in the same iteration or in one behind it. bytes: how far the
    source's address is ahead of the destination's in the same iteration, in the direction in which both move."""

    source: Access
    bytes: int


class _Unknown(Exception):
    """Of a pair of accesses it is known at run time only how far they are apart, so LLVM gives the loop up."""


def forwarded_loads(
    kernel: Kernel, loop: cfg.Loop, code: list[ir.Instruction], accesses: Iterable[Access], moving: Moving
) -> dict[int, list[int]]:
    """The stores that each load of a register is from, by the indices of both in the loop's code.

    There are several where branches each have one, of the same element: LLVM makes one of them.
    """
    if not _ends_in_one_place(kernel.flow, loop) or any(_touches_memory(i) for i in code):
        return {}
    groups: dict[str, list[Access]] = defaultdict(list)
    for access in accesses:
        if access.array is not None and access.array.kind is Kind.MEMORY and not access.array.complete():
            groups[access.array.value].append(access)
    found: dict[int, list[int]] = {}
    seen = 0
    for group in groups.values():
        try:
            into, unknown, count = _dependences(group, moving)
        except _Unknown:
            return {}
        seen += count
        if seen >= _MOST_DEPENDENCES:
            return {}
        by_place: dict[object, list[Access]] = defaultdict(list)
        for load in group:
            if not load.write and load.index not in unknown and load.index in into:
                by_place[load.variable, load.constant].append(load)
        for loads in by_place.values():
            stores = {d.source.index: d for load in loads for d in into[load.index]}
            if all(d.bytes == abs(moving.step(d.source)) for d in stores.values()) and all(
                _every_way(kernel.flow, loop, some) for some in (loads, [d.source for d in stores.values()])
            ):
                found |= {load.index: sorted(stores) for load in loads}
    return found


def _dependences(group: list[Access], moving: Moving) -> tuple[dict[int, list[_Dependence]], set[int], int]:
    """What stores lead to each load of an array, the loads of which it is not known, and how many dependences there
    are. Raises `_Unknown`."""
    into: dict[int, list[_Dependence]] = defaultdict(list)
    unknown: set[int] = set()
    count = 0
    if sum(access.write for access in group) * len(group) > _MOST_PAIRS:
        return into, unknown, count
    for at, first in enumerate(group):
        for second in group[at + 1 :]:
            if not first.write and not second.write:
                continue
            if count >= _MOST_DEPENDENCES:
                return into, unknown, count
            steps = moving.step(first), moving.step(second)
            apart = scev.difference(second.form, first.form)
            if moving.varies(first) or moving.varies(second) or not steps[0] or steps[0] != steps[1]:
                unknown |= {first.index, second.index}
                count += 1
                continue
            if any(apart):
                raise _Unknown
            bytes = apart.get("", 0) * (1 if steps[0] > 0 else -1)
            if first.size != second.size:
                unknown |= {first.index, second.index}
            elif bytes % abs(steps[0]) and not bytes % first.size:
                continue  # they never meet
            count += 1
            source, destination = (second, first) if bytes > 0 else (first, second)
            if source.write and not destination.write:
                into[destination.index].append(_Dependence(source, abs(bytes)))
    return into, unknown, count


def _ends_in_one_place(flow: cfg.Flow, loop: cfg.Loop) -> bool:
    """Whether a loop is left from its begin or its end only, which LLVM's rotation makes the end."""
    leaving = {block for block in loop.blocks if any(next not in loop.blocks for next in flow.successors[block])}
    return len(leaving) == 1 and len(loop.latches) == 1 and leaving <= {loop.header, *loop.latches}


def _touches_memory(i: ir.Instruction) -> bool:
    """Whether an instruction other than a load or a store touches memory or a stream, or is a volatile access."""
    if i.opcode in ("load", "store"):
        return "volatile" in i.text.split(",")[0].split()
    return i.opcode in ("call", "invoke") and (i.callee or "").startswith(_TOUCHES)


def _every_way(flow: cfg.Flow, loop: cfg.Loop, accesses: Iterable[Access]) -> bool:
    """Whether every way through the loop has one of them."""
    there = {access.block for access in accesses}
    without: set[str] = set()
    for block in flow.order:
        if block not in loop.blocks or block in there:
            continue
        before = [p for p in flow.predecessors[block] if p in loop.blocks]
        if block == loop.header or any(p in without for p in before):
            without.add(block)
    return not without & set(loop.latches)
