"""Typical calls of ops as graphs of one node, so that lowering can be asked whether it takes them.

What a call looks like is said in the file of the op's pattern (``Operator.call``), where the schema does not tell.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.ir.graph import GraphInfo
from fpga_dynamo.ir.operators import Arguments, Tensors, facts
from fpga_dynamo.ir.target import Target
from fpga_dynamo.torch_internals.dispatch import OpOverload, schema
from fpga_dynamo.torch_internals.pytree import tree_map


def _from_schema(op: OpOverload, t: Tensors) -> Arguments:
    """Square matrices for tensors, ones for numbers, and what has a default is left out."""
    args: list[Any] = []
    for parameter in schema(op).arguments:
        if parameter.has_default_value():
            break
        kind = str(parameter.type)
        if kind not in ("Tensor", "number", "int", "float"):
            raise FpgaError(f"no example call of {op} is known; give one in `operators` of its pattern")
        args.append(t(16, 16) if kind == "Tensor" else 1)
    return args, {}


@dataclass
class Probe:
    """A graph of one call of an op, `node`, for operands of one dtype."""

    graph: GraphInfo
    node: Node


@dataclass
class _Builder:
    dtype: torch.dtype
    graph: Graph = field(default_factory=Graph)
    placeholders: dict[int, Node] = field(default_factory=dict)
    static: list[int] = field(default_factory=list)
    kept: list[torch.Tensor] = field(default_factory=list)

    def tensor(self, *size: int, dtype: torch.dtype | None = None, parameter: bool = False) -> torch.Tensor:
        made = torch.zeros(size, dtype=dtype or self.dtype)
        node = self.graph.placeholder(f"operand{len(self.kept)}")
        node.meta["val"] = made
        if parameter:
            self.static.append(len(self.kept))
        self.kept.append(made)
        self.placeholders[id(made)] = node
        return made

    def node_of(self, leaf: Any) -> Any:
        return self.placeholders[id(leaf)] if isinstance(leaf, torch.Tensor) else leaf


def probe(op: OpOverload, dtype: torch.dtype, target: Target) -> Probe | None:
    """A graph with a typical call of `op`; None if PyTorch has no such op for `dtype`."""
    builder = _Builder(dtype)
    call = facts(op).call
    args, kwargs = _from_schema(op, builder.tensor) if call is None else call(builder.tensor)
    try:
        result = op(*args, **kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError, AssertionError):
        return None
    used = node = builder.graph.call_function(op, tuple(tree_map(builder.node_of, args)), kwargs)
    node.meta["val"] = result
    if isinstance(result, (tuple, list)):
        index = next(i for i, item in enumerate(result) if item is not None)
        used = builder.graph.call_function(operator.getitem, (node, index))
        used.meta["val"] = result[index]
    builder.graph.output((used,))
    return Probe(GraphInfo(GraphModule({}, builder.graph), target, builder.static), node)
