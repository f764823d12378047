"""The values of a graph's layers, by the names that a float graph and its quantised one have in common."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node

from fpga_dynamo.errors import OptionError
from fpga_dynamo.ir.graph import evaluated

_CODES = ("quantize_per", "dequantize_per", "choose_qparams")


def is_layer(node: Node) -> bool:
    """Whether a node computes something: no parameter, no quantisation, no view's bookkeeping."""
    return node.op == "call_function" and not is_code(node)


def is_code(node: Node) -> bool:
    """Whether a node quantises or dequantises."""
    return node.op == "call_function" and any(code in str(node.target) for code in _CODES)


def refuse_no_graph(model: object) -> None:
    """Raises OptionError unless `model` is a graph."""
    if not isinstance(model, GraphModule):
        raise OptionError(f"expected a quantized graph of quantize or convert_pt2e, got a {type(model).__name__}")


class LayerWatch(Interpreter):
    """Runs a graph and shows each layer's value to `see`; what that returns goes on in the value's place."""

    def __init__(self, graph: GraphModule, see: Callable[[Node, Any], Any]) -> None:
        super().__init__(graph)
        self.see = see

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        return self.see(n, value) if is_layer(n) else value


def rounded(graph: GraphModule, node: Node, value: Tensor) -> Tensor:
    """`value` as whoever uses `node` sees it: through its quantisation, where all users do."""
    users = [user for user in node.users if is_code(user)]
    if not users or len(users) != len(node.users):
        return value
    quantize = users[0]
    code = _run(graph, quantize, node, value)
    for user in quantize.users:
        if is_code(user):
            return _run(graph, user, quantize, code)
    return value


def _run(graph: GraphModule, node: Node, source: Node, value: Any) -> Any:
    """What `node` makes of `value`, that of `source`, and of attributes of the graph."""
    attributes = {n: operator.attrgetter(str(n.target))(graph) for n in node.all_input_nodes if n is not source}
    return evaluated(node, {**attributes, source: value})
