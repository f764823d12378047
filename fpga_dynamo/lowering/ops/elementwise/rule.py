"""What a rule is: the micro-operations of one element-wise ATen op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch.fx import Node

from fpga_dynamo.codegen.micro import MicroProgram, Operand

Operands = Sequence[Operand | float]
"""Streams, temporaries or numbers."""

Rule = Callable[[MicroProgram, Node, Operands], Operand]

R = TypeVar("R")


def direct(name: str) -> Rule:
    """The rule of an op that one micro-operation computes."""
    return lambda p, n, x: p.op(name, *x)


def masked_fill(p: MicroProgram, n: Node, x: Operands) -> Operand:
    """The rule of aten.masked_fill, for elements of any type."""
    return p.op("WHERE", x[1], x[2], x[0])


def with_scalar(packet: Any, rule: R) -> dict[Any, R]:
    """The rule of an op for a tensor and for a number as second operand."""
    return {packet.Tensor: rule, packet.Scalar: rule}
