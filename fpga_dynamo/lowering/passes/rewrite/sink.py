"""Pass (before the engine's claims): views move behind element-wise work, so that products are next to their epilogues.

Between a product and what its command could do in its epilogue often stands a view, as whoever wrote the model thinks
of rows as of batches. Nothing is moved that changes the order of elements: only reshapes, and permutations of
dimensions of size 1.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from torch.fx import GraphModule, Node

from fpga_dynamo.ir.graph import IDENTITY_TARGETS, RESHAPE_TARGETS, arguments, aten, shape, value
from fpga_dynamo.ir.quantised import DEQUANTIZE, dequantized, quantizes
from fpga_dynamo.lowering.ops.unary_functions import is_unary_function
from fpga_dynamo.lowering.patterns import sole_user

_ORDERS = (aten.permute.default, aten.transpose.int, aten.t.default)
_PRODUCTS = (aten.addmm.default, aten.mm.default, aten.convolution.default)
_SIZES = (aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default)


def sink_views(module: GraphModule, static_inputs: Collection[int] = ()) -> None:
    """Rewrites the graph in place: quantise -> view -> dequantise -> function -> quantise gets its view last."""
    for node in list(module.graph.nodes):
        if quantizes(node) is None or (chain := _chain(node)) is None:
            continue
        _move(module, chain)
    for node in reversed(list(module.graph.nodes)):
        if not node.users and (node.target is DEQUANTIZE or _keeps_order(node)):
            module.graph.erase_node(node)


def _chain(last: Node) -> list[Node] | None:
    """Dequantising node, functions, quantising node, if what is dequantised is a view that may go behind them all."""
    chain, at = [last], last.args[0]
    while isinstance(at, Node) and dequantized(at) is None:
        if at.target is aten.add.Tensor and len(at.all_input_nodes) == 2:
            return _sum_chain(at, chain)
        if len(at.users) != 1 or not is_unary_function(at):
            return None
        chain.insert(0, at)
        at = at.all_input_nodes[0]
    if not isinstance(at, Node) or len(at.users) != 1:
        return None
    return [at, *chain] if _unseen(at) is not None else None


def _sum_chain(add: Node, chain: Sequence[Node]) -> list[Node] | None:
    """With a sum of two values of one shape as its first function: a product's and a dequantised one."""
    if len(add.users) != 1 or len(add.args) != 2 or add.kwargs:
        return None
    operands = add.all_input_nodes
    if any(len(arg.users) != 1 or shape(arg) != shape(add) for arg in operands):
        return None
    # What stands behind a view of a product's own may join it; the other is seen through a view then.
    first = next((arg for arg in operands if _unseen(arg) is not None), None)
    if first is None or any(dequantized(arg) is None for arg in operands if arg is not first):
        return None
    return [first, add, *chain]


def _unseen(node: Node) -> Node | None:
    """What was just made, for nobody else, in front of views that keep its order; None if that is nothing.

    node: dequantises integers that were quantised there, or shows floating-point values of a product.
    """
    found = dequantized(node)
    at = node if found is None else found[0]
    if not _keeps_order(at):
        return None
    while _keeps_order(at) and len(at.users) == 1:
        at = at.all_input_nodes[0]
    made = at.target in _PRODUCTS if found is None else quantizes(at) is not None
    return at if made and sole_user(at) is not None else None


def _keeps_order(node: Node) -> bool:
    """Whether a view shows the same elements in the same order in another shape."""
    if node.op != "call_function" or len(node.all_input_nodes) != 1:
        return False
    if node.target in RESHAPE_TARGETS or node.target in _SIZES or node.target in IDENTITY_TARGETS:
        return True
    if node.target not in _ORDERS:
        return False
    before, order = shape(node.all_input_nodes[0]), _order(node)
    kept = [d for d in order if before[d] != 1]
    return kept == sorted(kept)


def _order(node: Node) -> list[int]:
    rank = len(shape(node))
    if node.target is aten.permute.default:
        return [int(d) % rank for d in arguments(node)[1]]
    order = list(range(rank))
    if node.target is aten.t.default:
        return order[::-1]
    a, b = (int(d) % rank for d in arguments(node)[1:3])
    order[a], order[b] = order[b], order[a]
    return order


def _move(module: GraphModule, chain: Sequence[Node]) -> None:
    first, last = chain[0], chain[-1]
    base = _unseen(first)
    assert base is not None
    size = list(shape(base))
    graph = module.graph
    made: dict[Node, Node] = {}

    def add(target: Any, args: Any, like: Node, kwargs: Any = None) -> Node:
        with graph.inserting_before(last):
            node = graph.call_function(target, tuple(args), dict(kwargs or {}))
        node.meta = {**like.meta, "val": value(like).reshape(size)}
        return node

    made[first] = base if dequantized(first) is None else add(DEQUANTIZE, (base, *first.args[1:]), first)
    for node in chain[1:]:
        for operand in node.all_input_nodes:
            if operand not in made:  # the other part of a sum
                found = dequantized(operand)
                assert found is not None
                seen = add(aten.view.default, (found[0], size), found[0])
                made[operand] = add(DEQUANTIZE, (seen, *operand.args[1:]), operand)
        args = [made.get(arg, arg) if isinstance(arg, Node) else arg for arg in node.args]
        made[node] = add(node.target, args, node, node.kwargs)
    with graph.inserting_before(last):
        seen = graph.call_function(aten.view.default, (made[last], list(shape(last))))
    seen.meta = dict(last.meta)
    last.replace_all_uses_with(seen)
    graph.erase_node(last)
    for node in reversed(chain[1:-1]):
        graph.erase_node(node)
