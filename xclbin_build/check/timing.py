"""How long the operators of a loop take: cycles between input and output, and nanoseconds of logic.

Figures are those of `hls/operators.toml`, each with the report that it comes from. Operators depend much on the
clock, so a unit of which no report has a clock within a quarter of the one asked for is named: its figure is that of
the nearest.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from ..hls import delays, ir
from ..hls.arrays import Array, Kind
from ..hls.frontend import Kernel
from ..hls.operators import Operators
from ..hls.widths import Widths

FREE = frozenset([
    "br", "switch", "ret", "getelementptr", "zext", "sext", "trunc", "bitcast", "freeze", "inttoptr", "ptrtoint",
    "extractvalue", "insertvalue", "alloca", "unreachable", "addrspacecast", "fneg",
])  # fmt: skip
_DIVISIONS = ("sdiv", "udiv", "srem", "urem")
_NO_LOGIC = re.compile(r"llvm\.|__hls|__cxa|_Z(?:NK?S|S|n|d)|v?f?printf|f?puts?|putchar|exit|abort")
_TERNARY_NS = 0.9  # TAddSub of xczu7ev and xcu280: 0.68 to 0.96 of 10 to 64 bits.
_LOAD_NS, _STREAM_NS, _CHOICE_NS = 1.24, 1.2, 0.4  # RAM of xcu200 at 4 ns. FIFO of xcu55c at 5 ns. Sel of xck26.
_SMALL_LOAD_NS = 0.62  # RAM of xcu55c at 5 ns, 140 elements of 8 bits.
# Lines through Adder and Cmp of xczu7ev at 10 ns (i2 0.54, i4 0.79, i32 1.01), xck26 at 3.33 ns, xcku115 at 3.12 ns.
_COMPARE_NS, _COMPARE_NS_A_BIT = 0.7, 0.006
# A read request of xck26, xcu200 and xcu55c has 71 states in the Vitis flow, which expects a latency of 64. It has 7 or
# 8 states in the Vivado flow, which expects 0 (UG1399, "Default Settings of Vivado/Vitis Flows"). In the Vivado flow
# the value is read in one more state and used in the next. Loops over `weights` of AMD-Pervasive-AI have depth 17 with
# 8 requests and 25 with 16 (10 ns). AAHLS_LabC's loop over a port has II 10 (8 ns). A write response has 68 and 5
# states, behind two for the request and the value (149 for a sum in memory of heterogeneous-vitis-apps, 2024.1).
_REQUEST_CYCLES, _REQUEST_CYCLES_AT_0, _RESPONSE_CYCLES = 8, 9, 6
_FAST_NS = 4.2  # up to this period the rows of operators.toml count, which are of 3.33 and 4 ns
_SMALL_ELEMENTS = 32  # a bank of so many lies in LUTs: their delay goes with addresses of up to 5 bits on an xc7z020


@dataclass(frozen=True)
class Cost:
    """cycles: registers between input and output, 0 for logic that others can be chained to. ns: of the last stage.
    stages: whether it has a stage more than cycles, of `ns`, behind which the value is there: units of floating point
    (schedules: `fadd` [4/4] to [1/4], 6.43 ns each, of a latency of 3), and functions."""

    cycles: int = 0
    ns: float = 0.0
    stages: bool = False


class Timing:
    """Costs of a kernel's instructions at its clock. doubts: units whose figures are of another clock."""

    def __init__(self, kernel: Kernel) -> None:
        self._operators = Operators(kernel.clock_ns, part=kernel.part)
        self._family = delays.family(kernel.part)
        self._logic = self._family.logic if self._family else None
        self._widths = Widths(kernel.function, kernel.scev)
        self.period_ns = self._operators.period_ns
        self._clock_ns = kernel.clock_ns
        self._functions = kernel.operators
        self.doubts: set[str] = set()
        self.sources: dict[str, str] = {}

    def of(self, i: ir.Instruction) -> Cost:
        """The cost of anything but a load or a store."""
        if i.opcode in FREE:
            return Cost()
        if i.opcode == "phi":
            return Cost(0, self.choice_ns)
        if i.callee == "__hls_fifo_there":
            return Cost()
        if i.opcode in ("call", "invoke") and (i.callee or "").startswith(("__hls_fifo", "__hls_burst")):
            return Cost(0, self._logic.stream if self._logic else _STREAM_NS)
        if i.opcode in ("call", "invoke") and i.callee in self._functions:
            return Cost(*self._functions[i.callee], stages=True)
        if i.opcode in ("call", "invoke") and not self._operators.shared_kind(i):
            callee = i.callee or ""
            if callee and not _NO_LOGIC.match(callee):
                self.doubts.add(f"'{_plain(callee)}' is not defined in the source: its code is left out")
            known = callee.startswith(("llvm.smax", "llvm.smin", "llvm.umax", "llvm.umin", "llvm.abs"))
            return Cost(0, 1.4 if known else 0.0)
        if i.opcode == "icmp" and self._widths.one_bit(i):
            return Cost()
        if i.opcode in ("add", "sub", "icmp") and (bits := self._bits(i)):
            return Cost(0, self._compare_ns(bits) if i.opcode == "icmp" else self._adder_ns(bits))
        if i.opcode in _DIVISIONS and ir.is_number(i.operands[1]):
            return self._division_by(int(i.operands[1]), self._bits(i))
        if i.opcode == "mul":
            if any(ir.is_number(o) and _is_short(int(o)) for o in i.operands):
                return Cost(0, self._adder_ns(self._bits(i)))
            a, b = (int(o).bit_length() + 1 if ir.is_number(o) else self._widths.of(o, i.type).bits for o in i.operands)
            if self._logic:
                return self._product(a, b)
            found = self._operators.product_timing(a, b)
        else:
            found = self._operators.timing(i, self._bits(i))
            if self._logic and found.cycles == 0 and not self._operators.shared_kind(i) and found.delay_ns:
                shift = i.opcode in ("shl", "lshr", "ashr")
                return Cost(0, self._logic.shift if shift else self._logic.gate if _is_gate(i) else self.choice_ns)
        if kind := self._operators.shared_kind(i):
            staged = i.opcode not in ("fptosi", "fptoui")  # shifts and masks: `correlator` of CSE237C, 2021.1: 8
            if unit := self._unit(kind):
                return unit if staged else replace(unit, stages=False)
            self._cite(kind)
            return Cost(found.cycles, found.delay_ns, found.cycles > 0 and staged)
        return Cost(found.cycles, found.delay_ns)

    def _division_by(self, divisor: int, bits: int) -> Cost:
        """A quotient by a constant is a product (fig3_ex4a of omnisim-benchmarks, 2021.1: `value / 3`, depth 3)."""
        if divisor.bit_count() == 1:
            return Cost(0, self._adder_ns(bits))
        if self._logic:
            return self._product(bits, bits + 2)
        found = self._operators.product_timing(bits, bits + 2)
        return Cost(found.cycles, found.delay_ns)

    def _unit(self, kind: str) -> Cost | None:
        """A floating-point unit of the part's family."""
        if self._family is None or self._clock_ns <= _FAST_NS:
            return None
        unit = self._family.unit(kind, self._clock_ns, self.period_ns)
        if unit is None:
            return None
        self.sources[kind] = unit.source
        if unit.cycles == 0:
            return Cost(0, unit.delay_ns)
        return Cost(unit.cycles, unit.delay_ns, stages=True)

    def fills_its_cycle(self, cost: Cost) -> bool:
        """Whether a unit's last stage leaves no room to write a register. Of the clocks of operators.toml the cycles
        are those that loops were reported to take."""
        known = self._family is not None and self._clock_ns > _FAST_NS
        return known and cost.stages and cost.ns + self.choice_ns > self.period_ns

    def _product(self, a: int, b: int) -> Cost:
        """A product of integers of a and b bits: in one DSP, or in several, which may take a cycle of their own."""
        assert self._logic is not None  # asked only where there is one
        one, several = self._logic.product
        if min(a, b) <= 18 and max(a, b) <= 25:
            return Cost(0, one)
        return Cost(0, several) if several + self.choice_ns <= self.period_ns else Cost(1, several)

    @property
    def choice_ns(self) -> float:
        """Of the choice between two values, and of writing one to a register."""
        return self._logic.choice if self._logic else _CHOICE_NS

    def _adder_ns(self, bits: int) -> float:
        return self._logic.adder[0] + self._logic.adder[1] * bits if self._logic else _adder_ns(bits)

    def of_pair(self, i: ir.Instruction) -> Cost:
        """The cost of two additions that are one of three operands, of which `i` is the second."""
        base, each = self._logic.ternary if self._logic else (_TERNARY_NS, 0.0)
        return Cost(0, base + each * self._bits(i))

    def _compare_ns(self, bits: int) -> float:
        base, each = self._logic.compare if self._logic else (_COMPARE_NS, _COMPARE_NS_A_BIT)
        return base + each * bits

    def carried_addition(self, i: ir.Instruction) -> Cost | None:
        """The cost of an addition that a loop carries, where a pragma asks for its interval: Vitis HLS then takes
        another adder, if a report of about this clock has one; None if none has."""
        if i.opcode not in ("fadd", "fsub") or i.type not in ("float", "double"):
            return None
        kind = f"{i.type[0]}add_carried"
        row, nearest = self._operators.row(kind), self._operators.clock_ns_of(kind)
        if row is None or nearest is None or not 0.75 <= nearest / self._clock_ns <= 1.34:
            return None
        usual = self.of(i)
        if (row.cycles, row.delay_ns) >= (usual.cycles, usual.ns):
            return None
        self.sources[kind] = row.source
        return Cost(row.cycles, row.delay_ns, stages=True)

    def of_access(self, array: Array | None, *, write: bool, burst: bool, fixed: bool = False) -> Cost:
        """The cost of a load or a store. fixed: always the same element; registers then need no multiplexer."""
        if array is None or array.kind in (Kind.REGISTERS, Kind.SCALAR) or array.complete():
            return Cost(0, 0.0 if fixed else self.choice_ns)
        if array.kind is Kind.PORT:
            if burst:
                return Cost(1, 0.0)
            if write:
                return Cost(_RESPONSE_CYCLES + array.latency, 0.0)
            return Cost(_REQUEST_CYCLES + array.latency if array.latency else _REQUEST_CYCLES_AT_0, 0.0)
        if write:
            return Cost(1)
        elements = -1 if -1 in array.extents else math.prod(array.extents)
        small = 0 < elements <= _SMALL_ELEMENTS * max(1, array.banks)
        if self._logic is None:
            return Cost(1, _SMALL_LOAD_NS if small else _LOAD_NS)
        return Cost(1, self._logic.small_load if small else self._logic.load)

    def _bits(self, i: ir.Instruction) -> int:
        if i.opcode == "icmp":
            bits = [self._widths.of(o, i.type).bits for o in i.operands if ir.bits_of(i.type)]
            return max(bits, default=1)
        if i.type[:1] == "i" and i.name:
            return self._widths.of(i.name, i.type).bits
        return ir.bits_of(i.type)

    def _cite(self, kind: str) -> None:
        row = self._operators.row(kind)
        if row is None:
            self.doubts.add(f"no published report has the operator '{kind}'; one cycle is assumed")
            return
        self.sources[kind] = row.source
        nearest = self._operators.clock_ns_of(kind)
        if nearest and not 0.75 <= nearest / self._clock_ns <= 1.34:
            self.doubts.add(f"'{kind}' is known only at {nearest:g} ns, not at {self._clock_ns:g}")


def _adder_ns(bits: int) -> float:
    return 0.7 + 0.0065 * bits + (0.1 if bits > 8 else 0.0)


def _is_gate(i: ir.Instruction) -> bool:
    return i.opcode in ("and", "or", "xor")


def _is_short(factor: int) -> bool:
    """Whether a product with it is one addition or subtraction: the sum of two powers of two, or their difference."""
    signed = abs(factor) ^ 3 * abs(factor)  # one bit for each digit of the non-adjacent form
    return signed.bit_count() <= 2


def _plain(symbol: str) -> str:
    """A function's name without what C++ adds to it."""
    length = re.match(r"_Z(\d+)", symbol)
    return symbol[length.end() : length.end() + int(length[1])] if length else symbol
