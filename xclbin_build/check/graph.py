"""The dependence graph of a loop: what an operator waits for, in the same iteration or in an earlier one."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ..hls import ir
from .accesses import Accesses
from .timing import Cost


class Wait(Enum):
    """How long an edge waits. VALUE: until the value is there, perhaps in the same cycle. MEMORY: until the cycle after
    the write. ORDER: not before. STATE: until the beginning of the cycle in which the value is there. NEXT: until the
    cycle after that."""

    VALUE = 0
    MEMORY = 1
    ORDER = 2
    STATE = 3
    NEXT = 4


@dataclass(frozen=True)
class DependenceEdge:
    """to: index of an instruction. distance: iterations between the two."""

    to: int
    wait: Wait
    distance: int


@dataclass
class DependenceGraph:
    """code: the loop's instructions in the order of the control flow; costs: of each. out: edges by index."""

    code: list[ir.Instruction]
    costs: list[Cost]
    out: list[list[DependenceEdge]]
    accesses: Accesses
    notes: list[str] = field(default_factory=list)

    def replace(self, index: int, cost: Cost) -> None:
        """Takes another unit, of cycles that loops were reported to take, so that it leaves room for a register."""
        self.costs[index] = cost
        for reader in {edge.to for edge in self.out[index] if edge.wait is Wait.STATE}:
            self.out[reader] = [
                DependenceEdge(edge.to, Wait.VALUE, edge.distance) if self.costs[edge.to].stages else edge
                for edge in self.out[reader]
            ]

    def edge(self, start: int, to: int, wait: Wait = Wait.VALUE, distance: int = 0) -> None:
        self.out[start].append(DependenceEdge(to, wait, distance))
