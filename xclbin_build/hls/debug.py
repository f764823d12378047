"""Types of variables as debug information has them: members of structures with their names, places and dimensions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# Classes that are one word, whatever they are made of.
_WORD = re.compile(r"(?:ap_u?int|ap_u?fixed|ap_axi[su]|axis|vector|half|complex|stream|atomic)\b")
_ALIASES = ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type")
_POINTERS = ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")
_MOST_DEEP = 32


@dataclass(frozen=True)
class Type:
    """name: of a class or basic type. size: in bytes. extents: of an array, whose elements have `element_bytes`.
    members: of a structure, or of an array's element: name, place in bytes, type."""

    name: str
    size: int
    extents: tuple[int, ...] = ()
    element_bytes: int = 0
    members: tuple[tuple[str, int, Type], ...] = field(default=(), repr=False)

    @property
    def word(self) -> bool:
        """Whether it is no structure that is taken apart."""
        return not self.members or bool(_WORD.match(self.name))


class Types:
    """Types by their numbers in a module's metadata."""

    def __init__(self, metadata: dict[int, str]) -> None:
        self._metadata = metadata
        self._known: dict[int, Type] = {}

    def of_variable(self, number: int) -> Type | None:
        """The type of a variable that is no pointer and no reference."""
        kind = _number(self._metadata.get(number, ""), "type")
        return None if kind is None else self._type(kind, 0)

    def of_global(self, number: int | None) -> Type | None:
        """The type of a global: `number` is that of what the debug information says of it."""
        variable = _number(self._metadata.get(number, ""), "var") if number is not None else None
        return None if variable is None else self.of_variable(variable)

    def refers_to(self, number: int) -> Type | None:
        """What a reference leads to: `number` is that of the variable."""
        return self._behind(number, "reference_type")

    def points_to(self, number: int) -> Type | None:
        """What a pointer leads to: `number` is that of the variable."""
        return self._behind(number, "pointer_type")

    def _behind(self, number: int, what: str) -> Type | None:
        kind = _number(self._metadata.get(number, ""), "type")
        words = self._metadata.get(kind, "") if kind is not None else ""
        for _ in range(_MOST_DEEP):
            inner = _number(words, "baseType")
            if inner is None or not any(tag in words for tag in _ALIASES):
                break
            words = self._metadata.get(inner, "")
        to = _number(words, "baseType")
        return self._type(to, 0) if to is not None and what in words else None

    def _type(self, number: int, depth: int) -> Type | None:
        if number in self._known:
            return self._known[number]
        words = self._metadata.get(number, "")
        if depth > _MOST_DEEP or any(tag in words for tag in _POINTERS):
            return None
        base = _number(words, "baseType")
        if any(tag in words for tag in _ALIASES):
            return self._type(base, depth + 1) if base is not None else None
        size = (_plain(words, "size") or 0) // 8
        if "DW_TAG_array_type" in words:
            found = self._array(words, base, size, depth)
        elif "DICompositeType" in words and "DW_TAG_enumeration" not in words:
            found = Type(_name(words), size, members=tuple(self._members(words, depth)))
        else:
            found = Type(_name(words), size)
        if found is not None:
            self._known[number] = found
        return found

    def _array(self, words: str, base: int | None, size: int, depth: int) -> Type | None:
        inner = self._type(base, depth + 1) if base is not None else None
        if inner is None:
            return None
        own = [_plain(self._metadata.get(n, ""), "count") or 0 for n in self._list(words)]
        element = inner.element_bytes or inner.size
        return Type(inner.name, size, (*own, *inner.extents), element, inner.members)

    def _members(self, words: str, depth: int) -> Iterator[tuple[str, int, Type]]:
        for number in self._list(words):
            member = self._metadata.get(number, "")
            if "flags: DIFlagStaticMember" in member:
                continue
            base = _number(member, "baseType")
            inherited = "DW_TAG_inheritance" in member
            if base is None or not (inherited or "DW_TAG_member" in member):
                continue
            kind = self._type(base, depth + 1)
            if kind is None:
                continue
            at = (_plain(member, "offset") or 0) // 8
            if inherited:
                yield from ((name, at + place, inner) for name, place, inner in kind.members)
            else:
                yield _name(member), at, kind

    def _list(self, words: str) -> list[int]:
        number = _number(words, "elements")
        return [int(n) for n in re.findall(r"!(\d+)", self._metadata.get(number, ""))] if number is not None else []


def arrays_in(type: Type, name: str, at: int = 0) -> Iterator[tuple[int, str, Type]]:
    """Arrays that are members of a structure, at any depth: place in bytes, name and type."""
    for member, place, kind in type.members:
        if kind.extents:
            yield at + place, f"{name}.{member}", kind
        elif not kind.word:
            yield from arrays_in(kind, f"{name}.{member}", at + place)


def _number(words: str, key: str) -> int | None:
    found = re.search(rf"\b{key}: !(\d+)", words)
    return int(found[1]) if found else None


def _plain(words: str, key: str) -> int | None:
    found = re.search(rf"\b{key}: (?:i64 )?(\d+)", words)
    return int(found[1]) if found else None


def _name(words: str) -> str:
    found = re.search(r'\bname: "([^"]*)"', words)
    return found[1] if found else ""
