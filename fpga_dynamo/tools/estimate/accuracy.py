"""Errors of a floating-point engine's values against float64, beside the errors of eager mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Interpreter, Node
from torch.fx.node import Target, map_aggregate

from fpga_dynamo.tools.estimate.program import EngineProgram


@dataclass(frozen=True)
class Error:
    """Root mean squares of a value's errors, divided by that of the value in float64: the card's, and eager mode's."""

    card: float
    eager: float


def errors(program: EngineProgram, value_of: Callable[[Node], Tensor], inputs: Mapping[Node, Any]) -> dict[str, Error]:
    """The errors of each value that an engine's command computes; value_of: its value on the card.

    The reference is the whole graph in float64, with the same parameters and inputs, so errors propagate from layer to
    layer, in eager mode as on the card.
    """
    placeholders = [node for node in program.graph.module.graph.nodes if node.op == "placeholder"]
    arguments = [inputs[node] for node in placeholders]
    wanted = set(program.made)
    with torch.no_grad():
        exact = _Kept(program, wanted, exact=True)
        exact.run(*map_aggregate(tuple(arguments), _widened))
        eager = _Kept(program, wanted, exact=False)
        eager.run(*arguments)
    return {
        node.name: Error(_apart(value_of(node), exact.values[node]), _apart(eager.values[node], exact.values[node]))
        for node in exact.values
    }


def _apart(found: Tensor, exact: Tensor) -> float:
    """NaN or infinities are an infinite error."""
    real = exact.double()
    error = (found.double() - real).nan_to_num(nan=float("inf")).square().mean().sqrt()
    return float(error / real.square().mean().sqrt().clamp_min(1e-30))


class _Kept(Interpreter):
    """Runs the graph, in float64 if that is asked for, and keeps what is wanted."""

    def __init__(self, program: EngineProgram, wanted: set[Node], *, exact: bool) -> None:
        super().__init__(program.graph.module)
        self._wanted, self._exact = wanted, exact
        self.values: dict[Node, Tensor] = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n in self._wanted:
            self.values[n] = value
        return value

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value = super().get_attr(target, args, kwargs)
        return _widened(value) if self._exact else value

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._exact:
            args, kwargs = map_aggregate((args, kwargs), _widened)
        return super().call_function(target, args, kwargs)


def _widened(item: Any) -> Any:
    """Floating-point tensors as float64, and so the type where one is named."""
    if isinstance(item, Tensor) and item.is_floating_point():
        return item.double()
    if isinstance(item, torch.dtype) and item.is_floating_point:
        return torch.float64
    return item
