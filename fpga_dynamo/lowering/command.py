"""One command of a Program: fields of a record, with operands that get their addresses after memory planning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fpga_dynamo.lowering.view import Buffer, View


@dataclass(frozen=True)
class Operand:
    """An offset field: `offset` floats into `buffer`."""

    buffer: Buffer
    offset: int = 0

    @classmethod
    def of(cls, view: View) -> Operand:
        return cls(view.buffer, view.offset)


@dataclass(frozen=True)
class Auxiliary:
    """Words that follow the command list in the commands region (a micro-program, its constants)."""

    words: tuple[int, ...]


@dataclass(frozen=True)
class Bits:
    """A float field that holds the bits of an int32, as the arena's integer elements do."""

    integer: int


FieldValue = int | float | Bits | Operand | Auxiliary | None | Sequence["int | float | Operand | None"]


@dataclass(eq=False)
class Command:
    """A record before encoding. A field that is None is ABSENT; fields left out are zero."""

    opcode: str
    fields: dict[str, FieldValue]
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    nodes: tuple[str, ...] = ()
    pattern: str = ""
    macs: int = 0
    bytes: int = 0
    cycles: float = 0.0
    layout_change: bool = False
    uses: tuple[Buffer, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.uses = tuple(dict.fromkeys((*self.reads, *self.writes)))
