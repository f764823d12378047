"""Pass (part of normalise): checks that tracing has made already are not made again at each call.

torch.export writes `aten._assert_tensor_metadata` behind each value whose dtype the program relies on. An operator
without a result must run in eager mode, and would keep there whatever makes its operand: masks, positions, tables.
"""

from __future__ import annotations

from torch.fx import GraphModule, Node

from fpga_dynamo.ir.graph import argument, aten, value

_ATTRIBUTES = ("size", "stride", "dtype")
"""Arguments of `_assert_tensor_metadata` behind the tensor, in the order of its schema; the others are keywords."""


def drop_checks(module: GraphModule) -> None:
    """Rewrites the graph in place. A check that fails, or cannot be decided, stays: eager mode raises its error."""
    for node in list(module.graph.nodes):
        if node.target is aten._assert_tensor_metadata.default and _holds(node):
            module.graph.erase_node(node)
        elif node.target in (aten.sym_constrain_range.default, aten.sym_constrain_range_for_size.default):
            if _in_range(node):
                module.graph.erase_node(node)
        elif node.target is aten._assert_scalar.default and argument(node, "self", 0) is True:
            module.graph.erase_node(node)


def _holds(node: Node) -> bool:
    """Whether the traced value has all that is asked of it; sizes of a dynamic dimension are not compared."""
    fake = value(node.all_input_nodes[0])
    asked = {name: argument(node, name, i + 1) for i, name in enumerate(_ATTRIBUTES)}
    asked |= {name: node.kwargs.get(name) for name in ("device", "layout")}
    has = {
        "size": tuple(fake.shape),
        "stride": tuple(fake.stride()),
        "dtype": fake.dtype,
        "device": fake.device,
        "layout": fake.layout,
    }
    return all(wanted is None or _same(wanted, has[name]) for name, wanted in asked.items())


def _same(wanted: object, has: object) -> bool:
    if not isinstance(wanted, (list, tuple)):
        return wanted == has
    numbers = [*wanted, *has] if isinstance(has, tuple) else []
    return all(type(number) is int for number in numbers) and tuple(wanted) == has


def _in_range(node: Node) -> bool:
    """Whether a range is asked of a number that the graph has as a constant, and holds."""
    number = argument(node, "size", 0)
    limits = [node.kwargs.get(name) for name in ("min", "max")]
    least, most = (limit if isinstance(limit, int) else number for limit in limits)
    return isinstance(number, int) and bool(least <= number <= most)
