"""Where a value lies: a buffer of a device region, seen through a shape and strides.

Views of a tensor are free on the card because every core supports strides: permute, slice, expand and most reshapes
only make a new :class:`View` of the same :class:`Buffer`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import torch

from fpga_dynamo.ir.elements import BEAT_BYTES, F32, Element
from fpga_dynamo.ir.sizes.size import Size, identical

VEC = 16
"""Lanes of a vector of floats, a beat."""

_ids = itertools.count()


def align(count: int, to: int = VEC) -> int:
    """`count` rounded up to a multiple of `to`."""
    return -(-count // to) * to


def floats_of(dtype: torch.dtype) -> int:
    """Floats that an element takes on the card."""
    return 2 if dtype is torch.complex64 else 1


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def numel(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


class Role(Enum):
    """What a buffer is for; decides who allocates it."""

    TEMPORARY = "temporary"
    INPUT = "input"
    OUTPUT = "output"
    WEIGHT = "weight"


@dataclass(eq=False)
class Buffer:
    """A block of device memory. Temporaries, inputs and outputs lie in the arena, weights apart.

    length: elements that it has room for. element: what they are; F32 stands for any of a word, of which the view says
    the type. Which cores read and write narrower ones, the xclbin's manifest says.
    """

    length: int
    role: Role = Role.TEMPORARY
    name: str = ""
    element: Element = F32
    id: int = field(default_factory=lambda: next(_ids))

    @property
    def in_weights(self) -> bool:
        return self.role is Role.WEIGHT

    @property
    def beats(self) -> int:
        """Beats that it takes."""
        return self.element.beats(self.length)

    @property
    def nbytes(self) -> int:
        return self.beats * BEAT_BYTES


@dataclass(frozen=True)
class View:
    """A tensor on the device: `strides` and `offset` in elements of its buffer.

    dtype: what the elements are, see :mod:`fpga_dynamo.ir.dtypes`; float32 for a value of fewer bits says that it
    is not rounded yet. In elements of a word a bool is the float 0 or 1, an integer the bits of an int32, and a complex
    number is two of them next to each other, the real part first.
    """

    buffer: Buffer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    dtype: torch.dtype = torch.float32

    @property
    def element(self) -> Element:
        """What its elements are in memory."""
        return self.buffer.element

    @property
    def numel(self) -> int:
        return numel(self.shape)

    @property
    def unit(self) -> int:
        """Floats of an element, and so from one to the next where they are contiguous."""
        return floats_of(self.dtype)

    def pairs(self) -> View:
        """Complex numbers as real ones with a last dimension of real and imaginary part."""
        return replace(self, shape=(*self.shape, 2), strides=(*self.strides, 1), dtype=torch.float32)

    def permute(self, dims: Sequence[int]) -> View:
        rank = len(self.shape)
        order = [d % rank for d in dims]
        return replace(self, shape=tuple(self.shape[d] for d in order), strides=tuple(self.strides[d] for d in order))

    def narrow(self, dim: int, start: int, length: int, step: int = 1) -> View:
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + start * strides[dim]
        shape[dim], strides[dim] = length, strides[dim] * step
        return replace(self, shape=tuple(shape), strides=tuple(strides), offset=offset)

    def select(self, dim: int, index: int) -> View:
        dim %= len(self.shape)
        index %= self.shape[dim]
        shape = self.shape[:dim] + self.shape[dim + 1 :]
        strides = self.strides[:dim] + self.strides[dim + 1 :]
        return replace(self, shape=shape, strides=strides, offset=self.offset + index * self.strides[dim])

    def unsqueeze(self, dim: int) -> View:
        dim %= len(self.shape) + 1
        return replace(
            self, shape=(*self.shape[:dim], 1, *self.shape[dim:]), strides=(*self.strides[:dim], 0, *self.strides[dim:])
        )

    def expand(self, shape: Sequence[int]) -> View:
        """Broadcast to `shape`; -1 keeps a size."""
        lead = len(shape) - len(self.shape)
        sizes, strides = list(shape), [0] * len(shape)
        for i, (size, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            wanted = sizes[lead + i]
            sizes[lead + i] = size if wanted == -1 else wanted
            strides[lead + i] = stride if size == sizes[lead + i] else 0
        return replace(self, shape=tuple(sizes), strides=tuple(strides))

    def reshape(self, shape: Sequence[int]) -> View | None:
        """The view of `shape` without a copy, or None where the strides do not allow it."""
        strides = _reshaped_strides(self.shape, self.strides, shape)
        return None if strides is None else replace(self, shape=tuple(shape), strides=strides)

    def order(self) -> tuple[int, ...]:
        """Dimensions from the outermost to the innermost in memory.

        Sizes of 1 fit anywhere: an image with contiguous channels stays one; else row-major, if its rows are
        contiguous; else channels-last, if the strides allow it; else as they stand.
        """
        rank = len(self.shape)
        rows, image = tuple(range(rank)), CHANNELS_LAST.get(rank)
        if image is not None and self.strides[1] == self.unit and self.shape[1] > 1 and self._descends(image):
            return image
        for order in (rows, image):
            if order is not None and self._descends(order) and (order is image or self._contiguous_rows()):
                return order
        return tuple(sorted(rows, key=lambda d: (-abs(self.strides[d]), d)))

    def _contiguous_rows(self) -> bool:
        return next((s == self.unit for n, s in zip(self.shape[::-1], self.strides[::-1], strict=True) if n != 1), True)

    def _descends(self, order: Sequence[int]) -> bool:
        strides = [abs(self.strides[d]) for d in order if self.shape[d] != 1]
        return all(outer >= inner for outer, inner in itertools.pairwise(strides))


def _reshaped_strides(old: Sequence[int], strides: Sequence[int], new: Sequence[int]) -> tuple[int, ...] | None:
    """Strides of `new` over the same memory: each run of old dimensions that is dense in itself is cut again."""
    if numel(old) == 0:
        return None
    groups: list[tuple[int, int]] = []  # (elements, innermost stride) of maximal dense runs, outermost first
    for size, stride in zip(old, strides, strict=True):
        if size == 1:
            continue
        if groups and identical(groups[-1][1], stride * size):
            groups[-1] = (groups[-1][0] * size, stride)
        else:
            groups.append((size, stride))
    result = [0] * len(new)
    remaining, inner = 1, 0
    for d in reversed(range(len(new))):
        size = new[d]
        if size == 1:
            result[d] = inner * remaining if inner else 1
            continue
        if remaining == 1:
            if not groups:
                return None
            remaining, inner = groups.pop()
            step = inner
        if remaining % size:
            return None
        result[d] = step
        step *= size
        remaining //= size
    return tuple(result) if not groups and remaining == 1 else None


def dense(shape: Sequence[int], order: Sequence[int] | None = None, pitch: int | None = None) -> tuple[int, ...]:
    """Strides of a dense tensor with dimensions from outermost to innermost as in `order` (default: row-major).

    `pitch` is the distance between rows, where it is more than the innermost dimension's size.
    """
    order = range(len(shape)) if order is None else order
    strides, step = [0] * len(shape), 1
    for place, d in enumerate(reversed(list(order))):
        strides[d] = step
        step = pitch if place == 0 and pitch is not None else step * shape[d]
    return tuple(strides)


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to behind the last one."""
    return 1 + sum((size - 1) * abs(stride) for size, stride in zip(shape, strides, strict=True))


CHANNELS_LAST: dict[int, tuple[int, ...]] = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
"""Dimension order, outermost first, of an image batch whose vector lanes run along channels."""


def common_dtype(views: Iterable[View]) -> torch.dtype:
    """What copies of all these hold: their dtype, or float32 where some are not rounded yet."""
    dtypes = {view.dtype for view in views}
    return dtypes.pop() if len(dtypes) == 1 else torch.float32


def row_pitch(size: int) -> int:
    """Distance between rows: a multiple of the vector, but short rows lie dense if it is known that they are short."""
    return align(size) if isinstance(size, Size) or size >= VEC else size
