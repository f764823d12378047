"""The suites by name. A suite makes rows one after another; what it has made stays when a later one fails."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from benchmarks.peers import installed_peers
from benchmarks.results import Row
from benchmarks.rounds import describe

NAMES = (
    "kernels", "int8", "models", "quantised", "bfloat16", "training", "lanes", "overhead", "tails", "compile", "memory",
    "roofline",
)  # fmt: skip
"""Each a module of this package with `rows(settings, details)`, `draw(result, path)`, and a default for `SECONDS`."""


class UnknownNameError(Exception):
    """A row that `--only` names is not there."""


@dataclass(frozen=True)
class Settings:
    """threads: of PyTorch and the peers, and lanes of the card. seconds: for the rounds of one row.

    only: rows to measure, all if empty; in `kernels` and `compile` a part of the name is enough. quick: the smallest
    piece of the suite, to see that it works.
    """

    threads: int
    seconds: float
    only: tuple[str, ...] = ()
    peers: tuple[str, ...] = field(default_factory=lambda: tuple(installed_peers()))
    quick: bool = False

    @property
    def least_rounds(self) -> int:
        return 1 if self.quick else 5

    def chosen(self, names: Sequence[str]) -> list[str]:
        """Of these rows, those whose names or parts of names are in `only`. Raises UnknownNameError for no row."""
        for part in self.only:
            if not any(part in name for name in names):
                raise UnknownNameError(f"nothing is called '{part}' here; there are: {', '.join(names)}")
        exact = set(self.only) & set(names)
        return [name for name in names if not self.only or name in exact or self._part_of(name, exact)]

    def _part_of(self, name: str, exact: set[str]) -> bool:
        return any(part in name for part in self.only if part not in exact)


def load(name: str) -> ModuleType:
    return importlib.import_module(f"benchmarks.suites.{name}")


def guarded(name: str, fill: Callable[[Row], None]) -> Iterator[Row]:
    """One row; what goes wrong while it is filled is noted in it."""
    row = Row(name)
    try:
        fill(row)
    except Exception as error:
        row.failures["row"] = describe(error)
    yield row
