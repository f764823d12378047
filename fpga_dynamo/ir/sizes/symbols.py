"""Where decisions by a size are made and remembered: the symbols of one lowering, their hints, and its guards."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from fpga_dynamo.ir.sizes.polynomial import Monomial, evaluated, even_part
from fpga_dynamo.ir.sizes.size import Atom, Number, Size, SizeError, identical, lower_bound, value


@dataclass(frozen=True)
class Guard:
    """``size relation 0``, with a relation out of ``==``, ``!=``, ``>``, ``>=``; it holds for the hints."""

    size: Size
    relation: str

    def __str__(self) -> str:
        return f"{self.size} {self.relation} 0"


class Symbols:
    """The symbols of one lowering, their hints, and the guards that it has recorded."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.guards: dict[tuple[frozenset[tuple[Monomial, int]], str], Guard] = {}
        self.open = True
        self._atoms: list[Atom] = []
        self._numbers: dict[Atom, int] = {}

    def symbol(self, name: str, hint: int, least: int) -> Size:
        """A new symbol that is never below `least`, which the caller sees to (and at least 1)."""
        if hint < least or least < 1:
            raise SizeError(f"{name} is {hint}, but a symbol is at least {max(least, 1)}")
        self.names.append(name)
        made = self._of_atom(Atom("symbol", name, (), hint, least))
        self._guard(made - least, ">=")
        return made

    def hints(self) -> dict[str, int]:
        """The symbols' values at the call that lowering is done for."""
        return {atom.name: atom.hint for atom in self._atoms if atom.kind == "symbol"}

    def atom(self, number: int) -> Atom:
        return self._atoms[number]

    def _of_atom(self, atom: Atom) -> Size:
        number = self._numbers.get(atom)
        if number is None:
            number = self._numbers[atom] = len(self._atoms)
            self._atoms.append(atom)
        return Size(self, {(number,): 1}, self._atoms[number].hint)

    # --- numbers ------------------------------------------------------------------------------------------------------

    def make(self, terms: dict[Monomial, int], hint: int) -> Number:
        """The polynomial, as an int where it is one."""
        terms = {monomial: factor for monomial, factor in terms.items() if factor}
        if not terms:
            return 0
        if len(terms) == 1 and () in terms:
            return terms[()]
        return Size(self, terms, hint)

    def divided(self, a: Number, b: Number) -> Number:
        """a // b. Raises ZeroDivisionError for a b that is 0."""
        if not self.holds(b, "!="):
            raise ZeroDivisionError("division by zero")
        if identical(a, b):
            return 1
        if isinstance(b, int) and b < 0:
            a, b = -a, -b
        even, rest = self._even_part(a, b)
        if isinstance(rest, int) and isinstance(b, int):
            return even + rest // b
        if isinstance(rest, int) and rest == 0:
            return even
        if isinstance(rest, Size) and all(factor < 0 for factor in rest.terms.values()):
            return even - self._quotient("ceil", -rest, b)
        return even + self._quotient("floor", rest, b)

    def _even_part(self, a: Number, b: Number) -> tuple[Number, Number]:
        """(q, r) with a = q b + r, where r has what b does not divide."""
        if isinstance(a, int):
            return (a // b, a % b) if isinstance(b, int) else (0, a)
        parts = even_part(a.terms, {(): b} if isinstance(b, int) else b.terms)
        q, r = (self.make(part, evaluated(part, lambda atom: self.atom(atom).hint)) for part in parts)
        return q, r

    def _quotient(self, kind: str, a: Number, b: Number) -> Number:
        up = kind == "ceil"
        hint = -(-value(a) // value(b)) if up else value(a) // value(b)
        least = -(1 << 62)
        low, divisor = lower_bound(a), lower_bound(b)
        if low is not None and low >= 0 and divisor is not None and divisor > 0:
            least = (-(-low // b) if up else low // b) if isinstance(b, int) else int(up and low > 0)
        return self._of_atom(Atom(kind, "", (a, b), hint, least))

    def extreme(self, kind: str, a: Number, b: Number) -> Number:
        """The larger (kind ``max``) or the smaller (``min``) of two numbers, without a guard."""
        difference = a - b
        if isinstance(difference, int):
            return a if (difference >= 0) == (kind == "max") else b
        low = lower_bound(difference)
        if low is not None and low >= 0:
            return a if kind == "max" else b
        low = lower_bound(-difference)
        if low is not None and low >= 0:
            return b if kind == "max" else a
        chosen = max if kind == "max" else min
        bounds = [bound for bound in (lower_bound(a), lower_bound(b)) if bound is not None]
        both = chosen(bounds) if len(bounds) == 2 else -(1 << 62)
        least = max(bounds) if kind == "max" and bounds else both
        return self._of_atom(Atom(kind, "", (a, b), chosen(value(a), value(b)), least))

    # --- decisions ----------------------------------------------------------------------------------------------------

    def holds(self, size: Number, relation: str) -> bool:
        """Whether ``size relation 0``: known for all sizes, or decided by the hint and guarded."""
        known = self.settled(size, relation)
        if known is not None:
            return known
        assert isinstance(size, Size)
        truth = _RELATIONS[relation](size.hint)
        if truth:
            self._guard(size, relation)
        else:
            negated, sign = _NEGATIONS[relation]
            self._guard(size if sign > 0 else -size, negated)
        return truth

    def settled(self, size: Number, relation: str) -> bool | None:
        """Whether ``size relation 0`` where that is so for all sizes, or for none."""
        if isinstance(size, int):
            return _RELATIONS[relation](size)
        low, high = lower_bound(size), lower_bound(-size)
        if low is not None and low > 0:
            return relation != "=="
        if high is not None and high > 0:
            return relation == "!="
        if relation == ">=" and low is not None and low >= 0:
            return True
        if relation == ">" and high is not None and high >= 0:
            return False
        return None

    def pin(self, size: Size) -> int:
        """The hint, with a guard that the size is this and no other."""
        self.holds(size - size.hint, "==")
        return size.hint

    def _guard(self, size: Number, relation: str) -> None:
        if not isinstance(size, Size):
            return
        if not self.open:
            raise SizeError(f"lowering is over, and {size} {relation} 0 would decide something")
        content = math.gcd(*size.terms.values()) if () not in size.terms or relation in ("==", "!=") else 1
        terms = {monomial: factor // content for monomial, factor in size.terms.items()}
        if relation in ("==", "!=") and terms[max(terms)] < 0:
            terms = {monomial: -factor for monomial, factor in terms.items()}
        reduced = Size(self, terms, 0)
        self.guards.setdefault((frozenset(terms.items()), relation), Guard(reduced, relation))


_RELATIONS: Final = {
    "==": lambda n: n == 0,
    "!=": lambda n: n != 0,
    ">": lambda n: n > 0,
    ">=": lambda n: n >= 0,
}
_NEGATIONS: Final = {"==": ("!=", 1), "!=": ("==", 1), ">": (">=", -1), ">=": (">", -1)}
