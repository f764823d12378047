"""Numbers of what an FPGA is made of, and the parts of a design that take them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields

NAMES = {"dsp": "DSP", "bram36": "BRAM36", "uram": "URAM", "lut": "LUT", "ff": "FF"}


@dataclass(frozen=True)
class Resources:
    """DSP slices, block RAMs of 36 Kbit (halves are those of 18 Kbit), UltraRAMs, look-up tables, flip-flops."""

    dsp: float = 0
    bram36: float = 0
    uram: float = 0
    lut: float = 0
    ff: float = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(*(mine + its for mine, its in zip(self.values(), other.values(), strict=True)))

    def __mul__(self, factor: float) -> Resources:
        return Resources(*(value * factor for value in self.values()))

    __rmul__ = __mul__

    def values(self) -> tuple[float, ...]:
        return tuple(getattr(self, entry.name) for entry in fields(self))

    def table(self) -> dict[str, float]:
        """By name; whole numbers but for BRAM36."""
        return {name: round(value, 1) if name == "bram36" else round(value) for name, value in self.items()}

    def items(self) -> Iterator[tuple[str, float]]:
        return zip(NAMES, self.values(), strict=True)

    def most(self, other: Resources) -> Resources:
        """Of each the larger: what two take that never work at the same time and share all they can."""
        return Resources(*(max(mine, its) for mine, its in zip(self.values(), other.values(), strict=True)))


def total(parts: Iterable[Resources]) -> Resources:
    return sum(parts, Resources())


@dataclass
class Component:
    """A kernel, core or process of a design, with what it takes and what that rests on.

    own: without the parts within it. basis: the way to the figures, a key of `uncertainty.BASES`. note: what the reader
    should know of this part alone.
    """

    kind: str
    name: str
    own: Resources
    basis: str
    note: str = ""
    parts: list[Component] = field(default_factory=list)

    @property
    def resources(self) -> Resources:
        return self.own + total(part.resources for part in self.parts)

    def leaves(self) -> Iterator[tuple[str, Resources]]:
        """Basis and own resources of this part and of all within it."""
        yield self.basis, self.own
        for part in self.parts:
            yield from part.leaves()
