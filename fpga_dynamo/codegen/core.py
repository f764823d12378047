"""What the compiler knows of a core: one :class:`Core` for each opcode, registered where the core's commands are made.

Cost, slices, bands and verification ask here and know no core by name. The built-in cores are described in the files of
the operator families that emit them (lowering/ops), `move` and `convert`, which the emitter itself uses, in layout.py;
users describe theirs with :func:`register_core`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.ir.command import FieldValue, ImageRows, Record
from fpga_dynamo.ir.sizes.size import Number
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, numel

Fields = Mapping[str, Any]
"""A command's fields by the names in its record. Some may be sizes that differ from call to call."""

F = TypeVar("F", default=Fields)
"""What a core's functions get: the record (ir/records.py) of a built-in core, the fields of a user's core."""


@dataclass(frozen=True)
class Bands(Generic[F]):
    """How a command that makes one image is cut into bands of its rows.

    input: the operand that holds the image it reads. Its result is called `output`, an addend of the same rows
    `residual`; all three are moved by whole rows.
    cut: (fields, image, begin, end) -> what else differs in a command for rows [begin, end) of the result.
    """

    input: str
    cut: Callable[[F, ImageRows, int, int], dict[str, FieldValue]]


@dataclass(frozen=True)
class Core(Generic[F]):
    """What there is to know of an opcode, as functions of a command's fields: a mapping by their names.

    Functions of a built-in core get the record instead, whose class (ir/records.py) is the parameter: `Core[Conv2d]`.

    opcode: its name; the record is `<opcode>_command`.
    cycles: (fields, target) -> cycles of a command on one compute unit, START left out. Sizes come as their hints.
    moved: (fields, target) -> words of 4 bytes that it reads from device memory and writes there.
    parts: (fields, target) -> how many independent parts its lanes may share, for patterns that do not give `slices`
        themselves; None if nothing but the pattern knows, or one lane does everything.
    bands: how it is cut into bands of rows, None if it never is.
    zero_copy: whether its record has a redirection (windows.hpp), so that it reads and writes the host's memory if the
        card shows it.
    propagates_nan: whether NaN or infinity may propagate to results that do not depend on the element.
    """

    opcode: str
    cycles: Callable[[F, Target], float]
    moved: Callable[[F, Target], int]
    parts: Callable[[F, Target], int] | None = None
    bands: Bands[F] | None = None
    zero_copy: bool = False
    propagates_nan: bool = False


class CoreTable:
    """Cores by opcode."""

    def __init__(self) -> None:
        self._cores: dict[str, Core[Any]] = {}
        self._users: set[str] = set()

    def add(self, core: Core[F], *, users: bool = False) -> Core[F]:
        """Raises :class:`FpgaError` if the opcode has a core."""
        if core.opcode in self._cores:
            raise FpgaError(f"a core of opcode '{core.opcode}' is already registered; unregister_core() it first")
        self._cores[core.opcode] = core
        if users:
            self._users.add(core.opcode)
        return core

    def remove(self, opcode: str) -> None:
        """Raises :class:`FpgaError` if the user has registered no core of that opcode."""
        if opcode not in self._users:
            yours = ", ".join(sorted(self._users)) or "none"
            raise FpgaError(f"no core is registered with opcode '{opcode}' (registered: {yours})")
        del self._cores[opcode]
        self._users.discard(opcode)

    def __contains__(self, opcode: str) -> bool:
        return opcode in self._cores

    def __getitem__(self, opcode: str) -> Core[Any]:
        """The core of an opcode; for one that nobody has described, a guess from its `dims`."""
        return self._cores.get(opcode) or Core(opcode, lambda c, _: _elements(c) / VEC, lambda c, _: 2 * _elements(c))

    def cycles(self, record: Record, target: Target) -> float:
        """:attr:`Core.cycles` of a command, at the hints of its sizes."""
        return float(self[record.opcode].cycles(self._given(record.at_hints()), target))

    def moved(self, record: Record, target: Target) -> Number:
        """:attr:`Core.moved` of a command, as a function of its sizes."""
        return self[record.opcode].moved(self._given(record), target)

    def parts(self, record: Record, target: Target) -> Number | None:
        """:attr:`Core.parts` of a command, as a function of its sizes; None for an opcode that nobody has described."""
        parts = self[record.opcode].parts
        return None if parts is None else parts(self._given(record), target)

    def cut(self, record: Record, image: ImageRows, begin: int, end: int) -> dict[str, FieldValue]:
        """:attr:`Bands.cut` of a command that can be cut."""
        bands = self[record.opcode].bands
        assert bands is not None, f"'{record.opcode}' is never cut"
        return bands.cut(self._given(record), image, begin, end)

    def _given(self, record: Record) -> Any:
        """What functions of the record's core get."""
        return record if self.built_in(record.opcode) else vars(record)

    def built_in(self, opcode: str) -> bool:
        return opcode in self._cores and opcode not in self._users

    def redirect(self, opcodes: Iterable[str]) -> bool:
        """Whether all are sure to read and write the host's memory where the card shows it."""
        return all(self[opcode].zero_copy for opcode in opcodes)


CORES = CoreTable()


def _elements(fields: Fields) -> int:
    dims = fields.get("dims")
    return numel(dims) if isinstance(dims, tuple) else 1


def register_core(core: Core) -> None:
    """Describes a core of yours: what its commands cost, and how they are shared among lanes.

    Graphs compiled before do not change. Raises :class:`FpgaError` if a part is of the wrong kind, or the opcode has a
    core already.
    """
    if not isinstance(core, Core):
        raise FpgaError(f"register_core() expects a Core, got {core!r}")
    if (complaint := _wrong_part(core)) is not None:
        raise FpgaError(f"core '{core.opcode}': {complaint}")
    CORES.add(core, users=True)


def _wrong_part(core: Core) -> str | None:
    if not isinstance(core.opcode, str) or not core.opcode:
        return "opcode must be a string"
    for part in ("cycles", "moved", "parts"):
        given = getattr(core, part)
        if not callable(given) and not (part == "parts" and given is None):
            return f"{part} must be a function of (fields, target), got {given!r}"
    if core.bands is not None and not isinstance(core.bands, Bands):
        return f"bands must be a Bands, got {core.bands!r}"
    return None


def unregister_core(opcode: str) -> None:
    """Removes a user's core from the table. Raises :class:`FpgaError` for an opcode that no core has."""
    CORES.remove(opcode)


@contextmanager
def registered_core(core: Core) -> Iterator[None]:
    """:func:`register_core` for as long as the block lasts."""
    register_core(core)
    try:
        yield
    finally:
        unregister_core(core.opcode)
