"""What becomes of the inlined IR: which loops, which arrays, and what pragmas say of parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

from .arrays import Array, Member
from .instance import Instance
from .pragma import Pragma


@dataclass
class Plan:
    """What becomes of the inlined IR.

    latches: metadata's number for the loop that each latch closes.
    kept: arrays that stay memories. members: of structures, the arrays in them.
    pragmas: about parameters.
    functions: the intervals that pragmas ask for of pipelined functions, by their names.
    """

    instances: dict[int, Instance]
    arrays: dict[str, Array]
    latches: dict[str, int]
    metadata: list[str]
    kept: set[str]
    notes: list[str]
    members: dict[str, list[Member]] = field(default_factory=dict)
    pragmas: list[tuple[str, Probe]] = field(default_factory=list)
    functions: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Probe:
    """A pragma with what clang found of it. pointer, offset: of its variable, in bytes. values: of its options. shape,
    element_bytes: of what the variable is."""

    pragma: Pragma
    pointer: str | None
    offset: int
    values: dict[str, int]
    shape: tuple[int, ...]
    element_bytes: int
    block: str


@dataclass(frozen=True)
class Passed:
    """The variable that a parameter of a process refers to.

    name: of the variable in the region.
    type: of an array, in the IR, "" where it is not known.
    port: whether it is a parameter of the kernel.
    constant: whether nothing writes it.
    shared: whether other processes of the region use it, too.
    """

    name: str
    type: str
    port: bool
    constant: bool = False
    shared: bool = False
