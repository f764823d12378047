"""Checks values that a file holds against annotations of dataclasses: each mistake is a sentence with field and value.

An annotation is int, float, bool, str, list[T], dict[str, T], T | None, Literal, a dataclass, or Annotated[T, rule].
A field of a dataclass with a default may be missing; null is accepted only where the rule Nullable says so. A whole
number serves as a float; NaN and infinity do not.
"""

from __future__ import annotations

import functools
import math
import reprlib
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any

MOST = 1e18
"""Of any figure: sums and products of a few stay finite."""
_WORDS = {int: "a whole number", float: "a finite number", bool: "true or false", str: "text", list: "a list",
          dict: "a table"}  # fmt: skip
_short = reprlib.Repr()
_short.maxlevel, _short.maxstring, _short.maxother, _short.maxlong = 2, 60, 60, 40


class SchemaError(ValueError):
    """A value that its field does not accept; the message names the field, what it accepts, and the value."""


@dataclass(frozen=True)
class Range:
    """The numbers from `least` to `most`."""

    least: float = -math.inf
    most: float = math.inf

    def refusal(self, value: Any) -> str:
        if self.least <= value <= self.most:
            return ""
        if self.most == math.inf:
            return f"{self.least:,} or more"
        return f"from {self.least:,} to {self.most:,}"


@dataclass(frozen=True)
class Line:
    """A line of printable characters, of `least` to `most` characters."""

    least: int = 0
    most: int = 1000

    def refusal(self, value: str) -> str:
        if self.least <= len(value) <= self.most and value.isprintable():
            return ""
        return f"a line of {self.least} to {self.most} printable characters"


@dataclass(frozen=True)
class Length:
    """A list or table with at least `least` entries."""

    least: int

    def refusal(self, value: Any) -> str:
        return "" if len(value) >= self.least else f"{self.least} or more entries"


@dataclass(frozen=True)
class Nullable:
    """A field of the annotation T | None that may be null; others may only be missing."""


@dataclass(frozen=True)
class Closed:
    """A dataclass that accepts no key but its fields."""


Text = Annotated[str, Line()]
Name = Annotated[str, Line(least=1, most=255)]
Positive = Annotated[float, Range(math.nextafter(0, 1), MOST)]
NotNegative = Annotated[float, Range(0, MOST)]


def shown(value: object) -> str:
    """A value in a message: in ASCII, without control characters, and short however long or deep it is."""
    return ascii(_short.repr(value)).strip("'\"") if not isinstance(value, str) else _short.repr(ascii(value)[1:-1])


def check(value: Any, kind: Any, where: str) -> None:
    """Raises SchemaError if `value` is not of the annotation `kind`. where: the field's path, for the message."""
    rules: tuple[Any, ...] = ()
    if typing.get_origin(kind) is Annotated:
        kind, *found = typing.get_args(kind)
        rules = tuple(found)
    origin = typing.get_origin(kind)
    if kind is Any:
        return
    if origin in (typing.Union, types.UnionType):
        if value is None and any(isinstance(rule, Nullable) for rule in rules):
            return
        (kind,) = (each for each in typing.get_args(kind) if each is not type(None))
        check(value, kind, where)
        return
    if origin is typing.Literal:
        choices = typing.get_args(kind)
        if not isinstance(value, str) or value not in choices:
            raise _refused(where, f"one of {', '.join(choices)}", value)
    elif is_dataclass(kind):
        _check_table(value, kind, where, closed=any(isinstance(rule, Closed) for rule in rules))
    elif origin is list:
        _check_type(value, list, where)
        for index, item in enumerate(value):
            check(item, typing.get_args(kind)[0], f"{where}[{index}]")
    elif origin is dict:
        _check_type(value, dict, where)
        for key, item in value.items():
            check(key, Name, f"a key of {where}")
            check(item, typing.get_args(kind)[1], f"{where}.{key}" if where else key)
    else:
        _check_type(value, kind, where)
    for rule in rules:
        if isinstance(rule, Range | Line | Length) and (accepted := rule.refusal(value)):
            raise _refused(where, accepted, value)


def _check_table(value: Any, kind: Any, where: str, closed: bool) -> None:
    _check_type(value, dict, where)
    prefix = f"{where}." if where else ""
    annotations = _annotations(kind)
    for field in fields(kind):
        if field.name in value:
            check(value[field.name], annotations[field.name], prefix + field.name)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise SchemaError(f"'{prefix}{field.name}' is missing")
    if closed and (unknown := next((key for key in value if key not in annotations), None)):
        raise SchemaError(f"'{where}' has an unknown key {shown(unknown)}")


@functools.cache
def _annotations(kind: type) -> Mapping[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _check_type(value: Any, kind: type, where: str) -> None:
    finite = type(value) is int or (type(value) is float and math.isfinite(value))
    if not (finite if kind is float else type(value) is kind):
        raise _refused(where, _WORDS[kind], value)


def _refused(where: str, accepted: str, value: Any) -> SchemaError:
    return SchemaError(f"'{where}' must be {accepted}, not {shown(value)}")
