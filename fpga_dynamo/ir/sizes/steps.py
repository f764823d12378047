"""Sizes as a list of steps that the run-time library computes at each call (fpga_dynamo/native/rt/sizes.hpp).

A step is ``[operation, a, b]``: ``input`` is the size of dimension b of input a, and ``add``, ``mul``, ``floor``,
``ceil`` (quotients), ``max`` and ``min`` combine operands. Operands are whole numbers, or ``"$5"`` for the result of
step 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from fpga_dynamo.ir.sizes.size import Number
from fpga_dynamo.ir.sizes.symbols import Symbols

Operand = int | str
"""As in the document: a number from 0 on, ``"-5"``, or ``"$5"``."""


class Steps:
    """A :class:`fpga_dynamo.ir.sizes.code.SizeWriter`; every atom and every polynomial is one step or register.

    symbols: None of a program without symbolic sizes. inputs: of each symbol, by name, the position of the input and
    the dimension that it is.
    """

    def __init__(self, symbols: Symbols | None, inputs: Mapping[str, tuple[int, int]]) -> None:
        self.steps: list[list[Any]] = []
        self._symbols = symbols
        self._inputs = inputs
        self._known: dict[tuple[Any, ...], str] = {}
        self._atoms: dict[int, str] = {}

    def name(self, number: Number) -> str:
        if isinstance(number, int):
            return str(int(number))
        terms = []
        for monomial, factor in number.terms.items():
            atoms = [self._atom(atom) for atom in monomial]
            product = reduce(lambda a, b: self._step("mul", a, b), atoms) if atoms else "1"
            terms.append(self.multiply(product, factor))
        return reduce(self.add, terms)

    def _atom(self, number: int) -> str:
        if number not in self._atoms:
            assert self._symbols is not None, "a size has symbols"
            atom = self._symbols.atom(number)
            if atom.kind == "symbol":
                position, dimension = self._inputs[atom.name]
                self._atoms[number] = self._step("input", str(position), str(dimension))
            else:
                a, b = map(self.name, atom.arguments)
                self._atoms[number] = self._step(atom.kind, a, b)
        return self._atoms[number]

    def add(self, a: str, b: str) -> str:
        if _is_constant(a) and _is_constant(b):
            return str(int(a) + int(b))
        return b if a == "0" else a if b == "0" else self._step("add", a, b)

    def multiply(self, a: str, factor: int) -> str:
        if _is_constant(a):
            return str(int(a) * factor)
        return a if factor == 1 else self._step("mul", a, str(factor))

    def largest(self, names: Sequence[str]) -> str:
        return reduce(lambda a, b: a if a == b else self._step("max", a, b), names)

    def operand(self, name: str) -> Operand:
        """A name as it stands in the document."""
        return int(name) if _is_constant(name) and int(name) >= 0 else name

    def number(self, number: Number) -> Operand:
        """A size as it stands in the document."""
        return self.operand(self.name(number))

    def _step(self, operation: str, a: str, b: str) -> str:
        key = (operation, a, b)
        if key not in self._known:
            self.steps.append([operation, self.operand(a), self.operand(b)])
            self._known[key] = f"${len(self.steps) - 1}"
        return self._known[key]


def _is_constant(name: str) -> bool:
    return not name.startswith("$")
