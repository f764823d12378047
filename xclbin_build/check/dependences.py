"""Builds the dependence graph of a loop: values and registers, conditions, and the ends of loops. The order of accesses
to memory has a file of its own (order.py)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container

from ..hls import cfg, ir
from ..hls.arrays import Kind
from ..hls.frontend import Kernel
from ..hls.instance import Instance
from . import lookup, order
from .accesses import Accesses
from .addresses import Access
from .graph import DependenceGraph, Wait
from .nests import Nests
from .timing import Cost, Timing

_MOST_CHANGES = 8  # of a value's width, one behind the other
_NOT_REUSED = "2023.2"  # the first version of which no schedule has a register for the element written last


def build(
    kernel: Kernel, loop: cfg.Loop, accesses: Accesses, code: list[ir.Instruction], timing: Timing, bursts: set[int],
    instance: Instance | None, nests: Nests, within: Container[int] = (),
) -> DependenceGraph:  # fmt: skip
    """The graph of a loop without loops in it. bursts: indices of accesses to ports that are parts of bursts; within:
    of those that an iteration has by itself."""
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
            costs.append(Cost(0, timing.choice_ns) if nests.restarts(loop, i) else Cost())
        else:
            costs.append(timing.of(i))
    graph = DependenceGraph(code, costs, [[] for _ in code], accesses)
    place = {i.name: index for index, i in enumerate(code) if i.name}
    lookup.group(code, place, costs, timing)
    sums = _sums(code, place)
    units = _from_units(code, costs, place)
    registers = _registers(graph, loop, place, units, timing)
    ahead = order.ahead_of(kernel.flow, loop)
    conditions = _conditions(kernel.flow, loop, place, ahead)
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
    ports = order.Ports(bursts, within, {f"#{outer.header}" for outer in nests.outer(loop)})
    reuses = kernel.flow.always(loop) if kernel.vitis and kernel.vitis < _NOT_REUSED else ()
    order.AccessOrder(graph, kernel.flow, ports, ahead, units, reuses).add(instance)
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
    graph: DependenceGraph, loop: cfg.Loop, place: dict[str, int], units: list[bool], timing: Timing
) -> dict[int, bool]:
    """Edges to what an iteration has from the one before; of values that come from a unit, the reader: whether the
    register is written a cycle later, for want of room behind the unit.

    In Vitis HLS an operator reads such a register in the cycle that writes it; other logic reads it in the next cycle.
    A sum by an adder of 4 cycles has II 4 (loop 23 of `correlation`, HLStrans 2022.2). A multiplexer in front of the
    adder gives II 5, as for a sum that is reset for each row (loop 10). A maximum by a comparison of one cycle has
    II 1. On an xc7z020 at 10 ns a stage of the adder (7.25 ns) leaves no room: II 5, and 6 with a multiplexer (spmv of
    AAHLS_LabB, 2022.1)."""
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
    graph: DependenceGraph, flow: cfg.Flow, loop: cfg.Loop, by_index: dict[int, Access], place: dict[str, int]
) -> None:
    """In a loop that may end early, accesses to memories, ports and streams wait until the iteration is certain.

    A pipeline cannot undo an access. Each iteration starts with one cycle for the test. Examples are do-while loops
    over a histogram (Xilinx_Summer_School_Dsp_Huffman_Pro, 2021.2: II 2) and over a port (AAHLS_LabC, 2022: II 10)."""
    if graph.accesses.is_counted:
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
    also in another width, or where a multiplexer may choose a new initial value."""
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


def _conditions(flow: cfg.Flow, loop: cfg.Loop, place: dict[str, int], ahead: order.Ahead) -> dict[str, list[int]]:
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
