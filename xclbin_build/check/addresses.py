"""Addresses of a loop's accesses: which array an instruction goes to, and where in it, as a linear form."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from ..hls import ir, scev
from ..hls.arrays import Array, Kind
from ..hls.frontend import Kernel
from ..hls.instances import base_of

_MOST_CHOICES = 8  # between pointers, one behind the other
_MOST_ELEMENTS = 64  # of one access; a copy of more is a loop of its own
_POP, _PUSH = ("__hls_fifo_pop", "__hls_burst_pop"), ("__hls_fifo_push", "__hls_burst_push")


@dataclass(frozen=True)
class Access:
    """A load or a store, or a value taken from or given to a stream. index: of the instruction among the loop's. form:
    the address in bytes without the array's own; size: in bytes. key: of the stream."""

    index: int
    write: bool
    array: Array | None
    form: scev.Linear = field(hash=False)
    size: int
    block: str
    stream: str | None = None

    @cached_property
    def constant(self) -> int:
        return self.form.get("", 0)

    @cached_property
    def variable(self) -> tuple[tuple[str, int], ...]:
        return tuple(sorted((key, value) for key, value in self.form.items() if key))


class Addresses:
    """What instructions of a kernel access. unknown: how many go to an array of which it is not known which it is."""

    def __init__(self, kernel: Kernel, evolution: scev.Evolution) -> None:
        self._kernel, self._evolution = kernel, evolution
        self._definitions = kernel.function.definitions()
        self.unknown = 0

    def of(self, index: int, i: ir.Instruction) -> list[Access]:
        """The accesses of an instruction: two of a copy of a structure."""
        if i.opcode in ("call", "invoke") and i.callee in (*_POP, *_PUSH):
            form = self._form(i.operands[0]) if i.operands else {}
            name = "+".join(f"{value}*{key}" for key, value in sorted(form.items()))
            return [Access(index, i.callee in _PUSH, None, {}, 0, i.block, name)]
        if i.opcode in ("call", "invoke") and (i.callee or "").startswith(("llvm.memcpy", "llvm.memmove")):
            to, source, size = i.operands[:3]
            bytes = int(size) if size.isdigit() else 0
            return self._at(index, i, source, bytes, write=False) + self._at(index, i, to, bytes, write=True)
        if i.opcode == "call" and (i.callee or "").startswith("llvm.memset") and i.operands[2].isdigit():
            filled = self._at(index, i, i.operands[0], int(i.operands[2]), write=True)
            return [access for access in filled if access.array and access.array.kind is Kind.PORT]
        if i.opcode not in ("load", "store") or i.pointer is None:
            return []
        size_of = self._kernel.module.size_of(i.type)
        return self._at(index, i, i.pointer, size_of, write=i.opcode == "store")

    def _at(self, index: int, i: ir.Instruction, pointer: str, size: int, *, write: bool) -> list[Access]:
        """The accesses that an instruction may make through a pointer: one for each array that it may lead to."""
        bases = self._bases(pointer)
        arrays = [self._kernel.arrays[base] for base in sorted(bases or ()) if base in self._kernel.arrays]
        made = [self._definitions[base] for base in bases or () if base in self._definitions]
        if any(definition.callee in (*_POP, *_PUSH) for definition in made):
            return []  # the value of a stream's call
        if not arrays or len(arrays) < len(bases or ()):
            self.unknown += 1
            return []
        # Ports have no burst whose array is chosen, so it does not matter where in it an access goes.
        form = self._form(pointer)
        forms = self._forms(pointer) if any(array.kind is Kind.MEMORY for array in arrays) else {}
        found = [
            self._to(array, index, i, forms.get(array.value) or form, size, write=write)
            for array in arrays
            if array.kind is not Kind.STREAM
        ]
        return [part for access in found for part in _elements(access)]

    def _forms(self, pointer: str, deep: int = 0) -> dict[str, scev.Linear]:
        """By the array that it leads to, the form of a pointer that a condition chooses: each choice has its own. Left
        out are arrays that several choices lead to."""
        form = self._form(pointer)
        made = {key: self._definitions[key] for key, times in form.items() if times == 1 and key in self._definitions}
        chosen = next((key for key, i in made.items() if i.opcode == "select" and i.type == "ptr"), None)
        if chosen is None or deep > _MOST_CHOICES:
            return {key: form for key, times in form.items() if times == 1 and key in self._kernel.arrays}
        rest = {key: times for key, times in form.items() if key != chosen}
        found: dict[str, scev.Linear] = {}
        twice: set[str] = set()
        for choice in made[chosen].operands[1:]:
            for array, own in self._forms(choice, deep + 1).items():
                twice |= {array} & found.keys()
                found[array] = scev.difference(rest, {key: -times for key, times in own.items()})
        return {array: form for array, form in found.items() if array not in twice}

    def _to(self, array: Array, index: int, i: ir.Instruction, form: scev.Linear, size: int, *, write: bool) -> Access:
        form = dict(form)
        form.pop(array.value, None)
        for member in self._kernel.members.get(array.value, ()):
            if member.begin <= form.get("", 0) < member.end:
                array = member.array
                form[""] = form.get("", 0) - member.begin
                break
        return Access(index, write, array, form, size, i.block)

    def _bases(self, pointer: str, seen: frozenset[str | None] = frozenset()) -> set[str] | None:
        """What a pointer may lead to, through choices between pointers; None if that is not known."""
        base, _ = base_of(self._definitions, self._kernel.module, pointer)
        if base is not None:
            return {base}
        made = self._definitions.get(pointer)
        while made is not None and made.opcode in ("getelementptr", "bitcast", "freeze", "addrspacecast"):
            made = self._definitions.get(made.operands[0])
        if made is None or made.opcode not in ("phi", "select") or len(seen) > _MOST_CHOICES:
            return None
        if made.name in seen:
            return set()  # a pointer that a loop advances
        found: set[str] = set()
        for choice in made.operands[1:] if made.opcode == "select" else made.operands:
            if choice[:1] not in "%@":
                continue
            bases = self._bases(choice, seen | {made.name})
            if bases is None:
                return None
            found |= bases
        return found if found or seen else None

    def _form(self, pointer: str) -> scev.Linear:
        words = self._evolution.values.get(pointer)
        if words:
            return scev.linear(words)
        base, offset = base_of({}, self._kernel.module, pointer)
        return {base or pointer: 1, "": offset}


def _elements(access: Access) -> list[Access]:
    """The elements of a memory that an access of several touches, as a vector that is read from an array of numbers."""
    array = access.array
    if array is None or array.kind is not Kind.MEMORY or not array.element_bytes:
        return [access]
    count, rest = divmod(access.size, array.element_bytes)
    if rest or not 1 < count <= _MOST_ELEMENTS:
        return [access]
    return [
        replace(access, form={**access.form, "": access.constant + n * array.element_bytes}, size=array.element_bytes)
        for n in range(count)
    ]
