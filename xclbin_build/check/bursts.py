"""Which accesses to m_axi ports become bursts: those that go on from iteration to iteration without gaps, in every
iteration, at addresses that are a constant step apart, and that no other access of the loop comes between.

UG1399 ("Preconditions and Limitations of Burst Transfer") and UG1448 (messages 200-451 and 214-224 to 214-232) have the
rules; docs/evaluation/checking-hls.md says where each was seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ..hls import cfg, ir, scev
from ..hls.arrays import Array, Kind
from ..hls.frontend import Kernel
from ..hls.interfaces import BEAT_BYTES
from .accesses import Accesses
from .addresses import Access


@dataclass(frozen=True)
class Burst:
    """Accesses of one kind to one port in a loop. inferred: whether they become bursts; why: the reason if not.
    indices: of the instructions.
    bytes: that an iteration reads or writes.
    places: FILE:LINE of the accesses and of the calls that they were inlined through.
    blocked: whether the only obstacle is an inner loop that accesses another array of the same bundle and channel.
    width: bytes of a beat that it may be widened to.
    within: whether each iteration has a burst of its own. Its elements are contiguous, as after unrolling, but the loop
    both reads and writes through the port. An example is `data` of HLStrans' covariance and correlation (2022.2), with
    a read and a write of 80 elements in an iteration and II 173."""

    port: str
    bundle: str
    write: bool
    inferred: bool
    why: str
    bytes: int
    indices: tuple[int, ...]
    places: tuple[str, ...] = ()
    channel: str = ""
    blocked: bool = False
    width: int = 0
    within: bool = False


def known_trips(flow: cfg.Flow, evolution: scev.Evolution, loop: cfg.Loop) -> int | None:
    """Iterations, if they are a constant: a count of the header's backedge is one less than the iterations of a loop
    that tests at its end, and as many as those of one that tests at its beginning."""
    taken = evolution.trips.get(loop.header)
    if taken is None or taken < 0:
        return None
    exits = {b for b in loop.blocks if any(t not in loop.blocks for t in flow.successors[b])}
    return taken + (exits <= set(loop.latches))


def beside(burst: Burst, outer: Iterable[Burst]) -> Burst:
    """A burst of an inner loop, taken back if those of a loop around it would go on around it but for its bundle."""
    for other in outer:
        same = (other.bundle, other.channel, other.write) == (burst.bundle, burst.channel, burst.write)
        if burst.inferred and other.blocked and same and other.port != burst.port:
            why = f"the enclosing loop also {'writes' if burst.write else 'reads'} '{other.port}' of the same bundle"
            return replace(burst, inferred=False, why=why)
    return burst


class Finder:
    """Finds the bursts of one kernel. same_width: whether a port that is narrower than others of its bundle has no
    bursts, as in the Vivado flow; the Vitis flow widens ports (UG1399, "Automatic Port Width Resizing")."""

    def __init__(self, kernel: Kernel, evolution: scev.Evolution, *, same_width: bool) -> None:
        self._kernel, self._evolution = kernel, evolution
        self._apart = {f.name for f in kernel.source.functions if self._says(f.pragmas, "inline", "off")}
        self._regions = _dataflow_loops(kernel)
        self._widest: dict[str, int] = {}
        self._widths: dict[str, int] = {}  # of bundles in the Vitis flow, by their names
        self._widens = not same_width
        for array in kernel.arrays.values() if same_width else ():
            if array.kind is Kind.PORT:
                bundle = _bundle(array)
                self._widest[bundle] = max(self._widest.get(bundle, 0), array.element_bytes)

    def settle(self, found: Iterable[Burst]) -> None:
        """Takes note of how wide bundles become: as the widest of their elements, and of the bursts that widen. A
        bundle is one interface, and a burst that stays narrower is taken back (edgedetect of heterogeneous-vitis-apps,
        2024.1: one of 512 bits remains of twenty that were found). found: all bursts of the kernel."""
        if not self._widens:
            return
        for array in self._kernel.arrays.values():
            if array.kind is Kind.PORT:
                name, size = array.bundle or "gmem", array.element_bytes
                self._widths[name] = max(self._widths.get(name, 0), size if size <= BEAT_BYTES else 0)
        for burst in found:
            if burst.inferred:
                self._widths[burst.bundle] = max(self._widths.get(burst.bundle, 0), burst.width)

    def of_loop(
        self, loop: cfg.Loop, accesses: Accesses, code: list[ir.Instruction], inner: Iterable[Accesses] = ()
    ) -> list[Burst]:
        """The bursts of accesses in a loop itself, as if bundles were as wide as each (`settled`).

        Accesses without a burst are returned as well. inner: accesses of the loops in it."""
        own, deeper = _to_ports(accesses), [access for one in inner for access in _to_ports(one)]
        found = [self._copy(access, code) for access in own if _is_copy(access, code)]
        for array, write, group in _by_port(access for access in own if not _is_copy(access, code)):
            why = self._of_port(array) or self._of_code(loop, code, group) or self._of_addresses(loop, accesses, group)
            beside = "" if why else _interruption(array, write, own, [])
            inside = "" if why or beside else _interruption(array, write, [], deeper)
            burst = self._burst(array, write, group, code, why or beside or inside)
            burst = self._widen(replace(burst, blocked="same bundle" in inside), array, group, loop)
            others = _interruption(array, write, [access for access in own if access.array is not array], [])
            if "same port" in beside and not others and not array.partitions and burst.bytes > array.element_bytes:
                width = self._of_copy(array, burst.bytes, group[0])
                burst = replace(burst, inferred=True, why="", within=True, width=width)
            found.append(burst)
        return found

    def _widen(self, burst: Burst, array: Array, group: list[Access], loop: cfg.Loop) -> Burst:
        """With the width that it may get: one element an iteration, a number of them and a begin that are known to be
        multiples of it (UG1399, "Automatic Port Width Resizing"; messages 214-234, 214-235, 214-307)."""
        width, first = array.element_bytes, group[0]
        trips = known_trips(self._kernel.flow, self._evolution, loop)
        if len(group) == 1 and first.size == width and width and trips:
            others = [step for key, step in first.form.items() if key != f"#{loop.header}"]
            while width < array.beat_bytes and all(n % (2 * width) == 0 for n in (trips * first.size, *others)):
                width *= 2
        return replace(burst, width=width)

    def take_back(self, burst: Burst) -> Burst:
        """Not widened, if its bundle becomes wider than the burst."""
        widest = self._widths.get(burst.bundle, 0)
        if not burst.inferred or burst.width >= widest:
            return burst
        why = f"its beats have {burst.width} bytes, the bundle '{burst.bundle}' {widest}"
        return replace(burst, inferred=False, why=why)

    def outside(self, accesses: Accesses, code: list[ir.Instruction]) -> list[Burst]:
        """Of what lies in no loop: accesses side by side, of a line, as a loop leaves them that is unrolled, or of
        lines that run one after the other."""
        own = [access for access in _to_ports(accesses) if self._kernel.flow.around(access.block) is None]
        found = [self._copy(access, code) for access in own if _is_copy(access, code)]
        for array, write, group in _by_port(access for access in own if not _is_copy(access, code)):
            places: dict[object, list[Access]] = {}
            for access in group:
                line = tuple(self._kernel.module.places_of(code[access.index].debug)[:1])
                places.setdefault((access.variable, line), []).append(access)
                places.setdefault((access.variable, access.block), []).append(access)
            beside = {id(a) for some in places.values() for a in some if not _alone(a, some)}
            for joined in (True, False):
                there = [a for a in group if (id(a) in beside) == joined]
                why = "" if joined else "it is not in a loop, and not adjacent to other accesses of its line or block"
                for one in [there] if joined and there else [[a] for a in there]:
                    burst = self._burst(array, write, one, code, self._of_port(array) or why)
                    found.append(replace(burst, width=self._of_copy(array, burst.bytes, one[0])))
        return found

    def _copy(self, access: Access, code: list[ir.Instruction]) -> Burst:
        """Of a copy of many elements, which is a loop of its own in Vitis HLS."""
        assert access.array is not None  # only accesses to ports are given
        burst = self._burst(access.array, access.write, [access], code, self._of_port(access.array))
        return replace(burst, width=self._of_copy(access.array, access.size, access))

    def _of_copy(self, array: Array, size: int, access: Access) -> int:
        """The width that what is copied at once may get."""
        width = array.element_bytes
        while width and width < array.beat_bytes and all(n % (2 * width) == 0 for n in (size, *access.form.values())):
            width *= 2
        return width

    def _burst(self, array: Array, write: bool, group: list[Access], code: list[ir.Instruction], why: str) -> Burst:
        covered = len({a.constant for a in group}) * group[0].size
        lines = {place for a in group for place in self._lines(code[a.index])}
        places = tuple(sorted(f"{Path(file).name}:{line}" for file, line in lines))
        indices = tuple(a.index for a in group)
        return Burst(array.name, array.bundle or "gmem", write, not why, why, covered, indices, places, array.channel)

    def _lines(self, access: ir.Instruction) -> list[tuple[str, int]]:
        """Where an access stands. One that was moved out of a loop has lost its line: that of its first use, then."""
        places = self._kernel.module.places_of(access.debug)
        if (places and places[0][1]) or access.name is None:
            return places
        uses = (self._kernel.module.places_of(i.debug) for i in self._users.get(access.name, ()))
        return next((found for found in uses if found and found[0][1]), places)

    @cached_property
    def _users(self) -> dict[str, list[ir.Instruction]]:
        found: dict[str, list[ir.Instruction]] = defaultdict(list)
        for i in self._kernel.function.instructions():
            for value in dict.fromkeys(i.values):
                found[value].append(i)
        return found

    def _of_port(self, array: Array) -> str:
        """What a port's type says against bursts."""
        size, widest = array.element_bytes, self._widest.get(_bundle(array), 0)
        if size & (size - 1):
            return f"an element has {size} bytes, which is not a power of two"
        if size < widest:
            return f"an element has {size} bytes, the bundle '{array.bundle or 'gmem'}' {widest}"
        return ""

    def _of_code(self, loop: cfg.Loop, code: list[ir.Instruction], group: list[Access]) -> str:
        """What stands in the source against bursts."""
        instance = self._kernel.instance_of(loop)
        if instance is not None and instance.source and instance.source.id in self._regions:
            return "the loop is a dataflow region"
        if any("volatile" in code[a.index].text.split(",")[0].split() for a in group):
            return "the access is volatile"
        own = instance.path[0] if instance is not None and instance.path else ""
        for access in group:
            for name, _ in self._kernel.module.calls_to(code[access.index].debug):
                if name == own:
                    break
                if name in self._apart:
                    return f"the access is in '{name}', which is not inlined"
        return ""

    def _of_addresses(self, loop: cfg.Loop, accesses: Accesses, group: list[Access]) -> str:
        first = group[0]
        if any(accesses.varies(a) for a in group):
            return "the address does not advance by a constant step per iteration"
        if any(a.variable != first.variable for a in group):
            return "the accesses of an iteration are not adjacent"
        covered = len({a.constant for a in group}) * first.size
        span = max(a.constant + a.size for a in group) - min(a.constant for a in group)
        if span != covered:
            return f"an iteration touches {covered} of {span} bytes"
        step = accesses.step(first)
        if step <= 0:
            return "the address does not advance" if step == 0 else "the address goes backwards"
        if step != covered:
            return f"an iteration accesses {covered} bytes and advances by {step}"
        always = self._kernel.flow.always(loop)
        if any(a.block not in always for a in group):
            return "the access depends on a condition"
        if not self._evolution.counts(loop.header):
            return "the trip count is not known before the loop starts"
        return ""

    def _says(self, numbers: Iterable[int], kind: str, word: str = "") -> bool:
        said = [self._kernel.source.pragmas[number] for number in numbers]
        return any(pragma.kind == kind and (not word or word in pragma.words) for pragma in said)


def _dataflow_loops(kernel: Kernel) -> set[int]:
    """Loops in the source whose body is a dataflow region: those that a pragma stands in directly."""
    found = set()
    for pragma in kernel.source.pragmas.values():
        if pragma.kind == "dataflow":
            around = [loop for loop in kernel.source.loops.values()
                      if loop.file == pragma.file and loop.line <= pragma.line <= loop.end_line]  # fmt: skip
            found |= {loop.id for loop in around if loop.line == max(other.line for other in around)}
    return found


def _to_ports(accesses: Accesses) -> list[Access]:
    return [access for access in accesses.all if access.array is not None and access.array.kind is Kind.PORT]


def _by_port(accesses: Iterable[Access]) -> list[tuple[Array, bool, list[Access]]]:
    """Accesses of each port, reads apart from writes."""
    groups: dict[tuple[str, bool], list[Access]] = {}
    for access in accesses:
        if access.array is not None:
            groups.setdefault((access.array.value, access.write), []).append(access)
    return [(array, write, group) for (_, write), group in groups.items() if (array := group[0].array) is not None]


def _is_copy(access: Access, code: list[ir.Instruction]) -> bool:
    """Whether it is more than an element, copied or filled at once."""
    element = access.array.element_bytes if access.array else 0
    return (code[access.index].callee or "").startswith("llvm.mem") and access.size > element


def _interruption(array: Array, write: bool, own: list[Access], deeper: list[Access]) -> str:
    """What comes between the accesses of a burst: others of the same array, or of the same direction and bundle."""
    way = "writes" if write else "reads"
    for access in (*own, *deeper):
        other = access.array
        assert other is not None
        if other.value == array.value and access.write != write:
            return f"the loop also {'reads' if write else 'writes'} the same port"
        if other.value != array.value and access.write == write and _bundle(other) == _bundle(array):
            return f"the loop also {way} '{other.name}' of the same bundle"
    if any(access.array is not None and access.array.value == array.value for access in deeper):
        return f"an inner loop {way} the same port"
    return ""


def _bundle(array: Array) -> str:
    """What bursts of one direction share: a channel of a bundle."""
    return f"{array.bundle or 'gmem'} {array.channel}"


def _alone(access: Access, group: list[Access]) -> bool:
    """Whether an access has no neighbour."""
    return not any(abs(other.constant - access.constant) == access.size for other in group)
