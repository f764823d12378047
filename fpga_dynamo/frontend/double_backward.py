"""Second derivatives: with ``create_graph=True`` autograd computes the gradients of a compiled graph in eager mode.

The backward graph of AOTAutograd is not differentiable. Its node raises when a second backward pass reaches the node,
but the pass reaches it only through tensors that the partitioner happened to save: without such a path the second
derivatives are zero. So every node of a compiled graph has a hook. It does nothing in an ordinary backward pass. Where
gradients are recorded, it computes the gradients again: it runs Dynamo's graph in eager mode on the same inputs, and
returns what autograd finds for it, which is differentiable as often as wanted. Where the inputs are not the same any
more, it connects the gradients to a node that raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.ir.graph import aten, is_effectful
from fpga_dynamo.runtime.torch_state import AUTOCAST_DEVICES
from fpga_dynamo.torch_internals.aot import graph_facts
from fpga_dynamo.torch_internals.autograd import base_of, compiled_node, inputs_of, keeps_graph
from fpga_dynamo.torch_internals.dispatch import HigherOrderOperator
from fpga_dynamo.torch_internals.tensors import versions

Gradients = tuple[torch.Tensor | None, ...]

_SAME = 0.05
"""The largest difference, as a share of the norm, between the gradients of two runs with the same random numbers."""


class DoubleBackward:
    """What one of Dynamo's graphs needs for second derivatives.

    refusal: why the graph cannot be run again; None if it can. wanted: whether it records gradients.
    """

    def __init__(self, graph: GraphModule, inputs: Sequence[Any]) -> None:
        self.graph = graph
        self.tensors = [i for i, given in enumerate(inputs) if isinstance(given, torch.Tensor)]
        self.changed: frozenset[int] = frozenset()
        self.wanted = False
        self.random = False
        self.refusal = _opaque(graph)
        self._inputs = inputs
        self._ambient = _ambient()
        self._edges: _Edges | None = None

    def trained(self, module: GraphModule) -> None:
        """Notes what AOTAutograd found out about the graph; `module` is its forward part."""
        self.wanted = True
        self.random = any(is_effectful(node) for node in module.graph.nodes)
        facts = graph_facts()
        plain = all(type(self._inputs[i]) in (torch.Tensor, torch.nn.Parameter) for i in self.tensors)
        if facts is None or facts.inputs != len(self._inputs) or not plain:
            self.refusal = self.refusal or "inputs of the graph share memory or are tensor subclasses"
            self.changed = frozenset(self.tensors)
            return
        self.changed = frozenset(i for i, changed in enumerate(facts.changed) if changed)
        lost = _lost(module, self.changed, facts.updates, facts.requires_grad)
        if lost is not None and self.refusal is None:
            name = [node.name for node in self.graph.graph.nodes if node.op == "placeholder"][lost]
            self.refusal = f"the graph changes an input in place, and its results depend on the old value ({name})"

    def wrapped(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """`compiled` with a hook at the node of each call."""
        self._inputs = ()

        def run(*args: Any) -> Any:
            state = torch.get_rng_state() if self.random else None
            results = compiled(*args)
            node = compiled_node(results)
            if node is None and self.changed:
                node = compiled_node(args[i] for i in self.changed)
            if node is None:
                return results
            if self._edges is None:
                self._edges = _Edges.of(node, [(i, args[i]) for i in self.tensors], results)
            node.register_hook(_Hook(self, self._edges, args, state))
            return results

        return run

    def gradients(self, hook: _Hook, given: Gradients, tangents: Gradients) -> Gradients | str:
        """Differentiable gradients for those that are not None in `given`, or the reason why they cannot be had."""
        inputs, edges = hook.inputs, hook.edges
        fresh = list(inputs)
        for i in self.tensors:
            if i in self.changed:
                fresh[i] = inputs[i].detach().clone()
            elif inputs[i].requires_grad:  # an alias: no part of its gradient goes through another input
                fresh[i] = inputs[i].view_as(inputs[i])
        with self._ambient_restored(hook.state):
            results = self.graph(*fresh)
            roots, weights = [], []
            for place, tangent in enumerate(tangents):
                if tangent is None:
                    continue
                root = edges.result(place, results)
                if root is None or root.shape != tangent.shape:
                    return "results of the graph share memory"
                if root.requires_grad:
                    roots.append(root)
                    weights.append(tangent)
            numbers = zip(edges.inputs or (), given, strict=True)
            wanted = [fresh[i] for i, grad in numbers if i is not None and grad is not None]
            if not roots:
                return tuple(None if grad is None else torch.zeros_like(grad) for grad in given)
            found = iter(torch.autograd.grad(roots, wanted, weights, create_graph=True, allow_unused=True))
        answer = tuple(None if grad is None else _or_zeros(next(found), grad) for grad in given)
        if self.random and not _close(answer, given):
            return "the graph draws random numbers that a second run does not repeat"
        return answer

    @contextmanager
    def _ambient_restored(self, state: torch.Tensor | None) -> Iterator[None]:
        """Autocast as in the compiled call, which graphs do not say, and its random numbers."""
        with ExitStack() as stack:
            for device, dtype in self._ambient:
                stack.enter_context(torch.autocast(device, dtype=dtype, enabled=dtype is not None))
            if state is not None:
                stack.enter_context(torch.random.fork_rng(devices=()))
                torch.set_rng_state(state)
            yield


@dataclass(frozen=True)
class _Edges:
    """How the node of a compiled graph lies between the graph's inputs and results; the same for all calls.

    inputs: the number of the input at each edge. results: of each of the node's outputs that is a result of the
    graph, the number of the result; bases: of each that is what a result is a view of.
    """

    inputs: list[int | None] | None
    results: dict[int, int]
    bases: dict[int, int]

    @classmethod
    def of(cls, node: Any, inputs: Sequence[tuple[int, torch.Tensor]], results: Sequence[Any]) -> _Edges:
        tensors = [(i, result) for i, result in enumerate(results) if isinstance(result, torch.Tensor)]
        own = {result.output_nr: i for i, result in tensors if result.grad_fn is node}
        bases: dict[int, int] = {}
        for i, result in tensors:
            base = base_of(result)
            if result.grad_fn is not node and base is not None and base.grad_fn is node:
                bases.setdefault(base.output_nr, i)
        return cls(inputs_of(node, inputs), own, bases)

    def result(self, place: int, results: Sequence[Any]) -> torch.Tensor | None:
        """The tensor among (the bases of) a graph's results that is the node's output `place`."""
        if place in self.results:
            found = results[self.results[place]]
        elif place in self.bases:
            found = base_of(results[self.bases[place]])
        else:
            return None
        return found if isinstance(found, torch.Tensor) else None


class _Hook:
    """Gradients of the inputs of one call, and of its results -> what is to be there instead; None for the same."""

    def __init__(self, owner: DoubleBackward, edges: _Edges, inputs: Sequence[Any], state: torch.Tensor | None) -> None:
        self.owner = owner
        self.edges = edges
        self.inputs = inputs
        self.state = state
        self._versions = self._of_unchanged()

    def _of_unchanged(self) -> Any:
        """Versions of the inputs but for those that the graph itself changes: no result depends on their old values."""
        return versions([self.inputs[i] for i in self.owner.tensors if i not in self.owner.changed])

    def __call__(self, given: Gradients, tangents: Gradients) -> Gradients | None:
        if torch.is_grad_enabled():
            return self._differentiable(given, tangents)
        if not torch.compiler.is_compiling() and not keeps_graph():  # compiled autograd traces hooks
            self.inputs = ()
        return None

    @torch.compiler.disable
    def _differentiable(self, given: Gradients, tangents: Gradients) -> Gradients:
        found = self._why_not() or self.owner.gradients(self, given, tangents)
        if not isinstance(found, str):
            return found
        grads = [grad for grad in given if grad is not None]
        tensors = [self.inputs[i] for i in self.owner.tensors] + [t for t in tangents if t is not None]
        refused = iter(_Refused.apply(found, len(grads), *grads, *tensors))
        return tuple(None if grad is None else next(refused) for grad in given)

    def _why_not(self) -> str | None:
        if self.owner.refusal is not None:
            return self.owner.refusal
        if self.edges.inputs is None:
            return "inputs of the graph share memory"
        if self._versions != self._of_unchanged():
            return "an input or a parameter was changed in place after the call"
        return None


_DIFFERENTIABLE = ("tag_activation_checkpoint", "wrap_with_set_grad_enabled", "wrap_with_autocast")
"""Operators on functions whose gradients in eager mode are differentiable."""


def _opaque(graph: GraphModule) -> str | None:
    """Why gradients of Dynamo's graph in eager mode are not differentiable; None if they are."""
    parts = [part for part in graph.modules() if isinstance(part, GraphModule)]
    targets = [node.target for part in parts for node in part.graph.nodes if node.op == "call_function"]
    operators = [target.name() for target in targets if isinstance(target, HigherOrderOperator)]
    found = next((name for name in operators if name not in _DIFFERENTIABLE), None)
    return None if found is None else f"the graph contains a function with a custom backward ({found})"


class _Refused(torch.autograd.Function):
    """Gradients as they are, whose own gradients are refused."""

    @staticmethod
    def forward(ctx: Any, reason: str, count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.reason = reason
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *tangents: torch.Tensor) -> Any:
        raise FpgaError(
            f"second derivatives of a compiled graph are not supported here: {ctx.reason}; for a loss with "
            "create_graph=True, call the original function without torch.compile"
        )


def _lost(module: GraphModule, changed: frozenset[int], updates: int, requires_grad: Sequence[bool]) -> int | None:
    """The number of a changed input of AOTAutograd's forward graph whose old value reaches more than its own new value.

    The old value is gone when the graph runs again. Batch norm's running statistics reach no other result in training.
    """
    nodes = list(module.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    if wrong := [i for i in sorted(changed) if requires_grad[i]]:
        return wrong[0]
    reached = {inputs[i]: i for i in changed}
    for node in nodes:
        if node in reached or node.op in ("placeholder", "output"):
            continue
        before = [read for read in node.all_input_nodes if read in reached and not _only_updates(node, read)]
        if node.op == "call_function" and before:
            reached[node] = reached[before[0]]
    results = next(node for node in nodes if node.op == "output").args[0]
    return next((reached[r] for r in results[updates:] if isinstance(r, Node) and r in reached), None)


def _only_updates(node: Node, read: Node) -> bool:
    """Whether an operator reads `read` for nothing but its running statistics."""
    if node.target is not aten._native_batch_norm_legit_functional.default:
        return False
    _, _, _, mean, variance, training, *_ = node.args
    return training is True and read not in node.args[:3] and read in (mean, variance)


def _or_zeros(found: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(like) if found is None else found


def _close(found: Gradients, given: Gradients) -> bool:
    pairs = [(f.detach(), g.detach()) for f, g in zip(found, given, strict=True) if f is not None and g is not None]
    difference = sum(float((f - g).double().abs().square().sum()) for f, g in pairs)
    size = sum(float(g.double().abs().square().sum()) for _, g in pairs)
    return not difference > _SAME**2 * size  # NaN is no difference


def _ambient() -> list[tuple[str, torch.dtype | None]]:
    """What autocast computes in, by device; None where it is off."""
    return [(d, torch.get_autocast_dtype(d) if torch.is_autocast_enabled(d) else None) for d in AUTOCAST_DEVICES]
