"""One command of a Program: a record, with operands that get their addresses after memory planning.

Of the built-in cores' records each is a class (records.py), of others an :class:`OwnRecord`.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, SupportsFloat, SupportsIndex, TypeVar, get_args, get_origin, get_type_hints

from fpga_dynamo.ir.sizes.size import Size, values
from fpga_dynamo.ir.view import Buffer, View

R = TypeVar("R", bound="Record")


@dataclass(frozen=True)
class Operand:
    """An offset field: `offset` elements into `buffer`."""

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
    residual is read at the rows that are written. Pitches are distances between rows, in the operand's elements.
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

Place = Operand | Auxiliary | None
"""A place_t or uint32_t: somewhere in a region, ABSENT if it is None."""

Real = float | Bits
"""A float, or what is to be its bits."""

_KINDS: Mapping[Any, tuple[str, frozenset[type]]] = {
    int: ("an integer", frozenset({int, Size})),
    int | None: ("an integer or None", frozenset({int, Size, type(None)})),
    Real: ("a number or Bits", frozenset({float, int, Bits})),
    Place: ("an Operand, an Auxiliary or None", frozenset({Operand, Auxiliary, type(None)})),
}
"""Types of fields: what they are called, and what values are of."""


@dataclass(kw_only=True, eq=False, repr=False)
class Record:
    """What a command says: fields by the names of its struct, in ``vars``.

    Subclasses are dataclasses whose annotations are keys of _KINDS, of arrays ``Annotated[Sequence[KIND], LENGTH]``.
    """

    opcode: ClassVar[str]
    slices: int | None = None
    _single: ClassVar[tuple[tuple[str, frozenset[type]], ...]] = ()
    _arrays: ClassVar[tuple[tuple[str, frozenset[type], int], ...]] = ()
    _kinds: ClassVar[Mapping[str, tuple[Any, int | None]]] = {}

    def __init_subclass__(cls) -> None:
        known = get_type_hints(cls, include_extras=True)
        hints = {name: hint for name, hint in known.items() if get_origin(hint) is not ClassVar}
        arrays = {name: hint for name, hint in hints.items() if hasattr(hint, "__metadata__")}
        inner = {name: get_args(get_args(hint)[0])[0] for name, hint in arrays.items()}
        cls._kinds = {
            name: (inner[name], hint.__metadata__[0]) if name in arrays else (hint, None)
            for name, hint in hints.items()
        }
        cls._single = tuple((name, _KINDS[kind][1]) for name, (kind, count) in cls._kinds.items() if count is None)
        cls._arrays = tuple((name, _KINDS[kind][1], n) for name, (kind, n) in cls._kinds.items() if n is not None)

    def __post_init__(self) -> None:
        """Raises TypeError, with a sentence, for a value that its field does not take."""
        values = self.__dict__
        for name, types in self._single:
            if type(values[name]) not in types:
                values[name] = self._checked(name, values[name])
        for name, types, count in self._arrays:
            given = values[name]
            if type(given) is not tuple or len(given) != count or not types.issuperset(map(type, given)):
                values[name] = self._array(name, given)

    def _array(self, name: str, given: object) -> tuple[object, ...]:
        _, count = self._kinds[name]
        if not isinstance(given, (tuple, list)) or len(given) != count:
            raise TypeError(f"field '{name}' of '{self.opcode}_command' expects {count} values, not {given!r}")
        return tuple(self._checked(name, item) for item in given)

    def _checked(self, name: str, given: object) -> object:
        kind, _ = self._kinds[name]
        what, types = _KINDS[kind]
        if isinstance(given, tuple(types)):
            return given
        try:
            if int in types and isinstance(given, SupportsIndex):
                return operator.index(given)
            if float in types and isinstance(given, (SupportsFloat, SupportsIndex)):
                return float(given)
        except (TypeError, ValueError):
            pass
        raise TypeError(f"field '{name}' of '{self.opcode}_command' expects {what}, not {given!r}")

    def at_hints(self: R) -> R:
        """The same with sizes as their hints: for costs, records nothing."""
        sized = {name: values(given) for name, given in self.__dict__.items() if _has_size(given)}
        return self.replaced(**sized) if sized else self

    def replaced(self: R, **changes: FieldValue) -> R:
        """The same with other values of these fields."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__, **changes)
        new.__post_init__()
        return new


def _has_size(given: object) -> bool:
    return type(given) is Size or (type(given) is tuple and Size in map(type, given))


class OwnRecord(Record):
    """The record of a core that a recipe adds; emitter and encoder check its fields against the xclbin's manifest."""

    __slots__ = ("opcode",)

    def __init__(self, opcode: str, fields: Mapping[str, FieldValue]) -> None:
        self.opcode = opcode  # type: ignore[misc]
        self.__dict__.update(fields)

    def at_hints(self) -> OwnRecord:
        return OwnRecord(self.opcode, values(self.__dict__))

    def replaced(self, **changes: FieldValue) -> OwnRecord:
        return OwnRecord(self.opcode, {**self.__dict__, **changes})


@dataclass(eq=False)
class Command:
    """A record before encoding. A field that is None is ABSENT; fields left out are zero.

    image: of a convolution of one image, how it can be cut into bands of rows. group: of the head of a group of streams
    (streams.py), how many of the commands that follow belong to it.
    """

    record: Record
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
    opcode: str = field(init=False)
    fields: dict[str, FieldValue] = field(init=False)
    uses: tuple[Buffer, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.opcode, self.fields = self.record.opcode, vars(self.record)
        self.uses = tuple(dict.fromkeys((*self.reads, *self.writes)))
