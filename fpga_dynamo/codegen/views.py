"""ATen views on the card: shape and stride arithmetic, and a copy only where strides cannot say it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch.fx import Node

from fpga_dynamo.ir.elements import F32, Element
from fpga_dynamo.ir.graph import IDENTITY_TARGETS, argument, aten, shape, value
from fpga_dynamo.ir.view import CHANNELS_LAST, Buffer, View, align, dense, floats_of


class Layouts(Protocol):
    """What an emitter offers to views that are no arithmetic on strides: a place, and a copy to it."""

    def tensor(
        self,
        shape: Sequence[int],
        order: Sequence[int] | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        pitch: int | None = None,
        element: Element = F32,
    ) -> View: ...

    def copy(self, source: View, target: View) -> None: ...


def lower_view(node: Node, source: Any, emitter: Layouts) -> Any:
    """The view (or tuple of views) that `node` makes of `source`."""
    if node.target is operator.getitem:
        return source[node.args[1]]
    if node.target in IDENTITY_TARGETS or node.target in (aten.alias.default, aten.detach.default):
        return source
    return _RULES[node.target](node, source, emitter)


def is_lowerable_view(node: Node) -> bool:
    """Whether the card can do the view `node`; others are done by eager on the PS.

    Those are all that take a number which another node gives (``x[:n.item()]``), as only running tells it.
    """
    if len(node.all_input_nodes) > 1:
        return False
    if node.target is aten.as_strided.default:
        return _restates(node)
    return (
        node.target in _RULES
        or node.target in IDENTITY_TARGETS
        or node.target in (operator.getitem, aten.alias.default, aten.detach.default)
    )


def _restates(node: Node) -> bool:
    """Whether an as_strided only says again how its source lies, but for sizes of 1 (adaptive pooling of an image)."""
    before, after = value(node.all_input_nodes[0]), value(node)
    same = all(a == b or n == 1 for a, b, n in zip(before.stride(), after.stride(), after.shape, strict=False))
    return before.shape == after.shape and same and before.storage_offset() == after.storage_offset()


def _reshape(node: Node, source: View, emitter: Layouts) -> View:
    wanted = shape(node)
    view = source.reshape(wanted)
    if view is None:
        # A copy into dense rows, whose pitch is that of the new shape so that its innermost dimension can be padded.
        target = _image_like(source, wanted, emitter) or emitter.tensor(
            wanted, dtype=source.dtype, element=source.element
        )
        image = target.reshape(source.shape)
        if image is None:
            buffer = emitter.tensor((source.numel,), dtype=source.dtype, element=source.element).buffer
            target = _dense_view(buffer, wanted, source.dtype)
            image = _dense_view(buffer, source.shape, source.dtype)
        emitter.copy(source, image)
        return target
    return view


def _dense_view(buffer: Buffer, size: tuple[int, ...], dtype: torch.dtype) -> View:
    return View(buffer, size, tuple(floats_of(dtype) * stride for stride in dense(size)), 0, dtype)


def _image_like(source: View, wanted: Sequence[int], emitter: Layouts) -> View | None:
    """A channels-last buffer for an image whose channels are seen again (shuffled, say), if it lies so already."""
    if len(wanted) != 4 or len(source.shape) < 5 or source.shape[-2:] != tuple(wanted)[-2:]:
        return None
    if source.strides[-1] == source.unit or min(abs(s) for s in source.strides) != source.unit:
        return None
    target = emitter.tensor(
        wanted, CHANNELS_LAST[4], dtype=source.dtype, pitch=align(wanted[1]), element=source.element
    )
    return None if target.reshape(source.shape) is None else target


def _split(node: Node, source: View, emitter: Layouts) -> tuple[View, ...]:
    dim = argument(node, "dim", 2, 0) % len(source.shape)
    pieces, start = [], 0
    for piece in value(node):
        length = piece.shape[dim]
        pieces.append(source.narrow(dim, start, length))
        start += length
    return tuple(pieces)


def _unbind(node: Node, source: View, emitter: Layouts) -> tuple[View, ...]:
    dim = argument(node, "dim", 1, 0)
    return tuple(source.select(dim, i) for i in range(source.shape[dim]))


def _slice(node: Node, source: View, emitter: Layouts) -> View:
    dim = argument(node, "dim", 1, 0) % len(source.shape)
    start, step = argument(node, "start", 2), argument(node, "step", 4, 1)
    size = source.shape[dim]
    first = 0 if start is None else max(0, min(size, start + size if start < 0 else start))
    return source.narrow(dim, first, shape(node)[dim], step)


def _diagonal(node: Node, source: View, emitter: Layouts) -> View:
    rank = len(source.shape)
    offset = argument(node, "offset", 1, 0)
    first, second = argument(node, "dim1", 2, 0) % rank, argument(node, "dim2", 3, 1) % rank
    start = source.offset + (offset * source.strides[second] if offset > 0 else -offset * source.strides[first])
    kept = [d for d in range(rank) if d not in (first, second)]
    strides = (*(source.strides[d] for d in kept), source.strides[first] + source.strides[second])
    return View(source.buffer, shape(node), strides, start, source.dtype)


def _unfold(node: Node, source: View, emitter: Layouts) -> View:
    """Windows along a dimension, which share elements where they overlap; each is the last dimension of the view."""
    dim, step = argument(node, "dimension", 1) % max(len(source.shape), 1), argument(node, "step", 3)
    strides = list(source.strides)
    inner = strides[dim] if strides else 1
    if strides:
        strides[dim] *= step
    return View(source.buffer, shape(node), (*strides, inner), source.offset, source.dtype)


def _squeezed(source: View, wanted: Sequence[int]) -> View:
    """Only sizes of 1 differ between source and wanted: keep the strides of the others."""
    kept = [(n, s) for n, s in zip(source.shape, source.strides, strict=True) if n != 1]
    strides = []
    for size in wanted:
        strides.append(1 if size == 1 else kept.pop(0)[1])
    return View(source.buffer, tuple(wanted), tuple(strides), source.offset, source.dtype)


_Rule = Callable[[Node, Any, Layouts], Any]
_RULES: dict[Any, _Rule] = {
    aten.as_strided.default: lambda n, v, e: v,
    aten.view.default: _reshape,
    aten._unsafe_view.default: _reshape,
    aten.reshape.default: _reshape,
    aten.permute.default: lambda n, v, e: v.permute(argument(n, "dims", 1)),
    aten.transpose.int: lambda n, v, e: v.permute(
        _swapped(len(v.shape), argument(n, "dim0", 1), argument(n, "dim1", 2))
    ),
    aten.t.default: lambda n, v, e: v.permute(tuple(reversed(range(len(v.shape))))),
    aten.expand.default: lambda n, v, e: v.expand(shape(n)),
    aten.unsqueeze.default: lambda n, v, e: v.unsqueeze(argument(n, "dim", 1)),
    aten.squeeze.default: lambda n, v, e: _squeezed(v, shape(n)),
    aten.squeeze.dim: lambda n, v, e: _squeezed(v, shape(n)),
    aten.squeeze.dims: lambda n, v, e: _squeezed(v, shape(n)),
    aten.select.int: lambda n, v, e: v.select(n.args[1], n.args[2]),
    aten.slice.Tensor: _slice,
    aten.split.Tensor: _split,
    aten.split_with_sizes.default: _split,
    aten.unsafe_split.Tensor: _split,
    aten.unsafe_split_with_sizes.default: _split,
    aten.unbind.int: _unbind,
    aten.diagonal.default: _diagonal,
    aten.unfold.default: _unfold,
}


VIEWS = frozenset({*_RULES, aten.alias.default, aten.detach.default})
"""Targets whose nodes the card can do, as far as :func:`is_lowerable_view` does not refuse them."""


def _swapped(rank: int, a: int, b: int) -> tuple[int, ...]:
    order = list(range(rank))
    if order:
        order[a], order[b] = order[b], order[a]
    return tuple(order)
