"""Resources of a kernel from its source: clang's IR, as `xclbin_build.hls` reads it, an operator at a time.

The kernel is cut into regions (regions.py). Within a region operators are scheduled; those that may share a unit
(floating point, wide dividers) share it in as many cycles as the initiation interval has. Regions run one after the
other, so they share such units, too; all else is counted where it stands (usage.py).
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping

from ..hls import ir
from ..hls.arrays import Array, Kind
from ..hls.frontend import Kernel
from ..hls.operators import Operators, product_dsps
from ..hls.resources import Resources
from ..hls.schedule import OperatorTiming, Schedule, lives, schedule
from ..hls.widths import Widths
from . import memories
from .regions import ScheduledRegion, processes, regions
from .usage import Usage

_FREE = frozenset(
    [
        "br", "switch", "ret", "phi", "getelementptr", "zext", "sext", "trunc", "bitcast", "freeze", "inttoptr",
        "ptrtoint", "extractvalue", "insertvalue", "alloca", "unreachable", "addrspacecast", "fneg",
    ]
)  # fmt: skip
_PORTS = 2  # of a memory
_SHARED_DSPS = 2  # products of fewer are not worth the multiplexers in front of a shared one
_DSP_SUM_BITS = 48
_MOST_REGISTER_BITS = 8192  # a structure that is larger holds blocks of memory, which the caller counts


class ResourceCount:
    """Counts what one kernel takes."""

    def __init__(self, kernel: Kernel, operators: Operators) -> None:
        self._kernel = kernel
        self._operators = operators
        self._definitions = kernel.function.definitions()
        self._widths = Widths(kernel.function, kernel.scev, self._written())
        self._widest: dict[str, int] = {}  # bits that are read and written at once, by array
        self._uses = Counter(v for i in kernel.function.instructions() for v in i.values)
        self._readers: dict[str, list[ir.Instruction]] = defaultdict(list)
        for i in kernel.function.instructions():
            for v in i.values:
                self._readers[v].append(i)

    def count(self, intervals: Mapping[str, int]) -> dict[str, Usage]:
        """What each process of the kernel takes; "" stands for all of one without a dataflow region, and for arrays.

        intervals: initiation intervals of pipelined loops, by their headers.
        """
        found = regions(self._kernel, intervals, processes(self._kernel))
        home = {i.name: n for n, region in enumerate(found) for i in region.code if i.name}
        uses: dict[str, Usage] = {}
        crossing: dict[str, str] = {}
        for n, region in enumerate(found):
            self._count_region(region, uses.setdefault(region.process, Usage()))
            for value in (v for i in region.code for v in i.values):
                if value in home and home[value] != n:
                    crossing[value] = found[home[value]].process
        for name, process in crossing.items():
            if self._definitions[name].opcode not in ("getelementptr", "phi", "alloca"):
                uses[process].register_bits += self._bits(self._definitions[name])
        process_of = {i.name: region.process for region in found for i in region.code if i.name}
        self._count_variables(uses, process_of)
        for use in uses.values():
            use.count_choices()
        self._count_arrays(uses.setdefault("", Usage()))
        return uses

    def _count_region(self, region: ScheduledRegion, use: Usage) -> None:
        wanted: Counter[str] = Counter()
        for i in region.code:
            if kind := self._operators.shared_kind(i):
                use.operations[kind] += 1
        for segment in region.segments:
            plan = schedule(segment, self._timing, self._operators.period_ns, lambda _: ())
            region.plans.append(plan)
            if not region.ii:
                for dsps, together in self._shared_products(segment, plan).items():
                    use.shared_products[dsps] = max(use.shared_products[dsps], together)
            at_once: dict[str, Counter[int]] = defaultdict(Counter)
            for number, i in enumerate(segment):
                kind = self._operators.shared_kind(i)
                if kind:
                    at_once[kind][plan.start[number]] += 1
            for kind, starts in at_once.items():
                count = math.ceil(sum(starts.values()) / region.ii) if region.ii else max(starts.values())
                wanted[kind] = max(wanted[kind], count)
            shift, plain = 0, 0
            for i, cycles in lives(plan, lambda i: i.opcode != "getelementptr"):
                if cycles > 2:  # a shift register of LUTs between two registers
                    shift += self._bits(i)
                    plain += 2 * self._bits(i)
                else:
                    plain += self._bits(i) * cycles
            use.register_bits += plain
            use.shift_bits += shift
            use.states += region.ii or plan.depth
        for kind, count in wanted.items():
            use.units[kind] = max(use.units[kind], count)
        products, own = set(), Usage()
        for i in region.code:
            if self._absorbed(i):
                continue
            if i.opcode == "mul":
                self._count_product(i, region, own)
            elif i.opcode == "getelementptr":
                products |= self._address_products(i)
            elif not self._operators.shared_kind(i) and i.opcode not in _FREE:
                use.logic += self._logic(i, region.ii is not None)
        use.add_products(own, region.ii or 1)
        for bits, stride in products:
            use.multipliers[(bits, stride.bit_length(), bits + stride.bit_length())] += 1
        self._count_ports(region, use)

    def _bits(self, i: ir.Instruction) -> int:
        if i.opcode in ("icmp", "fcmp"):
            return 1
        if re.fullmatch(r"i\d+", i.type) and i.name:
            return self._widths.of(i.name, i.type).bits
        return ir.bits_of(i.type)

    def _timing(self, i: ir.Instruction) -> OperatorTiming:
        if i.opcode in _FREE:
            return OperatorTiming()
        bits = ir.bits_of(i.type)
        if i.opcode in ("load", "store"):
            array = self._array_of(i.pointer)
            if array and array.kind in (Kind.REGISTERS, Kind.SCALAR):
                return OperatorTiming()
            return OperatorTiming(1, 1.3) if i.opcode == "load" else OperatorTiming(0, 1.3)
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

    def _written(self) -> dict[str, list[ir.Instruction]]:
        """Of each load from an array of the kernel's own, the stores to it."""
        parameters = {value for value, _ in self._kernel.function.parameters}
        stores: dict[str, list[ir.Instruction]] = defaultdict(list)
        loads: dict[str, list[str]] = defaultdict(list)
        for i in self._kernel.function.instructions():
            if i.opcode in ("load", "store"):
                array = self._array_of(i.pointer)
                if array is None or array.value in parameters or array.value[:1] != "%":
                    continue
                if i.opcode == "store":
                    stores[array.value].append(i)
                elif i.name:
                    loads[array.value].append(i.name)
        return {name: stores[array] for array, names in loads.items() if array in stores for name in names}

    def _count_variables(self, uses: Mapping[str, Usage], process_of: Mapping[str, str]) -> None:
        """Phis that pass a value on to each other are one variable: a register if a loop carries it, behind a
        multiplexer of the values written to it."""
        headers = set(self._kernel.flow.loops)
        phis = {name: i for name, i in self._definitions.items() if i.opcode == "phi"}
        group = {name: name for name in phis}

        def leader(name: str) -> str:
            while group[name] != name:
                group[name] = group[group[name]]
                name = group[name]
            return name

        for name, i in phis.items():
            for operand in i.operands:
                if operand in phis:
                    group[leader(operand)] = leader(name)
        members: dict[str, list[ir.Instruction]] = defaultdict(list)
        for name, i in phis.items():
            members[leader(name)].append(i)
        for variable in members.values():
            use = uses[process_of.get(variable[0].name or "", "")]
            written = {o for i in variable for o in i.operands if o not in phis and o not in ("undef", "poison")}
            use.multiplexers[len(written)] += 1
            if any(i.block in headers for i in variable):
                use.register_bits += max(self._bits(i) for i in variable)

    def _count_product(self, i: ir.Instruction, region: ScheduledRegion, use: Usage) -> None:
        widths = self._product(i)
        if widths is None:
            digits = max(signed_digits(int(o)) for o in i.operands if ir.is_number(o))
            use.logic += self._operators.adder(self._bits(i)) * max(0, digits - 1)
        elif i.name and self._is_dsp_product(i.name) and all(self._absorbed(u) for u in self._users(i.name)):
            use.accumulated[widths] += 1
        elif region.ii or product_dsps(*widths) < _SHARED_DSPS:
            use.multipliers[widths] += 1

    def _users(self, value: str) -> list[ir.Instruction]:
        """Instructions that take a value, behind extensions that only they take."""
        found: list[ir.Instruction] = []
        for user in self._readers.get(value, ()):
            extends = user.opcode in ("sext", "zext") and user.name is not None
            found += self._users(user.name or "") if extends else [user]
        return found

    def _product(self, i: ir.Instruction) -> tuple[int, int, int] | None:
        """Widths of a product's operands and of itself; None for one with a constant that one addition does."""
        for o in i.operands:
            if ir.is_number(o) and signed_digits(int(o)) <= 2:
                return None
        a, b = (min(self._widths.of(o, i.type).bits, ir.bits_of(i.type)) for o in i.operands)
        return (a, b, self._bits(i))

    def _shared_products(self, segment: list[ir.Instruction], plan: Schedule) -> Counter[int]:
        """In a sequence of states: how many products of so many DSPs begin in the same state, at most."""
        at_once: dict[int, Counter[int]] = defaultdict(Counter)
        for number, i in enumerate(segment):
            widths = self._product(i) if i.opcode == "mul" else None
            if widths and (dsps := product_dsps(*widths)) >= _SHARED_DSPS:
                at_once[dsps][plan.start[number]] += 1
        return Counter({dsps: max(starts.values()) for dsps, starts in at_once.items()})

    def _absorbed(self, i: ir.Instruction) -> bool:
        """Whether an addition is done within the DSP that makes one of its operands (UG579: 27 x 18 + 48 bits)."""
        if i.opcode not in ("add", "sub") or self._bits(i) > _DSP_SUM_BITS:
            return False
        return any(self._is_dsp_product(o) and self._uses[o] == 1 for o in i.operands)

    def _is_dsp_product(self, value: str) -> bool:
        made = self._definitions.get(value)
        while made is not None and made.opcode in ("sext", "zext") and self._uses[made.operands[0]] == 1:
            made = self._definitions.get(made.operands[0])
        if made is None or made.opcode != "mul" or any(ir.is_number(o) for o in made.operands):
            return False
        a, b = (self._widths.of(o, made.type).bits for o in made.operands)
        return product_dsps(a, b, self._bits(made)) == 1

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

    def _logic(self, i: ir.Instruction, pipelined: bool) -> Resources:
        if i.opcode == "or" and ("disjoint" in i.text or self._side_by_side(i)):
            return Resources()
        if i.opcode == "icmp" and self._widths.one_bit(i):
            return Resources()
        operands = [self._widths.of(o, i.type).bits for o in i.operands if re.fullmatch(r"-?\d+|%.*", o)]
        bits = max(operands, default=1) if i.opcode == "icmp" else self._bits(i)
        if i.opcode in ("add", "sub", "icmp"):
            bits = max(1, bits - min(self._low_zeros(o) for o in i.operands[:2]))
        constant = any(ir.is_number(o) for o in i.operands)
        return self._operators.logic(i, bits, constant, pipelined=pipelined, distances=self._distances(i))

    def _side_by_side(self, i: ir.Instruction) -> bool:
        """Whether no bit of a result comes from both operands: that is wires."""
        a, b = (self._widths.possible(o, ir.bits_of(i.type)) for o in i.operands)
        return a & b == 0

    def _distances(self, i: ir.Instruction) -> int:
        """Of a shift by a variable: in how many bits that varies."""
        if i.opcode not in ("shl", "lshr", "ashr"):
            return 0
        made = self._definitions.get(i.operands[1])
        while made is not None and made.opcode in ("zext", "sext", "trunc"):
            made = self._definitions.get(made.operands[0])
        if made is not None and made.opcode == "select" and all(ir.is_number(o) for o in made.operands[1:]):
            return 1
        low = self._low_zeros(made.name) if made is not None and made.name else 0
        return max(1, self._widths.of(i.operands[1], i.type).bits - low)

    def _low_zeros(self, value: str) -> int:
        """Bits at the low end of a value that are always 0."""
        if ir.is_number(value):
            number = int(value)
            return (number & -number).bit_length() - 1 if number else 64
        made = self._definitions.get(value)
        if made is not None and made.opcode == "shl" and ir.is_number(made.operands[1]):
            return int(made.operands[1]) + self._low_zeros(made.operands[0])
        if made is not None and made.opcode == "and":  # LLVM narrows a value by a shift to the left and a mask
            return max(self._low_zeros(o) for o in made.operands)
        return 0

    def _count_ports(self, region: ScheduledRegion, use: Usage) -> None:
        """A port of a memory that is reached from several states chooses among so many addresses, and so much data."""
        reached: Counter[tuple[str, str]] = Counter()
        for i in region.code:
            if i.opcode in ("load", "store"):
                array = self._array_of(i.pointer)
                if array and array.kind in (Kind.MEMORY, Kind.PORT):
                    reached[array.value, i.opcode] += 1
        for (array_value, opcode), count in reached.items():
            use.reached[array_value] += 1
            inputs = math.ceil(count / _PORTS)
            # In a pipeline a port serves an access a cycle; the others are parts of a word, or other banks.
            if region.ii:
                inputs = min(inputs, region.ii)
            if inputs > 1:
                use.multiplexers[inputs + 1] += _PORTS * (2 if opcode == "store" else 1)

    def _count_arrays(self, use: Usage) -> None:
        alive: dict[str, Array] = {}
        for i in self._kernel.function.instructions():
            if i.opcode in ("load", "store"):
                array = self._array_of(i.pointer)
                if array:
                    alive[array.value] = array
                    self._widest[array.value] = max(self._widest.get(array.value, 0), ir.bits_of(i.type))
        for value, array in alive.items():
            if array.kind is not Kind.MEMORY or array.complete() or not array.extents:
                bits = 8 * array.element_bytes * array.elements
                if array.kind is Kind.REGISTERS and bits <= _MOST_REGISTER_BITS:
                    use.register_bits += bits
                continue
            memory = memories.Memory(
                self._element_bits(array), math.ceil(array.elements / array.banks), _storage(self._kernel, array)
            )
            use.arrays[value] = (array.banks, memory)

    def _element_bits(self, array: Array) -> int:
        """Bits of a word. Of ap_int and the like memory has more than they declare, which loads and stores show; a
        structure is one wide word, however it is read."""
        whole = 8 * array.element_bytes
        widest = self._widest.get(array.value, whole)
        return widest if 2 * widest > whole else whole


def _storage(kernel: Kernel, array: Array) -> str | None:
    """Where a pragma puts an array: "lutram", "bram", "uram", or None."""
    for pragma in kernel.source.pragmas.values():
        if pragma.kind in ("bind_storage", "resource") and pragma.variable == array.name:
            words = f"{pragma.options.get('impl', '')} {pragma.options.get('core', '')}".lower()
            return next((kind for kind in ("lutram", "uram", "bram") if kind in words), None)
    return None


def signed_digits(number: int) -> int:
    """Digits of a number that are not 0 where they may be -1, 0 and 1: one more than the additions that a product
    takes."""
    number, digits = abs(number), 0
    while number:
        if number & 1:
            number -= 2 - (number & 3)
            digits += 1
        number >>= 1
    return digits
