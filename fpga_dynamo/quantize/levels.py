"""Values of a quantised graph that use few of their 256 levels, though their float values differ more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node

from fpga_dynamo.quantize.capture import is_code

FEWEST = 16
"""Levels of a value that is not worth a warning."""


@dataclass(frozen=True)
class FewLevels:
    """A value, how many levels it uses, and the layers that read it."""

    name: str
    levels: int
    readers: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} uses {self.levels} of 256 levels"


class Levels(Interpreter):
    """Runs a quantised graph, and counts the levels that each rounded value uses."""

    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph)
        self.used: dict[Node, Tensor] = {}
        self.distinct: dict[Node, int] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if is_code(n) and isinstance(result, Tensor) and result.dtype == torch.int8 and isinstance(n.args[0], Node):
            exact = self.env[n.args[0]]
            if isinstance(exact, Tensor) and exact.is_floating_point():
                used = torch.bincount(result.flatten().int() + 128, minlength=256) > 0
                self.used[n] = used | self.used.get(n, used)
                if int(self.used[n].sum()) < FEWEST:  # else nobody asks
                    self.distinct[n] = max(self.distinct.get(n, 0), int(exact.unique().numel()))
        return result

    def few(self) -> list[FewLevels]:
        """What has fewer than FEWEST levels, but at least as many values."""
        found: dict[str, FewLevels] = {}
        for node, used in self.used.items():
            count = int(used.sum())
            if count < FEWEST <= self.distinct.get(node, 0):
                value = node.args[0]
                while isinstance(value, Node) and is_code(value):
                    value = value.args[0]
                assert isinstance(value, Node)
                found.setdefault(value.name, FewLevels(value.name, count, tuple(_readers(node))))
        return list(found.values())


def _readers(node: Node) -> list[str]:
    names: list[str] = []
    for user in node.users:
        names += _readers(user) if is_code(user) else [user.name] if user.op == "call_function" else []
    return names
