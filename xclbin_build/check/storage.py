"""What Vitis HLS makes of local arrays of its own accord, where a pragma says nothing: registers, banks, copies.

The rules are read off logs of HeteroCL_Transformer (Vitis HLS 2022.1), "Partitioning array ... automatically" (XFORM
203-102) and "Automatically inferring RAM_1WNR storage type" (HLS 200-1457), and of others named below.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container

from ..hls.arrays import Array, Kind, Partition
from ..hls.frontend import Kernel
from .accesses import Accesses
from .addresses import Access
from .banks import indices

_MOST_BANKS = 1024
_MOST_INTERLEAVED = 1024
# The version since which what a loop accesses that is unrolled in part is divided: latnrm of HLStrans (2022.2) is not,
# Crypto (2024.1) is.
_INTERLEAVES = "2023"


def interleaves(kernel: Kernel) -> bool:
    """Whether the kernel's version of Vitis HLS divides arrays for loops that are unrolled in part."""
    return not kernel.vitis or kernel.vitis >= _INTERLEAVES


def choose(kernel: Kernel, regions: list[Accesses], pipelined: Container[int]) -> None:
    """Divides and replicates the local arrays of a kernel. regions: its loops, and what lies in none; pipelined: places
    of those that a pragma pipelines."""
    parameters = {name for name, _ in kernel.function.parameters}
    by_array: dict[str, list[list[Access]]] = defaultdict(list)
    asked: dict[str, list[list[Access]]] = defaultdict(list)
    for number, region in enumerate(regions):
        groups: dict[str, list[Access]] = defaultdict(list)
        for access in region.all:
            if access.array is not None:
                groups[access.array.value].append(access)
        for value, group in groups.items():
            by_array[value].append(group)
            if number in pipelined:
                asked[value].append(group)
    for value, groups_of in by_array.items():
        array = groups_of[0][0].array
        assert array is not None  # they were grouped by it
        whole = value.partition(".")[0]
        own = whole not in parameters or (whole in kernel.passed and not kernel.passed[whole].port)
        if array.kind is not Kind.MEMORY or not own:
            continue
        if not array.partitions and not array.storage and not array.constant and whole not in parameters:
            _divide(array, groups_of)
        for group in asked[value]:
            _interleave(array, group)
            _interleave_reads(array, group)
        # What lasts from call to call is not copied: larm60/ECE8893 (2022.1).
        if value[:1] != "@" and not array.storage and not array.complete():
            _replicate(array, regions, groups_of)


def _divide(array: Array, groups: list[list[Access]]) -> None:
    """Completely, in the dimensions whose index is a constant in every access."""
    if -1 in array.extents or not array.extents:
        return
    stride = array.element_bytes
    for dimension in range(len(array.extents), 0, -1):
        extent = array.extents[dimension - 1]
        turn = stride * extent
        moves = any(abs(step) < turn and step % turn for group in groups for a in group for _, step in a.variable)
        opaque = any(key[:1] == "?" for group in groups for a in group for key, _ in a.variable)
        if not moves and not opaque and extent > 1 and array.banks * extent <= _MOST_BANKS:
            array.partitions.append(Partition("complete", dimension, 0))
        stride = turn


def _interleave(array: Array, group: list[Access]) -> None:
    """A cyclic partition if an iteration writes neighbouring elements, a complete one if these are a whole row.

    The logs of Marui-9/swiglu (2025.1) say "Inferring pragma 'array_partition type=cyclic factor=16'" (HLS 214-270).
    Other examples are factor 3 of smithwaterman, and `type=complete dim=2` of 256 in rendering (HLStrans, 2022.2)."""
    last = len(array.extents)
    if not last or any(p.dimension in (0, last) for p in array.partitions):
        return
    size = max(1, array.element_bytes)
    by_variable: dict[tuple[tuple[str, int], ...], set[int]] = defaultdict(set)
    for access in group:
        if access.write:
            by_variable[access.variable].add(access.constant // size)
    for variable, places in by_variable.items():
        count = len(places)
        if count > 2 and max(places) - min(places) == count - 1 and variable and count <= _MOST_INTERLEAVED:
            whole = count == array.extents[-1]
            array.partitions.append(Partition("complete", last, 0) if whole else Partition("cyclic", last, count))
            return


def _interleave_reads(array: Array, group: list[Access]) -> None:
    """Cyclically, in every dimension in which an iteration reads neighbours, where they are more than two ports take:
    what `config_array_partition -throughput_driven` does unless it is switched off (UG1399). Seen: windows of 3 x 3
    (AC_proj_39, 2025.2: cyclic, factor 3 in two dimensions), of 5 (larm60/ECE8893, 2022.1), rows of 16
    (mnist_depthwise_hls, 2022.1: 8 banks of two ports). A storage that a pragma binds is that of each bank: rows of 64
    and of 16 (2024_FALL_NTU_AAHLS_SP, 2022.1: 1), a window of 3 x 3 (TECTONIC, 2023.1: 1)."""
    divided = {p.dimension for p in array.partitions}
    if not array.extents or -1 in array.extents or 0 in divided:
        return
    by_variable: dict[object, set[int]] = defaultdict(set)
    for access in group:
        if not access.write and access.variable and access.size <= array.element_bytes:
            by_variable[access.variable].add(access.constant)
    for offsets in by_variable.values():
        row = {(offset - min(offsets)) // max(1, array.element_bytes) for offset in offsets}
        if max(row) < array.extents[-1]:  # side by side in one row, which may be more than half of it
            places = [(0,) * (len(array.extents) - 1) + (place,) for place in row]
        else:
            places = [indices(array, offset) for offset in offsets]
        sides = [sorted({place[n] for place in places}) for n in range(len(array.extents))]
        wide = [(n, side) for n, side in enumerate(sides, start=1) if len(side) > 1 and n not in divided]
        dense = all(side[-1] - side[0] == len(side) - 1 for _, side in wide)
        count = math.prod(len(side) for _, side in wide)
        if dense and 2 < count <= _MOST_INTERLEAVED:
            array.partitions += [Partition("cyclic", dimension, len(side)) for dimension, side in wide]
            return


def _replicate(array: Array, regions: list[Accesses], groups: list[list[Access]]) -> None:
    """Where it is written once a cycle at most, and read more often than two ports allow."""
    if array.constant:
        return
    many = False
    for group in groups:
        region = next(region for region in regions if group[0] in region.all)
        for there in region.by_bank(array, group).values():
            writes = region.count(a for a in there if a.write)
            reads = region.count(a for a in there if not a.write)
            if writes > 1:
                return
            many |= reads + writes > 2
    array.replicated = many
