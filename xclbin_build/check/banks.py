"""Banks of divided arrays: which one an address goes to, and which two may be the same one."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..hls.arrays import Array, Partition

Moved = tuple[tuple[str, int], ...]  # terms of an address: what counts, and bytes a step


@dataclass(frozen=True)
class Lane:
    """A bank that is known beside others only: `number` banks, modulo `count`, behind one that `start` leads to. start:
    the part of an address that does not change in the loop."""

    start: Moved
    number: int
    count: int

    def __str__(self) -> str:
        return f"any+{self.number}" if self.number else "any"


Place = int | Lane | None  # a bank in one dimension; None: known at run time only


def may_meet(a: tuple[Place, ...], b: tuple[Place, ...]) -> bool:
    """Whether two banks may be the same one."""
    return all(_may_be(x, y) for x, y in zip(a, b, strict=True))


def _may_be(a: Place, b: Place) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if isinstance(a, Lane) and isinstance(b, Lane) and a.start == b.start:
        return a.number == b.number
    return True


def moving(array: Array, variable: Iterable[tuple[str, int]]) -> list[tuple[Moved, int, int]]:
    """For each partitioned dimension, in the order of `Array.bank`: terms, stride and number of banks.

    The terms are those of an address that select the bank; no terms mean that the bank is a constant. The stride is the
    number of bytes from one bank to the next."""
    terms = list(variable)
    strides: list[int] = []
    stride = array.element_bytes
    for extent in reversed(array.extents):
        strides.insert(0, stride)
        stride *= max(1, extent)
    found = []
    for extent, partition in array.by_dimension():
        index = strides[partition.dimension - 1]
        size = index * _together(extent, partition)
        banks = max(1, extent) if partition.kind == "complete" else max(1, partition.factor)
        turn = size * banks
        # What moves within an element of this dimension does not change its index; a step that is only known at run
        # time ("?#") may.
        moved = [(key, step) for key, step in terms if step % turn and (abs(step) >= index or key.startswith("?#"))]
        found.append((() if partition.reshape else tuple(moved), size, banks))
    return found


def _together(extent: int, partition: Partition) -> int:
    """Elements side by side that lie in one bank."""
    return max(1, -(-extent // max(1, partition.factor))) if partition.kind == "block" else 1


def lanes(array: Array, offset: int) -> list[int]:
    """Of each partitioned dimension, how many banks a place lies from where its index begins: an index stays within its
    extent, so what lies more than half of that ahead lies behind."""
    found = []
    for extent, partition in array.by_dimension():
        size = max(1, array.element_bytes) * math.prod(max(1, e) for e in array.extents[partition.dimension :])
        index = offset // size
        if extent > 0 and partition.dimension > 1:
            index %= extent
            index -= extent if index > extent // 2 else 0
        found.append(index // _together(extent, partition))
    return found


def indices(array: Array, offset: int) -> tuple[int, ...]:
    """How far two places so many bytes apart lie from each other in each dimension; what is more than half of an extent
    ahead lies behind. A place within an element counts as the element's own."""
    return _indices(tuple(array.extents), array.element_bytes, offset)


@functools.lru_cache(1 << 16)
def _indices(extents: tuple[int, ...], element_bytes: int, offset: int) -> tuple[int, ...]:
    found: list[int] = []
    rest = offset
    for dimension in range(1, len(extents) + 1):
        size = max(1, element_bytes) * math.prod(max(1, e) for e in extents[dimension:])
        index, rest = divmod(rest, size)
        if dimension < len(extents) and rest > size // 2:
            index, rest = index + 1, rest - size
        found.append(index)
    return tuple(found)
