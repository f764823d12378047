"""One command of a Program: fields of a record, with operands that get their addresses after memory planning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fpga_dynamo.ir.view import Buffer, View


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


@dataclass(frozen=True)
class ImageRows:
    """How the rows of the image that a command writes follow from those of the one that it reads.

    Row i of `count` comes from `taps` rows, `dilation` apart from i stride - padding on, of which `inputs` exist. The
    residual is read at the rows that are written. Pitches are distances between rows, in floats.
    """

    count: int
    inputs: int
    taps: int
    stride: int
    padding: int
    dilation: int
    input_pitch: int
    output_pitch: int
    residual_pitch: int

    def needed(self, begin: int, end: int) -> tuple[int, int]:
        """First and last + 1 of the input's rows that rows [begin, end) are made from."""
        last = (end - 1) * self.stride + (self.taps - 1) * self.dilation - self.padding
        return max(0, begin * self.stride - self.padding), min(self.inputs, last + 1)


FieldValue = int | float | Bits | Operand | Auxiliary | None | Sequence["int | float | Operand | None"]


@dataclass(eq=False)
class Command:
    """A record before encoding. A field that is None is ABSENT; fields left out are zero.

    image: of a convolution of one image, how it can be cut into bands of rows. group: of the head of a group of streams
    (streams.py), how many of the commands that follow belong to it.
    """

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
    image: ImageRows | None = None
    group: int = 0
    uses: tuple[Buffer, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.uses = tuple(dict.fromkeys((*self.reads, *self.writes)))
