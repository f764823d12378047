"""What a product of integers does in its epilogue: the chain of nodes behind it, and the fields of a record for it.

The arithmetic: hls_kernels/lib/requantize.hpp; tests: tests/lowering/test_quantised.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import torch
from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.requantize import RequantizeError, factor
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.elements import F32, Element
from fpga_dynamo.ir.graph import GraphInfo, aten, shape
from fpga_dynamo.ir.quantised import Scale, dequantized, quantizes
from fpga_dynamo.ir.view import Buffer, View
from fpga_dynamo.lowering.ops.epilogue import ACTIVATION_TARGETS, Activation, activation
from fpga_dynamo.lowering.ops.quantised.tables import packed_table, table_of
from fpga_dynamo.lowering.ops.repetition import repetition
from fpga_dynamo.lowering.ops.unary_functions import is_unary_function
from fpga_dynamo.lowering.patterns import keeps_rows, sole_user

_LIMITS = ("ACT_NONE", "ACT_RELU", "ACT_CLAMP")
"""Activations that are limits of the result's integers."""

_SIGNED = torch.iinfo(torch.int8)


@dataclass(frozen=True)
class QuantizedEpilogue:
    """How a product of integers ends, and the nodes behind it that say so, in order.

    last: whose value it gives. scale: of the integers that this is; None if it is floating-point values.
    middle: by which it is rounded before `residual`, a dequantising node, is added; either may be None. Of a batch of
    matrices the residual may be broadcast.
    """

    nodes: tuple[Node, ...]
    last: Node
    scale: Scale | None
    middle: Scale | None = None
    residual: Node | None = None
    activation: Activation = field(default_factory=Activation)
    table: tuple[int, ...] | None = None
    """What becomes of each of these integers then, from the least of their type on."""
    narrower: tuple[int, int] | None = None
    """Limits of the integers that limits behind them are."""

    @property
    def in_floats(self) -> bool:
        """Whether the core computes it in float32."""
        return self.scale is None or self.activation.kind not in _LIMITS

    @property
    def element(self) -> Element:
        """What it lies on the card as."""
        return F32 if self.scale is None else self.scale.element

    @property
    def sum_size(self) -> tuple[int, ...]:
        """Of the result of the addition."""
        assert self.residual is not None
        return tuple(shape(next(iter(self.residual.users))))

    @property
    def first_scale(self) -> Scale | None:
        """Of the integers that the sums become first."""
        return self.middle or self.scale


def quantized_epilogue(
    product: Node, graph: GraphInfo, *, rows: bool = False, in_floats: bool = False
) -> QuantizedEpilogue:
    """The longest chain behind `product`, all of single users, that a core does in its epilogue.

    rows: of a matrix; views that keep its rows whole may stand between. in_floats: its sums are no numbers of a scale
    that is known, so that all of it is computed in float32.
    """
    walk = Walk(graph, rows)
    end = walk.epilogue(product)
    if not in_floats or end.in_floats:
        return end
    nodes, last, act = walk.activated(product)
    return QuantizedEpilogue(tuple(nodes), last, None, activation=act)


@dataclass(frozen=True)
class Walk:
    """Along single users that nobody has claimed."""

    graph: GraphInfo
    rows: bool

    def epilogue(self, product: Node) -> QuantizedEpilogue:
        added = self._with_residual(product)
        if added is not None:
            return self._with_function(added)
        nodes, last, act = self.activated(product)
        views, user = self.next(last)
        if user is not None and (scale := quantizes(user)) is not None:
            return self._with_function(QuantizedEpilogue((*nodes, *views, user), user, scale, activation=act))
        return QuantizedEpilogue(tuple(nodes), last, None, activation=act)

    def next(self, node: Node) -> tuple[list[Node], Node | None]:
        """The user of `node`, and the views that are passed on the way to it."""
        views: list[Node] = []
        user = _free_user(node, self.graph)
        while self.rows and user is not None and keeps_rows(user):
            views.append(user)
            user = _free_user(user, self.graph)
        return views, user

    def _with_function(self, end: QuantizedEpilogue) -> QuantizedEpilogue:
        """The epilogue with a function of its integers, if one follows that gives integers of the same type."""
        scale = end.scale
        views, reader = self.next(end.last)
        if scale is None or reader is None or (found := dequantized(reader)) is None or found[1] != scale:
            return end
        chain, passed = [reader], [*views, reader]
        while True:
            views, user = self.next(chain[-1])
            if user is None:
                return end
            passed += [*views, user]
            if not is_unary_function(user):
                break
            chain.append(user)
        if (result := quantizes(user)) is None or result.dtype is not scale.dtype:
            return end
        nodes = (*end.nodes, *passed)
        act = activation(chain[1]) if len(chain) == 2 else None
        if result == scale and act is not None and act.kind in _LIMITS and not end.in_floats:
            low, high = limits(end.activation, scale)
            low_, high_ = limits(act, scale)
            return replace(
                end, nodes=nodes, last=user, narrower=(min(max(low, low_), high_), max(min(high, high_), low_))
            )
        return replace(end, nodes=nodes, last=user, table=table_of(passed[passed.index(reader) :]))

    def activated(self, node: Node) -> tuple[list[Node], Node, Activation]:
        views, user = self.next(node)
        if user is None or user.target not in ACTIVATION_TARGETS:
            return [], node, Activation()
        act = activation(user)
        return ([], node, Activation()) if act is None else ([*views, user], user, act)

    def _with_residual(self, product: Node) -> QuantizedEpilogue | None:
        """[rounded to eight bits] + a dequantised value, [limits], rounded to eight bits."""
        nodes: list[Node] = []
        last, middle = product, None
        views, user = self.next(last)
        if user is not None and (scale := quantizes(user)) is not None:
            more, reader = self.next(user)
            if not _is_whole(scale) or reader is None or (found := dequantized(reader)) is None or found[1] != scale:
                return None
            nodes, last, middle = [*views, user, *more, reader], reader, scale
            views, user = self.next(last)
        if user is None or user.target is not aten.add.Tensor or len(user.args) != 2 or user.kwargs:
            return None
        before = views[-1] if views else last
        other = user.args[1] if user.args[0] is before else user.args[0]
        found = dequantized(other)
        if found is None or other in self.graph.claimed:
            return None
        assert isinstance(other, Node)
        if len(other.users) != 1 or not self._is_addend(shape(other), shape(before), product):
            return None
        nodes += [*views, other, user]
        more, end, act = self.activated(user)
        behind, result = self.next(end)
        if act.kind not in _LIMITS or result is None or (scale := quantizes(result)) is None:
            return None
        try:
            factor(found[1].scale / scale.scale)
            factor((middle or scale).scale / scale.scale)
        except RequantizeError:
            return None
        return QuantizedEpilogue((*nodes, *more, *behind, result), result, scale, middle, other, act)

    def _is_addend(self, size: Sequence[int], wanted: Sequence[int], product: Node) -> bool:
        """Whether it has as many elements as the result, or is the same for some matrices of a batch."""
        if size == wanted:
            return True
        if self.graph.target.engine is not None and "gather" not in self.graph.engine_features:
            return False  # it could not be laid out
        of_batch = len(shape(product)) == 3 and len(size) >= 2 and size[-2:] == wanted[-2:]
        return of_batch and len(size) <= len(wanted) and repetition(wanted[:-2], size[:-2]) is not None


def _free_user(node: Node, graph: GraphInfo) -> Node | None:
    user = sole_user(node)
    return None if user is None or user in graph.claimed else user


def _is_whole(scale: Scale) -> bool:
    """Whether integers are limited by their type alone."""
    limits = torch.iinfo(scale.dtype)
    return (scale.low, scale.high) == (limits.min, limits.max)


def limits(act: Activation, scale: Scale) -> tuple[int, int]:
    """The least and the greatest integer of a result behind an activation that is a limit.

    Exact, as rounding is monotonous: what a limit of a real number is rounded to is the limit of the integer.
    """
    low, high = scale.low, scale.high
    if act.kind == "ACT_RELU":
        low = max(low, scale.quantized(0.0))
    elif act.kind == "ACT_CLAMP":
        low, high = max(low, scale.quantized(act.a)), min(high, scale.quantized(act.b))
    return low, max(low, high)


class EpilogueFields(TypedDict):
    """The fields of the result, the residual and the rounding."""

    output: Operand
    residual: Operand | None
    table: Operand | None
    residual_format: int
    residual_zero: int
    residual_factor: int
    out_format: int
    out_zero: int
    out_low: int
    out_high: int
    middle: int
    middle_zero: int
    middle_factor: int
    activation: int
    act_a: float
    act_b: float
    inverse_scale: float


def fields(end: QuantizedEpilogue, out: View, residual: View | None, emitter: Emitter) -> EpilogueFields:
    """The record's fields; `out` and `residual` are where the result goes and the residual lies."""
    enums: Mapping[str, int] = emitter.target.enums
    found: EpilogueFields = {
        "output": Operand.of(out),
        "residual": None,
        "table": None,
        "residual_format": 0,
        "residual_zero": 0,
        "residual_factor": 0,
        "out_format": emitter.format_of(out),
        "out_zero": 0,
        "out_low": 0,
        "out_high": 0,
        "middle": 0,
        "middle_zero": 0,
        "middle_factor": 0,
        "activation": enums["ACT_NONE"],
        "act_a": 0.0,
        "act_b": 0.0,
        "inverse_scale": 0.0,
    }
    if end.in_floats:
        found |= {"activation": enums[end.activation.kind], "act_a": end.activation.a, "act_b": end.activation.b}
    scale = end.scale
    if scale is not None:
        low, high = (scale.low, scale.high) if end.in_floats else end.narrower or limits(end.activation, scale)
        if end.table is not None:
            found["table"] = Operand(packed_table(end.table, emitter, end.last.name))
        found |= {"out_zero": scale.zero, "out_low": low, "out_high": high, "inverse_scale": 1.0 / scale.scale}
        if residual is not None and end.residual is not None:
            other = dequantized(end.residual)
            assert other is not None
            found |= {
                "residual": Operand.of(residual),
                "residual_format": emitter.format_of(residual),
                "residual_zero": other[1].zero,
                "residual_factor": factor(other[1].scale / scale.scale),
            }
        if end.middle is not None:
            found |= {
                "middle": 1,
                "middle_zero": signed_zero(end.middle),
                "middle_factor": factor(end.middle.scale / scale.scale),
            }
    return found


def table_in(fields: Mapping[str, Any]) -> Buffer | None:
    """The table that the fields of a record name."""
    table = fields["table"]
    return table.buffer if isinstance(table, Operand) else None


def signed_zero(scale: Scale) -> int:
    """The zero point of the same integers, moved into the range of int8."""
    return scale.zero - (torch.iinfo(scale.dtype).min - _SIGNED.min)


def greatest_residual(end: QuantizedEpilogue) -> float:
    """The greatest |residual| in steps of the result; the sums of one with a middle have none."""
    if end.residual is None or end.middle is not None or end.scale is None:
        return 0.0
    other = dequantized(end.residual)
    assert other is not None
    return other[1].farthest * other[1].scale / end.scale.scale


def residual_integers(end: QuantizedEpilogue, emitter: Emitter) -> View | None:
    """Where the integers lie that are added."""
    if end.residual is None:
        return None
    found = dequantized(end.residual)
    assert found is not None
    return emitter.in_arena(emitter.integers(found[0]))


def covered(product: Node, source: Node, end: QuantizedEpilogue) -> Sequence[Node]:
    """The nodes of a match, in order: a product of dequantised `source` and its epilogue."""
    return (source, product, *end.nodes)
