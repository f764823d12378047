"""Sizes as generated Python functions of the symbols: what each is at a call, and whether guards hold.

:class:`fpga_dynamo.ir.sizes.steps.Steps` writes the same for C++.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fpga_dynamo.ir.sizes.size import Number, Size
from fpga_dynamo.ir.sizes.symbols import Guard, Symbols


class SizeWriter(Protocol):
    """Writes down how sizes follow from the symbols.

    A size that is written has a name, by which later ones refer to it.
    """

    def name(self, number: Number) -> str: ...

    def add(self, a: str, b: str) -> str: ...

    def multiply(self, a: str, factor: int) -> str: ...

    def largest(self, names: Sequence[str]) -> str: ...


class FunctionSource:
    """Lines of a function; every atom and every polynomial is computed once."""

    def __init__(self, symbols: Symbols) -> None:
        self.lines: list[str] = []
        self._symbols = symbols
        self._atoms: dict[int, str] = {}
        self._known: dict[frozenset[Any], str] = {}

    def name(self, number: Number) -> str:
        """An expression without operators that has the value of `number`."""
        if isinstance(number, int):
            return f"({int(number)})"
        key = frozenset(number.terms.items())
        if key not in self._known:
            terms = ["*".join([str(factor), *map(self._atom, monomial)]) for monomial, factor in number.terms.items()]
            self._known[key] = self.assign(" + ".join(terms))
        return self._known[key]

    def _atom(self, number: int) -> str:
        if number not in self._atoms:
            atom = self._symbols.atom(number)
            if atom.kind == "symbol":
                self._atoms[number] = f"s{self._symbols.names.index(atom.name)}"
            else:
                a, b = map(self.name, atom.arguments)
                form = {"floor": "{0} // {1}", "ceil": "-(-{0} // {1})"}.get(atom.kind, atom.kind + "({0}, {1})")
                self._atoms[number] = self.assign(form.format(a, b))
        return self._atoms[number]

    def assign(self, expression: str) -> str:
        """The name of a new variable with the value of `expression`."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"    {name} = {expression}")
        return name

    def add(self, a: str, b: str) -> str:
        return self.assign(f"{a} + {b}")

    def multiply(self, a: str, factor: int) -> str:
        return self.assign(f"{a} * {factor}")

    def largest(self, names: Sequence[str]) -> str:
        return names[0] if len(names) == 1 else self.assign(f"max({', '.join(names)})")

    def returns(self, expression: str) -> None:
        self.lines.append(f"    return {expression}")

    def function(self) -> Callable[..., Any]:
        arguments = ", ".join(f"s{i}" for i in range(len(self._symbols.names)))
        source = "\n".join([f"def function({arguments}):", *self.lines])
        namespace: dict[str, Any] = {}
        exec(compile(source, "<sizes>", "exec"), {"max": max, "min": min}, namespace)
        return namespace["function"]


def evaluator(symbols: Symbols, sizes: Sequence[Size]) -> Callable[..., list[int]]:
    """A function of the symbols' values, in the order of ``symbols.names``, to those of `sizes`."""
    source = FunctionSource(symbols)
    results = ", ".join([source.name(size) for size in sizes])
    source.returns(f"[{results}]")
    return source.function()


def checker(symbols: Symbols, guards: Sequence[Guard]) -> Callable[..., int]:
    """A function of the symbols' values to the position of the first guard that does not hold, or -1."""
    source = FunctionSource(symbols)
    for i, guard in enumerate(guards):
        name = source.name(guard.size)
        source.lines.append(f"    if not {name} {guard.relation} 0: return {i}")
    source.returns("-1")
    return source.function()
