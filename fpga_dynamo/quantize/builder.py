"""New nodes of an exported graph, where a rewrite puts several in place of one."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from fpga_dynamo.quantize.operators import aten


def origin(node: Node) -> dict[str, Any]:
    """Where in the model a node comes from, for the nodes that replace it."""
    return {key: node.meta[key] for key in ("nn_module_stack", "stack_trace") if key in node.meta}


class Builder:
    """Adds nodes in front of `node`, with its origin, and each with its value in tracing."""

    def __init__(self, model: GraphModule, node: Node) -> None:
        self._graph, self._node = model.graph, node

    def __call__(self, target: Any, *args: Any) -> Node:
        with self._graph.inserting_before(self._node):
            new = self._graph.call_function(target, args)
        new.meta = origin(self._node)
        values: Any = map_arg(args, lambda arg: arg.meta["val"])
        new.meta["val"] = target(*values)
        return new

    def transposed(self, node: Node) -> Node:
        """The transposed matrices: a new node, or the operand of a node that transposes itself."""
        if node.target is aten.transpose.int:
            source, *dims = node.args
            assert isinstance(source, Node)
            rank = node.meta["val"].dim()
            if {d % rank for d in dims if isinstance(d, int)} == {rank - 2, rank - 1}:
                return source
        return self(aten.transpose.int, node, -2, -1)
