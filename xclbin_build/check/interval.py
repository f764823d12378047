"""The initiation interval of a loop and the depth of an iteration: recurrences, ports, and a modulo schedule.

Times are cycles with fractions: an operator without registers begins where its operands end, if it still fits into the
period, and else with the next cycle. Ports of memories are then given out cycle by cycle (modulo the interval); where
no place is left, the interval grows.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, field

from ..hls.arrays import Kind
from .accesses import Bound
from .graph import Graph, Wait

_MOST_II = 4096
_ROUNDS = 60
_TRIES = 16  # intervals above the lower bound
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


class Scheduler:
    """Schedules one loop. period_ns: what of the clock's period operators may fill."""

    def __init__(self, graph: Graph, period_ns: float) -> None:
        self._graph, self._period = graph, period_ns
        self._part = [min(cost.ns, period_ns) / period_ns for cost in graph.costs]
        self._chained = [i.opcode in ("load", "mul") for i in graph.code]

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
                    kind, limit = "memory", "reads and writes of one memory find no cycles of their own"
                return Interval(ii, self._depth(starts), kind, limit, recurrence, starts)
        plain = self._starts(list(range(len(self._graph.code))), least) or [0.0] * len(self._graph.code)
        return Interval(least, self._depth(plain), kind, limit, recurrence, plain)

    def _depth(self, starts: list[float]) -> int:
        ends = (math.floor(s + _SMALL) + cost.cycles for s, cost in zip(starts, self._graph.costs, strict=True))
        return max(ends, default=0) + 1

    def _end(self, index: int, start: float) -> float:
        cost = self._graph.costs[index]
        if cost.cycles == 0:
            return start + self._part[index]
        return math.floor(start + _SMALL) + cost.cycles + (self._part[index] if self._chained[index] else 0.0)

    def _starts(
        self, nodes: list[int], ii: int, least: dict[int, int] | None = None, trace: dict[int, int] | None = None
    ) -> list[float] | None:
        """The earliest start of each node, None if a recurrence does not fit into `ii`. trace: takes by what each was
        delayed last."""
        out, costs = self._graph.out, self._graph.costs
        inside = set(nodes)
        starts = [0.0] * len(out)
        for index, cycle in (least or {}).items():
            starts[index] = cycle
        waiting = deque(nodes)
        queued = set(nodes)
        latest = sum(costs[n].cycles + 1 for n in nodes) + 5 * ii + 10 + max((least or {0: 0}).values(), default=0)
        steps, most = 0, 60 * len(nodes) + 4000
        while waiting:
            steps += 1
            if steps > most:
                return None
            node = waiting.popleft()
            queued.discard(node)
            end = self._end(node, starts[node])
            cycle = math.floor(starts[node] + _SMALL)
            for edge in out[node]:
                if edge.to not in inside:
                    continue
                if edge.wait is Wait.VALUE:
                    start = end
                elif edge.wait is Wait.MEMORY:
                    start = cycle + max(1, costs[node].cycles)
                else:
                    start = cycle
                start -= ii * edge.distance
                if start <= starts[edge.to] + _SMALL:
                    continue
                fraction = start - math.floor(start + _SMALL)
                if self._part[edge.to] > 0 and fraction > _SMALL and fraction + self._part[edge.to] > 1 + _SMALL:
                    start = math.floor(start + _SMALL) + 1
                if start > starts[edge.to] + _SMALL:
                    starts[edge.to] = start
                    if trace is not None:
                        trace[edge.to] = node
                    if start > latest:
                        return None
                    if edge.to not in queued:
                        queued.add(edge.to)
                        waiting.append(edge.to)
        return starts

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
            return f"an iteration waits for the one before{by}: {chain or 'logic'}"
        return "an iteration waits for the one before"

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

    def _ports(self) -> list[tuple[int, list[int]]]:
        """Banks with more accesses than ports: how many they take in a cycle, and the accesses."""
        by_array: dict[str, list[int]] = {}
        accesses = {a.index: a for a in self._graph.accesses.all}
        for access in accesses.values():
            array = access.array
            if array is not None and array.kind is Kind.MEMORY and not array.complete():
                by_array.setdefault(array.value, []).append(access.index)
        found = []
        for indices in by_array.values():
            array = accesses[indices[0]].array
            assert array is not None  # only accesses to arrays were taken
            for there in self._graph.accesses.by_bank(array, [accesses[n] for n in indices]).values():
                distinct = {(a.write, a.variable, a.constant // array.element_bytes): a.index for a in there}
                most = self._graph.accesses.ports(array)[0]
                if len(distinct) > most and len({a.block for a in there}) == 1:
                    found.append((most, sorted(distinct.values())))
        return found


def components(graph: Graph) -> list[list[int]]:
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


def _name(graph: Graph, index: int) -> str:
    i, cost = graph.code[index], graph.costs[index]
    if i.opcode in ("phi", "br") or (cost.cycles == 0 and cost.ns == 0):
        return ""
    what = i.callee if i.opcode == "call" and i.callee else i.opcode
    return f"{what} ({cost.cycles} cycles)" if cost.cycles else f"{what} ({cost.ns:.1f} ns)"
