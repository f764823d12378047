"""The core in smooth.hpp as the compiler sees it, and the pattern that turns `demo::smooth` into its command."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import Node

import fpga_dynamo
from examples.custom_core import op  # noqa: F401 - defines demo::smooth
from fpga_dynamo.patterns import VEC, Emitter, GraphInfo, Operand, View, align, ceil_div, operand, refuse_float, shape

SMOOTH_CORE = fpga_dynamo.Core(
    opcode="smooth",
    cycles=lambda c, target: c["sequences"] * c["steps"] * ceil_div(c["channels"], VEC),
    moved=lambda c, target: 2 * c["sequences"] * c["steps"] * c["channels"],
    parts=lambda c, target: c["sequences"] * ceil_div(c["channels"], 8 * VEC),
    zero_copy=True,
)
fpga_dynamo.register_core(SMOOTH_CORE)


def match(pattern: fpga_dynamo.Pattern, node: Node, graph: GraphInfo) -> fpga_dynamo.Match:
    """The node alone. A pattern that takes more nodes lists them all, and as outputs those that others may read."""
    return fpga_dynamo.Match(pattern, nodes=(node,), outputs=(node,))


def check(match: fpga_dynamo.Match, graph: GraphInfo) -> str | None:
    """Why the card cannot run it, as a sentence for `explain`, or None."""
    node = match.root
    if why := refuse_float(operand(node, 0), "its input"):
        return why
    if len(shape(node)) != 3:
        return f"its input has {len(shape(node))} dimensions; the core supports sequence x step x channel"
    if not isinstance(node.args[1], float):
        return "its decay is not known before the call"
    return None


def lower(match: fpga_dynamo.Match, emitter: Emitter) -> Sequence[View]:
    """One `smooth` command; the fields are those of `struct smooth_command`."""
    node = match.root
    decay = node.args[1]
    assert isinstance(decay, float)  # or `check` would have refused
    x = emitter.vector_rows(emitter.view(operand(node, 0)), aligned=True)
    sequences, steps, channels = x.shape
    y = emitter.tensor(x.shape, pitch=align(channels))
    emitter.command(
        "smooth",
        reads=[x],
        writes=[y],
        input=Operand.of(x),
        output=Operand.of(y),
        sequences=sequences,
        steps=steps,
        channels=channels,
        in_stride=x.strides[:2],
        out_stride=y.strides[:2],
        decay=decay,
    )
    return [y]


SMOOTH = fpga_dynamo.Pattern(
    name="smooth",
    anchors=(torch.ops.demo.smooth.default,),
    match=match,
    check=check,
    lower=lower,
    opcodes=frozenset({"smooth", "move"}),  # `vector_rows` may emit a move
)
fpga_dynamo.register_pattern(SMOOTH)
