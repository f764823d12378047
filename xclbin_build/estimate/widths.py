"""Widths of integers: how many bits a value really needs.

Vitis HLS narrows operators to the bits that their operands can have, where C++ and LLVM count with 32 or 64. What is
known
here: ranges that scalar evolution prints, extensions, masks, shifts and constants.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..check import ir

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
    """Widths of the values of one function. scev: what `opt -passes=print<scalar-evolution>` says of it."""

    def __init__(self, function: ir.Function, scev: str) -> None:
        self._definitions = function.definitions()
        self._ranges = _ranges(scev)
        self._known: dict[str, Width] = {}
        self._open: set[str] = set()  # being worked out: a loop's counter depends on itself

    def of(self, value: str, type: str = "i32", depth: int = 0) -> Width:
        """Width of an operand of type `type`."""
        if re.fullmatch(r"-?\d+", value):
            number = int(value)
            return Width((number if number >= 0 else ~number).bit_length() + (number < 0), number < 0)
        if value in self._known:
            return self._known[value]
        if value in self._open:
            return Width(ir.bits_of(type), True)
        self._open.add(value)
        found = self._of_value(value, ir.bits_of(type), depth)
        self._open.discard(value)
        self._known[value] = found
        return found

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
        if i.opcode == "phi":  # what a loop carries is as wide as its type, unless scalar evolution knows better
            said = [o for o in i.operands if o not in ("undef", "poison")]
            return _widest([self.of(o, i.type, depth) for o in said], 0, bits) if said else whole
        return whole


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
