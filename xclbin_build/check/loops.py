"""The loops of a kernel, each with its initiation interval, what limits it, its bursts and its latency."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from ..hls import cfg, interfaces, ir, scev
from ..hls.arrays import Kind
from ..hls.frontend import Kernel
from ..hls.instance import FULL, Instance
from ..hls.processes import Process
from . import bursts, dependences, stages, storage
from .accesses import Accesses, Bound
from .interval import LoopScheduler, components
from .nests import Nests
from .timing import Cost, Timing

_MOST_CODE = 60_000  # instructions of a loop after unrolling
# States of a request and of a response beside the expected latency of memory: 71 and 68 of 64 (xck26, xcu200, xcu55c).
REQUEST_STATES, RESPONSE_STATES = 7, 4
NOT_CHECKED = "not checked"  # what the note of a loop begins with that is too large
NOT_PIPELINED = "not pipelined"  # and of one that a pragma or a contract may ask for, in vain


@dataclass
class Loop:
    """One loop after inlining and unrolling.

    name: label, or what Vitis HLS calls a loop without one. path: functions that it was inlined through, its own first.
    ii: initiation interval in cycles; None for a loop that is not pipelined or that could not be followed. target_ii:
    what its pragma asks for. kind, limit: what keeps the interval above 1. depth: latency of an iteration, in cycles.
    trips: (least, most) iterations, None where not known. latency: cycles of the whole loop, the loops in it included.
    nest: names and lines of the loops around it, outermost first. header: its block in the IR.
    stages: accesses to streams in an iteration. states: cycles of the code beside the loops in it.
    factor: iterations of the source in one. function: whether these are the calls of a pipelined function.
    request, response: cycles in front of it and behind it in which bursts wait for memory.
    """

    name: str
    labelled: bool
    file: str
    line: int
    path: tuple[str, ...]
    pipelined: bool
    ii: int | None
    target_ii: int | None
    kind: str
    limit: str
    depth: int
    trips: tuple[int, int] | None
    latency: int | None
    bursts: list[bursts.Burst] = field(default_factory=list)
    note: str = ""
    nest: tuple[tuple[str, int], ...] = ()
    header: str = ""
    stages: tuple[stages.Stage, ...] = ()
    states: int = 0
    factor: int = 1
    request: int = 0
    response: int = 0
    function: bool = False


@dataclass
class Check:
    """Loops of a kernel, in the order of the source.

    latency: of the whole kernel in cycles, None where a trip count is not known or processes run in parallel.
    sources: the reports that figures of operators are from.
    bursts: of copies outside of loops.
    states, stages: of the code outside of loops, as of a loop.
    functions: those that a pragma pipelines, each as a loop over its calls; itself: of them the kernel.
    """

    top: str
    clock_ns: float
    loops: list[Loop]
    latency: int | None
    notes: list[str]
    sources: dict[str, str]
    bursts: list[bursts.Burst] = field(default_factory=list)
    states: int = 0
    stages: tuple[stages.Stage, ...] = ()
    functions: list[Loop] = field(default_factory=list)
    itself: Loop | None = None

    @property
    def rows(self) -> list[Loop]:
        """All that has an interval."""
        return [*self.loops, *self.functions]

    def of(self, process: Process) -> Check:
        """What counts for a process: of a region's own loops, those alone, without a latency."""
        if not process.only:
            return self
        own = [loop for loop in self.loops if loop.path[:1] and loop.path[0] in process.only]
        return replace(self, loops=own, latency=None, states=0, stages=())


def check(kernel: Kernel, *, memories: bool = False, inferred: bool = True, latency: int | None = None) -> Check:
    """Checks all loops of a kernel.

    memories: pointers without a pragma are memories, as in the Vivado flow.
    inferred: whether partitions that Vitis HLS infers count as well (`storage.py`), or pragmas alone.
    latency: expected cycles of memories behind ports, by default those of the flow.
    """
    interfaces.classify(kernel, memories=memories, latency=latency)
    return _Checker(kernel, inferred, bursts_need_width=memories).run()


def depth(kernel: Kernel) -> tuple[Cost, Timing] | None:
    """From the operands of a function without loops to its result, with the reports that its units are from; None of a
    function with loops."""
    if kernel.flow.loops:
        return None
    checker = _Checker(kernel, inferred=False, bursts_need_width=False)
    whole = checker.longest(set(kernel.flow.order), waits=0)
    return Cost(int(whole), whole % 1 * checker.timing.period_ns), checker.timing


def _is_wide(instance: Instance) -> bool:
    """Whether a pragma unrolls a loop in part, and nothing keeps it from being pipelined."""
    return instance.pipeline is None and instance.unroll not in (None, FULL, 1)


class _Checker:
    def __init__(self, kernel: Kernel, inferred: bool, *, bursts_need_width: bool) -> None:
        self._kernel = kernel
        self._inferred = inferred
        self._flow = kernel.flow
        self._evolution = scev.parse(kernel.scev, kernel.top)
        self._bursts = bursts.Finder(kernel, self._evolution, same_width=bursts_need_width)
        self._nests = Nests(kernel, self._evolution)
        self.timing = Timing(kernel)
        self._notes = list(kernel.notes)
        self._found: dict[str, Loop] = {}
        self._found_bursts: dict[str, list[bursts.Burst]] = {}
        self._accesses: dict[str, tuple[list[ir.Instruction], Accesses]] = {}

    def run(self) -> Check:
        self._survey()
        self._found_bursts = self._every_burst()
        self._bursts.settle(burst for some in self._found_bursts.values() for burst in some)
        roots = [h for h in self._flow.order if h in self._flow.loops and self._flow.loops[h].parent is None]
        total: int | None = 0
        for header in roots:
            latency = self._visit(self._flow.loops[header])
            total = None if total is None or latency is None else total + latency
        code = {b for b in self._flow.order if self._flow.around(b) is None}
        outside = self._straight(code)
        dataflow = any(p.kind == "dataflow" for p in self._kernel.source.pragmas.values())
        latency = None if total is None or dataflow else total + outside
        in_order = sorted(self._found.values(), key=lambda loop: (loop.file, loop.line, loop.name))
        notes = self._notes + sorted(self.timing.doubts)
        return Check(
            self._kernel.top, self._kernel.clock_ns, in_order, latency, notes, self.timing.sources,
            self._bursts_of(""), outside, self._stages(code),
        )  # fmt: skip

    def _survey(self) -> None:
        """Accesses of all innermost loops, and what Vitis HLS makes of local arrays by looking at them together."""
        around = {block: loop.header for loop in self._flow.innermost() for block in loop.blocks}
        regions: dict[str, list[ir.Instruction]] = {}
        for block in self._flow.order:
            regions.setdefault(around.get(block, ""), []).extend(self._flow.function.blocks[block])
        whole = cfg.Loop("", {b for b in self._flow.order if b not in around})
        for header, code in regions.items():
            if len(code) <= _MOST_CODE:
                loop = self._flow.loops[header] if header else whole
                self._accesses[header] = (code, Accesses(self._kernel, loop, code, self._evolution))
        if not self._inferred:
            return
        instances = {h: self._kernel.instance_of(self._flow.loops[h]) for h in self._accesses if h}
        wide = storage.interleaves(self._kernel)
        asked = {h for h, one in instances.items() if one and (one.pipeline or (wide and _is_wide(one)))}
        intervals = {h for h, instance in instances.items() if instance and instance.pipeline and instance.target_ii}
        for header, (_, accesses) in self._accesses.items():
            accesses.copies = header not in intervals
        pipelined = {number for number, header in enumerate(self._accesses) if header in asked}
        storage.choose(self._kernel, [accesses for _, accesses in self._accesses.values()], pipelined)

    def _every_burst(self) -> dict[str, list[bursts.Burst]]:
        """What would be a burst, if bundles were as wide as each of them, by loop; of what lies in none by ""."""
        if not any(array.kind is Kind.PORT for array in self._kernel.arrays.values()):
            return {}
        found: dict[str, list[bursts.Burst]] = {}
        for header, (code, accesses) in self._accesses.items():
            loop = self._flow.loops.get(header)
            there = self._bursts.of_loop(loop, accesses, code) if loop else self._bursts.outside(accesses, code)
            found[header] = there
        outer = [loop for header, loop in self._flow.loops.items() if header not in self._accesses and loop.children]
        return found | {loop.header: self._outer_bursts(loop) for loop in outer}

    def _bursts_of(self, header: str) -> list[bursts.Burst]:
        return [self._bursts.take_back(burst) for burst in self._found_bursts.get(header, ())]

    def _visit(self, loop: cfg.Loop) -> int | None:
        """Checks a loop and those in it; the latency of the whole."""
        instance = self._kernel.instance_of(loop)
        children = [self._flow.loops[header] for header in loop.children]
        inner = [self._visit(child) for child in children]
        trips = self._trips(loop, instance)
        found = self._describe(loop, instance, trips)
        self._found[loop.header] = found
        if instance is not None and instance.too_large:
            found.note = f"{NOT_CHECKED}: about {instance.too_large:,} instructions after unrolling"
            return None
        if not children:
            self._innermost(loop, instance, found)
            return found.latency
        found.bursts = self._bursts_of(loop.header)
        self._take_back(loop, found)
        code = {b for b in loop.blocks if self._flow.around(b) is loop}
        own = found.states = self._straight(code)
        found.stages = self._stages(code)
        found.note = self._stays(children, found.function)
        if self._nests.flattens(loop):
            nest = [self._found[one.header] for one in self._nests.chain(loop)]
            only, known = nest[-1], [one.trips[1] for one in nest if one.trips]
            if only.ii is not None:
                found.note = f"flattened with '{only.name}'"
                if len(known) == len(nest):
                    found.latency = only.depth + only.ii * max(0, math.prod(known) - 1)
                return found.latency
        if trips is None or any(latency is None for latency in inner):
            return None
        # Entering and leaving a loop takes a state each.
        found.depth = own + sum(latency + 1 for latency in inner if latency is not None)
        found.latency = trips[1] * found.depth
        return found.latency

    def _describe(self, loop: cfg.Loop, instance: Instance | None, trips: tuple[int, int] | None) -> Loop:
        source = instance.source if instance else None
        return Loop(
            name=instance.name if instance else loop.header,
            labelled=bool(source and source.label),
            file=source.file if source else "",
            line=source.line if source else 0,
            path=instance.path if instance else (),
            pipelined=False,
            ii=None,
            target_ii=instance.target_ii if instance else None,
            kind="",
            limit="",
            depth=0,
            trips=trips,
            latency=None,
            header=loop.header,
            function=source is not None and source.id in self._kernel.source.pipelined,
            factor=instance.unroll or 1 if instance else 1,
            nest=tuple(self._name_and_line(outer) for outer in reversed(self._flow.ancestors(loop))),
        )

    def _name_and_line(self, loop: cfg.Loop) -> tuple[str, int]:
        instance = self._kernel.instance_of(loop)
        return (instance.name, instance.source.line) if instance and instance.source else (loop.header, 0)

    def _outer_bursts(self, loop: cfg.Loop) -> list[bursts.Burst]:
        """The bursts of what lies in a loop beside the loops in it."""
        code = [i for block in self._flow.order if block in loop.blocks and self._flow.around(block) is loop
                for i in self._flow.function.blocks[block]]  # fmt: skip
        if not any(i.opcode in ("load", "store", "call") for i in code) or len(code) > _MOST_CODE:
            return []
        inside = {i.name for block in loop.blocks for i in self._flow.function.blocks[block] if i.name}
        own = Accesses(self._kernel, loop, code, self._evolution, inside)
        beside = [(child, accesses) for child, (_, accesses) in self._accesses.items()
                  if child in loop.blocks and child != loop.header]  # fmt: skip
        return self._bursts.of_loop(loop, own, code, [accesses for _, accesses in beside])

    def _stays(self, children: list[cfg.Loop], function: bool) -> str:
        """Why a loop has no interval: Vitis HLS unrolls the loops in one that it pipelines, and where it cannot, it
        leaves the pipeline out with a warning (UG1399, pragma HLS pipeline; a loop in it with a variable bound)."""
        names = ", ".join(f"'{self._found[child.header].name}'" for child in children)
        known = all(child.header in self._evolution.trips for child in children)
        warning = " (Vitis HLS warns: HLS 214-187)" if function else ""
        why = "" if known else f", because its trip count is not a compile-time constant{warning}"
        return f"{NOT_PIPELINED}: inner loop {names} is not unrolled{why}"

    def _take_back(self, loop: cfg.Loop, found: Loop) -> None:
        """Of a bundle that a loop and one in it burst from, neither does: what would go on around the inner one and
        that one come between each other."""
        for header in loop.blocks & self._found.keys() - {loop.header}:
            other = self._found[header]
            other.bursts = [bursts.beside(burst, found.bursts) for burst in other.bursts]

    def _innermost(self, loop: cfg.Loop, instance: Instance | None, found: Loop) -> None:
        if loop.header not in self._accesses:
            count = sum(len(self._flow.function.blocks[block]) for block in loop.blocks)
            found.note = f"{NOT_CHECKED}: {count} instructions after unrolling, more than {_MOST_CODE}"
            return
        code, accesses = self._accesses[loop.header]
        if accesses.unknown:
            found.note = f"{accesses.unknown} accesses to unknown arrays are left out"
        found.bursts = self._bursts_of(loop.header)
        in_burst, within = ({index for burst in found.bursts if burst.inferred and burst.within == own
                             for index in burst.indices} for own in (False, True))  # fmt: skip
        made = dependences.build(
            self._kernel, loop, accesses, code, self.timing, in_burst, instance, self._nests, within
        )
        if instance is not None and instance.pipeline and instance.target_ii:
            for index in {n for group in components(made) for n in group}:
                if other := self.timing.carried_addition(code[index]):
                    made.replace(index, other)
        self._notes += [note for note in made.notes if note not in self._notes]
        found.pipelined = instance is None or instance.pipeline is not False
        bounds = accesses.bounds(in_burst) + self._turns(found.bursts)
        interval = LoopScheduler(made, self.timing.period_ns).run(found.target_ii, bounds)
        found.stages = stages.of(self._kernel.module, code, dict(enumerate(interval.starts)))
        self._await_memory(found)
        found.depth = interval.depth + sum(int(self.longest(blocks)) for blocks in self._nests.last(loop))
        trips = found.trips[1] if found.trips else None
        if not found.pipelined:
            found.latency = None if trips is None else trips * found.depth
            return
        found.ii, found.kind, found.limit = interval.ii, interval.kind, interval.limit
        found.latency = None if trips is None else found.depth + interval.ii * max(0, trips - 1)

    def _await_memory(self, found: Loop) -> None:
        """Cycles that the requests of bursts take in front of a loop, and the response to writes behind it."""
        ports = {array.name: array for array in self._kernel.arrays.values() if array.kind is Kind.PORT}
        for burst in found.bursts:
            if not burst.inferred or burst.within or burst.port not in ports:
                continue
            latency = ports[burst.port].latency
            if burst.write:
                found.request, found.response = max(found.request, 1), latency + RESPONSE_STATES
            else:
                found.request = max(found.request, latency + REQUEST_STATES)

    def _stages(self, blocks: set[str]) -> tuple[stages.Stage, ...]:
        """Accesses to streams in code without loops."""
        code = [i for block in self._flow.order if block in blocks for i in self._flow.function.blocks[block]]
        if not any((i.callee or "").startswith("__hls_fifo") for i in code):
            return ()
        starts: dict[int, float] = {}
        self.longest(blocks, starts=starts)
        return stages.of(self._kernel.module, code, {n: starts[id(i)] for n, i in enumerate(code) if id(i) in starts})

    def _turns(self, there: list[bursts.Burst]) -> list[Bound]:
        """What an iteration takes that bursts from a port and back to it: the one after the other, and so does the next
        iteration."""
        own = {(burst.port, burst.write): burst for burst in there if burst.inferred and burst.within}
        found = []
        for (port, write), read in own.items():
            back = own.get((port, True))
            if write or back is None:
                continue
            array = next(a for a in self._kernel.arrays.values() if a.name == port and a.kind is Kind.PORT)
            costs = [self.timing.of_access(array, write=way, burst=False).cycles for way in (False, True)]
            beats = [burst.bytes // max(1, array.element_bytes) for burst in (read, back)]
            words = f"a burst of {beats[0]} from '{port}' and a burst of {beats[1]} back in an iteration"
            found.append(Bound(sum(costs) + sum(beats) - 2, "m_axi", words))
        return found

    def _trips(self, loop: cfg.Loop, instance: Instance | None) -> tuple[int, int] | None:
        """Least and most iterations, None where not known."""
        known = bursts.known_trips(self._flow, self._evolution, loop)
        if known is not None:
            return (known, known)
        if instance and instance.trips:
            return instance.trips
        most = self._evolution.most.get(loop.header)
        return None if most is None or most < 0 or most > 1 << 24 else (0, most)

    def _straight(self, blocks: set[str]) -> int:
        """Cycles of code without loops: the longest chain of operators, one after the other."""
        return int(self.longest(blocks)) + 1

    def longest(self, blocks: set[str], waits: int = 1, starts: dict[int, float] | None = None) -> float:
        """Cycles of the longest chain of operators.

        waits: cycles of a load. starts: takes when each instruction begins, by its identity.
        """
        ready: dict[str, float] = {}
        popped: set[str | None] = set()
        last = 0.0
        for block in self._flow.order:
            if block not in blocks:
                continue
            for i in self._flow.function.blocks[block]:
                start = max((ready.get(v, 0.0) for v in i.values), default=0.0)
                if i.opcode in ("load", "store"):
                    cost = self.timing.of_access(None, write=False, burst=False)
                    start += waits * (i.opcode == "load" and i.pointer not in popped)
                else:
                    cost = self.timing.of(i)
                    if i.callee == "__hls_fifo_pop":
                        popped.add(i.name)  # a value that comes with its call
                part = min(1.0, cost.ns / self.timing.period_ns)
                if start % 1 + part > 1:
                    start = float(int(start) + 1)
                if starts is not None:
                    starts[id(i)] = start
                end = int(start) + cost.cycles + part * cost.stages if cost.cycles else start + part
                if i.name:
                    ready[i.name] = end
                last = max(last, end)
        return last
