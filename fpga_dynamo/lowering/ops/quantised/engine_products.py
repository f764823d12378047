"""Products of two maps on the hardware engine, a head of an attention each; see matmul.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch.fx import Node

from fpga_dynamo.codegen.engine.command import MacCommand, WeightKind
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import Images, Map, RefusedError, int8, rows_of
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.blocked import CHANNEL, IMAGE, PIXEL
from fpga_dynamo.ir.graph import aten, is_view, shape, value
from fpga_dynamo.ir.quantised import DEQUANTIZE, QUANTIZE, Scale
from fpga_dynamo.ir.view import View, align, ceil_div
from fpga_dynamo.lowering.ops.quantised.engine_params import engine_params
from fpga_dynamo.lowering.ops.quantised.epilogue import engine_fields
from fpga_dynamo.lowering.ops.quantised.packing import PARAMETERS, pack_one_scale
from fpga_dynamo.lowering.ops.quantised.product import Product
from fpga_dynamo.lowering.patterns import Match


@dataclass(frozen=True)
class _Heads:
    """A batch of matrices as the engine takes it: `count` heads of rows, each `step` lines behind the one before."""

    rows: Images
    count: tuple[int, int]
    step: tuple[int, int]


def _heads(view: View, what: str) -> _Heads:
    """Of a view (heads, rows, features). Raises RefusedError."""
    one = View(view.buffer, view.shape[1:], view.strides[1:], view.offset, view.dtype)
    rows = rows_of(one, what)
    if rows.images > 1 or not rows.whole:
        raise RefusedError(f"{what} is a part of the rows of a map")
    stride = view.strides[0] if view.shape[0] > 1 else 0
    images, rest = divmod(stride, IMAGE)
    if rest >= PIXEL or rest % CHANNELS:
        raise RefusedError(f"{what} has heads that begin within a block of {CHANNELS} channels")
    return _Heads(rows, (1, view.shape[0]), (0, images * rows.map.image_lines + rest // CHANNELS * rows.map.plane))


def seen_as(view: View, node: Node) -> View:
    """A result in the shape of `node`, a view of it. Raises RefusedError."""
    found = view.reshape(tuple(shape(node)))
    if found is None:
        raise RefusedError("its result is seen in an order that the engine does not write")
    return found


def engine_product(match: Match, emitter: EngineEmitter) -> Sequence[View]:
    """Of two maps, for each head: the second one's pixels are output channels (Q K^T), or its channels are (S V)."""
    product: Product = match.bound["product"]
    end, node, scale, other = product.ending, product.node, product.scale, product.other
    assert isinstance(scale, Scale) and other is not None
    int8(product.right, "its right operand")
    left, right = emitter.view(product.left), emitter.view(product.right)
    if len(left.shape) == 2:
        left, right = left.unsqueeze(0), right.unsqueeze(0)
    a = _heads(left, "its left operand")
    transposed = right.strides[2] == CHANNEL
    b = _heads(right if transposed else right.permute((0, 2, 1)), "its right operand")
    rows, depth, columns = left.shape[1], left.shape[2], right.shape[2]
    if end.residual is not None:
        raise RefusedError("a product of two maps adds no residual")
    out = _product_result(match, a, columns, emitter)
    y = _heads(View(out.buffer, (a.count[1], rows, columns), out.strides[-3:], out.offset), "its result")
    in_blocks = ceil_div(depth, CHANNELS)
    command = MacCommand(
        weight_kind=WeightKind.TRANSPOSED if transposed else WeightKind.MAP,
        weight_plane=b.rows.map.plane,
        in_blocks=in_blocks,
        in_width=rows,
        out_blocks=ceil_div(columns, CHANNELS),
        out_width=rows,
        group_in=depth,
        group_out=ceil_div(columns, CHANNELS) * CHANNELS,
        heads=a.count,
        input_head=a.step,
        weight_head=b.step,
        output_head=y.step,
        pad=scale.zero,
        weight_zero=other.zero,
        **engine_fields(end, emitter),
    )
    result = end.first_scale
    assert result is not None
    constants = (
        CHANNELS,
        columns,
        scale.scale * other.scale,
        float(depth * scale.farthest * other.farthest),
        result.scale,
        in_blocks * CHANNELS * scale.zero * other.zero,
    )
    words = PARAMETERS * align(columns, CHANNELS)
    emitter.mac(
        command,
        a.rows,
        y.rows,
        engine_params(emitter.pack(pack_one_scale, constants, [], words, f"{node} parameters"), end, emitter),
        second=b.rows,
        macs=value(node).numel() * depth,
    )
    rank = len(shape(node))
    return [seen_as(View(out.buffer, tuple(shape(node)), out.strides[-rank:], out.offset), match.root)]


def _product_result(match: Match, a: _Heads, columns: int, emitter: EngineEmitter) -> View:
    """Heads side by side as channels of one map where they are whole blocks, and so the next layer's rows; else a map
    each."""
    heads, rows = a.count[1], a.rows.pixels
    if heads > 1 and columns % CHANNELS == 0 and not _read_by_rows(match.root):
        together = Map(1, rows, heads * columns, emitter.sizes, match.root.name)
        return View(together, (heads, rows, columns), (columns, PIXEL, CHANNEL))
    apart = Map(heads, rows, columns, emitter.sizes, match.root.name)
    return View(apart, (heads, rows, columns), (IMAGE, PIXEL, CHANNEL))


def _read_by_rows(node: Node) -> bool:
    """Whether a value's readers, behind views and dequantising nodes, work on its rows: softmax."""
    waiting = list(node.users)
    while waiting:
        user = waiting.pop()
        if user.target is aten._softmax.default:
            return True
        if is_view(user) or user.target is DEQUANTIZE or user.target is QUANTIZE or user.target is aten.mul.Tensor:
            waiting += user.users
    return False
