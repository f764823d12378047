"""Typed access to a table of a TOML file, where every mistake becomes a sentence that names file and key."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from .documents import DocumentError, read_toml
from .errors import RecipeError, did_you_mean
from .names import IDENTIFIER, Kind, check
from .schema import shown
from .trusted_path import printable

T = TypeVar("T")

_TYPE_NAMES = {
    str: "a string",
    int: "an integer",
    float: "a number",
    list: "a list",
    dict: "a table",
    bool: "a boolean",
}


def load(path: Path) -> Table:
    """The file's top-level table; RecipeError when it cannot be read or is no TOML."""
    try:
        return Table(read_toml(path), printable(path))
    except DocumentError as error:
        raise RecipeError(f"{printable(path)} cannot be read: {error}.") from error


class Table:
    """A TOML table and where it stands, for messages."""

    def __init__(self, values: dict[str, Any], where: str) -> None:
        self.values = values
        self.where = where

    def allow(self, keys: Iterable[str]) -> None:
        """Raises RecipeError for a key that is not among `keys`."""
        keys = list(keys)
        for key in self.values:
            if key not in keys:
                raise RecipeError(f"{self.where}: unknown key '{key}'; {did_you_mean(key, keys)}")

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        """Value of `key`, which must be of type `kind`; required unless there is a default."""
        if key not in self.values:
            if default is None:
                raise RecipeError(f"{self.where}: key '{key}' is missing; it must be {_TYPE_NAMES[kind]}.")
            return default
        return self._typed(key, self.values[key], kind)

    def count(self, key: str) -> int:
        """A whole number from 1 on."""
        value = self.get(key, int)
        if value < 1:
            raise RecipeError(f"{self.where}: '{key}' must be at least 1, not {value}.")
        return value

    def name(self, key: str, kind: Kind, default: str | None = None) -> str:
        """A string that becomes part of other texts; required unless there is a default, which is checked, too."""
        return check(self.get(key, str, default), kind, f"{self.where}: '{key}'")

    def strings(self, key: str, kind: Kind) -> list[str]:
        """A list of names; empty when `key` is absent."""
        values = [self._typed(key, value, str) for value in self.get(key, list, [])]
        return [check(value, kind, f"{self.where}: an entry of '{key}'") for value in values]

    def integers(self, key: str) -> dict[str, int]:
        """A table of integers; empty when `key` is absent."""
        return {name: self._typed(f"{key}.{name}", value, int) for name, value in self.get(key, dict, {}).items()}

    def names(self, key: str, kind: Kind, keys: Kind = IDENTIFIER) -> dict[str, str]:
        """A table of names; empty when `key` is absent. keys: what its keys are."""
        values = {name: self._typed(f"{key}.{name}", value, str) for name, value in self.get(key, dict, {}).items()}
        for name in values:
            check(name, keys, f"{self.where}: a key of '{key}'")
        return {name: check(value, kind, f"{self.where}: '{key}.{name}'") for name, value in values.items()}

    def tables(self, key: str, kind: Kind) -> dict[str, Table]:
        """The sub-tables of table `key`, by name."""
        values = self.get(key, dict, {})
        for name in values:
            check(name, kind, f"{self.where} [{key}]: the name of a table")
        return {
            name: Table(self._typed(f"{key}.{name}", value, dict), f"{self.where} [{key}.{name}]")
            for name, value in values.items()
        }

    def array(self, key: str) -> list[Table]:
        """The tables of an array of tables `[[key]]`."""
        return [
            Table(self._typed(key, value, dict), f"{self.where} [[{key}]] {index}")
            for index, value in enumerate(self.get(key, list, []))
        ]

    def _typed(self, key: str, value: Any, kind: type[T]) -> T:
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise RecipeError(f"{self.where}: '{key}' must be {_TYPE_NAMES[kind]}, not {shown(value)}.")
        return value
