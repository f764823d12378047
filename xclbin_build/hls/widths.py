"""Widths of integers: how many bits a value really needs.

Vitis HLS narrows operators to the bits that their operands can have, where C++ and LLVM compute in 32 or 64 bits. The
bits follow from ranges of scalar evolution, extensions, masks, shifts, constants, and values written to a memory that
is read. They also follow from the bits of a result that are used: an `ap_int<21>` is added as 32 bits, and 11 of
them are shifted out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import ir

_NAME = r'[%@](?:"[^"]*"|[\w.$\-]+)'
_VALUE = re.compile(rf"  ({_NAME}) = ")
_RANGE = re.compile(r" ([US]): (?:\[(-?\d+),(-?\d+)\)|full-set)")
_MOST_DEEP = 12


@dataclass(frozen=True)
class Width:
    """signed: whether one of the bits is a sign."""

    bits: int
    signed: bool = False


class Widths:
    """Widths of the values of one function. scev: what `opt -passes=print<scalar-evolution>` says of it. written: of
    loads from memories whose contents are known, what is stored there."""

    def __init__(
        self, function: ir.Function, scev: str, written: Mapping[str, Sequence[ir.Instruction]] | None = None
    ) -> None:
        self._definitions = function.definitions()
        self._ranges = _ranges(scev)
        self._written = written or {}
        self._used = _used(function)
        self._known: dict[str, Width] = {}
        self._open: set[str] = set()  # being worked out: a loop's counter depends on itself

    def of(self, value: str, type: str = "i32", depth: int = 0) -> Width:
        """Width of an operand of type `type`."""
        if ir.is_number(value):
            number = int(value)
            return Width((number if number >= 0 else ~number).bit_length() + (number < 0), number < 0)
        if value in self._known:
            return self._known[value]
        if value in self._open:
            return Width(ir.bits_of(type), True)
        self._open.add(value)
        found = self._of_value(value, ir.bits_of(type), depth)
        self._open.discard(value)
        used = self._used.get(value, found.bits)
        if 0 < used < found.bits:
            found = Width(used, found.signed)
        self._known[value] = found
        return found

    def possible(self, value: str, bits: int, depth: int = 0, around: frozenset[str] = frozenset()) -> int:
        """The bits of an operand that are not always 0, as a mask. around: phis that the question comes from: what a
        loop carries has the bits that enter it, if nothing on the way moves them."""
        whole = (1 << bits) - 1
        if ir.is_number(value):
            return int(value) & whole
        low, high = self._ranges.get(value, (-1, 0))
        if low >= 0:
            whole &= (1 << high.bit_length()) - 1
        if value in around:
            return 0
        made = self._definitions.get(value)
        if made is None or depth > _MOST_DEEP:
            return whole
        if made.opcode in ("zext", "trunc"):
            inner = ir.bits_of(made.source_type or "i64")
            return self.possible(made.operands[0], inner, depth + 1, around) & whole
        if made.opcode in ("shl", "lshr") and ir.is_number(made.operands[1]) and not around:
            found = self.possible(made.operands[0], bits, depth + 1)
            shift = int(made.operands[1])
            return (found << shift if made.opcode == "shl" else found >> shift) & whole
        if made.opcode in ("and", "or", "xor"):
            left, right = (self.possible(o, bits, depth + 1, around) for o in made.operands)
            return left & right if made.opcode == "and" else left | right
        if made.opcode in ("select", "freeze", "phi"):
            found = 0
            inside = around | {value} if made.opcode == "phi" else around
            for operand in made.operands[1 if made.opcode == "select" else 0 :]:
                if operand not in ("undef", "poison"):
                    found |= self.possible(operand, bits, depth + 1, inside)
            return found
        return whole

    def one_bit(self, i: ir.Instruction) -> bool:
        """Whether a comparison asks for a single bit, which is there already: a sign, or one bit of a mask."""
        kind = next((word for word in i.text.split("icmp ")[1].split() if word != "samesign"), "")
        if (kind, i.operands[1]) in (("slt", "0"), ("sgt", "-1")):
            return True
        return (
            kind in ("eq", "ne")
            and i.operands[1] == "0"
            and self.possible(i.operands[0], ir.bits_of(i.type) or 64).bit_count() <= 1
        )

    def _of_value(self, value: str, bits: int, depth: int) -> Width:
        best = Width(bits, True)
        if value in self._ranges:
            low, high = self._ranges[value]
            best = _narrower(best, _between(low, high))
        made = self._definitions.get(value)
        if made is None or depth > _MOST_DEEP:
            return best
        return _narrower(best, self._made(made, depth + 1))

    def _made(self, i: ir.Instruction, depth: int) -> Width:
        bits = ir.bits_of(i.type)
        whole = Width(bits, True)
        if i.opcode == "zext":
            inner = self.of(i.operands[0], i.source_type or "i32", depth)
            return Width(min(inner.bits, ir.bits_of(i.source_type or "i32")), False)
        if i.opcode == "sext":
            return self.of(i.operands[0], i.source_type or "i32", depth)
        if i.opcode == "trunc":
            return _narrower(whole, self.of(i.operands[0], i.source_type or "i64", depth))
        if i.opcode == "icmp":
            return Width(1)
        if i.opcode == "and":
            sides = [self.of(o, i.type, depth) for o in i.operands]
            positive = [s.bits for s in sides if not s.signed]
            return Width(min(positive)) if positive else _widest(sides, 0, bits)
        if i.opcode in ("or", "xor"):
            return _widest([self.of(o, i.type, depth) for o in i.operands], 0, bits)
        if i.opcode in ("lshr", "ashr") and re.fullmatch(r"\d+", i.operands[1]):
            inner = self.of(i.operands[0], i.type, depth)
            if inner.signed and i.opcode == "lshr":
                return Width(max(1, bits - int(i.operands[1])))
            return Width(max(1, inner.bits - int(i.operands[1])), inner.signed)
        if i.opcode == "shl" and re.fullmatch(r"\d+", i.operands[1]):
            inner = self.of(i.operands[0], i.type, depth)
            return Width(min(bits, inner.bits + int(i.operands[1])), inner.signed)
        if i.opcode in ("add", "sub"):
            sides = [self.of(o, i.type, depth) for o in i.operands]
            width = _widest(sides, 1, bits)
            return Width(width.bits, True) if i.opcode == "sub" else width
        if i.opcode == "mul":
            sides = [self.of(o, i.type, depth) for o in i.operands]
            return Width(min(bits, sum(s.bits for s in sides)), any(s.signed for s in sides))
        if i.opcode in ("urem", "srem", "udiv", "sdiv"):
            side = self.of(i.operands[1 if i.opcode.endswith("rem") else 0], i.type, depth)
            return Width(
                min(bits, side.bits + (i.opcode[0] == "s" and not side.signed)), side.signed or i.opcode[0] == "s"
            )
        if i.opcode == "select":
            return _widest([self.of(o, i.type, depth) for o in i.operands[1:]], 0, bits)
        if i.opcode == "load" and (stored := self._written.get(i.name or "")):
            sides = [self.of(s.operands[0], s.type, depth) for s in stored if s.type == i.type]
            return _widest(sides, 0, bits) if sides and len(sides) == len(stored) else whole
        if i.opcode == "phi":  # what a loop carries is as wide as its type, unless scalar evolution knows better
            said = [o for o in i.operands if o not in ("undef", "poison")]
            return _widest([self.of(o, i.type, depth) for o in said], 0, bits) if said else whole
        return whole


_LOW_BITS = frozenset(["add", "sub", "mul", "or", "xor", "select", "phi", "freeze"])


def _used(function: ir.Function) -> dict[str, int]:
    """Of integers how many of their low bits are made use of."""
    definitions = function.definitions()
    found: dict[str, int] = defaultdict(int)
    waiting: list[str] = []

    def use(value: str, bits: int) -> None:
        made = definitions.get(value)
        if made is not None and (bits := min(bits, ir.bits_of(made.type))) > found[value]:
            found[value] = bits
            waiting.append(value)

    for i in function.instructions():
        if i.name is None or not re.fullmatch(r"i\d+", i.type) or not _passes_on(i):
            for value in i.values:
                use(value, 1 << 16)
        elif i.opcode == "select":
            use(i.operands[0], 1)
        elif i.opcode in ("shl", "lshr", "ashr") and not ir.is_number(i.operands[1]):
            use(i.operands[1], 1 << 16)
    while waiting:
        i = definitions[waiting.pop()]
        if not _passes_on(i) or not re.fullmatch(r"i\d+", i.type):
            continue
        bits = found[i.name or ""]
        if i.opcode in ("shl", "lshr", "ashr"):
            if not ir.is_number(i.operands[1]):
                bits = bits if i.opcode == "shl" else 1 << 16
            else:
                bits += int(i.operands[1]) * (-1 if i.opcode == "shl" else 1)
            use(i.operands[0], bits)
            continue
        mask = [int(o) for o in i.operands if ir.is_number(o)] if i.opcode == "and" else []
        if mask and mask[0] >= 0:
            bits = min(bits, mask[0].bit_length())
        for value in i.operands[1:] if i.opcode == "select" else i.operands:
            use(value, bits)
    return found


def _passes_on(i: ir.Instruction) -> bool:
    """Whether low bits of a result depend on low bits of the operands alone (behind a shift: on as many more)."""
    return i.opcode in _LOW_BITS or i.opcode in ("and", "shl", "lshr", "ashr", "trunc", "zext", "sext")


def _ranges(scev: str) -> dict[str, tuple[int, int]]:
    """Least and largest value of each value that scalar evolution has a range of."""
    found: dict[str, tuple[int, int]] = {}
    current = None
    for line in scev.split("\n"):
        if match := _VALUE.match(line):
            current = match[1]
        elif current and line.startswith("  -->  "):
            spans = {m[1]: (int(m[2]), int(m[3]) - 1) for m in _RANGE.finditer(line) if m[2]}
            spans = {kind: span for kind, span in spans.items() if span[0] <= span[1]}
            if spans:
                found[current] = min(spans.values(), key=lambda span: _between(*span).bits)
            current = None
    return found


def _between(low: int, high: int) -> Width:
    if low >= 0:
        return Width(max(1, high.bit_length()))
    return Width(max((~low).bit_length(), high.bit_length()) + 1, True)


def _narrower(a: Width, b: Width) -> Width:
    return b if b.bits <= a.bits else a


def _widest(sides: list[Width], more: int, most: int) -> Width:
    signed = any(s.signed for s in sides)
    bits = max(s.bits + (signed and not s.signed) for s in sides) + more
    return Width(min(most, bits), signed)
