"""Sizes from and to sympy's expressions, in which PyTorch and people write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy

from fpga_dynamo.ir.sizes.size import Number, SizeError, larger, smaller
from fpga_dynamo.ir.sizes.symbols import Atom


def from_sympy(expression: Any, symbols: Mapping[str, Number]) -> Number:
    """The size that `expression`, one of torch's ShapeEnv, stands for; `symbols` by name.

    Raises :class:`SizeError` for a function or a symbol that is not known.
    """
    if isinstance(expression, (int, sympy.Integer)):
        return int(expression)
    if isinstance(expression, sympy.Symbol):
        if expression.name not in symbols:
            raise SizeError(f"no argument of the call gives the size {expression}")
        return symbols[expression.name]
    arguments = [from_sympy(argument, symbols) for argument in expression.args]
    rule = _RULES.get(type(expression).__name__)
    if rule is None:
        raise SizeError(f"{expression} is no expression that sizes can have")
    return rule(*arguments)


def _sum(*terms: Any) -> Any:
    return sum(terms)


def _product(*factors: Any) -> Any:
    result: Any = 1
    for factor in factors:
        result = result * factor
    return result


def _power(base: Any, exponent: Any) -> Any:
    if not isinstance(exponent, int) or exponent < 0:
        raise SizeError(f"a size to the power of {exponent} is not known")
    return base**exponent


def _fold(rule: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def folded(first: Any, *others: Any) -> Any:
        for other in others:
            first = rule(first, other)
        return first

    return folded


_RULES: dict[str, Callable[..., Any]] = {
    "Add": _sum,
    "Mul": _product,
    "Pow": _power,
    "PowByNatural": _power,
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "ModularIndexing": lambda a, b, c: (a // b) % c,
    "Max": _fold(larger),
    "Min": _fold(smaller),
    "Identity": lambda a: a,
}
"""By the name of the class, as some are sympy's and some torch's."""


def to_sympy(number: Number) -> Any:
    """A size as an expression of sympy, over positive integer symbols."""
    if isinstance(number, int):
        return sympy.Integer(number)
    return sympy.Add(
        *[
            sympy.Mul(factor, *[_atom_to_sympy(number.symbols.atom(atom)) for atom in monomial])
            for monomial, factor in number.terms.items()
        ]
    )


def _atom_to_sympy(atom: Atom) -> Any:
    if atom.kind == "symbol":
        return sympy.Symbol(atom.name, integer=True, positive=True)
    a, b = map(to_sympy, atom.arguments)
    if atom.kind in ("floor", "ceil"):
        return (sympy.floor if atom.kind == "floor" else sympy.ceiling)(a / b)
    return (sympy.Max if atom.kind == "max" else sympy.Min)(a, b)
