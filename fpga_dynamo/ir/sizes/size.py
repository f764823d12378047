"""Sizes that change from call to call, as lowering computes with them: polynomials over symbols, with a hint.

A :class:`Size` behaves like the int that it is at the call which lowering is done for, its *hint*, and remembers how it
follows from the symbols. What arithmetic cannot keep (a comparison that decides something, a use as a plain number)
goes through :class:`Symbols`, which decides by the hint and records the condition as a guard. Nothing that depends on a
symbol is so ever taken for a constant: a program is right wherever its guards hold.

Polynomials are kept in a normal form, so that two sizes are the same function of the symbols if (not only if) they are
equal as Python objects. Divisions that do not come out even are atoms, as symbols are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Union

from fpga_dynamo.ir.sizes.polynomial import Monomial, Terms, bound_below, ratio

Number = Union[int, "Size"]


@dataclass(frozen=True)
class Atom:
    """What polynomials are made of: a symbol, or ``floor``, ``ceil``, ``max``, ``min`` of two numbers."""

    kind: str
    name: str = ""
    arguments: tuple[Number, ...] = ()
    hint: int = 0
    least: int = 0

    def __hash__(self) -> int:
        return hash((self.kind, self.name, self.arguments))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Atom) or (self.kind, self.name) != (other.kind, other.name):
            return False
        return all(identical(a, b) for a, b in zip(self.arguments, other.arguments, strict=True))

    def __str__(self) -> str:
        return self.name if self.kind == "symbol" else f"{self.kind}({', '.join(map(str, self.arguments))})"


class Decisions(Protocol):
    """What sizes ask of their symbols; :class:`fpga_dynamo.ir.sizes.symbols.Symbols` is one."""

    def make(self, terms: dict[Monomial, int], hint: int) -> Number: ...

    def divided(self, a: Number, b: Number) -> Number: ...

    def extreme(self, kind: str, a: Number, b: Number) -> Number: ...

    def holds(self, size: Number, relation: str) -> bool: ...

    def pin(self, size: Size) -> int: ...

    def atom(self, number: int) -> Atom: ...


class SizeError(Exception):
    """Something that sizes cannot say; the graph is lowered for each set of sizes instead."""


class Size:
    """An int that depends on symbols; see the module's description."""

    __slots__ = ("hint", "symbols", "terms")

    def __init__(self, symbols: Decisions, terms: Terms, hint: int) -> None:
        self.symbols = symbols
        self.terms = terms
        self.hint = hint

    # --- arithmetic ---------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        if isinstance(other, int):
            other_terms: Terms = {(): int(other)}
            hint = self.hint + other
        elif isinstance(other, Size):
            other_terms, hint = other.terms, self.hint + other.hint
        else:
            return self._as_number(other, "__add__")
        terms = dict(self.terms)
        for monomial, factor in other_terms.items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return self.symbols.make(terms, hint)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return Size(self.symbols, {monomial: -factor for monomial, factor in self.terms.items()}, -self.hint)

    def __pos__(self) -> Any:
        return self

    def __sub__(self, other: Any) -> Any:
        return self + -other if isinstance(other, (int, Size)) else self._as_number(other, "__sub__")

    def __rsub__(self, other: Any) -> Any:
        return -self + other if isinstance(other, (int, Size)) else self._as_number(other, "__rsub__")

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int):
            return self.symbols.make({m: factor * int(other) for m, factor in self.terms.items()}, self.hint * other)
        if not isinstance(other, Size):
            return self._as_number(other, "__mul__")
        terms: dict[Monomial, int] = {}
        for mine, factor in self.terms.items():
            for theirs, other_factor in other.terms.items():
                monomial = tuple(sorted((*mine, *theirs)))
                terms[monomial] = terms.get(monomial, 0) + factor * other_factor
        return self.symbols.make(terms, self.hint * other.hint)

    __rmul__ = __mul__

    def __pow__(self, exponent: Any) -> Any:
        if not isinstance(exponent, int) or exponent < 0:
            return self._as_number(exponent, "__pow__")
        result: Any = 1
        for _ in range(exponent):
            result = result * self
        return result

    def __floordiv__(self, other: Any) -> Any:
        if not isinstance(other, (int, Size)):
            return self._as_number(other, "__floordiv__")
        return self.symbols.divided(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return self._as_number(other, "__rfloordiv__")
        return self.symbols.divided(other, self)

    def __mod__(self, other: Any) -> Any:
        if not isinstance(other, (int, Size)):
            return self._as_number(other, "__mod__")
        return self - self.symbols.divided(self, other) * other

    def __rmod__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return self._as_number(other, "__rmod__")
        return other - self.symbols.divided(other, self) * self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __truediv__(self, other: Any) -> Any:
        constant = ratio(self.terms, other.terms) if isinstance(other, Size) else None
        return constant if constant is not None else self._as_number(other, "__truediv__")

    def __rtruediv__(self, other: Any) -> Any:
        return self._as_number(other, "__rtruediv__")

    def __abs__(self) -> Any:
        return self if self.symbols.holds(self, ">=") else -self

    def _as_number(self, other: Any, operation: str) -> Any:
        """The operation on the plain number, which pins the size."""
        if isinstance(other, Size):
            other = int(other)
        if not isinstance(other, (int, float)):
            return NotImplemented
        own = float(int(self)) if isinstance(other, float) else int(self)
        return getattr(own, operation)(other)

    # --- decisions ----------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Size) and self.terms == other.terms:
            return True
        if not isinstance(other, (int, Size)):
            return isinstance(other, float) and int(self) == other
        return self.symbols.holds(self - other, "==")

    def __lt__(self, other: Any) -> bool:
        return self._compared(other, lambda: (other - self, ">"), "__lt__")

    def __le__(self, other: Any) -> bool:
        return self._compared(other, lambda: (other - self, ">="), "__le__")

    def __gt__(self, other: Any) -> bool:
        return self._compared(other, lambda: (self - other, ">"), "__gt__")

    def __ge__(self, other: Any) -> bool:
        return self._compared(other, lambda: (self - other, ">="), "__ge__")

    def _compared(self, other: Any, question: Any, operation: str) -> Any:
        if isinstance(other, (int, Size)):
            return self.symbols.holds(*question())
        return self._as_number(other, operation)

    def __bool__(self) -> bool:
        return self.symbols.holds(self, "!=")

    def __int__(self) -> int:
        return self.symbols.pin(self)

    __index__ = __int__

    def __float__(self) -> float:
        return float(self.symbols.pin(self))

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    # --- for people ---------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return " + ".join(self._words()).replace("+ -", "- ")

    def _words(self) -> Iterator[str]:
        for monomial, factor in sorted(self.terms.items(), reverse=True):
            names = [str(self.symbols.atom(number)) for number in monomial]
            if factor == 1 and names:
                yield "*".join(names)
            elif factor == -1 and names:
                yield "-" + "*".join(names)
            else:
                yield "*".join([str(factor), *names])


# --- for passes -------------------------------------------------------------------------------------------------------


def value(number: Any) -> Any:
    """The plain number that `number` is at the call that is lowered for. For costs and reports: records nothing."""
    return number.hint if isinstance(number, Size) else number


def values(numbers: Any) -> Any:
    """:func:`value` of all numbers in tuples, lists and dicts."""
    if isinstance(numbers, (tuple, list)):
        return type(numbers)([values(number) for number in numbers])
    if isinstance(numbers, dict):
        return {key: values(number) for key, number in numbers.items()}
    return value(numbers)


def identical(a: Any, b: Any) -> bool:
    """Whether two numbers are equal whatever the symbols are, as far as the normal form shows. Records nothing."""
    if isinstance(a, Size) and isinstance(b, Size):
        return a.terms == b.terms
    return not isinstance(a, Size) and not isinstance(b, Size) and bool(a == b)


def at_most(a: Any, b: Any) -> bool:
    """Whether a <= b whatever the symbols are; False where that is not known. Records nothing."""
    low = lower_bound(b - a)
    return low is not None and low >= 0


class Shape(tuple[int, ...]):
    """Sizes of a tensor. Shapes of other ranks are other shapes, whatever their first sizes are."""

    __slots__ = ()

    @classmethod
    def of(cls, sizes: Iterable[Number]) -> Shape:
        """A shape of ints, and of sizes, which behave like ints."""
        return tuple.__new__(cls, sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and len(self) == len(other) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


def larger(a: Number, b: Number) -> Any:
    """max(a, b) as a function of the symbols, where Python's max decides and so guards."""
    symbols = _symbols_of(a, b)
    return max(a, b) if symbols is None else symbols.extreme("max", a, b)


def smaller(a: Number, b: Number) -> Any:
    """min(a, b) as a function of the symbols, where Python's min decides and so guards."""
    symbols = _symbols_of(a, b)
    return min(a, b) if symbols is None else symbols.extreme("min", a, b)


def pinned(structure: Any) -> Any:
    """`structure` with every size as a plain int, guarded."""
    if isinstance(structure, (tuple, list)):
        return type(structure)([pinned(item) for item in structure])
    return int(structure) if isinstance(structure, Size) else structure


def sizes_in(structure: Any) -> Iterator[Size]:
    """The sizes in nested tuples, lists, dicts and slices."""
    if isinstance(structure, Size):
        yield structure
    elif isinstance(structure, (tuple, list)):
        for item in structure:
            yield from sizes_in(item)
    elif isinstance(structure, dict):
        yield from sizes_in(list(structure.values()))
    elif isinstance(structure, slice):
        yield from sizes_in((structure.start, structure.stop, structure.step))


def _symbols_of(*numbers: Number) -> Decisions | None:
    return next((number.symbols for number in numbers if isinstance(number, Size)), None)


def lower_bound(number: Number) -> int | None:
    """A bound that the number is never below, or None if none is known."""
    if isinstance(number, int):
        return number
    return bound_below(number.terms, lambda atom: number.symbols.atom(atom).least)
