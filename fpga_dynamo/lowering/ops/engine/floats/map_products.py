"""Products of two maps of bfloat16 or float32 on the hardware engine, a head of an attention each."""

from __future__ import annotations

from torch.fx import Node

from fpga_dynamo.codegen.engine.command import Flags
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import RefusedError
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.graph import aten, shape, value
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.ops.engine.common.head_products import heads_product, reaches_softmax, seen_as
from fpga_dynamo.lowering.ops.engine.floats.epilogue import FloatEpilogue, fields, parameters


def product_of_maps(
    node: Node,
    left: View,
    right: View,
    end: FloatEpilogue,
    emitter: EngineEmitter,
    *,
    scores: bool = False,
    wide: bool = False,
) -> View:
    """The command for a product of matrices `node`, which ends with `end`; answers its value in the shape of `node`.

    scores: a softmax of the same match reads it. wide: it is left in float32 then. Raises RefusedError.
    """
    depth, columns = left.shape[-1], right.shape[-1]
    if depth % CHANNELS or columns % CHANNELS:
        # What fills a block of a second operand is what happens to lie there, and times 0 may be NaN.
        raise RefusedError(f"matrices have {depth} and {columns} rows and columns; multiples of 16 are supported")
    own = fields(end, emitter)
    if wide:
        own["flags"] = Flags.WIDE
    of = heads_product(left, right, end.last, emitter, lambda root: scores or _stays_apart(root), wide=wide, **own)
    emitter.mac(
        of.command,
        of.left.rows,
        of.result.rows,
        parameters(end, None, columns, emitter),
        second=of.right.rows,
        macs=value(node).numel() * depth,
    )
    rank, view = len(shape(node)), of.view
    return seen_as(View(view.buffer, tuple(shape(node)), view.strides[-rank:], view.offset), node)


def _stays_apart(node: Node) -> bool:
    """Whether a value's readers, behind views and factors, are rows' functions or the host's: softmax."""
    return reaches_softmax(node, (aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor))
