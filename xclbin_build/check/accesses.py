"""Accesses to memory in a loop: which array and bank, which of them may meet, and how many there are a cycle."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass

from ..hls import cfg, ir, scev
from ..hls.arrays import COPIES, Array, Kind
from ..hls.frontend import Kernel
from ..hls.instance import Dependence
from .addresses import Access, Addresses
from .banks import Lane, Moved, Place, indices, lanes, may_meet, moving
from .store_forwarding import forwarded_loads


@dataclass(frozen=True)
class Bound:
    """What limits the initiation interval to no less than `ii`. kind: memory, m_axi or stream."""

    ii: int
    kind: str
    words: str


class Accesses:
    """All accesses of a loop.

    code: its instructions in the order of the control flow.
    inside: values that the loop computes, by default those of `code`.
    copies: whether copies of arrays count, which Vitis HLS makes where no pragma requests an II.
    """

    def __init__(
        self,
        kernel: Kernel,
        loop: cfg.Loop,
        code: list[ir.Instruction],
        evolution: scev.Evolution,
        inside: set[str] | None = None,
    ) -> None:
        self._kernel, self._loop, self._code = kernel, loop, code
        self._inside = {i.name for i in code if i.name} if inside is None else inside
        self._counter = "#" + loop.header
        self._evolution = evolution
        self.copies = False
        addresses = Addresses(kernel, evolution)
        self.all = [access for index, i in enumerate(code) for access in addresses.of(index, i)]
        self.unknown = addresses.unknown  # accesses of which it is not known which array they go to
        # Loads of what the iteration before wrote, which a register keeps: the index of the store by that of the load.
        self.kept = forwarded_loads(kernel, loop, code, self.all, self) if self.is_counted else {}
        out = self._invariant_loads()
        self.all = [a for a in self.all if a.write or (a.index not in self.kept and a.index not in out)]

    def _invariant_loads(self) -> set[int]:
        """Loads of what stays the same, which every iteration does and nothing in the loop writes: they happen once,
        in front of it. LLVM leaves those in a loop that might not run at all (columns of HLStrans' correlation, 2022.2:
        `for (j = i; j < 80; ...)` reads 100 elements and not 200). In a loop that may end early each iteration reads
        them (coefficients of whywhytellmewhy/SOC-design, 2022.1: 11)."""
        if not self._loop.latches or not self.is_counted or self.unknown:  # code that lies in no loop has no latch
            return set()
        written = {a.array.value for a in self.all if a.write and a.array is not None}
        if written & self._kernel.overlapping:
            written |= self._kernel.overlapping
        stay = [
            a for a in self.all
            if self._code[a.index].opcode == "load" and a.array is not None and a.array.value not in written
            and not self.step(a) and not self.varies(a)
        ]  # fmt: skip
        always = self._kernel.flow.always(self._loop) if stay else ()
        return {a.index for a in stay if a.block in always}

    def varies(self, access: Access) -> bool:
        """Whether the address changes from iteration to iteration in a way that is no constant step."""
        return any(self._moves(key) for key in access.form)

    @property
    def is_counted(self) -> bool:
        """Whether it is known, before the loop begins, how often it runs."""
        return self._evolution.counts(self._loop.header)

    def _moves(self, key: str) -> bool:
        """Whether a term changes in this loop, its counter's own step left out. What is no sum stays the same if it is
        made of values from outside only: a row's begin, `n * i`, in the loop over its elements."""
        if key[:1] != "?":
            return key in self._inside
        names = re.findall(r"[#%]([\w.$\-]+|\"[^\"]*\")", key)
        return any(name.strip('"') == self._loop.header or "%" + name in self._inside for name in names) or not names

    def step(self, access: Access) -> int:
        """Bytes from one iteration to the next."""
        return access.form.get(self._counter, 0)

    def distance(self, earlier: Access, later: Access) -> int | None:
        """After how many iterations, one or more, `later` may meet what `earlier` touched; None for never."""
        if self.varies(earlier) or self.varies(later):
            a, b = self._variable_part(earlier), self._variable_part(later)
            if a == b and earlier.constant == later.constant:
                return self._period(a) or 1
            return 1
        difference = scev.difference(earlier.form, later.form)
        if any(key for key in difference):
            return 1
        apart, step = difference.get("", 0), self.step(earlier)
        if step == 0:
            return 1 if abs(apart) < max(earlier.size, later.size) else None
        # earlier at iteration n meets later at n + d: apart = step * d
        if apart % step == 0 and apart // step >= 1:
            return apart // step
        return None

    def never_meet(self, a: Access, b: Access) -> bool:
        """Whether two accesses to an array lie apart in one of its dimensions, in whatever iterations: an index stays
        within its extent, and counters of loops around this one do not fall below zero."""
        array = a.array
        if array is None or array is not b.array or -1 in array.extents[1:]:
            return False
        difference = scev.difference(a.form, b.form)
        if any(key and key[0] != "#" for key in difference):
            return False
        own = [access.form.get(self._counter, 0) for access in (a, b)]
        steps = [indices(array, step) for step in own]
        parts = {key: indices(array, value) for key, value in difference.items()}
        for dimension in range(len(array.extents)):
            if any(step[dimension] for step in steps):
                continue  # this loop moves through it
            terms = [part[dimension] for key, part in parts.items() if key]
            constant = parts[""][dimension] if "" in parts else 0
            if (constant > 0 and all(t >= 0 for t in terms)) or (constant < 0 and all(t <= 0 for t in terms)):
                return True
        return False

    def same(self, a: Access, b: Access) -> bool:
        """Whether two accesses may meet in one iteration."""
        if self.never_meet(a, b):
            return False
        difference = scev.difference(a.form, b.form)
        if any(key for key in difference):
            return True
        apart = difference.get("", 0)
        return -a.size < -apart < b.size

    def _variable_part(self, access: Access) -> tuple[tuple[str, int], ...]:
        return tuple(pair for pair in access.variable if pair[0] != self._counter)

    def _period(self, variable: tuple[tuple[str, int], ...]) -> int | None:
        """After how many iterations an address that counts and wraps around comes back."""
        for key, _ in variable:
            wraps = re.fullmatch(rf"\?mod(\d+):1\*{re.escape(self._counter)}(\+-?\d+)?", key)
            if wraps:
                return 1 << int(wraps[1])
        return None

    def bounds(self, in_burst: Container[int] = ()) -> list[Bound]:
        """Limits by the ports of memories, m_axi bundles and streams. in_burst: indices of accesses that are parts of
        bursts."""
        found: list[Bound] = []
        by_array: dict[str, list[Access]] = defaultdict(list)
        for access in self.all:
            by_array[access.stream or (access.array.value if access.array else "")].append(access)
        bundles: dict[tuple[str, bool], list[tuple[tuple[Place, ...], int]]] = defaultdict(list)
        for group in by_array.values():
            array = group[0].array
            if group[0].stream is not None:
                for write in (False, True):
                    count = self._on_a_path(a for a in group if a.write == write)
                    found.append(Bound(count, "stream", f"{count} values per stream in an iteration"))
            elif array is not None and array.kind is Kind.PORT:
                for write in (False, True):
                    own = [a for a in group if a.write == write]
                    for place, there in self._by_place(array, own).items():
                        count = self._beats([a for a in there if a.index in in_burst])
                        count += self._requests(a for a in there if a.index not in in_burst)
                        bundles[array.bundle or "gmem", write].append((place, count))
            elif array is not None and array.kind is Kind.MEMORY and not array.complete():
                found.append(self._memory_bound(array, group))
        for (bundle, write), counts in bundles.items():
            places = dict.fromkeys(place for place, _ in counts)
            known = [place for place in places if all(isinstance(p, int) for p in place)]
            for place in known or places:  # what may go to any of them counts for each
                count = sum(n for other, n in counts if len(other) == len(place) and may_meet(place, other))
                where = f"part {_text_of(place)} of bundle '{bundle}'" if place else f"bundle '{bundle}'"
                words = f"{count} {'writes' if write else 'reads'} of {where}, which supports one per cycle"
                found.append(Bound(count, "m_axi", words))
        return [bound for bound in found if bound.ii > 1]

    def _memory_bound(self, array: Array, group: list[Access]) -> Bound:
        both, reads, writes = self.ports(array)
        worst = Bound(1, "memory", "")
        for bank, there in self.by_bank(array, group).items():
            r, w = (self.count(a for a in there if a.write is write) for write in (False, True))
            ii = max(math.ceil((r + w) / both), math.ceil(r / reads), math.ceil(w / writes))
            if ii > worst.ii:
                where = f"bank {bank} of '{array.name}'" if array.banks > 1 else f"'{array.name}'"
                takes = str(both) if ii == math.ceil((r + w) / both) else f"{reads} read and {writes} write"
                worst = Bound(ii, "memory", f"{r} reads and {w} writes of {where}, which supports {takes} per cycle")
        return worst

    def ports(self, array: Array) -> tuple[int, int, int]:
        """Accesses a cycle that a bank takes in this loop: in all, reads, writes."""
        return (COPIES + 1, COPIES, 1) if array.replicated and self.copies else array.ports

    def banks(self, array: Array, group: Iterable[Access], *, at_once: bool = False) -> list[tuple[Place, ...]]:
        """The bank that each access goes to, dimension by dimension; None where that is known at run time only.
        at_once: of accesses of one iteration, whose lanes are apart wherever the iteration begins."""
        known: dict[object, list[tuple[Moved, int] | None]] = {}
        found: list[tuple[Place, ...]] = []
        for access in group:
            if access.variable not in known:
                known[access.variable] = [
                    None if moved and not self._fixed(moved, size, at_once=at_once) else (moved, count)
                    for moved, size, count in moving(array, access.variable)
                ]
            places: list[Place] = []
            offsets = lanes(array, access.constant)
            for place, offset, told in zip(array.bank(access.constant), offsets, known[access.variable], strict=True):
                if told is None:
                    places.append(None)
                else:
                    start, count = told
                    places.append(Lane(start, offset % count, count) if start and count else None if start else place)
            found.append(tuple(places))
        return found

    def _fixed(self, moved: Moved, size: int, *, at_once: bool) -> bool:
        """Whether what moves an index does so by whole steps, and is the same in every iteration of this loop."""
        return all(
            step % size == 0 and key[:1] in "#%" and (at_once or (key != self._counter and key not in self._inside))
            for key, step in moved
        )

    def by_bank(self, array: Array, group: Iterable[Access]) -> dict[str, list[Access]]:
        """Accesses by bank; one whose bank is known at run time only counts for every bank that it may go to."""
        by_place = self._by_place(array, group)
        found: dict[str, list[Access]] = {}
        floating = [place for place in by_place if not all(isinstance(p, int) for p in place)]
        for place, there in by_place.items():
            more = [a for other in floating if other != place and may_meet(place, other) for a in by_place[other]]
            name = _text_of(place) or "0"
            while name in found:
                name += "'"
            found[name] = there + more
        return found

    def _by_place(self, array: Array, group: Iterable[Access]) -> dict[tuple[Place, ...], list[Access]]:
        found: dict[tuple[Place, ...], list[Access]] = defaultdict(list)
        accesses = list(group)
        for place, access in zip(self.banks(array, accesses, at_once=True), accesses, strict=True):
            found[place].append(access)
        return found

    def _distinct(self, accesses: Iterable[Access]) -> list[Access]:
        """One of those that have the same address, and so share a port, in the same block or one that follows."""
        seen: dict[object, Access] = {}
        for access in accesses:
            element = access.array.element_bytes if access.array else 1
            word = max(1, element * _elements_of_word(access.array))
            # Two writes of a whole element are two, even to the same place; parts of an element are written together.
            own = access.index if access.write and word == element and access.size >= word else access.block
            seen.setdefault((access.variable, access.constant // word, own if access.write else ""), access)
        return list(seen.values())

    def count(self, accesses: Iterable[Access]) -> int:
        """How many accesses of one bank an iteration has, those to the same address left out."""
        return self._on_a_path(self._distinct(accesses))

    def _on_a_path(self, accesses: Iterable[Access]) -> int:
        """The most accesses on one way through the loop: of two branches only one is taken."""
        flow = self._kernel.flow
        count = Counter(access.block for access in accesses)
        if len(count) <= 1:
            return sum(count.values())
        best: dict[str, int] = {}
        for block in flow.order:
            if block not in self._loop.blocks:
                continue
            before = [best[p] for p in flow.predecessors[block] if p in best and p in self._loop.blocks]
            best[block] = max(before, default=0) + count[block]
        return max(best.values(), default=0)

    def _requests(self, accesses: Iterable[Access]) -> int:
        """Requests of accesses that are no burst: ports widen for bursts only (UG1399, "Automatic Port Width
        Resizing": its conditions are those of bursts), so each element is a request of its own. What is read of one
        element comes with it; each field of it that is written by itself is a request (boxes of AC_proj_39, 2025.2).
        Of two branches one is taken."""
        single: dict[object, Access] = {}
        for access in accesses:
            size = access.array.element_bytes if access.array else 0
            code = self._code[access.index]
            own = (code.debug, access.block) if access.write else None  # of a copy's parts, the same place
            first, end = access.constant // size if size else 0, access.constant + access.size
            for n in range(first, math.ceil(end / size) if size else 1):
                single.setdefault((access.variable, n, own), access)
        return self._on_a_path(single.values())

    def _beats(self, accesses: list[Access]) -> int:
        """Beats an iteration of one port: neighbours that fill what an iteration advances by share beats."""
        if not accesses:
            return 0
        total = 0
        by_form: dict[object, list[Access]] = defaultdict(list)
        for access in accesses:
            by_form[access.variable].append(access)
        for group in by_form.values():
            low = min(a.constant for a in group)
            high = max(a.constant + a.size for a in group)
            covered = len({a.constant for a in group}) * group[0].size
            step = abs(self.step(group[0]))
            if high - low == covered and step in (0, covered):
                beat = max([group[0].size, *(a.array.beat_bytes for a in group if a.array)])
                total += max(1, math.ceil(covered / beat)) if covered > group[0].size else 1
            else:
                # Parts of an element share a beat; an element is one access.
                element = max(1, *(a.array.element_bytes for a in group if a.array), group[0].size)
                total += len({a.constant // element for a in group})
        return total


def _text_of(place: tuple[Place, ...]) -> str:
    return ",".join("any" if p is None else str(p) for p in place)


def forgiven(dependences: list[Dependence], array: Array) -> bool:
    """Whether a pragma says that iterations do not depend on each other through this array."""
    return any(not d.true and d.inter and _concerns(d, array) for d in dependences)


def stated_distance(dependences: list[Dependence], array: Array) -> int | None:
    """The distance that a pragma gives for a dependence through this array."""
    return next((d.distance for d in dependences if d.true and d.distance and _concerns(d, array)), None)


def _concerns(dependence: Dependence, array: Array) -> bool:
    """A pragma about one array of a structure counts for all of them: it is known by the structure's address."""
    return dependence.array in (None, array.value, array.value.rpartition(".")[0])


def _elements_of_word(array: Array | None) -> int:
    """Elements of a word of a reshaped array."""
    count = 1
    for partition in array.partitions if array else ():
        if partition.reshape:
            extent = array.extents[partition.dimension - 1] if array and partition.dimension else 1
            count *= extent if partition.kind == "complete" else max(1, partition.factor)
    return count
