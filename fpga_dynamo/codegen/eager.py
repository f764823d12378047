"""Parts of an ATen graph as callables: what eager runs, on the PS or in the place of a launch that failed.

A part is a list of nodes until it is first called. Most parts of most programs never are (they stand by for launches
that do not fail), so that nothing is generated or copied for them.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, cast

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from fpga_dynamo.errors import InternalError
from fpga_dynamo.ir.graph import RESHAPE_TARGETS, TRACED_STRIDES, GraphInfo, aten, takes_sizes
from fpga_dynamo.ir.operators import facts
from fpga_dynamo.ir.sizes.code import evaluator
from fpga_dynamo.ir.sizes.size import Size, sizes_in
from fpga_dynamo.ir.sizes.symbols import Symbols

Values = list[Any]


class EagerPart:
    """Computes `result` (any structure with nodes in it) from the values of `reads`, running `nodes` in order.

    A value is let go of behind the last node that uses it, as in a function's local variable that is overwritten.
    """

    def __init__(
        self, module: GraphModule, reads: Sequence[Node], nodes: Sequence[Node], result: Any, sizes: Node | None
    ) -> None:
        self._module = module
        self._reads = reads
        self.nodes = nodes
        self._result = result
        self._sizes = sizes
        self._lock = threading.Lock()
        self._call: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        call = self._call or self._build()
        return call(*args)

    forward = __call__

    def _build(self) -> Callable[..., Any]:
        with self._lock:
            if self._call is None:
                self._call = self._assemble()
            return self._call

    def _assemble(self) -> Callable[..., Any]:
        place = {node: i for i, node in enumerate((*self._reads, *self.nodes))}
        assembly = _Assembly(self._module, place, self._sizes)
        give = assembly.template(self._result)
        if not self.nodes:
            return lambda *args: give(args)
        last_use: dict[Node, int] = {}
        for i, node in enumerate(self.nodes):
            last_use.update(dict.fromkeys((node, *node.all_input_nodes), i))
        map_arg(self._result, lambda node: last_use.pop(node, None))
        dying: list[list[int]] = [[] for _ in self.nodes]
        for node, i in last_use.items():
            dying[i].append(place[node])
        steps = [(assembly.step(node), place[node], tuple(dead)) for node, dead in zip(self.nodes, dying, strict=True)]
        room = [None] * len(self.nodes)

        def run(*args: Any) -> Any:
            values: Values = [*args, *room]
            for step, target, dead in steps:
                values[target] = step(values)
                for i in dead:
                    values[i] = None
            return give(values)

        return run


class _Assembly:
    """Nodes as functions of a list of values, in which each node has its place."""

    def __init__(self, module: GraphModule, place: dict[Node, int], sizes: Node | None) -> None:
        self._module = module
        self._place = place
        self._sizes = sizes

    def step(self, node: Node) -> Callable[[Values], Any]:
        """What computes `node`, from operands in the strides that it was traced with."""
        run = self._step(node)
        others = {self._place[n]: n.meta[TRACED_STRIDES] for n in node.all_input_nodes if TRACED_STRIDES in n.meta}
        if not others or _takes_any_layout(node):
            return run

        def run_as_traced(values: Values) -> Any:
            values = list(values)
            for place, strides in others.items():
                values[place] = _in_strides(values[place], strides)
            return run(values)

        return run_as_traced

    def _step(self, node: Node) -> Callable[[Values], Any]:
        if node.op == "get_attr":
            constant = operator.attrgetter(str(node.target))(self._module)
            return lambda values: constant
        # A view that was traced of a tensor in other strides than an op gives may be none of that: reshape copies then.
        target: Any = aten.reshape.default if node.target in RESHAPE_TARGETS else node.target
        args = self.template(tuple(node.args))
        if not node.kwargs:
            return lambda values: target(*args(values))
        kwargs = self.template(dict(node.kwargs))
        return lambda values: target(*args(values), **kwargs(values))

    def template(self, structure: Any) -> Callable[[Sequence[Any]], Any]:
        """What makes `structure` with every node and every size replaced by its value."""
        if isinstance(structure, Node):
            return operator.itemgetter(self._place[structure])
        if isinstance(structure, Size):
            assert self._sizes is not None, "a graph with sizes has a placeholder for them"
            place, evaluate = self._place[self._sizes], evaluator(cast(Symbols, structure.symbols), [structure])
            return lambda values: evaluate(*values[place])[0]
        if isinstance(structure, (tuple, list)) and structure:
            if all(isinstance(item, Node) for item in structure):
                return _gathered([self._place[item] for item in structure], type(structure))
            parts = [self.template(item) for item in structure]
            kind = list if isinstance(structure, list) else tuple
            return lambda values: kind([part(values) for part in parts])
        if isinstance(structure, dict) and structure:
            named = {key: self.template(item) for key, item in structure.items()}
            return lambda values: {key: part(values) for key, part in named.items()}
        if isinstance(structure, slice):
            bounds = [self.template(bound) for bound in (structure.start, structure.stop, structure.step)]
            return lambda values: slice(*[bound(values) for bound in bounds])
        return lambda values: structure


def _takes_any_layout(node: Node) -> bool:
    """Whether the result of `node` is laid out together with its images, see lowering/tracing/saved.py."""
    return node.target is aten.detach.default or bool(facts(node.target).images)


def _in_strides(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    if tensor.stride() == tuple(strides):
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _gathered(places: Sequence[int], kind: type) -> Callable[[Sequence[Any]], Any]:
    if len(places) == 1:
        only = places[0]
        return (lambda values: [values[only]]) if issubclass(kind, list) else (lambda values: (values[only],))
    getter = operator.itemgetter(*places)
    return (lambda values: list(getter(values))) if issubclass(kind, list) else getter


def whole(module: GraphModule) -> EagerPart:
    """The whole graph in eager, as it is now: passes change it in steps, each of which leaves what it computes."""
    nodes = list(module.graph.nodes)
    placeholders = [node for node in nodes if node.op == "placeholder"]
    body = [node for node in nodes if node.op not in ("placeholder", "output")]
    return EagerPart(module, placeholders, body, module.graph.output_node().args[0], None)


def extract(
    graph: GraphInfo,
    outputs: Sequence[Node],
    given: Collection[Node],
    keep: Iterable[Node] = (),
    *,
    name: str = "Part",
    result: Any = None,
    may_run: Callable[[Node], bool] = lambda node: True,
) -> tuple[EagerPart, list[Node]]:
    """What computes `result` (default: the list of `outputs`, the nodes in it) from `given` and graph inputs.

    `keep`: nodes that are run even if no output needs them; all run in the original order. Returns the part and the
    nodes that it takes as arguments, in order. `may_run`: what the part is allowed to compute; anything else there is
    an internal error.
    """
    needed: set[Node] = set()
    boundary = given if isinstance(given, (set, frozenset)) else set(given)
    stack = [*outputs, *keep]
    while stack:
        node = stack.pop()
        if node in needed:
            continue
        needed.add(node)
        if node not in boundary:
            if node.op == "call_function" and not may_run(node):
                raise InternalError(f"{name} would run {node} a second time")
            stack += node.all_input_nodes
    ordered = sorted(needed, key=graph.position.__getitem__)
    is_read = [node in boundary or node.op == "placeholder" for node in ordered]
    reads = [node for node, read in zip(ordered, is_read, strict=True) if read]
    nodes = [node for node, read in zip(ordered, is_read, strict=True) if not read]
    given_result = list(outputs) if result is None else result
    if graph.sizes is not None and (any(map(takes_sizes, nodes)) or any(True for _ in sizes_in(given_result))):
        reads.append(graph.sizes)
    return EagerPart(graph.module, reads, nodes, given_result, graph.sizes), reads
