"""Commands of the hardware engine for products of two maps, a head of an attention each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from fpga_dynamo.codegen.engine.command import MacCommand, WeightKind
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import Map, MapImages, RefusedError, rows_of
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.blocked import CHANNEL, IMAGE, PIXEL
from fpga_dynamo.ir.graph import aten, is_view, shape
from fpga_dynamo.ir.view import View, ceil_div


@dataclass(frozen=True)
class Heads:
    """A batch of matrices as the engine reads it: `count` heads of rows, each `step` lines behind the one before."""

    rows: MapImages
    count: tuple[int, int]
    step: tuple[int, int]


@dataclass(frozen=True)
class HeadsProduct:
    """A product of two maps for each head: the command, operands, and the view (heads, rows, columns) of its result."""

    command: MacCommand
    left: Heads
    right: Heads
    result: Heads
    view: View


def heads_product(
    left: View,
    right: View,
    root: Node,
    emitter: EngineEmitter,
    read_by_rows: Callable[[Node], bool],
    *,
    wide: bool = False,
    zeros: tuple[int, int] = (0, 0),
    **fields: Any,
) -> HeadsProduct:
    """Of two maps, for each head: the second one's pixels are output channels (Q K^T), or its channels are (S V).

    zeros: of the operands, which their channels that fill up a block have.

    read_by_rows: whether a value's readers want a map for each head. wide: the result is left in float32, as a map for
    each head (`Flags.WIDE`). Raises RefusedError.
    """
    if len(left.shape) == 2:
        left, right = left.unsqueeze(0), right.unsqueeze(0)
    a = _heads_of(left, "left operand", emitter, zeros[0])
    transposed = right.strides[2] == CHANNEL
    b = _heads_of(right if transposed else right.permute((0, 2, 1)), "right operand", emitter, zeros[1])
    rows, depth, columns = left.shape[1], left.shape[2], right.shape[2]
    out = _result(root, a, columns, emitter, read_by_rows, wide)
    y = _heads(View(out.buffer, (a.count[1], rows, columns), out.strides[-3:], out.offset), "result")
    command = MacCommand(
        weight_kind=WeightKind.TRANSPOSED if transposed else WeightKind.MAP,
        weight_plane=b.rows.map.plane,
        in_blocks=ceil_div(depth, CHANNELS),
        in_width=rows,
        out_blocks=ceil_div(columns, CHANNELS),
        out_width=rows,
        group_in=depth,
        group_out=ceil_div(columns, CHANNELS) * CHANNELS,
        heads=a.count,
        input_head=a.step,
        weight_head=b.step,
        output_head=y.step,
        **fields,
    )
    return HeadsProduct(command, a, b, y, out)


def _heads_of(view: View, what: str, emitter: EngineEmitter, zero: int) -> Heads:
    """:func:`_heads` of a view, or of a copy with a map for each head."""
    try:
        return _heads(view, what)
    except RefusedError:
        if not emitter.sizes.gather:
            raise
        apart = emitter.split_heads(view.shape, view.buffer.name)
        emitter.copy(view, apart, what, filling=zero)
        return _heads(apart, what)


def _heads(view: View, what: str) -> Heads:
    """Of a view (heads, rows, features). Raises RefusedError."""
    one = View(view.buffer, view.shape[1:], view.strides[1:], view.offset, view.dtype)
    rows = rows_of(one, what)
    if rows.images > 1 or not rows.whole:
        raise RefusedError(f"{what} is a slice of a feature map's rows")
    stride = view.strides[0] if view.shape[0] > 1 else 0
    images, rest = divmod(stride, IMAGE)
    if rest >= PIXEL or rest % CHANNELS:
        raise RefusedError(f"{what} has heads whose first channel is not a multiple of {CHANNELS}")
    return Heads(rows, (1, view.shape[0]), (0, images * rows.map.image_lines + rest // CHANNELS * rows.map.plane))


def _result(
    root: Node, a: Heads, columns: int, emitter: EngineEmitter, read_by_rows: Callable[[Node], bool], wide: bool
) -> View:
    """Heads side by side as channels of one map where they are whole blocks, and so the next layer's rows; else a map
    each."""
    heads, rows = a.count[1], a.rows.pixels
    if heads > 1 and columns % CHANNELS == 0 and not read_by_rows(root):
        together = Map(1, rows, heads * columns, emitter.sizes, root.name)
        return View(together, (heads, rows, columns), (columns, PIXEL, CHANNEL))
    apart = Map(heads, rows, columns, emitter.sizes, root.name, wide=wide)
    return View(apart, (heads, rows, columns), (IMAGE, PIXEL, CHANNEL))


def seen_as(view: View, node: Node) -> View:
    """A result in the shape of `node`, a view of it. Raises RefusedError."""
    found = view.reshape(tuple(shape(node)))
    if found is None:
        raise RefusedError("the result's memory layout is not supported")
    return found


def reaches_softmax(node: Node, through: Sequence[Any]) -> bool:
    """Whether a softmax reads a value, behind views and operators `through`."""
    waiting = list(node.users)
    while waiting:
        user = waiting.pop()
        if user.target is aten._softmax.default:
            return True
        if is_view(user) or user.target in through:
            waiting += user.users
    return False
