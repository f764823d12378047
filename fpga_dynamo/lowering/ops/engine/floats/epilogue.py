"""What a command of a floating-point engine does in its epilogue: y = sum scale + bias + residual, within limits.

Scale and bias are of each channel, in float32 like all of it; the result is rounded once. An engine of bfloat16 may
apply a function to what is rounded (functions.py). The arithmetic:
hls_kernels/engine/record.hpp.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import torch
import torch.nn.functional as F
from torch.fx import Node

from fpga_dynamo.codegen.engine.command import Flags
from fpga_dynamo.codegen.engine.emitter import EngineEmitter
from fpga_dynamo.codegen.engine.maps import MapImages, of_engine
from fpga_dynamo.codegen.engine.sizes import CHANNELS
from fpga_dynamo.ir.graph import GraphInfo, argument
from fpga_dynamo.ir.view import View, align
from fpga_dynamo.ir.weights import Expression
from fpga_dynamo.lowering.ops.batch_norm import BATCH_NORM, is_batch_norm, is_packable
from fpga_dynamo.lowering.ops.engine.common.images import Line
from fpga_dynamo.lowering.ops.engine.floats.functions import FunctionTable, behind, placed
from fpga_dynamo.lowering.ops.epilogue import ACTIVATION_TARGETS, Activation, activation, bias_of, residual_of
from fpga_dynamo.lowering.ops.matmul.matmul import SCALE, factor_of
from fpga_dynamo.lowering.patterns import Step, follow

_WORDS = 3 * CHANNELS
"""Of the parameters of a block: offsets, scales, biases."""
_LIMITS = ("ACT_NONE", "ACT_RELU", "ACT_CLAMP")


@dataclass(frozen=True)
class FloatEpilogue:
    """How a product ends, and the nodes behind it that say so, in order; last: whose value it gives.

    norm: a batch norm. scale: a factor. row: what is added to each row. residual: the node whose value is added.
    function: of the rounded result.
    """

    nodes: tuple[Node, ...]
    last: Node
    norm: Node | None = None
    scale: float = 1.0
    row: Node | None = None
    residual: Node | None = None
    limits: Activation = field(default_factory=Activation)
    function: FunctionTable | None = None


def float_epilogue(
    product: Node, graph: GraphInfo, *, rows: bool = False, alone: bool = False, biased: bool = False
) -> FloatEpilogue:
    """The longest chain behind `product`, all of single users, that a command does in its epilogue.

    rows: for a matrix, where factors, rows, and views that keep its rows may follow.
    alone: without an addition of another map.
    biased: the product itself adds a row, to which a later factor would apply as well.
    """
    factors = [] if biased else [SCALE]
    steps = [*factors, _row(graph)] if rows else [_norm(graph)]
    if not alone:
        steps.append(_residual(graph))
    nodes, last, links = follow(product, [*steps, _LIMIT], graph, views=rows)
    inside = {product, *nodes}
    functions, function = behind(last, graph, rows=rows)
    scale, add, row = links.get("scale"), links.get("add"), links.get("row")
    return FloatEpilogue(
        (*nodes, *functions),
        functions[-1] if functions else last,
        links.get("batch_norm"),
        1.0 if scale is None else factor_of(scale) or 0.0,
        None if row is None else _other(row, inside),
        None if add is None else _other(add, inside),
        activation(links.get("limits")) or Activation(),
        function,
    )


def limited(node: Node, graph: GraphInfo) -> FloatEpilogue:
    """The epilogue of `node` that is limits and a function alone."""
    nodes, last, links = follow(node, [_LIMIT], graph)
    functions, function = behind(last, graph)
    last = functions[-1] if functions else last
    limits = activation(links.get("limits")) or Activation()
    return FloatEpilogue((*nodes, *functions), last, limits=limits, function=function)


def _other(add: Node, inside: set[Node]) -> Node:
    """The operand of an addition that is not the product's."""
    (found,) = (arg for arg in add.args if isinstance(arg, Node) and arg not in inside)
    return found


def _norm(graph: GraphInfo) -> Step:
    def accept(before: Node, norm: Node) -> bool:
        return norm.args[0] is before and is_batch_norm(norm) and is_packable(norm, graph)

    return Step("batch_norm", (BATCH_NORM,), accept, through=0)


def _row(graph: GraphInfo) -> Step:
    def accept(before: Node, add: Node) -> bool:
        row = bias_of(before, add)
        return row is not None and graph.is_static(row)

    return Step("row", (torch.ops.aten.add.Tensor,), accept)


def _residual(graph: GraphInfo) -> Step:
    def accept(before: Node, add: Node) -> bool:
        other = residual_of(before, add)
        return other is not None and other is not before and not graph.is_static(other)

    return Step("add", (torch.ops.aten.add.Tensor,), accept)


def is_limit(node: Node) -> bool:
    """Whether it is an activation that limits keep."""
    found = activation(node)
    return found is not None and found.kind in _LIMITS


_LIMIT = Step("limits", ACTIVATION_TARGETS, lambda before, node: is_limit(node))


def float_bits(x: float) -> int:
    """The bits of a float32, as fields of a command have them."""
    bits: int = struct.unpack("<i", struct.pack("<f", x))[0]
    return bits


class Limits(TypedDict):
    """Fields of a command: what results are limited to, and by what else than that."""

    low: int
    high: int
    flags: Flags
    table: int


WITHOUT_LIMITS: Limits = {"low": float_bits(-math.inf), "high": float_bits(math.inf), "flags": Flags.NONE, "table": 0}
"""The fields of a result that goes on."""


def fields(end: FloatEpilogue, emitter: EngineEmitter) -> dict[str, Any]:
    """The record's fields. Raises RefusedError."""
    of_engine(end.last, "result", emitter.sizes)
    low, high = -math.inf, math.inf
    if end.limits.kind == "ACT_RELU":
        low = 0.0
    elif end.limits.kind == "ACT_CLAMP":
        low, high = end.limits.a, end.limits.b
    found = {"low": float_bits(low), "high": float_bits(high)}
    if end.function is None:
        return found
    return {**found, "flags": Flags.TABLE, "table": placed(end.function, end.last.name, emitter)}


def residual(
    end: FloatEpilogue, emitter: EngineEmitter, seen: Callable[[View], View], taken: Callable[[View, str], MapImages]
) -> MapImages | None:
    """Where lies what is added, seen in the form of the command. Raises RefusedError."""
    if end.residual is None:
        return None
    of_engine(end.residual, "addend", emitter.sizes)
    return taken(seen(emitter.view(end.residual)), "addend")


def parameters(
    end: FloatEpilogue, bias: Node | None, channels: int, emitter: EngineEmitter, *, shifted: bool = True
) -> Line:
    """The parameters of cut commands; bias: what is added before a batch norm. Not shifted: of factors alone."""
    norm, given = end.norm, bias if end.row is None else end.row
    eps = None if norm is None else float(argument(norm, "eps", 6))
    statistics = [None] * 4 if norm is None else norm.args[1:5]
    operands: list[Expression | None] = [
        emitter.expression(node) if isinstance(node, Node) else None for node in (given, *statistics)
    ]
    name = f"{end.last.name} parameters"
    return channel_parameters(channels, end.scale, emitter, eps, operands, name, shifted=shifted)


def channel_parameters(
    channels: int,
    scale: float,
    emitter: EngineEmitter,
    eps: float | None = None,
    operands: Sequence[Expression | None] = (None,) * 5,
    name: str = "parameters",
    *,
    shifted: bool = True,
) -> Line:
    """The parameters of so many channels; see :func:`pack_channels`."""
    words = _WORDS * (align(channels, CHANNELS) // CHANNELS)
    pack = emitter.pack(pack_channels, (channels, scale, eps, shifted), operands, words, name)
    return lambda cut, first: emitter.put(pack) + cut.params


def pack_channels(
    params: tuple[int, float, float | None, bool],
    bias: torch.Tensor | None,
    gamma: torch.Tensor | None,
    beta: torch.Tensor | None,
    mean: torch.Tensor | None,
    variance: torch.Tensor | None,
) -> torch.Tensor:
    """float32 [block][offset, scale, bias][16], filled with zeros: of y = sum scale + bias, and a batch norm of that.

    params: channels, scale, the batch norm's eps (None: no batch norm), and whether there is more than factors.
    """
    channels, factor, eps, shifted = params
    scale = torch.full((channels,), factor, dtype=torch.float64)
    shift = torch.zeros(channels, dtype=torch.float64) if bias is None else bias.detach().double().flatten()
    if eps is not None and mean is not None and variance is not None:
        by = torch.rsqrt(variance.double() + eps)
        if gamma is not None:
            by = by * gamma.double()
        scale, shift = scale * by, (shift - mean.double()) * by
        if beta is not None:
            shift = shift + beta.double()
    rows = torch.stack([torch.zeros_like(scale), scale, shift if shifted else torch.zeros_like(scale)]).to(
        torch.float32
    )
    return F.pad(rows, (0, -channels % CHANNELS)).view(3, -1, CHANNELS).transpose(0, 1).flatten()
