"""Batch norm by running statistics: a scale and a shift for each channel, which are packed like parameters.

It has no command of its own. It ends a convolution (convolution/convolution.py) or is an element of an element-wise
group (elementwise/pointwise.py): two nodes, the call and its item 0, which is the value.

Tests: tests/lowering/test_convolution.py, tests/lowering/test_pointwise.py.
"""

from __future__ import annotations

import operator
from typing import Any

from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.graph import GraphInfo, argument, arguments, aten, operand, refuse_float, shape
from fpga_dynamo.ir.operators import Operator, first_of
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.ops.calls import image, per_channel
from fpga_dynamo.lowering.ops.packing import pack_scale_or_shift

BATCH_NORM = aten._native_batch_norm_legit_no_training.default

FACTS: dict[Any, Operator] = {
    BATCH_NORM: Operator(
        lambda t: image(t, *per_channel(t, 4, parameter=True), 0.1, 1e-5), laid_out=first_of(BATCH_NORM)
    ),
}


def is_batch_norm(node: Node) -> bool:
    return node.target is BATCH_NORM


def value_of(norm: Node) -> Node | None:
    """The node that is the value of a batch norm; None if nobody uses it."""
    items = [user for user in norm.users if user.target is operator.getitem and user.args[1] == 0]
    return items[0] if len(items) == 1 else None


def norm_of(node: Node) -> Node | None:
    """The batch norm whose value `node` is."""
    source = node.args[0] if node.args else None
    return source if isinstance(source, Node) and is_batch_norm(source) else None


def is_packable(norm: Node, graph: GraphInfo) -> bool:
    """Whether scale and shift are functions of parameters and buffers."""
    return all(arg is None or graph.is_static(arg) for arg in arguments(norm)[1:5])


def refuse_batch_norm(norm: Node, graph: GraphInfo) -> str | None:
    """Why the card cannot compute the value of a batch norm, or None."""
    if not is_packable(norm, graph):
        return "running statistics computed in the graph are not supported; the core reads buffers"
    if why := refuse_float(operand(norm, 0), "input"):
        return why
    if any(user.args[1] != 0 for user in norm.users if user.users):
        return "saved statistics are used, and the core returns the normalized values only"
    return None


def scale_or_shift(norm: Node, which: str, emitter: Emitter) -> View:
    """The packed "scale" or "shift" of each channel, of the shape [channels, 1, ...]."""
    given = [emitter.expression(a) if isinstance(a, Node) else None for a in norm.args[1:5]]
    eps = float(argument(norm, "eps", 6))
    _, channels, *pixels = shape(operand(norm, 0))
    buffer = emitter.pack(pack_scale_or_shift, (which, eps), given, channels, f"{norm.name} {which}")
    return View(buffer, (channels, *[1] * len(pixels)), (1, *[0] * len(pixels)))
