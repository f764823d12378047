"""Host work that computes nothing: views and copies of values, as an offset and strides into the memory of a value.

What a part of a graph does is found by running it in eager mode on tensors whose elements are their own positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fpga_dynamo.ir.sizes.size import Number
from fpga_dynamo.ir.sizes.size import value as hinted
from fpga_dynamo.torch_internals.pytree import tree_leaves


class NotAViewError(Exception):
    """A part of a graph that computes something, or lays elements out as no strides say."""


@dataclass(frozen=True)
class ValueView:
    """Elements of a value: all numbers count elements of its memory."""

    value: int
    dtype: torch.dtype
    shape: tuple[Number, ...]
    strides: tuple[Number, ...]
    offset: Number = 0

    def hinted(self) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """Shape, strides and offset at the sizes of the example call."""
        return tuple(map(hinted, self.shape)), tuple(map(hinted, self.strides)), hinted(self.offset)


def views_made_by(
    part: Callable[..., Any], reads: Sequence[ValueView | tuple[int, ...]], writes: Sequence[Any]
) -> list[ValueView]:
    """The results of `part`, flattened, as views of the values behind `reads`.

    reads: a tuple is that of the symbols' values, which the part is given as it is. writes: of each result what the
    graph says of it: a tensor with shape, strides, offset and dtype, whose sizes may be symbolic.
    Raises :class:`NotAViewError` for a part that does anything else.
    """
    probes: list[Any] = []
    begins: list[tuple[int, ValueView]] = []
    room = 0
    for read in reads:
        if not isinstance(read, ValueView):
            probes.append(read)
            continue
        shape, strides, offset = read.hinted()
        extent = offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if all(shape) else offset
        memory = torch.arange(room, room + extent, dtype=torch.int64)
        probes.append(memory.as_strided(shape, strides, offset))
        begins.append((room, read))
        room += extent
    try:
        results = tree_leaves(part(*probes))
    except Exception as error:
        raise NotAViewError(f"{type(error).__name__}: {error}") from error
    return [_view(result, begins, written) for result, written in zip(results, writes, strict=True)]


def _view(result: Any, begins: Sequence[tuple[int, ValueView]], written: Any) -> ValueView:
    if not isinstance(result, torch.Tensor) or result.dtype is not torch.int64:
        raise NotAViewError("a result with elements of its own")
    places = result.contiguous()
    shape = tuple(places.shape)
    first = int(places.flatten()[0]) if places.numel() else begins[0][0]
    begin, read = max((one for one in begins if one[0] <= first), key=lambda one: one[0])
    traced = tuple(map(hinted, written.stride()))  # those of single elements, which the places do not tell
    strides = tuple(
        int(places.select(d, 1).flatten()[0]) - first if n > 1 and places.numel() else traced[d]
        for d, n in enumerate(shape)
    )
    expected = torch.full((), first, dtype=torch.int64)
    for d, (n, stride) in enumerate(zip(shape, strides, strict=True)):
        steps = torch.arange(n, dtype=torch.int64) * stride
        expected = expected + steps.reshape([n if i == d else 1 for i in range(len(shape))])
    if any(stride < 0 for stride in strides) or not torch.equal(expected.expand(shape), places):
        raise NotAViewError("a result whose elements no strides describe")
    if written.dtype is not read.dtype:
        raise NotAViewError(f"a result of dtype {written.dtype} from {read.dtype}")
    found = ValueView(read.value, read.dtype, shape, strides, first - begin)
    return found if _plain(written) and _plain_view(read) else _symbolic(found, written, read)


def _symbolic(found: ValueView, written: Any, read: ValueView) -> ValueView:
    """The view for all sizes, if what the graph says of the result is what was found at those of the example."""
    said = ValueView(read.value, read.dtype, tuple(written.shape), tuple(written.stride()), written.storage_offset())
    shape, strides, offset = said.hinted()
    same = all(a == b or n == 1 for n, a, b in zip(shape, strides, found.strides, strict=True))
    if shape != found.shape or not same or offset != found.offset:
        raise NotAViewError("a result of symbolic sizes that is a copy in another order")
    return said


def _plain(tensor: Any) -> bool:
    return all(isinstance(n, int) for n in (*tensor.shape, *tensor.stride(), tensor.storage_offset()))


def _plain_view(view: ValueView) -> bool:
    return all(isinstance(n, int) for n in (*view.shape, *view.strides, view.offset))
