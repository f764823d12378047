"""Pass (behind normalise): heads that are merged with the batch, moved in front of the rows, and told apart again.

``nn.MultiheadAttention`` sees (rows, batch, heads * width) as (rows, batch * heads, width) to transpose it, and then as
(batch, heads, rows, width). Where query, key and value lie side by side no strides say the middle one, so that each of
them would be copied; the last one is a permutation of the first.
"""

from __future__ import annotations

from collections.abc import Collection

from torch.fx import GraphModule, Node

from fpga_dynamo.ir.graph import RESHAPE_TARGETS, arguments, aten, shape, value
from fpga_dynamo.ir.sizes.tensor import dense_like


def split_heads(module: GraphModule, static_inputs: Collection[int] = ()) -> None:
    """Rewrites the graph in place."""
    for split in list(module.graph.nodes):
        transposed = _sole_source(split, RESHAPE_TARGETS)
        if transposed is None or not _swaps_first(transposed):
            continue
        merged = _sole_source(transposed, {transposed.target})
        source = None if merged is None else _sole_source(merged, RESHAPE_TARGETS)
        if merged is None or source is None or not _are_heads(source, merged, split):
            continue
        batch, heads, rows, width = shape(split)
        with module.graph.inserting_before(split):
            apart = module.graph.call_function(aten.view.default, (source, [rows, batch, heads, width]))
            apart.meta = {
                **split.meta,
                "val": dense_like(value(source), (rows, batch, heads, width), value(source).dtype),
            }
            moved = module.graph.call_function(aten.permute.default, (apart, [1, 2, 0, 3]))
        moved.meta = dict(split.meta)
        split.replace_all_uses_with(moved)
        for dead in (split, transposed, merged):
            if not dead.users:
                module.graph.erase_node(dead)


def _sole_source(node: Node, targets: Collection[object]) -> Node | None:
    """What `node` is a view of, if it is by one of `targets`."""
    if node.op != "call_function" or node.target not in targets or len(node.all_input_nodes) != 1:
        return None
    return node.all_input_nodes[0]


def _swaps_first(node: Node) -> bool:
    """Whether `node` is the transposition of the first two of three dimensions."""
    if node.target is aten.permute.default:
        return list(arguments(node)[1]) == [1, 0, 2]
    swapped = node.target is aten.transpose.int and {d % 3 for d in arguments(node)[1:3]} == {0, 1}
    return swapped and len(shape(node)) == 3


def _are_heads(source: Node, merged: Node | None, split: Node) -> bool:
    assert merged is not None
    sizes = (shape(source), shape(merged), shape(split))
    if [len(size) for size in sizes] != [3, 3, 4] or not all(type(n) is int for size in sizes for n in size):
        return False
    batch, heads, rows, width = sizes[2]
    return sizes[0] == (rows, batch, heads * width) and sizes[1] == (rows, batch * heads, width)
