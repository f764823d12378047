"""The initiation interval of a loop and the depth of an iteration: recurrences, ports, and a modulo schedule.

Times are cycles with fractions: an operator without registers begins where its operands end, if it still fits into the
period, and else with the next cycle. Ports of memories are then given out cycle by cycle (modulo the interval); where
no place is left, the interval grows.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from ..hls.arrays import Kind
from .accesses import Bound
from .graph import DependenceEdge, DependenceGraph, Wait

_MOST_II = 4096
_ROUNDS = 60
_TRIES = 16  # intervals above the lower bound
_MOST_SWEEPS, _MOST_ROUNDS = 4000, 64
_SMALL = 1e-6


@dataclass
class Interval:
    """ii: initiation interval in cycles. depth: of one iteration. limit: what keeps it above 1, in words; kind: what
    that is: recurrence, memory, m_axi, stream, pragma, or "" where nothing does."""

    ii: int
    depth: int
    kind: str = ""
    limit: str = ""
    recurrence: int = 1
    starts: list[float] = field(default_factory=list)


class LoopScheduler:
    """Schedules one loop. period_ns: what of the clock's period operators may fill."""

    def __init__(self, graph: DependenceGraph, period_ns: float) -> None:
        self._graph, self._period = graph, period_ns
        self._part = [min(cost.ns, period_ns) / period_ns for cost in graph.costs]
        # Of the cycle in which a value is there, what has passed.
        self._tail = [
            part if cost.stages or i.opcode in ("load", "mul") else 0.0
            for i, cost, part in zip(graph.code, graph.costs, self._part, strict=True)
        ]
        self._edges = [[(edge.to, edge.wait, edge.distance, edge) for edge in out] for out in graph.out]

    def run(self, target: int | None, bounds: list[Bound]) -> Interval:
        """target: the interval that a pragma asks for; bounds: limits by resources."""
        recurrence, words = self._recurrence()
        kind, limit, least = ("recurrence", words, recurrence) if recurrence > 1 else ("", "", 1)
        for bound in bounds:
            if bound.ii > least:
                kind, limit, least = bound.kind, bound.words, bound.ii
        if target and target > least:
            kind, limit, least = "pragma", f"the pragma asks for {target}", target
        for ii in range(least, least + _TRIES):
            starts = self._placed(ii)
            if starts is not None:
                if ii > least:
                    kind, limit = "memory", "no schedule places all reads and writes of one memory"
                return Interval(ii, self._depth(starts), kind, limit, recurrence, starts)
        plain = self._starts(list(range(len(self._graph.code))), least) or [0.0] * len(self._graph.code)
        return Interval(least, self._depth(plain), kind, limit, recurrence, plain)

    def _depth(self, starts: list[float]) -> int:
        ends = (math.floor(s + _SMALL) + cost.cycles for s, cost in zip(starts, self._graph.costs, strict=True))
        return max(ends, default=0) + 1

    def _arrival(self, node: int, start: float, edge: DependenceEdge, ii: int) -> float:
        """The earliest start of what an edge leads to, if its node starts at `start`."""
        cost = self._graph.costs[node]
        cycle = math.floor(start + _SMALL)
        if edge.wait is Wait.MEMORY:
            at: float = cycle + max(1, cost.cycles)
        elif edge.wait is Wait.ORDER:
            at = cycle
        else:
            at = start + self._part[node] if cost.cycles == 0 else cycle + cost.cycles + self._tail[node]
            if edge.wait is not Wait.VALUE:
                at = math.floor(at + _SMALL) + (edge.wait is Wait.NEXT)
        at -= ii * edge.distance
        part = self._part[edge.to]
        if part > 0:
            whole = math.floor(at + _SMALL)
            fraction = at - whole
            if fraction > _SMALL and fraction + part > 1 + _SMALL:
                return whole + 1
        return at

    def _starts(
        self, nodes: list[int], ii: int, least: dict[int, int] | None = None, trace: dict[int, int] | None = None
    ) -> list[float] | None:
        """The earliest start of each node, None if a recurrence does not fit into `ii`. trace: takes by what each was
        delayed last.

        Within an iteration edges lead forward in the code, so a sweep in its order settles all that does not come from
        an earlier iteration.
        """
        out, costs, part, tail = self._graph.out, self._graph.costs, self._part, self._tail
        starts = [0.0] * len(out)
        for index, cycle in (least or {}).items():
            starts[index] = cycle
        inside, waiting = bytearray(len(out)), bytearray(len(out))
        for node in nodes:
            inside[node] = waiting[node] = 1
        by: dict[int, tuple[int, DependenceEdge]] = {}  # what delayed a node last
        order, todo = sorted(nodes), len(nodes)
        for sweep in range(_MOST_SWEEPS):
            for node in order:
                if not waiting[node]:
                    continue
                waiting[node] = 0
                todo -= 1
                start = starts[node]
                cycle = math.floor(start + _SMALL)
                cost = costs[node]
                # `_arrival`, written out: most of the time is spent here.
                if cost.cycles == 0:
                    value: float = start + part[node]
                else:
                    value = cycle + cost.cycles + tail[node]
                written = cycle + max(1, cost.cycles)
                for to, wait, distance, edge in self._edges[node]:
                    if not inside[to]:
                        continue
                    if wait is Wait.VALUE:
                        at = value
                    elif wait is Wait.STATE:
                        at = math.floor(value + _SMALL)
                    elif wait is Wait.NEXT:
                        at = math.floor(value + _SMALL) + 1
                    else:
                        at = written if wait is Wait.MEMORY else cycle
                    if distance:
                        at -= ii * distance
                    before = starts[to]
                    if at + 1 <= before:  # the next cycle would not delay it, either
                        continue
                    if part[to] > 0:
                        whole = math.floor(at + _SMALL)
                        fraction = at - whole
                        if fraction > _SMALL and fraction + part[to] > 1 + _SMALL:
                            at = whole + 1
                    if at > before + _SMALL:
                        starts[to] = at
                        by[to] = (node, edge)
                        todo += not waiting[to]
                        waiting[to] = 1
            if not todo:
                return starts
            if sweep and self._grows(by, starts, ii):
                break
        if trace is not None:
            trace |= {to: node for to, (node, _) in by.items()}
        return None

    def _grows(self, by: dict[int, tuple[int, DependenceEdge]], starts: list[float], ii: int) -> bool:
        """Whether nodes delay each other in a circle, by a cycle or more each time around: then there is no end to it.
        (Times a cycle later are the same schedule a cycle later, so what has grown by one cycle goes on to grow.)"""
        seen: dict[int, int] = {}
        for first in by:
            at, path = first, []
            while at in by and at not in seen:
                seen[at] = first
                path.append(at)
                at = by[at][0]
            if at not in by or seen.get(at) != first:
                continue
            circle = path[path.index(at) :][::-1]  # each delays the one behind it
            before = value = starts[at]
            for _ in range(_MOST_ROUNDS):
                last = value
                for node in circle:
                    source, edge = by[node]
                    value = self._arrival(source, value, edge, ii)
                if value >= before + 1 - _SMALL:
                    return True
                if value <= last + _SMALL:
                    break
        return False

    def _recurrence(self) -> tuple[int, str]:
        """The interval that recurrences ask for, and the longest of them in words."""
        worst, words = 1, ""
        for nodes in components(self._graph):
            if self._starts(nodes, worst) is not None:
                continue
            low, high = worst, worst * 2
            while high < _MOST_II and self._starts(nodes, high) is None:
                low, high = high, high * 2
            while high - low > 1:
                middle = (low + high) // 2
                if self._starts(nodes, middle) is None:
                    low = middle
                else:
                    high = middle
            trace: dict[int, int] = {}
            self._starts(nodes, high - 1, trace=trace)
            worst, words = high, self._words(trace)
        return worst, words

    def _words(self, trace: dict[int, int]) -> str:
        """The cycle of operators that a failed schedule went around."""
        for start in trace:
            seen: list[int] = []
            at = start
            while at in trace and at not in seen:
                seen.append(at)
                at = trace[at]
            if at not in seen:
                continue
            around = seen[seen.index(at) :][::-1]
            names = Counter(_name(self._graph, n) for n in around)
            names.pop("", None)
            through = sorted({a.array.name for a in self._graph.accesses.all if a.array and a.index in around})
            chain = ", ".join(f"{count} {name}" if count > 1 else name for name, count in names.items())
            by = f" through '{', '.join(through)}'" if through else ""
            return f"loop-carried dependence{by}: {chain or 'logic'}"
        return "loop-carried dependence"

    def _placed(self, ii: int) -> list[float] | None:
        """A schedule in which no bank of memory has more accesses in a cycle than ports."""
        nodes = list(range(len(self._graph.code)))
        groups = self._ports()
        least: dict[int, int] = {}
        for _ in range(_ROUNDS):
            starts = self._starts(nodes, ii, least)
            if starts is None:
                return None
            moved = False
            for limit, accesses in groups:
                taken: Counter[int] = Counter()
                for index in sorted(accesses, key=lambda n: starts[n]):
                    cycle = math.floor(starts[index] + _SMALL)
                    wait = 0
                    while wait < ii and taken[(cycle + wait) % ii] >= limit:
                        wait += 1
                    taken[(cycle + wait) % ii] += 1
                    if wait:
                        least[index] = cycle + wait
                        moved = True
            if not moved:
                return starts
        return None

    def _streams(self) -> list[tuple[int, list[int]]]:
        """Streams that a block reads or writes more often than once: one access a cycle."""
        by_stream: dict[tuple[str | None, str, str], list[int]] = {}
        for index, i in enumerate(self._graph.code):
            if i.opcode in ("call", "invoke") and i.callee in ("__hls_fifo_pop", "__hls_fifo_push") and i.operands:
                by_stream.setdefault((i.callee, i.operands[0], i.block), []).append(index)
        return [(1, indices) for indices in by_stream.values() if len(indices) > 1]

    def _ports(self) -> list[tuple[int, list[int]]]:
        """Banks with more accesses than ports: how many they take in a cycle, and the accesses."""
        by_array: dict[str, list[int]] = {}
        accesses = {a.index: a for a in self._graph.accesses.all}
        for access in accesses.values():
            array = access.array
            if array is not None and array.kind is Kind.MEMORY and not array.complete():
                by_array.setdefault(array.value, []).append(access.index)
        found = self._streams()
        for indices in by_array.values():
            array = accesses[indices[0]].array
            assert array is not None  # only accesses to arrays were taken
            for there in self._graph.accesses.by_bank(array, [accesses[n] for n in indices]).values():
                distinct = {(a.write, a.variable, a.constant // array.element_bytes): a.index for a in there}
                most = self._graph.accesses.ports(array)[0]
                if len(distinct) > most and len({a.block for a in there}) == 1:
                    found.append((most, sorted(distinct.values())))
        return found


def components(graph: DependenceGraph) -> list[list[int]]:
    """Strongly connected components of more than one node, or with an edge to itself (Tarjan, 1972)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in range(len(graph.out)):
        if root in index:
            continue
        work = [(root, 0)]
        while work:
            node, at = work.pop()
            if at == 0:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            edges = graph.out[node]
            while at < len(edges):
                to = edges[at].to
                at += 1
                if to not in index:
                    work.append((node, at))
                    work.append((to, 0))
                    break
                if to in on_stack:
                    low[node] = min(low[node], index[to])
            else:
                if low[node] == index[node]:
                    group = []
                    while True:
                        top = stack.pop()
                        on_stack.discard(top)
                        group.append(top)
                        if top == node:
                            break
                    if len(group) > 1 or any(edge.to == node for edge in edges):
                        found.append(sorted(group))
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
    return found


def _name(graph: DependenceGraph, index: int) -> str:
    i, cost = graph.code[index], graph.costs[index]
    if i.opcode in ("phi", "br") or (cost.cycles == 0 and cost.ns == 0):
        return ""
    what = i.callee if i.opcode == "call" and i.callee else i.opcode
    return f"{what} ({cost.cycles} cycles)" if cost.cycles else f"{what} ({cost.ns:.1f} ns)"
