"""New nodes of an exported graph, where a rewrite puts several in place of one."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

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
        new.meta["val"] = target(*(arg.meta["val"] if isinstance(arg, Node) else arg for arg in args))
        return new

    def transposed(self, node: Node) -> Node:
        return self(aten.transpose.int, node, -2, -1)
