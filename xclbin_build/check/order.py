"""The order of accesses to one array, within an iteration and between iterations: edges of the dependence graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container
from dataclasses import dataclass

from ..hls import cfg
from ..hls.arrays import Array, Kind
from ..hls.instance import Dependence, Instance
from .accesses import Accesses, forgiven, stated_distance
from .addresses import Access
from .banks import may_meet
from .graph import DependenceGraph, Wait

_MOST_PAIRS = 4_000_000  # of accesses to one array that are compared with each other


@dataclass(frozen=True)
class Ahead:
    """bit: of each block of a loop; reach: the bits of those that come behind it in an iteration, and its own."""

    bit: dict[str, int]
    reach: dict[str, int]

    def exclude(self, a: str, b: str) -> bool:
        """Whether no way through an iteration has both blocks."""
        return not (self.reach[a] & self.bit[b] or self.reach[b] & self.bit[a])


def ahead_of(flow: cfg.Flow, loop: cfg.Loop) -> Ahead:
    """Of the blocks of a loop."""
    blocks = [b for b in flow.order if b in loop.blocks]
    bit = {b: 1 << n for n, b in enumerate(blocks)}
    reach: dict[str, int] = {}
    for block in reversed(blocks):
        reach[block] = bit[block]
        for after in flow.successors[block]:
            if after in reach and after != loop.header:
                reach[block] |= reach[after]
    return Ahead(bit, reach)


@dataclass(frozen=True)
class Ports:
    """The accesses to ports that wait for those of the previous iteration, whatever their addresses.

    bursts: indices of accesses that are parts of bursts.
    within: indices of accesses whose burst lies in one iteration.
    rows: counters of outer loops that are flattened with this one.

    Vitis HLS does not compare the addresses of single requests through a pointer. Examples in the Vivado flow:

    * `a[i] *= b` of Taffo-VitisHLS, 2022.2: II 15
    * sums of FPGA_ECE8893's Analog-CIM, 2022.1: II 16
    * words of Hotspot3D that are written bit by bit, 2020.2: II 15

    It compares them if the parameter is declared as an array with a size (HLStrans, 2022.2: `data` of correlation, II
    3; `y_out` of atax, II 1). The exceptions are elements that an outer loop accesses again (another `y_out` of atax,
    II 15), and bursts within one iteration."""

    bursts: Container[int]
    within: Container[int]
    rows: set[str]

    def wait(self, write: Access, read: Access) -> bool:
        """Whether a read does so for a write of the iteration before."""
        array = write.array
        if array is None or array.kind is not Kind.PORT or write.index in self.bursts or read.index in self.bursts:
            return False
        if not array.sized or (write.index in self.within and read.index in self.within):
            return True
        return not self.rows <= read.form.keys()


class AccessOrder:
    """Adds the order of accesses to a graph.

    units: of each instruction, whether its value comes from a floating-point operator in the same cycle.
    always: blocks that every iteration executes, for values that Vitis HLS up to 2023.1 keeps in registers; empty for
    later versions.
    """

    def __init__(
        self,
        graph: DependenceGraph,
        flow: cfg.Flow,
        ports: Ports,
        ahead: Ahead,
        units: list[bool],
        always: Container[str],
    ) -> None:
        self._graph, self._flow, self._ports, self._ahead = graph, flow, ports, ahead
        self._units, self._always = units, always
        self._place = {i.name: index for index, i in enumerate(graph.code) if i.name}

    def add(self, instance: Instance | None) -> None:
        """Between accesses to each array; the pragmas of the loop count."""
        groups: dict[str, list[Access]] = defaultdict(list)
        for access in self._graph.accesses.all:
            if access.array is not None:
                groups[access.array.value].append(access)
        dependences = instance.dependences if instance else []
        for group in groups.values():
            array = group[0].array
            if array is not None and any(a.write for a in group):
                self._of_array(array, group, dependences)

    def _of_array(self, array: Array, group: list[Access], dependences: list[Dependence]) -> None:
        graph, writes = self._graph, [a for a in group if a.write]
        if len(writes) * len(group) > _MOST_PAIRS:
            graph.notes.append(f"'{array.name}': too many accesses to compare; dependences through it are left out")
            return
        wait = Wait.VALUE if array.kind is Kind.REGISTERS or array.complete() else Wait.MEMORY
        free, told = forgiven(dependences, array), stated_distance(dependences, array)
        # Lanes of a divided array never meet, whatever their other index is.
        at: dict[object, list[Access]] = defaultdict(list)
        for write in writes:
            at[write.variable].append(write)
        banks = dict(zip(map(id, group), graph.accesses.banks(array, group), strict=True)) if array.partitions else {}
        pairs = _Pairs(graph.accesses, group)
        covered = {id(a): _covered(self._flow, at[a.variable], a) for a in group if not a.write}
        reused = self._reused(group) if array.kind is Kind.MEMORY and wait is Wait.MEMORY else None
        self._turns(group)
        for write in writes:
            for other in group:
                if other is write or (banks and not may_meet(banks[id(write)], banks[id(other)])):
                    continue
                apart, meet, later = pairs.of(write, other)
                meet = meet and not self._ahead.exclude(write.block, other.block)
                if other.write:
                    if meet and write.index < other.index:
                        graph.edge(write.index, other.index, Wait.ORDER)
                    continue
                if meet:
                    if write.index < other.index:
                        graph.edge(write.index, other.index, wait)
                    else:
                        graph.edge(other.index, write.index, Wait.ORDER)
                single = self._ports.wait(write, other)
                if free or ((apart or covered[id(other)]) and not single):
                    continue
                distance = told or (1 if single else later)
                if distance == 1 and reused is not None:
                    self._from_register(reused, other.index)
                    distance = 2
                if distance:
                    register = wait is Wait.VALUE and self._units[write.index]
                    graph.edge(write.index, other.index, Wait.STATE if register else wait, distance)

    def _turns(self, group: list[Access]) -> None:
        """A burst back to a port begins behind the iteration's own burst from there."""
        there, back = ([a.index for a in group if a.index in self._ports.within and a.write is way]
                       for way in (False, True))  # fmt: skip
        for write in back if there else ():
            self._graph.edge(max(there), write, Wait.MEMORY)

    def _reused(self, group: list[Access]) -> int | None:
        """The instruction that computes the written value, if every iteration reads and writes one element of an array.

        A register then keeps the value of the last iteration, and another one its address (`reuse_addr_reg` of
        schedules; histograms of HLStrans, 2022.2: II 1)."""
        writes, reads = [a for a in group if a.write], [a for a in group if not a.write]
        if len(writes) != 1 or len(reads) != 1 or any(a.block not in self._always for a in group):
            return None
        write, read = writes[0], reads[0]
        alike = (write.variable, write.constant, write.size) == (read.variable, read.constant, read.size)
        store = self._graph.code[write.index]
        return self._place.get(store.operands[0]) if alike and store.opcode == "store" else None

    def _from_register(self, made: int, load: int) -> None:
        """What uses a load may have the value of the last iteration from a register, behind a choice."""
        name = self._graph.code[load].name
        for user, i in enumerate(self._graph.code):
            if name in i.values:
                self._graph.edge(made, user, Wait.NEXT if self._units[made] else Wait.VALUE, 1)


class _Pairs:
    """How accesses to one array lie to each other. That depends on the terms of their addresses, on how far apart the
    constant parts are, and on sizes: of thousands of pairs few differ in these."""

    def __init__(self, accesses: Accesses, group: list[Access]) -> None:
        self._accesses = accesses
        numbers: dict[object, int] = {}
        self._kind = {id(a): numbers.setdefault((a.variable, a.size), len(numbers)) for a in group}
        self._known: dict[tuple[int, int, int], tuple[bool, bool, int | None]] = {}

    def of(self, a: Access, b: Access) -> tuple[bool, bool, int | None]:
        """Whether they never meet, whether they may in one iteration, and after how many b may meet what a touched."""
        key = self._kind[id(a)], self._kind[id(b)], a.constant - b.constant
        if key not in self._known:
            of = self._accesses
            self._known[key] = of.never_meet(a, b), of.same(a, b), of.distance(a, b)
        return self._known[key]


def _covered(flow: cfg.Flow, writes: list[Access], read: Access) -> bool:
    """Whether an iteration always writes what it reads here before: then nothing of an earlier iteration is read.
    writes: those that differ from the read in the constant part of the address only."""
    return any(
        write.index < read.index
        and write.constant <= read.constant
        and read.constant + read.size <= write.constant + write.size
        and flow.dominates(write.block, read.block)
        for write in writes
    )
