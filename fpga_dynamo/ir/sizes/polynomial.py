"""Polynomials with whole coefficients over numbered atoms: bounds, values, divisions that come out even."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

Monomial = tuple[int, ...]
"""A product of atoms, as their sorted numbers; the empty one is 1."""

Terms = Mapping[Monomial, int]
"""A polynomial: the coefficients of its monomials, none of them 0."""


def evaluated(terms: Terms, atom: Callable[[int], int]) -> int:
    """The polynomial's value; `atom` gives those of the atoms."""
    return sum(factor * math.prod(map(atom, monomial)) for monomial, factor in terms.items())


def bound_below(terms: Terms, least: Callable[[int], int]) -> int | None:
    """A number that the polynomial is never below, or None if none is found; `least` bounds the atoms.

    Every atom is its least value plus something that is not negative; where no coefficient of the polynomial in those
    somethings is negative, its constant is a bound.
    """
    if all(factor >= 0 for factor in terms.values()):
        negative = any(least(atom) < 0 for monomial in terms for atom in monomial)
        return None if negative else evaluated(terms, least)
    shifted: dict[Monomial, int] = {}
    for monomial, factor in terms.items():
        for part, product in _shifted(monomial, least):
            shifted[part] = shifted.get(part, 0) + factor * product
    if any(factor < 0 for part, factor in shifted.items() if part):
        return None
    return shifted.get((), 0)


def _shifted(monomial: Monomial, least: Callable[[int], int]) -> Iterable[tuple[Monomial, int]]:
    """The product of (atom + least) over the atoms of `monomial`, multiplied out."""
    parts: list[tuple[Monomial, int]] = [((), 1)]
    for atom in monomial:
        low = least(atom)
        parts = [
            piece
            for part, product in parts
            for piece in (((*part, atom), product), *(((part, product * low),) if low else ()))
        ]
    return parts


def even_part(terms: Terms, divisor: Terms) -> tuple[dict[Monomial, int], dict[Monomial, int]]:
    """(q, r) with terms = q divisor + r: r has the terms that the divisor does not divide; all if it has several."""
    if len(divisor) != 1:
        return {}, dict(terms)
    ((by, factor),) = divisor.items()
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, own in terms.items():
        left = _without(monomial, by)
        if left is None or own % factor:
            rest[monomial] = own
        else:
            quotient[left] = own // factor
    return quotient, rest


def _without(monomial: Monomial, factors: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in factors:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def ratio(a: Terms, b: Terms) -> float | None:
    """a / b where that is one number whatever the atoms are."""
    if a.keys() != b.keys():
        return None
    ratios = {Fraction(factor, b[monomial]) for monomial, factor in a.items()}
    if len(ratios) > 1:
        return None
    (only,) = ratios
    return only.numerator / only.denominator
