"""How long the operators of a loop take: cycles between input and output, and nanoseconds of logic.

Figures are those of `hls/operators.toml`, each with the report that it comes from. Operators depend much on the
clock, so a unit of which no report has a clock within a quarter of the one asked for is named: its figure is that of
the nearest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..hls import ir
from ..hls.arrays import Array, Kind
from ..hls.frontend import Kernel
from ..hls.operators import Operators
from ..hls.widths import Widths

FREE = frozenset([
    "br", "switch", "ret", "getelementptr", "zext", "sext", "trunc", "bitcast", "freeze", "inttoptr", "ptrtoint",
    "extractvalue", "insertvalue", "alloca", "unreachable", "addrspacecast", "fneg",
])  # fmt: skip
_NO_LOGIC = re.compile(r"llvm\.|__hls|__cxa|_Z(?:NK?S|S|n|d)|v?f?printf|f?puts?|putchar|exit|abort")
_LOAD_NS, _STREAM_NS, _CHOICE_NS = 1.24, 1.2, 0.4  # RAM of xcu200 at 4 ns; FIFO of xcu55c at 5 ns; Sel of xck26
# Lines through Adder and Cmp of xczu7ev at 10 ns (i2 0.54, i4 0.79, i32 1.01), xck26 at 3.33 ns, xcku115 at 3.12 ns.
_COMPARE_NS, _COMPARE_NS_A_BIT = 0.7, 0.006
# readreq of xck26, xcu200 and xcu55c: 71 states in the Vitis flow, which expects a latency of 64, 7 or 8 in the Vivado
# flow, which expects 0 (UG1399, "Default Settings of Vivado/Vitis Flows"); there the value is read in a state of its
# own behind them, and used in the next (depths of loops over `weights` of AMD-Pervasive-AI, 10 ns: 17 with 8 requests,
# 25 with 16; the interval of AAHLS_LabC's loop over a port, 8 ns: 10). writeresp: 68 and 5 states, behind two for the
# request and the value (149 for a sum in memory of heterogeneous-vitis-apps, 2024.1).
_REQUEST_CYCLES, _REQUEST_CYCLES_AT_0, _RESPONSE_CYCLES = 8, 9, 6


@dataclass(frozen=True)
class Cost:
    """cycles: registers between input and output, 0 for logic that others can be chained to. ns: of the last stage."""

    cycles: int = 0
    ns: float = 0.0


class Timing:
    """Costs of a kernel's instructions at its clock. doubts: units whose figures are of another clock."""

    def __init__(self, kernel: Kernel) -> None:
        self._operators = Operators(kernel.clock_ns, part=kernel.part)
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
            return Cost(0, _CHOICE_NS)
        if i.opcode in ("call", "invoke") and (i.callee or "").startswith(("__hls_fifo", "__hls_burst")):
            return Cost(0, _STREAM_NS)
        if i.opcode in ("call", "invoke") and i.callee in self._functions:
            return Cost(*self._functions[i.callee])
        if i.opcode in ("call", "invoke") and not self._operators.shared_kind(i):
            callee = i.callee or ""
            if callee and not _NO_LOGIC.match(callee):
                self.doubts.add(f"'{_plain(callee)}' is not defined in the source: what it does is left out")
            known = callee.startswith(("llvm.smax", "llvm.smin", "llvm.umax", "llvm.umin", "llvm.abs"))
            return Cost(0, 1.4 if known else 0.0)
        if i.opcode == "icmp" and self._widths.one_bit(i):
            return Cost()
        if i.opcode in ("add", "sub", "icmp") and (bits := self._bits(i)):
            return Cost(0, _adder_ns(bits) if i.opcode != "icmp" else _COMPARE_NS + _COMPARE_NS_A_BIT * bits)
        if i.opcode == "mul":
            if any(_is_number(o) for o in i.operands):
                return Cost(0, 1.1)
            a, b = (self._widths.of(o, i.type).bits for o in i.operands)
            found = self._operators.product_timing(a, b)
        else:
            found = self._operators.timing(i, self._bits(i))
        if kind := self._operators.shared_kind(i):
            self._cite(kind)
        return Cost(found.cycles, found.delay_ns)

    def carried(self, i: ir.Instruction) -> Cost | None:
        """The cost of an addition that a loop carries, where a pragma asks for its interval: Vitis HLS then takes
        another adder, if a report of about this clock has one; None if none has."""
        if i.opcode not in ("fadd", "fsub") or i.type != "float":
            return None
        row, nearest = self._operators.row("fadd_carried"), self._operators.clock_ns_of("fadd_carried")
        usual = self._operators.row("fadd")
        if row is None or usual is None or nearest is None or not 0.75 <= nearest / self._clock_ns <= 1.34:
            return None
        if row.cycles >= usual.cycles:
            return None
        self.sources["fadd_carried"] = row.source
        return Cost(row.cycles, row.delay_ns)

    def of_access(self, array: Array | None, *, write: bool, burst: bool, fixed: bool = False) -> Cost:
        """The cost of a load or a store. fixed: always the same element; of registers that takes no multiplexer."""
        if array is None or array.kind in (Kind.REGISTERS, Kind.SCALAR) or array.complete():
            return Cost(0, 0.0 if fixed else _CHOICE_NS)
        if array.kind is Kind.PORT:
            if burst:
                return Cost(1, 0.0)
            if write:
                return Cost(_RESPONSE_CYCLES + array.latency, 0.0)
            return Cost(_REQUEST_CYCLES + array.latency if array.latency else _REQUEST_CYCLES_AT_0, 0.0)
        return Cost(1, 0.0) if write else Cost(1, _LOAD_NS)

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
            self.doubts.add(f"no report has the unit '{kind}'; it is taken as one cycle")
            return
        self.sources[kind] = row.source
        nearest = self._operators.clock_ns_of(kind)
        if nearest and not 0.75 <= nearest / self._clock_ns <= 1.34:
            self.doubts.add(f"'{kind}' is known at {nearest:g} ns only, not at {self._clock_ns:g}")


def _adder_ns(bits: int) -> float:
    return 0.7 + 0.0065 * bits + (0.1 if bits > 8 else 0.0)


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()


def _plain(symbol: str) -> str:
    """A function's name without what C++ adds to it."""
    length = re.match(r"_Z(\d+)", symbol)
    return symbol[length.end() : length.end() + int(length[1])] if length else symbol
