"""What lowering makes of a graph: tasks for the card and for the PS, and what passes between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.ir.graph import GraphInfo, module_path
from fpga_dynamo.ir.launch import Lowered
from fpga_dynamo.ir.plain_kernels import PlainKernel
from fpga_dynamo.ir.sizes.symbols import Symbols


@dataclass(frozen=True)
class Covered:
    """Nodes that one match of a pattern has put on the card.

    must_be_finite: (position of the output, dimension, step) of slices; where they are not, eager may be elsewhere.
    """

    pattern: str
    nodes: tuple[Node, ...]
    must_be_finite: tuple[tuple[int, int, int], ...] = ()


class Eager(Protocol):
    """Operators in eager mode, from the values that they read to those that they make."""

    def __call__(self, *values: Any) -> Any: ...
    def forward(self, *values: Any) -> Any:
        """The same, of a module without its hooks."""


@dataclass(eq=False, kw_only=True)
class CardTask(Lowered):
    """One launch on `kernel`. `eager` computes `writes` from `eager_reads` if the card cannot.

    seconds: what the cost model says the launch takes; ps_seconds: and `eager` in its place.
    """

    name: str
    kernel: str
    covers: tuple[Covered, ...]
    eager: Eager
    eager_reads: list[Node]
    seconds: float = 0.0
    ps_seconds: float = 0.0
    dependencies: tuple[int, ...] = ()

    @property
    def nodes(self) -> list[Node]:
        """The nodes that the launch computes."""
        return [node for covered in self.covers for node in covered.nodes]

    @cached_property
    def must_be_finite(self) -> list[tuple[int, int, int]]:
        """Slices that have to be finite, or eager may be so elsewhere: (output's position, dimension, step)."""
        return [one for covered in self.covers for one in covered.must_be_finite]

    @cached_property
    def layers(self) -> list[str]:
        """Of each command the module that it computes (``layer1.0.conv1``), else the node; "" if it only rearranges."""
        paths = {node.name: module_path(node) for node in self.nodes}
        return [
            next((paths[name] for name in command.nodes if paths.get(name)), "".join(command.nodes[:1]))
            for command in self.commands
        ]

    @property
    def reads(self) -> list[Node]:
        return [slot.node for slot in self.inputs]

    @property
    def writes(self) -> list[Node]:
        return [slot.node for slot in self.outputs]


@dataclass(eq=False)
class HostTask:
    """Eager nodes of one stage, as a module from `reads` to `writes`. seconds: what the cost model says they take."""

    name: str
    nodes: list[Node]
    eager: Eager
    reads: list[Node]
    writes: list[Node]
    seconds: float = 0.0
    dependencies: tuple[int, ...] = ()


@dataclass(eq=False, kw_only=True)
class KernelTask(HostTask):
    """One launch of a plain kernel, which computes an operator on tensors as they are in eager mode.

    kernel: the kernel behind the operator. own_xclbin: whether the kernel is not in the xclbin of the program.
    ps_seconds: the time of its function on tensors, by the cost model.
    """

    kernel: PlainKernel
    own_xclbin: bool
    ps_seconds: float


Task = CardTask | HostTask


@dataclass(eq=False)
class Program:
    """A compiled graph; one with `symbols` is for all sizes that their guards hold for (runtime/calls/bind.py).

    tasks: in an order in which they can run; `dependencies` of each are positions in it.
    outputs: makes the graph's results from the values of `result_reads`.
    greedy_launches: how many there would be with ``partition="greedy"``.
    occasion: why a graph that sizes change of was lowered again, or for these sizes alone.
    model: the name of the module's type or the function that it is a graph of, "" if that is not known.
    """

    name: str
    graph: GraphInfo
    tasks: list[Task]
    reasons: dict[Node, str]
    module: GraphModule
    result: Callable[..., Any]
    result_reads: list[Node]
    greedy_launches: int = 0
    lowering_seconds: float = 0.0
    attributes: dict[Node, torch.Tensor] = field(default_factory=dict)
    occasion: str = ""
    model: str = ""

    @property
    def symbols(self) -> Symbols | None:
        return self.graph.symbols

    @property
    def kernel_tasks(self) -> list[KernelTask]:
        return [task for task in self.tasks if isinstance(task, KernelTask)]

    @property
    def card_tasks(self) -> list[CardTask]:
        return [task for task in self.tasks if isinstance(task, CardTask)]
