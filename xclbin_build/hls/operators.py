"""What operators cost: DSP slices, LUTs, flip-flops, cycles. `operators.toml` has the figures, each with its source."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

from .. import toml_table
from . import ir
from .resources import Resources
from .schedule import OperatorTiming

_FILE = Path(__file__).with_suffix(".toml")
_FLOAT = {"fadd": "add", "fsub": "add", "fmul": "mul", "fdiv": "div", "frem": "rem", "fcmp": "cmp"}
_CONVERSIONS = frozenset(["sitofp", "uitofp", "fptosi", "fptoui", "fpext", "fptrunc"])
_INTRINSIC = re.compile(r"llvm\.(\w+)\.f(16|32|64)$")
_LIBRARY = re.compile(
    r"(?:hls_)?(exp|log|log2|log10|sin|cos|tan|tanh|atan|atan2|asin|acos|sinh|cosh|pow|sqrt|erf|fmod|round)(f?)$"
)


@dataclass(frozen=True)
class OperatorUnit:
    """A unit. cycles: its latency at `period_ns`. silent: reports of Vitis HLS leave out its LUTs and registers.
    source: who says so. part: beginning of the parts that it holds for alone; "" for all."""

    name: str
    resources: Resources
    cycles: int
    delay_ns: float
    silent: bool
    source: str
    part: str = ""


@functools.cache
def _tables() -> tuple[
    dict[str, list[tuple[float, OperatorUnit]]], dict[str, float], dict[str, float], dict[str, float]
]:
    table = toml_table.load(_FILE)
    rows: dict[str, list[tuple[float, OperatorUnit]]] = {}
    for entry in table.array("unit"):
        numbers = {key: entry.get(key, float, 0.0) for key in ("dsp", "bram36", "lut", "ff")}
        row = OperatorUnit(
            entry.get("name", str), Resources(**numbers), entry.get("cycles", int), entry.get("delay_ns", float),
            entry.get("silent", bool, False), entry.get("source", str), entry.get("part", str, ""),
        )  # fmt: skip
        rows.setdefault(row.name, []).append((entry.get("period_ns", float), row))
    return rows, table.get("logic", dict), table.get("port", dict), table.get("placed", dict)


class Operators:
    """Costs at one clock. part: the FPGA's name; some units differ between parts. as_reported: what reports of Vitis
    HLS say, without what they leave out; else what is placed.

    uncertainty: the share of the period that Vitis HLS keeps free (UG1399, clock_uncertainty).
    """

    def __init__(
        self, clock_ns: float, *, part: str = "", uncertainty: float = 0.27, as_reported: bool = False
    ) -> None:
        self.clock_ns = clock_ns
        self._part = part
        self.period_ns = clock_ns * (1 - uncertainty)
        self._as_reported = as_reported
        self._units, self._logic, self._port, self._placed = _tables()

    def row(self, kind: str) -> OperatorUnit | None:
        """The row of a unit whose clock is nearest to this one; of the part's own, where the clock is alike."""
        found = self._nearest(kind)
        return found[1] if found else None

    def clock_ns_of(self, kind: str) -> float | None:
        """The clock that the row of a unit was reported at."""
        found = self._nearest(kind)
        return found[0] if found else None

    def _nearest(self, kind: str) -> tuple[float, OperatorUnit] | None:
        def order(entry: tuple[float, OperatorUnit]) -> tuple[bool, bool, float]:
            clock, row = entry
            far = not 0.75 <= clock / self.clock_ns <= 1.34
            return far, not row.part, abs(clock - self.clock_ns)

        rows = [entry for entry in self._units.get(kind, ()) if self._part.startswith(entry[1].part)]
        return min(rows, key=order) if rows else None

    def shared_kind(self, i: ir.Instruction) -> str | None:
        """The kind of unit that an instruction is done by, if it is one that others may share."""
        if i.opcode in _FLOAT:
            return ("d" if i.type == "double" else "f") + _FLOAT[i.opcode]
        if i.opcode in _CONVERSIONS:
            wide = "double" in (i.type, i.source_type)
            return ("d" if wide else "f") + ("convert" if i.opcode not in ("fpext", "fptrunc") else "resize")
        if i.opcode in ("call", "invoke") and i.callee:
            if match := _INTRINSIC.match(i.callee):
                name = {"maxnum": None, "minnum": None, "fabs": None, "copysign": None}.get(match[1], match[1])
                return ("d" if match[2] == "64" else "f") + name if name else None
            if match := _LIBRARY.match(i.callee):
                return ("f" if match[2] else "d") + match[1]
        return None

    def unit(self, kind: str) -> Resources:
        row = self.row(kind)
        if row is None:
            return Resources()
        if row.silent and self._as_reported:
            return Resources(dsp=row.resources.dsp)
        return row.resources

    def knows(self, kind: str) -> bool:
        return kind in self._units

    def timing(self, i: ir.Instruction, bits: int) -> OperatorTiming:
        kind = self.shared_kind(i)
        if kind:
            row = self.row(kind)
            return OperatorTiming(row.cycles, row.delay_ns) if row else OperatorTiming(1, 2.0)
        if i.opcode in ("sdiv", "udiv", "srem", "urem"):
            if any(ir.is_number(o) for o in i.operands[1:]) and _is_power(i.operands[1]):
                return OperatorTiming(0, 0.5)
            return OperatorTiming(bits + 3, 2.0)
        if i.opcode in ("add", "sub", "icmp"):
            return OperatorTiming(0, 0.7 + 0.01 * bits)
        if i.opcode in ("shl", "lshr", "ashr"):
            return OperatorTiming(0, 0.0 if ir.is_number(i.operands[1]) else 1.4)
        return OperatorTiming(0, 0.4)

    def product_timing(self, a: int, b: int) -> OperatorTiming:
        delay = 2.2 if max(a, b) <= 27 and min(a, b) <= 18 else 3.4
        return OperatorTiming(0, delay) if delay <= self.period_ns else OperatorTiming(2, 2.0)

    def product(self, a: int, b: int, out: int) -> Resources:
        """A multiplier of integers of a and b bits, of whose product `out` bits are wanted."""
        count = product_dsps(a, b, out)
        if not count:
            return Resources(lut=a * b * self._logic["small_product_lut_per_bit"])
        return Resources(dsp=count, lut=self._logic["product_lut"] * (count if count > 1 else 1))

    def adder(self, bits: int) -> Resources:
        return Resources(lut=bits + (self._logic["adder_extra_lut"] if bits > 3 else 3))

    def logic(self, i: ir.Instruction, bits: int, constant: bool, *, pipelined: bool, distances: int = 64) -> Resources:
        """Logic that is not shared. pipelined: whether it has to take new operands in every cycle. distances: of a
        shift by a variable, in how many bits that varies."""
        if i.opcode in ("add", "sub"):
            return self.adder(bits)
        if i.opcode == "icmp":
            return Resources(lut=bits + self._logic["adder_extra_lut"])
        if i.opcode in ("and", "or", "xor"):
            return Resources(lut=0 if constant and i.opcode == "and" else max(2, bits))
        if i.opcode == "select":
            return Resources(lut=max(2, bits))
        if i.opcode in ("shl", "lshr", "ashr"):
            shifted = not ir.is_number(i.operands[1])
            # A bit of the distance is a choice of one of two; three such steps are what reports have.
            return Resources(lut=min(distances, self._logic["shift_lut_per_bit"]) * bits if shifted else 0)
        if i.opcode in ("sdiv", "udiv", "srem", "urem"):
            return self._divider(i, bits, pipelined)
        if i.callee and re.match(r"llvm\.s(max|min)", i.callee) and {"0", "-1"} & set(i.operands):
            return Resources(lut=bits)  # the sign chooses
        if i.callee and re.match(r"llvm\.[su](max|min)|llvm\.abs|llvm\.(max|min)num", i.callee):
            return Resources(lut=2 * bits + self._logic["adder_extra_lut"])
        if i.callee and re.match(r"llvm\.ct(pop|lz|tz)", i.callee):
            return Resources(lut=1.5 * bits)
        return Resources()

    def _divider(self, i: ir.Instruction, bits: int, pipelined: bool) -> Resources:
        divisor = i.operands[1]
        if ir.is_number(divisor):
            if _is_power(divisor):
                return Resources(lut=0 if i.opcode[0] == "u" else 2 * bits)
            if i.opcode.endswith("div"):  # a product with the reciprocal
                return self.product(bits, bits + 2, 2 * bits + 2) + self.adder(bits)
        if not pipelined:
            return Resources(
                lut=self._logic["step_divider_lut_per_bit"] * bits, ff=self._logic["step_divider_ff_per_bit"] * bits
            )
        square = bits * bits
        return Resources(
            lut=self._logic["divider_lut_per_bit2"] * square, ff=self._logic["divider_ff_per_bit2"] * square
        )

    def port(self, bits: int, *, reads: bool, writes: bool) -> Resources:
        """An m_axi adapter of so many bits."""
        blocks = math.ceil(bits / self._port["bits_per_ramb18"]) * (reads + writes)
        lut = self._port["lut"] + self._port["lut_per_bit"] * bits
        ff = self._port["ff"] + self._port["ff_per_bit"] * bits
        return self.placed(Resources(bram36=blocks / 2, lut=lut, ff=ff))

    def control(self, arguments: int) -> Resources:
        """The registers behind s_axilite."""
        lut = self._port["control_lut"] + self._port["control_lut_per_argument"] * arguments
        return self.placed(
            Resources(lut=lut, ff=self._port["control_ff"] + self._port["control_ff_per_argument"] * arguments)
        )

    def uncounted(self) -> tuple[float, float]:
        """Factors for LUTs and registers that none of the rules counts."""
        return self._logic["uncounted_lut"], self._logic["uncounted_ff"]

    def placed(self, reported: Resources) -> Resources:
        """What is placed of what Vitis HLS would report."""
        if self._as_reported:
            return reported
        return replace(reported, lut=reported.lut * self._placed["lut"], ff=reported.ff * self._placed["ff"])

    def states(self, count: int) -> Resources:
        """The machine that steps through the states of a kernel."""
        return Resources(lut=self._logic["state_lut"] * count, ff=count)


def multiplexer(inputs: int) -> Resources:
    """A multiplexer as Vitis HLS reports it: whatever its width."""
    known = {0: 0, 1: 0, 2: 9, 3: 14, 4: 20, 5: 26, 6: 31, 7: 37, 8: 43, 9: 49}
    return Resources(lut=known.get(inputs, 4.8 * inputs + 5))


def product_dsps(a: int, b: int, out: int) -> int:
    """DSP48E2s of a product: the multiplier takes 27 x 18 bits with signs (UG579); small ones are made of LUTs."""
    a, b = max(a, b), min(a, b)
    if (a + b <= 19 and a <= 10) or b <= 3:
        return 0
    if a <= 27 and b <= 18:
        return 1
    return sum(1 for x in range(0, a, 26) for y in range(0, b, 17) if x + y < out)


def _is_power(text: str) -> bool:
    number = abs(int(text))
    return number & (number - 1) == 0
