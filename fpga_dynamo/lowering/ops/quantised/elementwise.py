"""Element-wise work on 8-bit integers: sums and differences of two tensors, and any function of one as a table.

Patterns and commands; core: hls_kernels/cores/quantize, tests: tests/lowering/test_quantised.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch.fx import Node

from fpga_dynamo.codegen.core import CORES, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.codegen.requantize import RequantizeError, factor
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.graph import GraphInfo, aten, operand, refuse_value, shape
from fpga_dynamo.ir.quantised import QUANTIZE, Scale, dequantized, quantizes
from fpga_dynamo.ir.records import AddInt8, LookupInt8
from fpga_dynamo.ir.view import View
from fpga_dynamo.lowering.ops.epilogue import ACTIVATION_TARGETS, Activation, activation
from fpga_dynamo.lowering.ops.quantised.casts import cycles, moving, parts, placed_like, walk
from fpga_dynamo.lowering.ops.quantised.epilogue import limits
from fpga_dynamo.lowering.ops.quantised.tables import packed_table, table_of
from fpga_dynamo.lowering.ops.unary_functions import is_unary_function
from fpga_dynamo.lowering.patterns import Match, Pattern, sole_user

CORES.add(Core[AddInt8](AddInt8.opcode, cycles, moving(3), parts, zero_copy=True))
CORES.add(Core[LookupInt8](LookupInt8.opcode, cycles, moving(2), parts, zero_copy=True))

# --- sums -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairParts:
    """What a sum or a product reads: its operands, the integers and scales that they are made of; and its limits.

    signs: -1 for what a difference subtracts.
    """

    operands: tuple[Node, Node]
    integers: tuple[Node, Node]
    scales: tuple[Scale, Scale]
    activation: Activation
    signs: tuple[int, int] = (1, 1)


def match_two(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[PairParts] | None:
    """The sum, difference or product of two dequantised values, [limits], rounded to eight bits."""
    if len(node.args) != 2 or node.kwargs:
        return None
    left, right = map(dequantized, node.args)
    if left is None or right is None:
        return None
    nodes, act = [node], Activation()
    user = sole_user(node)
    if user is not None and user.target in ACTIVATION_TARGETS:
        found = activation(user)
        if found is None or found.kind not in ("ACT_RELU", "ACT_CLAMP"):
            return None
        nodes, act = [node, user], found
        user = sole_user(user)
    if user is None or quantizes(user) is None or not graph.claimed.isdisjoint((*nodes, user)):
        return None
    sources = tuple(dict.fromkeys(node.all_input_nodes))
    signs = (1, -1) if node.target is aten.sub.Tensor else (1, 1)
    parts = PairParts((operand(node, 0), operand(node, 1)), (left[0], right[0]), (left[1], right[1]), act, signs)
    return Match(pattern, (*sources, *nodes, user), (user,), parts)


def check_add(match: Match[PairParts], graph: GraphInfo) -> str | None:
    scale = quantizes(match.root)
    assert scale is not None
    of = match.bound
    for arg, integers, own in zip(of.operands, of.integers, of.scales, strict=True):
        if shape(arg) != shape(match.root):
            return "a broadcast operand is not supported"
        if why := refuse_value(integers, "operand"):
            return why
        try:
            factor(own.scale / scale.scale)
        except RequantizeError as error:
            return str(error)
    return refuse_value(match.root, "result")


def lower_add(match: Match[PairParts], emitter: Emitter) -> Sequence[View]:
    scale = quantizes(match.root)
    assert scale is not None
    (a_scale, b_scale), (a_sign, b_sign) = match.bound.scales, match.bound.signs
    a, b = (emitter.in_arena(emitter.integers(part)) for part in match.bound.integers)
    out = placed_like(a, match.root, emitter, scale.element)
    dims, (out_stride, a_stride, b_stride), begins = walk(out, a, b)
    low, high = limits(match.bound.activation, scale)
    for to, from_a, from_b in begins:
        command = AddInt8(
            a=Operand(a.buffer, a.offset + from_a),
            b=Operand(b.buffer, b.offset + from_b),
            output=Operand(out.buffer, out.offset + to),
            dims=dims,
            a_stride=a_stride,
            b_stride=b_stride,
            out_stride=out_stride,
            a_format=emitter.format_of(a),
            a_zero=a_scale.zero,
            a_factor=factor(a_sign * a_scale.scale / scale.scale),
            b_format=emitter.format_of(b),
            b_zero=b_scale.zero,
            b_factor=factor(b_sign * b_scale.scale / scale.scale),
            out_format=emitter.format_of(out),
            out_zero=scale.zero,
            out_low=low,
            out_high=high,
        )
        emitter.command(command, reads=[a, b], writes=[out])
    return [out]


# --- functions of one tensor ------------------------------------------------------------------------------------------


def match_lookup(pattern: Pattern, node: Node, graph: GraphInfo) -> Match | None:
    """Element-wise functions of one dequantised value between it and where it is rounded to eight bits."""
    if quantizes(node) is None:
        return None
    chain, at = [node], operand(node, 0)
    while dequantized(at) is None:
        if len(at.users) != 1 or not is_unary_function(at) or at in graph.claimed:
            return None
        chain.append(at)
        at = at.all_input_nodes[0]
    if len(at.users) != 1:
        return None
    return Match(pattern, tuple(reversed([*chain, at])), (node,))


def check_lookup(match: Match, graph: GraphInfo) -> str | None:
    found = dequantized(match.nodes[0])
    assert found is not None
    return refuse_value(found[0], "input") or refuse_value(match.root, "result")


def lower_lookup(match: Match, emitter: Emitter) -> Sequence[View]:
    found, scale = dequantized(match.nodes[0]), quantizes(match.root)
    assert found is not None and scale is not None
    source = emitter.in_arena(emitter.integers(found[0]))
    out = placed_like(source, match.root, emitter, scale.element)
    table = packed_table(table_of(match.nodes), emitter, match.root.name)
    dims, (out_stride, in_stride), begins = walk(out, source)
    for to, start in begins:
        command = LookupInt8(
            input=Operand(source.buffer, source.offset + start),
            output=Operand(out.buffer, out.offset + to),
            table=Operand(table),
            in_format=emitter.format_of(source),
            dims=dims,
            in_stride=in_stride,
            out_stride=out_stride,
        )
        emitter.command(command, reads=[source, table], writes=[out])
    return [out]


ADD = Pattern(
    "add_int8",
    (aten.add.Tensor, aten.sub.Tensor),
    match_two,
    check_add,
    lower_add,
    frozenset({"add_int8", "move"}),
    in_place=True,
)

LOOKUP = Pattern(
    "lookup_int8",
    (QUANTIZE,),
    match_lookup,
    check_lookup,
    lower_lookup,
    frozenset({"lookup_int8", "move"}),
    in_place=True,
)

PATTERNS = (LOOKUP, ADD)
