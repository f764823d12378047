"""Loops over several operands at once: their sizes and strides as few as can be, for records of a fixed depth."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from fpga_dynamo.ir.sizes.size import identical


def pad_left(values: Sequence[int], count: int, fill: int) -> tuple[int, ...]:
    return (*[fill] * (count - len(values)), *values)


def offsets(dims: Sequence[int], strides: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """How far each operand has gone at each place of `dims`, the last dimension fastest. `strides` may have more.

    For what a record has no dimensions for: one command for each place.
    """
    for place in itertools.product(*map(range, dims)):
        yield tuple(sum(i * step for i, step in zip(place, walk, strict=False)) for walk in strides)


def collapse(
    dims: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Drops sizes of 1 and merges neighbouring dimensions that every operand walks with one stride."""
    sizes: list[int] = []
    kept: list[list[int]] = [[] for _ in strides]
    for d, size in enumerate(dims):
        if size == 1:
            continue
        step = [s[d] for s in strides]
        if sizes and all(identical(k[-1], s * size) for k, s in zip(kept, step, strict=True)):
            sizes[-1] *= size
            for k, s in zip(kept, step, strict=True):
                k[-1] = s
        else:
            sizes.append(size)
            for k, s in zip(kept, step, strict=True):
                k.append(s)
    return tuple(sizes), tuple(tuple(k) for k in kept)
