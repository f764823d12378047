"""Resources of a kernel from its source: clang's IR, as `xclbin_build.check` reads it, an operator at a time.

The kernel is cut into regions: a pipelined loop is one, and so is what lies directly in any other loop, or in none. Within
a region operators are scheduled; those that may share a unit (floating point, wide dividers) share it in as many cycles
as the initiation interval has. Regions run one after the other, so they share such units, too; all else is counted where it
stands.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..check import cfg, ir
from ..check.arrays import Array, Kind
from ..check.frontend import KEEP, Kernel
from . import memories
from .operators import Operators, multiplexer
from .resources import Resources, total
from .schedule import Schedule, Timing, live_bits, schedule
from .widths import Widths

_FREE = frozenset(
    "br switch ret phi getelementptr zext sext trunc bitcast freeze inttoptr ptrtoint extractvalue insertvalue "
    "alloca unreachable addrspacecast fneg".split()
)
_IGNORED_CALLS = re.compile(r"llvm\.(lifetime|dbg|assume|experimental|donothing|prefetch)|" + KEEP)


@dataclass
class Region:
    """Code that is scheduled together. ii: of a pipelined loop, None of a sequence of states."""

    name: str
    code: list[ir.Instruction]
    ii: int | None
    segments: list[list[ir.Instruction]] = field(default_factory=list)
    plans: list[Schedule] = field(default_factory=list)


@dataclass
class Use:
    """What a kernel takes. units: shared operators by kind; multipliers: of integers, by (bits, bits, result bits)."""

    units: Counter[str] = field(default_factory=Counter)
    multipliers: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    arrays: dict[str, tuple[int, memories.Memory]] = field(default_factory=dict)
    logic: Resources = field(default_factory=Resources)
    multiplexers: Counter[int] = field(default_factory=Counter)
    register_bits: int = 0
    shift_bits: int = 0
    states: int = 0


def regions(kernel: Kernel, intervals: Mapping[str, int]) -> list[Region]:
    """The regions of a kernel. intervals: initiation intervals of its pipelined loops, by their headers."""
    flow = kernel.flow
    found: dict[str, Region] = {}
    for block in flow.order:
        loop = flow.around(block)
        header = loop.header if loop else ""
        if header not in found:
            instance = kernel.instance_of(loop) if loop else None
            name = instance.name if instance else kernel.top
            found[header] = Region(name, [], intervals.get(header))
        region = found[header]
        code = [i for i in flow.function.blocks[block] if not (i.callee and _IGNORED_CALLS.match(i.callee))]
        region.code += code
        # Blocks between which there is no inner loop may be joined.
        before = [p for p in flow.predecessors[block] if _directly_in(flow, p, header)]
        if region.segments and before:
            region.segments[-1] += code
        else:
            region.segments.append(list(code))
    return list(found.values())


def _directly_in(flow: cfg.Flow, block: str, header: str) -> bool:
    loop = flow.around(block) if block in flow.number else None
    return (loop.header if loop else "") == header


class Counting:
    """Counts what one kernel takes."""

    def __init__(self, kernel: Kernel, operators: Operators, has_uram: bool = True) -> None:
        self._kernel = kernel
        self._operators = operators
        self._has_uram = has_uram
        self._definitions = kernel.function.definitions()
        self._widths = Widths(kernel.function, kernel.scev)

    def count(self, intervals: Mapping[str, int]) -> Use:
        use = Use()
        for region in regions(self._kernel, intervals):
            self._count_region(region, use)
        self._count_arrays(use)
        return use

    def _count_region(self, region: Region, use: Use) -> None:
        wanted: Counter[str] = Counter()
        for segment in region.segments:
            plan = schedule(segment, self._timing, self._operators.period_ns, lambda _: ())
            region.plans.append(plan)
            at_once: dict[str, Counter[int]] = defaultdict(Counter)
            for number, i in enumerate(segment):
                kind = self._operators.shared_kind(i)
                if kind:
                    at_once[kind][plan.start[number]] += 1
            for kind, starts in at_once.items():
                if region.ii:
                    count = math.ceil(sum(starts.values()) / region.ii)
                else:
                    count = max(starts.values())
                wanted[kind] = max(wanted[kind], count)
            shift, plain = 0, 0
            for bits, cycles in self._lives(plan):
                if cycles > 2:
                    shift += bits
                    plain += 2 * bits
                else:
                    plain += bits * cycles
            use.register_bits += plain
            use.shift_bits += shift
            use.states += region.ii or plan.depth
        for kind, count in wanted.items():
            use.units[kind] = max(use.units[kind], count)
        products = set()
        for i in region.code:
            if i.opcode == "mul":
                self._count_product(i, region, use)
            elif i.opcode == "getelementptr":
                products |= self._address_products(i)
            elif not self._operators.shared_kind(i) and i.opcode not in _FREE:
                use.logic += self._logic(i)
            if i.opcode == "phi":
                use.multiplexers[2] += 1
                use.register_bits += self._bits(i)
        for bits, stride in products:
            use.multipliers[(bits, stride.bit_length(), bits + stride.bit_length())] += 1
        self._count_ports(region, use)

    def _lives(self, plan: Schedule) -> list[tuple[int, int]]:
        place = {i.name: n for n, i in enumerate(plan.code) if i.name}
        last: dict[int, int] = {}
        for number, i in enumerate(plan.code):
            for value in i.values:
                if value in place and place[value] < number:
                    last[place[value]] = max(last.get(place[value], 0), plan.start[number])
        return [
            (self._bits(plan.code[n]), read - plan.end[n])
            for n, read in last.items()
            if read > plan.end[n] and plan.code[n].opcode != "getelementptr"
        ]

    def _bits(self, i: ir.Instruction) -> int:
        if i.opcode in ("icmp", "fcmp"):
            return 1
        if re.fullmatch(r"i\d+", i.type) and i.name:
            return self._widths.of(i.name, i.type).bits
        return ir.bits_of(i.type)

    def _timing(self, i: ir.Instruction) -> Timing:
        if i.opcode in _FREE:
            return Timing()
        bits = ir.bits_of(i.type)
        if i.opcode in ("load", "store"):
            array = self._array_of(i.pointer)
            if array and array.kind in (Kind.REGISTERS, Kind.SCALAR):
                return Timing()
            return Timing(1, 1.3) if i.opcode == "load" else Timing(0, 1.3)
        if i.opcode == "mul":
            a, b = (self._widths.of(o, i.type).bits for o in i.operands)
            return self._operators.product_timing(a, b)
        return self._operators.timing(i, self._bits(i) or bits)

    def _array_of(self, pointer: str | None) -> Array | None:
        for _ in range(32):
            if pointer is None:
                return None
            if pointer in self._kernel.arrays:
                return self._kernel.arrays[pointer]
            made = self._definitions.get(pointer)
            if made is None or made.opcode not in ("getelementptr", "bitcast", "freeze", "phi", "select"):
                return None
            pointer = made.operands[1 if made.opcode == "select" else 0]
        return None

    def _count_product(self, i: ir.Instruction, region: Region, use: Use) -> None:
        constant = next((int(o) for o in i.operands if re.fullmatch(r"-?\d+", o)), None)
        out = self._bits(i)
        if constant is not None:
            digits = signed_digits(constant)
            if digits <= 2:
                use.logic += self._operators.adder(out) * max(0, digits - 1)
                return
        a, b = (min(self._widths.of(o, i.type).bits, ir.bits_of(i.type)) for o in i.operands)
        use.multipliers[(a, b, out)] += 1

    def _address_products(self, i: ir.Instruction) -> set[tuple[int, int]]:
        """Indices that are multiplied by a row's length which is no sum of two powers of two."""
        kind, found = i.source_type or "", set()
        stride = 1
        extents = []
        while match := re.fullmatch(r"\[(\d+) x (.*)\]", kind):
            extents.append(int(match[1]))
            kind = match[2]
        for index, extent in zip(reversed(i.operands[1:]), [1, *reversed(extents)], strict=False):
            stride *= extent
            if index[:1] == "%" and signed_digits(stride) > 2:
                found.add((self._widths.of(index, "i64").bits, stride))
        return found

    def _logic(self, i: ir.Instruction) -> Resources:
        operands = [self._widths.of(o, i.type).bits for o in i.operands if re.fullmatch(r"-?\d+|%.*", o)]
        bits = max(operands, default=1) if i.opcode == "icmp" else self._bits(i)
        constant = any(re.fullmatch(r"-?\d+", o) for o in i.operands)
        return self._operators.logic(i, bits, constant)

    def _count_ports(self, region: Region, use: Use) -> None:
        """A port of a memory that is reached from several states chooses among so many addresses."""
        reached: Counter[str] = Counter()
        for i in region.code:
            if i.opcode in ("load", "store"):
                array = self._array_of(i.pointer)
                if array and array.kind in (Kind.MEMORY, Kind.PORT):
                    reached[array.value + i.opcode] += 1
        for count in reached.values():
            if count > 1 and region.ii != 1:
                use.multiplexers[min(count, region.ii or count) + 1] += 1

    def _count_arrays(self, use: Use) -> None:
        alive: dict[str, Array] = {}
        for i in self._kernel.function.instructions():
            if i.opcode in ("load", "store"):
                array = self._array_of(i.pointer)
                if array:
                    alive[array.value] = array
        for value, array in alive.items():
            if array.kind is not Kind.MEMORY or array.complete() or not array.extents:
                if array.kind is Kind.REGISTERS:
                    use.register_bits += 8 * array.element_bytes * array.elements
                continue
            memory = memories.Memory(self._element_bits(array), math.ceil(array.elements / array.banks), _storage(array))
            use.arrays[value] = (array.banks, memory)

    def _element_bits(self, array: Array) -> int:
        """Bits of a word; of ap_int the declared ones are lost in memory, but not in what is loaded and stored."""
        widest = 0
        for i in self._kernel.function.instructions():
            if i.opcode in ("load", "store") and self._array_of(i.pointer) is array:
                widest = max(widest, ir.bits_of(i.type) or 8 * array.element_bytes)
        return min(widest, 8 * array.element_bytes) or 8 * array.element_bytes


def _storage(array: Array) -> str | None:
    words = (array.storage or "").lower()
    return next((kind for kind in ("lutram", "uram", "bram") if kind in words), None)


def signed_digits(number: int) -> int:
    """Digits of a number that are not 0 where they may be -1, 0 and 1: one more than the additions that a product takes."""
    number, digits = abs(number), 0
    while number:
        if number & 1:
            number -= 2 - (number & 3)
            digits += 1
        number >>= 1
    return digits


def resources(use: Use, operators: Operators, *, has_uram: bool = True) -> Resources:
    """The counted things in numbers of what the FPGA is made of."""
    parts: list[Resources] = [use.logic, operators.states(use.states)]
    parts += [operators.unit(kind) * count for kind, count in use.units.items()]
    parts += [operators.product(*key) * count for key, count in use.multipliers.items()]
    parts += [memories.cost(memory, has_uram=has_uram) * banks for banks, memory in use.arrays.values()]
    parts += [multiplexer(inputs) * count for inputs, count in use.multiplexers.items()]
    parts.append(Resources(ff=use.register_bits, lut=use.shift_bits))
    return total(parts)


__all__: Sequence[str] = ("Counting", "Region", "Use", "live_bits", "regions", "resources")
