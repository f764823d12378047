"""Attention in one command: a product of queries and keys, scale, mask, softmax, and its product with the values.

Core's description, pattern, legality and command; core: hls_kernels/cores/attention, tests:
tests/lowering/test_attention.py. Where somebody else wants the scores or the weights, as a gradient does, or they are
rounded to fewer bits, the products and the softmax are commands of their own: see matmul.py and reduction.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from fpga_dynamo.codegen.core import CORES, Core
from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.command import Operand
from fpga_dynamo.ir.graph import (
    IDENTITY_TARGETS,
    RESHAPE_TARGETS,
    GraphInfo,
    argument,
    aten,
    refuse_float,
    shape,
    value,
)
from fpga_dynamo.ir.graph import operand as operand_of
from fpga_dynamo.ir.records import Attention
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.view import VEC, View, align, ceil_div, numel
from fpga_dynamo.lowering.ops.matmul.batches import (
    batches,
    operand_view,
    result_order,
    split,
    splits_batch,
    unit_strides,
    unmerged,
)
from fpga_dynamo.lowering.ops.matmul.matmul import SCALE, factor_of, reshaped
from fpga_dynamo.lowering.ops.reduction.reduction import SOFTMAX_PASSES
from fpga_dynamo.lowering.patterns import Match, Pattern, Step, dtype_of, follow, sole_user

FEWEST_ROWS = 4
"""Of a head's queries. For fewer, such as the one token of a decoder step, packing keys and values costs more than it
saves. One query against 12 x 2048 or 32 x 256 keys takes 1.1 times as long in this command as in three."""

SLICE_ROWS = 128
"""Rows of a head that are worth packing its keys and values for once more."""


# --- core -------------------------------------------------------------------------------------------------------------


def _cycles(c: Attention, target: Target) -> float:
    """Two products on the MAC array and the passes of the softmax."""
    panel = VEC * target.tiles["MAX_VECTORS"]
    products = ceil_div(c.keys, panel) * c.width + ceil_div(c.value_width, panel) * c.keys
    steps = ceil_div(c.rows, target.tiles["ROWS"]) * products
    return numel(c.batch) * (steps + SOFTMAX_PASSES * c.rows * ceil_div(c.keys, VEC))


def _floats(c: Attention, target: Target) -> int:
    rows, keys = c.rows, c.keys
    masked = rows * keys if c.mask is not None else 0
    return numel(c.batch) * ((rows + keys) * (c.width + c.value_width) + masked)


ATTENTION = CORES.add(
    Core[Attention](
        Attention.opcode,
        _cycles,
        _floats,
        parts=lambda c, target: numel(c.batch) * ceil_div(c.rows, SLICE_ROWS),
        zero_copy=True,
    )
)


# --- pattern ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AttentionParts:
    """product: with the values. masked: the node of the scores with the mask. scale: the node that scales them.

    masked_to_zero: whether rows that are masked altogether give 0.
    """

    product: Node
    mask: Node | None
    masked: Node
    scale: Node | None
    masked_to_zero: bool


def match_attention(pattern: Pattern, node: Node, graph: GraphInfo) -> Match[AttentionParts] | None:
    """From the product that gives the scores to the one that uses their softmax, if nobody uses what lies between."""
    rows = shape(node)[-2]
    if isinstance(rows, int) and rows < FEWEST_ROWS:
        return None
    added = _addend(node)
    steps = [] if node.target is aten.baddbmm.default else [SCALE]
    nodes, scores, links = follow(node, steps if added is not None else [*steps, _MASK], graph, views=True)
    softmax = _softmax(scores)
    if softmax is None:
        return None
    taken, weights = softmax
    product, views = _user_through_views(weights)
    if product is None or product.target is not aten.bmm.default or product.args[0] is not views[-1]:
        return None
    last = product
    covered = (node, *nodes, *taken, *views[1:], product)
    if (view := sole_user(product)) is not None and splits_batch(view):
        covered, last = (*covered, view), view
    tensors = (*covered, *_operands(node), operand_of(product, 1))
    if any(dtype_of(n) not in (torch.float32, torch.bool) for n in tensors):
        return None
    mask = _mask_of(links["mask"], covered) if "mask" in links else added
    parts = AttentionParts(product, mask, links.get("mask", node), links.get("scale"), len(taken) > 1)
    return Match(pattern, covered, (last,), parts)


def _operands(node: Node) -> tuple[Node, Node]:
    """Queries and transposed keys."""
    first = 1 if node.target is aten.baddbmm.default else 0
    return operand_of(node, first), operand_of(node, first + 1)


def _addend(node: Node) -> Node | None:
    """What baddbmm adds, unless its factor is 0."""
    if node.target is not aten.baddbmm.default or argument(node, "beta", 3, 1) == 0:
        return None
    return operand_of(node, 0)


def _mask_of(add: Node, covered: Sequence[Node]) -> Node:
    return next(arg for arg in add.all_input_nodes if arg not in covered)


def _adds_mask(before: Node, add: Node) -> bool:
    """Whether `add` is a plain sum of the scores and a tensor that broadcasts to each head's (rows, keys)."""
    if len(add.args) != 2 or argument(add, "alpha", 2, 1) != 1 or len(add.all_input_nodes) != 2:
        return False
    return len(shape(add)) in (3, 4) and shape(add) == shape(before)


_MASK = Step("mask", (aten.add.Tensor,), _adds_mask)


def _softmax(scores: Node) -> tuple[list[Node], Node] | None:
    """The nodes of the softmax over the last dimension of `scores`, and the one that gives the weights.

    One node, or four where rows of nothing but -inf become 0: tracing/attention.py writes that as where(amax == -inf).
    """
    softmax = next((user for user in scores.users if user.target is aten._softmax.default), None)
    if softmax is None or argument(softmax, "dim", 1) not in (-1, len(shape(scores)) - 1):
        return None
    if len(scores.users) == 1:
        return [softmax], softmax
    largest = next((user for user in scores.users if user.target is aten.amax.default), None)
    if len(scores.users) != 2 or largest is None or (hidden := sole_user(largest)) is None:
        return None
    if hidden.target is not aten.eq.Scalar or hidden.args[1] != -math.inf or largest.args[1:] != ([-1], True):
        return None
    weights = sole_user(hidden)
    if weights is None or weights.target is not aten.where.self or sole_user(softmax) is not weights:
        return None
    if weights.args[0] is not hidden or weights.args[2] is not softmax or not _is_zero(weights.args[1]):
        return None
    return [largest, hidden, softmax, weights], weights


def _is_zero(node: object) -> bool:
    return isinstance(node, Node) and node.target is aten.scalar_tensor.default and bool(node.args[0] == 0)


def _user_through_views(node: Node) -> tuple[Node | None, list[Node]]:
    """The user of `node` behind views that keep its rows in their order; `node` and these views."""
    views = [node]
    user = sole_user(node)
    while user is not None and shape(user)[-1:] == shape(node)[-1:]:
        same = user.target in IDENTITY_TARGETS or user.target is aten.expand.default
        if user.target not in RESHAPE_TARGETS and not (same and shape(user) == shape(views[-1])):
            break
        views.append(user)
        user = sole_user(user)
    return user, views


def check_attention(match: Match[AttentionParts], graph: GraphInfo) -> str | None:
    node, product, mask = match.nodes[0], match.bound.product, match.bound.mask
    queries, keys = _operands(node)
    given = {"queries": queries, "keys": keys, "values": operand_of(product, 1), "mask": mask}
    for what, tensor in given.items():
        if tensor is not None and (why := refuse_float(tensor, what)):
            return why
    if not isinstance(argument(node, "alpha", 4, 1), (int, float)) or argument(node, "beta", 3, 1) not in (0, 1):
        return "alpha of the scores is not known before the call, or beta is not 0 or 1"
    if shape(product)[:2] != shape(node)[:2] or shape(match.bound.masked)[-2:] != shape(node)[1:]:
        return "the product with the values has another batch size or number of rows than the scores"
    tiles = graph.target.tiles
    if shape(node)[2] > tiles["OUT_FLOATS"] // VEC:
        return f"more than {tiles['OUT_FLOATS'] // VEC} keys are not supported: the core holds a row of scores on chip"
    if shape(queries)[2] > tiles["K_BLOCK"]:
        return f"keys are wider than {tiles['K_BLOCK']} channels, the depth of a packed panel"
    return refuse_float(match.root, "result")


def macs_attention(match: Match[AttentionParts]) -> int:
    queries, _ = _operands(match.nodes[0])
    scores = value(match.nodes[0]).numel()
    return scores * (shape(queries)[2] + shape(match.bound.product)[2])


def lower_attention(match: Match[AttentionParts], emitter: Emitter) -> Sequence[View]:
    node, product = match.nodes[0], match.bound.product
    queries, keys = _operands(node)
    halves = _halves(match, emitter)
    rows, columns = shape(node)[1:]
    width = shape(product)[2]
    query = batches(queries, halves, emitter)
    if query.strides[3] != 1 and query.shape[3] != 1:
        query = emitter.relaid(query, (0, 1, 2, 3))
    key = batches(keys, halves, emitter)
    values = batches(operand_of(product, 1), halves, emitter)
    mask = _mask(match, halves, emitter)
    y = emitter.tensor((*halves, rows, width), result_order(match.root), pitch=align(width))
    command = Attention(
        query=Operand.of(query),
        key=Operand.of(key),
        value=Operand.of(values),
        mask=None if mask is None else Operand.of(mask),
        output=Operand.of(y),
        batch=halves,
        rows=rows,
        keys=columns,
        width=shape(queries)[2],
        value_width=width,
        query_stride=query.strides[:3],
        key_stride=unit_strides(key),
        value_stride=unit_strides(values),
        mask_stride=(0, 0, 0, 0) if mask is None else mask.strides,
        out_stride=y.strides[:3],
        scale=_scale(match),
        mask_in_weights=int(mask is not None and mask.buffer.in_weights),
        masked_to_zero=int(match.bound.masked_to_zero),
    )
    emitter.command(command, reads=[query, key, values, mask], writes=[y], macs=macs_attention(match))
    return [reshaped(y, shape(match.root), emitter)]


def _scale(match: Match[AttentionParts]) -> float:
    node, scale = match.nodes[0], match.bound.scale
    factor = float(argument(node, "alpha", 4, 1)) if node.target is aten.baddbmm.default else 1.0
    return factor if scale is None else factor_of(scale) or 0.0


def _halves(match: Match[AttentionParts], emitter: Emitter) -> tuple[int, int]:
    """How the heads are split in two: as a mask is added, as the result is split, or as an operand was merged."""
    node, masked = match.nodes[0], match.bound.masked
    if len(shape(masked)) == 4:
        return shape(masked)[0], shape(masked)[1]
    if splits_batch(match.root):
        return shape(match.root)[0], shape(match.root)[1]
    for given in (*_operands(node), operand_of(match.bound.product, 1)):
        if found := unmerged(given, emitter):
            return shape(found)[0], shape(found)[1]
    return 1, shape(node)[0]


def _mask(match: Match[AttentionParts], halves: tuple[int, int], emitter: Emitter) -> View | None:
    """The mask of each row of each head; a row is contiguous or one number."""
    mask, size = match.bound.mask, shape(match.bound.masked)
    if mask is None:
        return None
    if shape(mask) == size:
        view = operand_view(mask, halves, emitter) if len(size) == 3 else emitter.view(mask)
    else:
        view = emitter.view(mask).expand(size)
        view = split(view, halves) if len(size) == 3 else view
    if view.strides[3] in (0, 1) or view.shape[3] == 1:
        return view
    return emitter.relaid(view, (0, 1, 2, 3))


PATTERNS = (
    Pattern(
        name="attention",
        anchors=(aten.bmm.default, aten.baddbmm.default),
        match=match_attention,
        check=check_attention,
        lower=lower_attention,
        opcodes=frozenset({"attention", "move"}),
        macs=macs_attention,
    ),
)
