"""Operators that a plain kernel computes (``fpga_dynamo.kernel``), as lowering and the run time know them.

A node of such an operator is a launch of its own. Who defines the operators is above this layer: see
``fpga_dynamo/frontend/plain_kernels``.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch.fx import Node

from fpga_dynamo.ir.target import Target


class PlainKernel(Protocol):
    """The kernel behind an operator.

    name: of the C++ function. has_cpu: whether a function on tensors computes the same.
    """

    @property
    def name(self) -> str: ...
    @property
    def has_cpu(self) -> bool: ...
    def is_in(self, target: Target) -> bool:
        """Whether the xclbin of `target` has this kernel, so that its compute units are used."""

    def why_not(self, target: Target) -> str | None:
        """Why no xclbin with the kernel can be used along with that of `target`, one sentence; None if one can."""

    def open(self, card: Any) -> Any:
        """The kernel's compute units for programs on `card`: a ``runtime.cards.plain_units.Units``."""


_kernels: dict[Any, PlainKernel] = {}


def register(op: Any, kernel: PlainKernel) -> None:
    """Says which kernel computes an operator (an OpOverload)."""
    _kernels[op] = kernel


def plain_kernel(node: Node) -> PlainKernel | None:
    """The kernel that computes a node; None if it is another operator."""
    return _kernels.get(node.target) if node.op == "call_function" else None


def is_item_of_kernel(node: Node) -> bool:
    """Whether a node is one of the results of a kernel with several."""
    source = node.args[0] if node.target is operator.getitem else None
    return isinstance(source, Node) and plain_kernel(source) is not None


Refusals = Mapping[Node, str | None]
"""For each node of a plain kernel why it is no launch; None if it is one."""


def refusals(module: torch.fx.GraphModule, target: Target) -> Refusals:
    found = {node: plain_kernel(node) for node in module.graph.nodes}
    return {node: kernel.why_not(target) for node, kernel in found.items() if kernel is not None}
