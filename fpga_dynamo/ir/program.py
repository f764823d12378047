"""What lowering makes of a graph: tasks for the card and for the PS, and what passes between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fpga_dynamo.codegen.encode import CommandList
from fpga_dynamo.ir.command import Command
from fpga_dynamo.ir.dtypes import slot_bytes
from fpga_dynamo.ir.graph import GraphInfo, module_path
from fpga_dynamo.ir.sizes.symbols import Symbols
from fpga_dynamo.ir.weights import WeightBuffer
from fpga_dynamo.lowering.passes.memory import MemoryPlan
from fpga_dynamo.lowering.passes.partition import Segment


@dataclass(frozen=True)
class Slot:
    """A tensor that crosses between host and arena: dense, in eager's strides. `offset` in floats."""

    node: Node
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    offset: int
    numel: int

    @property
    def nbytes(self) -> int:
        return self.numel * slot_bytes(self.dtype)


@dataclass(frozen=True, eq=False)
class Form:
    """What a launch is at certain sizes: its commands, its slots, and the extent of its arena, in floats.

    Outputs lie from the arena's begin to `output_end`, inputs from there to `input_end`.
    """

    code: CommandList
    inputs: list[Slot]
    outputs: list[Slot]
    floats: int
    output_end: int
    input_end: int

    @cached_property
    def in_bytes(self) -> int:
        """What a launch takes to the card."""
        return sum(slot.nbytes for slot in self.inputs)

    @cached_property
    def out_bytes(self) -> int:
        """What it brings back."""
        return sum(slot.nbytes for slot in self.outputs)


@dataclass(eq=False)
class CardTask:
    """One launch: a command list on a kernel. `eager` computes `writes` from `eager_reads` if the card cannot."""

    name: str
    segment: Segment
    kernel: str
    commands: list[Command]
    plan: MemoryPlan
    code: CommandList
    inputs: list[Slot]
    outputs: list[Slot]
    weights: list[WeightBuffer]
    eager: Callable[..., Any]
    eager_reads: list[Node]
    dependencies: tuple[int, ...] = ()

    @cached_property
    def form(self) -> Form:
        """The launch as lowered; for a task with sizes, at their hints."""
        plan = self.plan
        return Form(self.code, self.inputs, self.outputs, plan.floats, plan.output_end, plan.input_end)

    @cached_property
    def doubtful(self) -> list[tuple[int, int, int]]:
        """Slices that have to be finite, or eager may be so elsewhere: (output's position, dimension, step)."""
        slices = {match.root: match.pattern.doubtful(match) for match in self.segment.matches}
        return [(i, *one) for i, slot in enumerate(self.outputs) for one in slices.get(slot.node, ())]

    @cached_property
    def layers(self) -> list[str]:
        """Of each command the module that it computes (``layer1.0.conv1``), else the node; "" if it only rearranges."""
        nodes = [node for match in self.segment.matches for node in match.nodes]
        paths = {node.name: module_path(node) for node in nodes}
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
    """Eager nodes of one stage, as a module from `reads` to `writes`."""

    name: str
    segment: Segment
    eager: Callable[..., Any]
    reads: list[Node]
    writes: list[Node]
    dependencies: tuple[int, ...] = ()


Task = CardTask | HostTask


@dataclass(eq=False)
class Program:
    """A compiled graph; one with `symbols` is for all sizes that their guards hold for (symbolic/bind.py).

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
    def card_tasks(self) -> list[CardTask]:
        return [task for task in self.tasks if isinstance(task, CardTask)]
