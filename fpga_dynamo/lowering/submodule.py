"""Parts of an ATen graph as callables: what eager runs, on the PS or in the place of a launch that failed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from torch.fx import Graph, GraphModule, Node

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.lowering.graph import GraphInfo


def extract(
    graph: GraphInfo,
    outputs: Sequence[Node],
    given: Collection[Node],
    keep: Iterable[Node] = (),
    *,
    name: str = "Part",
    may_run: Callable[[Node], bool] = lambda node: True,
) -> tuple[GraphModule, list[Node]]:
    """A module that computes `outputs` (a list) from `given` and graph inputs, in the original order.

    `keep`: nodes that are run even if no output needs them. Returns the module and the nodes that it takes as
    arguments, in order. `may_run`: what the part is allowed to compute; anything else there is an internal error.
    """
    needed: set[Node] = set()
    boundary = set(given)
    stack = [node for node in (*outputs, *keep)]
    while stack:
        node = stack.pop()
        if node in needed:
            continue
        needed.add(node)
        if node not in boundary:
            if node.op == "call_function" and not may_run(node):
                raise FpgaError(f"internal error: {name} would run {node} a second time; please report the graph")
            stack += node.all_input_nodes
    part = Graph()
    copies: dict[Node, Node] = {}
    ordered = sorted(needed, key=graph.position.__getitem__)
    reads = [node for node in ordered if node in boundary or node.op == "placeholder"]
    for node in reads:
        copies[node] = part.placeholder(node.name)
    for node in ordered:
        if node not in copies:
            copies[node] = part.node_copy(node, copies.__getitem__)
    part.output([copies[node] for node in outputs])
    return GraphModule(graph.module, part, name), reads
