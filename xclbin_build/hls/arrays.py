"""Arrays, ports and streams of a kernel: what is read and written, and how many accesses a cycle they support."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from enum import Enum

# Arrays of so few elements become registers on their own: UG1399, config_array_partition -complete_threshold.
COMPLETE_THRESHOLD = 4
# Reads a cycle of an array that Vitis HLS replicates: HeteroCL_Transformer (2022.1) reads 64 elements in 4 cycles, and
# says that the 17th finds no port.
COPIES = 16


class Kind(Enum):
    MEMORY = "memory"  # block RAM, LUT RAM or UltraRAM
    REGISTERS = "registers"  # partitioned completely: every element has its own
    PORT = "m_axi"  # memory outside of the kernel
    STREAM = "stream"
    SCALAR = "scalar"  # a register of s_axilite, or a wire


@dataclass(frozen=True)
class Partition:
    """kind: complete, cyclic or block. dimension: from 1, 0 for all. reshape: banks are one wide word."""

    kind: str
    dimension: int
    factor: int
    reshape: bool = False


@dataclass
class Array:
    """What addresses lead to.

    value: in the IR (`%x`, `@table`).
    name: in the source.
    extents: elements of each dimension, -1 where not known.
    element_bytes: of one element.
    bundle, channel, beat_bytes: of an m_axi port; beat_bytes is the width that it may be widened to.
    latency: expected cycles of the memory behind the port.
    sized: whether it is declared as an array with a size.
    ports: accesses a cycle and bank: reads and writes together, then reads alone and writes alone.
    replicated: whether Vitis HLS keeps copies for parallel reads (RAM_1WNR).
    """

    value: str
    name: str
    kind: Kind
    extents: list[int] = field(default_factory=list)
    element_bytes: int = 4
    partitions: list[Partition] = field(default_factory=list)
    bundle: str | None = None
    channel: str = ""
    beat_bytes: int = 0
    latency: int = 0
    sized: bool = False
    storage: str | None = None
    constant: bool = False
    replicated: bool = False

    @property
    def elements(self) -> int:
        return math.prod(max(1, extent) for extent in self.extents)

    @property
    def banks(self) -> int:
        """Memories that the partitions make of it."""
        count = 1
        for extent, partition in self.by_dimension():
            if partition.reshape:
                continue
            if partition.kind == "complete":
                count *= max(1, extent)
            else:
                count *= max(1, partition.factor)
        return count

    @property
    def ports(self) -> tuple[int, int, int]:
        """Accesses a cycle that a bank takes: in all, reads, writes. UG1399, bind_storage."""
        kind = (self.storage or ("rom_np" if self.constant else "")).lower()
        if "1wnr" in kind or "rom_np" in kind:
            return (10**6, 10**6, 1)
        if "1p" in kind:
            return (1, 1, 1)
        if "s2p" in kind:
            return (2, 1, 1)
        if "2p" in kind and "rom" not in kind and "t2p" not in kind:
            return (2, 2, 1)
        return (2, 2, 2)

    def complete(self) -> bool:
        """Whether every element is a register."""
        if self.kind is Kind.REGISTERS:
            return True
        if self.kind is Kind.MEMORY and -1 not in self.extents and self.elements <= COMPLETE_THRESHOLD:
            return True
        done = {p.dimension for p in self.partitions if p.kind == "complete" and not p.reshape}
        if 0 in done:
            return True
        return bool(self.extents) and done >= set(range(1, len(self.extents) + 1))

    def by_dimension(self) -> list[tuple[int, Partition]]:
        """Extent and partition of each dimension that is partitioned."""
        found = []
        for partition in self.partitions:
            dimensions = range(1, len(self.extents) + 1) if partition.dimension == 0 else [partition.dimension]
            for dimension in dimensions:
                if dimension <= len(self.extents):
                    found.append((self.extents[dimension - 1], replace(partition, dimension=dimension)))
        return found

    def bank(self, offset: int) -> tuple[int, ...]:
        """The bank of a constant part of an address in bytes; the same partition makes the same entries."""
        strides: list[int] = []
        stride = self.element_bytes
        for extent in reversed(self.extents):
            strides.insert(0, stride)
            stride *= max(1, extent)
        place: list[int] = []
        for extent, partition in self.by_dimension():
            index = offset // strides[partition.dimension - 1]
            if extent > 0 and partition.dimension > 1:
                index %= extent
            if partition.kind == "complete":
                place.append(index)
            elif partition.kind == "cyclic":
                place.append(index % max(1, partition.factor))
            else:
                place.append(index // max(1, -(-extent // max(1, partition.factor))))
        return tuple(place)


@dataclass
class Member:
    """An array within a structure: the bytes that it begins and ends at."""

    begin: int
    end: int
    array: Array


def extents_of(type: str) -> tuple[list[int], str]:
    """Dimensions of an array type, and the type of its elements."""
    extents = []
    while match := re.fullmatch(r"\[(\d+) x (.*)\]", type):
        extents.append(int(match[1]))
        type = match[2]
    return extents, type
