"""The dependence graph of a loop: what an operator waits for, in the same iteration or in an earlier one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum

from ..hls import cfg, ir
from ..hls.arrays import Kind
from ..hls.frontend import Kernel
from ..hls.instance import Instance
from . import lookup
from .accesses import Accesses, forgiven, stated
from .addresses import Access
from .banks import may_meet
from .nests import Nests
from .timing import Cost, Timing

_MOST_CHANGES = 8  # of a value's width, one behind the other
_MOST_PAIRS = 4_000_000  # of accesses to one array that are compared with each other


class Wait(Enum):
    """How long an edge waits. VALUE: until the value is there, perhaps in the same cycle. MEMORY: until the cycle after
    the write. ORDER: not before. STATE: until the beginning of the cycle in which the value is there. NEXT: until the
    cycle after that."""

    VALUE = 0
    MEMORY = 1
    ORDER = 2
    STATE = 3
    NEXT = 4


@dataclass(frozen=True)
class Edge:
    """to: index of an instruction. distance: iterations between the two."""

    to: int
    wait: Wait
    distance: int


@dataclass
class Graph:
    """code: the loop's instructions in the order of the control flow; costs: of each. out: edges by index."""

    code: list[ir.Instruction]
    costs: list[Cost]
    out: list[list[Edge]]
    accesses: Accesses
    notes: list[str] = field(default_factory=list)

    def replace(self, index: int, cost: Cost) -> None:
        """Takes another unit, of cycles that loops were reported to take, so that it leaves room for a register."""
        self.costs[index] = cost
        for reader in {edge.to for edge in self.out[index] if edge.wait is Wait.STATE}:
            self.out[reader] = [
                Edge(edge.to, Wait.VALUE, edge.distance) if self.costs[edge.to].stages else edge
                for edge in self.out[reader]
            ]

    def edge(self, start: int, to: int, wait: Wait = Wait.VALUE, distance: int = 0) -> None:
        self.out[start].append(Edge(to, wait, distance))


def build(
    kernel: Kernel, loop: cfg.Loop, accesses: Accesses, code: list[ir.Instruction], timing: Timing, bursts: set[int],
    instance: Instance | None, nests: Nests,
) -> Graph:  # fmt: skip
    """The graph of a loop without loops in it. bursts: indices of accesses to ports that are parts of bursts."""
    by_index = {access.index: access for access in accesses.all if access.array is not None}
    by_index |= {access.index: access for access in accesses.all if access.array is not None and not access.write}
    costs = []
    for index, i in enumerate(code):
        access = by_index.get(index)
        if index in accesses.kept:
            costs.append(Cost())  # a register
        elif i.opcode in ("load", "store") or access is not None:
            array = access.array if access else None
            write = access.write if access else i.opcode == "store"
            fixed = access is not None and not any(access.form.keys() - {""})
            costs.append(timing.of_access(array, write=write, burst=index in bursts, fixed=fixed))
        elif i.opcode == "phi" and i.block == loop.header:  # a register that the last iteration wrote
            costs.append(Cost(0, timing.choice_ns) if nests.begins_anew(loop, i) else Cost())
        else:
            costs.append(timing.of(i))
    graph = Graph(code, costs, [[] for _ in code], accesses)
    place = {i.name: index for index, i in enumerate(code) if i.name}
    lookup.group(code, place, costs, timing)
    sums = _sums(code, place)
    units = _from_units(code, costs, place)
    registers = _registers(graph, loop, place, units, timing)
    ahead = _ahead(kernel.flow, loop)
    conditions = _conditions(kernel.flow, loop, code, place, ahead)
    for index, i in enumerate(code):
        if i.opcode == "phi" and i.block == loop.header:
            continue
        for value in i.values:
            if value in place and place[value] != index:
                carried = _carries(code, place, place[value], loop, by_index)
                to = sums.get(index, index) if carried else index
                logic = not costs[to].stages and costs[to].ns > 0
                behind = place[value] in registers and (logic or registers[place[value]])
                graph.edge(place[value], to, Wait.MEMORY if behind else Wait.VALUE)
        if i.opcode == "phi":
            for block in kernel.flow.predecessors[i.block]:
                terminator = kernel.flow.terminator(block)
                if len(kernel.flow.successors.get(block, [])) > 1:
                    for value in terminator.operands:
                        if value in place:
                            graph.edge(place[value], index)
        elif (
            i.opcode == "store" or (i.callee or "").startswith(("__hls_", "llvm.mem")) or _is_port(by_index.get(index))
        ):
            for condition in conditions.get(i.block, ()):
                graph.edge(condition, index)
    _exit_edges(graph, kernel.flow, loop, by_index, place)
    _memory_edges(graph, kernel.flow, instance, bursts, units, ahead)
    return graph


def _from_units(code: list[ir.Instruction], costs: list[Cost], place: dict[str, int]) -> list[bool]:
    """Whether a value comes from a unit of floating point in the same cycle."""
    found: list[bool] = []
    for i, cost in zip(code, costs, strict=True):
        logic = i.opcode != "load" and cost.cycles == 0
        made = [place[value] for value in i.values if value in place] if logic else []
        found.append(cost.stages or any(other < len(found) and found[other] for other in made))
    return found


def _registers(
    graph: Graph, loop: cfg.Loop, place: dict[str, int], units: list[bool], timing: Timing
) -> dict[int, bool]:
    """Edges to what an iteration has from the one before; of values that come from a unit, the reader: whether the
    register is written a cycle later, for want of room behind the unit.

    Vitis HLS lets a unit read such a register in the cycle that writes it, and other logic in the next: an interval of
    4 for a sum by an adder of 4 cycles (loop 23 of `correlation`, HLStrans 2022.2), 5 if a choice is in front of it, as
    the sum begins anew for each row (its loop 10), 1 for a maximum by a comparison of one. On an xc7z020 at 10 ns a
    step of the adder (7.25 ns) leaves no room: 5, and 6 with a choice (spmv of AAHLS_LabB, 2022.1)."""
    found: dict[int, bool] = {}
    code = graph.code
    readers = [
        (index, [value for value, block in i.incoming if block in loop.blocks])
        for index, i in enumerate(code)
        if i.opcode == "phi" and i.block == loop.header
    ]
    readers += [(index, [code[store].operands[0] for store in stores]) for index, stores in graph.accesses.kept.items()]
    for reader, values in readers:
        chosen = graph.costs[reader].ns > 0
        for made in (place[value] for value in values if value in place):
            unit = Wait.NEXT if chosen else Wait.STATE
            graph.edge(made, reader, unit if units[made] else Wait.VALUE, distance=1)
            if units[made] and not chosen:
                found[reader] = found.get(reader, False) or timing.fills_its_cycle(graph.costs[made])
    return found


def _exit_edges(
    graph: Graph, flow: cfg.Flow, loop: cfg.Loop, by_index: dict[int, Access], place: dict[str, int]
) -> None:
    """Memories, ports and streams wait until it is known that there is an iteration, where the loop may end early: a
    pipeline takes no access back, and begins an iteration with a cycle (do-while loops over a histogram of
    Xilinx_Summer_School_Dsp_Huffman_Pro, 2021.2: 2; one over a port of AAHLS_LabC, 2022: 10)."""
    if graph.accesses.counted:
        return
    exits = [block for block in loop.blocks if any(after not in loop.blocks for after in flow.successors[block])]
    decided = {place[v] for block in exits for v in flow.terminator(block).operands if v in place}
    for index, i in enumerate(graph.code):
        if (i.callee or "").startswith("__hls_") or _is_outside(by_index.get(index)):
            for condition in decided:
                graph.edge(condition, index, Wait.MEMORY, distance=1)


def _sums(code: list[ir.Instruction], place: dict[str, int]) -> dict[int, int]:
    """For additions of integers that only another addition uses, perhaps in another width: the last of the chain.

    Vitis HLS balances such sums (UG1399, expression_balance), so what comes from the last iteration is added last.
    """
    users: dict[int, list[int]] = defaultdict(list)
    for index, i in enumerate(code):
        for value in i.values:
            if value in place:
                users[place[value]].append(index)
    found: dict[int, int] = {}
    for index in range(len(code) - 1, -1, -1):
        if code[index].opcode != "add":
            continue
        at = index
        while (
            len(users[at]) == 1 and users[at][0] > at and (_same(code, place, users[at][0]) or _half(code, users, at))
        ):
            (at,) = users[at]
        if len(users[at]) == 1 and users[at][0] > at and code[users[at][0]].opcode == "add":
            (user,) = users[at]
            found[index] = found.get(user, user)
    return found


def _same(code: list[ir.Instruction], place: dict[str, int], index: int) -> int | None:
    """What an instruction gives in another width, so that sums go through it: extended, or with its upper bits gone."""
    i = code[index]
    if i.opcode in ("zext", "sext", "trunc", "freeze"):
        return place.get(i.operands[0])
    if i.opcode == "and" and i.operands[1].isdigit() and not int(i.operands[1]) & (int(i.operands[1]) + 1):
        return place.get(i.operands[0])
    shifted = place.get(i.operands[0]) if i.opcode in ("ashr", "lshr") else None
    if shifted is not None and code[shifted].opcode == "shl" and code[shifted].operands[1] == i.operands[1]:
        return place.get(code[shifted].operands[0])
    return None


def _half(code: list[ir.Instruction], users: dict[int, list[int]], index: int) -> bool:
    """Whether the user of a value shifts its upper bits out, and the next one shifts back."""
    (first,) = users[index]
    if code[first].opcode != "shl" or len(users[first]) != 1:
        return False
    back = code[users[first][0]]
    return back.opcode in ("ashr", "lshr") and back.operands[1] == code[first].operands[1]


def _carries(
    code: list[ir.Instruction], place: dict[str, int], index: int, loop: cfg.Loop, by_index: dict[int, Access]
) -> bool:
    """Whether a value may come from the last iteration: a phi of the header, or a register that the loop may write;
    also in another width, or where one that begins anew is chosen instead."""
    for _ in range(_MOST_CHANGES):
        i = code[index]
        if i.opcode == "phi":
            return i.block == loop.header
        if i.opcode == "load":
            access = by_index.get(index)
            array = access.array if access else None
            return array is not None and (array.kind is Kind.REGISTERS or array.complete())
        inside = [place[value] for value in i.operands[1:] if value in place] if i.opcode == "select" else []
        before = inside[0] if len(inside) == 1 else _same(code, place, index)
        if before is None or before >= index:
            return False
        index = before
    return False


def _is_outside(access: Access | None) -> bool:
    """Whether an access goes to a memory, or out of the kernel."""
    array = access.array if access is not None else None
    return array is not None and (array.kind is Kind.PORT or (array.kind is Kind.MEMORY and not array.complete()))


def _is_port(access: Access | None) -> bool:
    return access is not None and access.array is not None and access.array.kind is Kind.PORT


@dataclass(frozen=True)
class _Ahead:
    """bit: of each block of a loop; reach: the bits of those that come behind it in an iteration, and its own."""

    bit: dict[str, int]
    reach: dict[str, int]

    def exclude(self, a: str, b: str) -> bool:
        """Whether no way through an iteration has both blocks."""
        return not (self.reach[a] & self.bit[b] or self.reach[b] & self.bit[a])


def _ahead(flow: cfg.Flow, loop: cfg.Loop) -> _Ahead:
    blocks = [b for b in flow.order if b in loop.blocks]
    bit = {b: 1 << n for n, b in enumerate(blocks)}
    reach: dict[str, int] = {}
    for block in reversed(blocks):
        reach[block] = bit[block]
        for after in flow.successors[block]:
            if after in reach and after != loop.header:
                reach[block] |= reach[after]
    return _Ahead(bit, reach)


def _conditions(
    flow: cfg.Flow, loop: cfg.Loop, code: list[ir.Instruction], place: dict[str, int], ahead: _Ahead
) -> dict[str, list[int]]:
    """What decides whether a block is entered: indices of the conditions of branches around it."""
    blocks, bit, reach = list(ahead.bit), ahead.bit, ahead.reach
    found: dict[str, list[int]] = defaultdict(list)
    for block in blocks:
        targets = [t for t in flow.successors[block] if t in reach and t != loop.header]
        if len(flow.successors[block]) < 2:
            continue
        decided = [place[v] for v in flow.terminator(block).operands if v in place]
        if not decided:
            continue
        every = -1
        for target in flow.successors[block]:
            every &= reach[target] if target in reach and target != loop.header else 0
        some = 0
        for target in targets:
            some |= reach[target]
        for other in blocks:
            if other != block and bit[other] & some and not bit[other] & every:
                found[other] += decided
    return found


def _memory_edges(
    graph: Graph, flow: cfg.Flow, instance: Instance | None, bursts: set[int], units: list[bool], ahead: _Ahead
) -> None:
    """Order between accesses to one array, within an iteration and between iterations.

    Behind a port, single requests to an array wait for the responses of the iteration before, wherever they go: Vitis
    HLS does not compare their addresses (`a[i] *= b` of Taffo-VitisHLS, 2022.2: 15; sums of FPGA_ECE8893's Analog-CIM,
    2022.1: 16; words of Hotspot3D that are written bit by bit, 2020.2: 15; all in the Vivado flow).
    """
    groups: dict[str, list[Access]] = defaultdict(list)
    for access in graph.accesses.all:
        if access.array is not None:
            groups[access.array.value].append(access)
    dependences = instance.dependences if instance else []
    for group in groups.values():
        writes = [a for a in group if a.write]
        if not writes:
            continue
        array = group[0].array
        assert array is not None  # they were grouped by it
        if len(writes) * len(group) > _MOST_PAIRS:
            graph.notes.append(f"'{array.name}': too many accesses to compare; dependences through it are left out")
            continue
        wait = Wait.VALUE if array.kind is Kind.REGISTERS or array.complete() else Wait.MEMORY
        free, told = forgiven(dependences, array), stated(dependences, array)
        # Lanes of a divided array never meet, whatever their other index is.
        at: dict[object, list[Access]] = defaultdict(list)
        for write in writes:
            at[write.variable].append(write)
        banks = dict(zip(map(id, group), graph.accesses.banks(array, group), strict=True)) if array.partitions else {}
        pairs = _Pairs(graph.accesses, group)
        covered = {id(a): _covered(flow, at[a.variable], a) for a in group if not a.write}
        for write in writes:
            for other in group:
                if other is write or (banks and not may_meet(banks[id(write)], banks[id(other)])):
                    continue
                apart, meet, later = pairs.of(write, other)
                meet = meet and not ahead.exclude(write.block, other.block)
                if other.write:
                    if meet and write.index < other.index:
                        graph.edge(write.index, other.index, Wait.ORDER)
                    continue
                if meet:
                    if write.index < other.index:
                        graph.edge(write.index, other.index, wait)
                    else:
                        graph.edge(other.index, write.index, Wait.ORDER)
                single = array.kind is Kind.PORT and not bursts & {write.index, other.index}
                if free or ((apart or covered[id(other)]) and not single):
                    continue
                distance = told or (1 if single else later)
                if distance:
                    register = wait is Wait.VALUE and units[write.index]
                    graph.edge(write.index, other.index, Wait.STATE if register else wait, distance)


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
