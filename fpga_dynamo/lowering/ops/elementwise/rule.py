"""What a rule is: the micro-operations of one element-wise ATen op."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch.fx import Node

from fpga_dynamo.codegen.micro import MicroProgram, Operand

Operands = Sequence[Operand | float]
"""Streams, temporaries or numbers."""

Rule = Callable[[MicroProgram, Node, Operands], Operand]


def direct(name: str) -> Rule:
    """The rule of an op that one micro-operation computes."""
    return lambda p, n, x: p.op(name, *x)
