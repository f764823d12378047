"""The batch of a matrix product as two dimensions (images and heads, say), each with a stride of its own.

A graph merges the two for `bmm` and splits its result again, which strides alone cannot always say. The gemm core walks
both, so the operands are taken from before they were merged, and the result is laid out for whoever transposes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch.fx import Node

from fpga_dynamo.codegen.emitter import Emitter
from fpga_dynamo.ir.graph import IDENTITY_TARGETS, RESHAPE_TARGETS, argument, aten, shape
from fpga_dynamo.ir.view import VEC, View
from fpga_dynamo.lowering.patterns import sole_user

_TRANSPOSES = (aten.permute.default, aten.transpose.int)
_REPETITIONS = frozenset({*RESHAPE_TARGETS, *IDENTITY_TARGETS, aten.expand.default, aten.unsqueeze.default})


def splits_batch(node: Node) -> bool:
    """Whether `node` is (b0 b1, m, n) seen as (b0, b1, m, n)."""
    if node.target not in RESHAPE_TARGETS:
        return False
    before, after = shape(node.all_input_nodes[0]), shape(node)
    return len(before) == 3 and len(after) == 4 and before[1:] == after[2:]


def unmerged(node: Node, emitter: Emitter) -> Node | None:
    """The node of shape (b0, b1, m, n) that `node` shows as (b0 b1, m, n), if its value is not settled elsewhere."""
    while not emitter.made(node):
        if (
            node.target not in RESHAPE_TARGETS
            and node.target not in IDENTITY_TARGETS
            and node.target != aten.expand.default
        ):
            return None
        source = node.all_input_nodes[0]
        before, after = shape(source), shape(node)
        if len(before) == 4 and len(after) == 3 and before[2:] == after[1:]:
            return source
        if before != after:
            return None
        node = source
    return None


def halves_of(product: Node, root: Node, operands: Sequence[Node], emitter: Emitter) -> tuple[int, int]:
    """How the batch of a product is split in two: as an operand's was merged, or as the result's, `root`, is split."""
    if len(shape(product)) == 2:
        return 1, 1
    if splits_batch(root):
        return shape(root)[0], shape(root)[1]
    for given in operands:
        if found := unmerged(given, emitter):
            return shape(found)[0], shape(found)[1]
    return 1, shape(product)[0]


def repeated_matrix(node: Node) -> Node:
    """The matrix that a batch consists of (``w.expand(batch, k, n)``: a linear layer of turned rows); else `node`."""
    found = node
    while len(shape(found)) > 2:
        if found.target not in _REPETITIONS:
            return node
        found = found.all_input_nodes[0]
        if shape(found)[-2:] != shape(node)[-2:]:
            return node
    return found


def operand_view(
    node: Node, halves: tuple[int, int], emitter: Emitter, *, integers: bool = False, narrow: bool = False
) -> View:
    """A matrix or a batch of them as (b0, b1, m, n).

    integers: of eight bits, in a byte each. narrow: elements may be narrower than a word.
    """
    read = emitter.integers if integers else partial(emitter.view, narrow=narrow)
    source = unmerged(node, emitter)
    if source is not None and shape(source)[:2] == halves:
        return read(source)
    return split(read(node), halves)


def batches(
    node: Node, halves: tuple[int, int], emitter: Emitter, *, integers: bool = False, narrow: bool = False
) -> View:
    """:func:`operand_view` in the arena with contiguous rows or columns, by a copy if neither are."""
    view = emitter.in_arena(operand_view(node, halves, emitter, integers=integers, narrow=narrow))
    contiguous = any(view.strides[d] == 1 or view.shape[d] == 1 for d in (-2, -1))
    return view if contiguous else emitter.relaid(view, tuple(range(len(view.shape))))


def split(view: View, halves: tuple[int, int]) -> View:
    """(m, n) or (b0 b1, m, n) as (b0, b1, m, n)."""
    if len(view.shape) == 2:
        return view.unsqueeze(0).unsqueeze(0)
    batch, rows, columns = view.strides
    strides = (batch * halves[1], batch, rows, columns)
    return View(view.buffer, (*halves, *view.shape[1:]), strides, view.offset, view.dtype)


def unit_strides(view: View) -> tuple[int, ...]:
    """Strides for the record: 0 between batches that share a matrix, also where a copy of it has another stride.

    A row or column of size 1 has whatever stride it likes: 1 is the one that helps.
    """
    *outer, row, column = (0 if d < 2 and size == 1 else view.strides[d] for d, size in enumerate(view.shape))
    if row != 1 and column != 1:
        row, column = (row, 1) if view.shape[-1] == 1 else (1, column)
    return (*outer, row, column)


def result_order(root: Node) -> Sequence[int]:
    """Dimensions of a result (b0, b1, m, n), outermost first: those of its only user, if that transposes it.

    Rows have to stay whole, and full vectors where something lies behind them.
    """
    row_major = (0, 1, 2, 3)
    user = sole_user(root) if splits_batch(root) else None
    if user is None or user.target not in _TRANSPOSES or shape(root)[3] % VEC:
        return row_major
    order = _permutation(user)
    return order if order[-1] == 3 else row_major


def _permutation(node: Node) -> tuple[int, ...]:
    rank = len(shape(node))
    if node.target is aten.permute.default:
        return tuple(d % rank for d in argument(node, "dims", 1))
    order = list(range(rank))
    a, b = argument(node, "dim0", 1) % rank, argument(node, "dim1", 2) % rank
    order[a], order[b] = order[b], order[a]
    return tuple(order)
