"""Time inside the emulator, by the time stamps that the card itself takes around each command of a launch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import fpga_dynamo
from fpga_dynamo.frontend.backend import collect_programs
from fpga_dynamo.ir.command import Command
from fpga_dynamo.ir.program import Program


@dataclass(frozen=True)
class CommandTime:
    """A command of a model, the launch that it is part of, and the median of its seconds over some calls."""

    task: str
    index: int
    opcode: str
    macs: int
    bytes: int
    layout_change: bool
    nodes: str
    seconds: float

    @property
    def flops(self) -> float:
        """Floating-point operations a second; a multiply-accumulate is two."""
        return 2 * self.macs / self.seconds


def products(model: Callable[..., Any], example: Tensor) -> int:
    """Multiply-accumulates that the card performs for a call of the model, those of Winograd's transforms left out.

    Compiles the model again, and so forgets what Dynamo has compiled.
    """
    torch.compiler.reset()
    with collect_programs() as programs, torch.no_grad():
        torch.compile(model, backend="fpga")(example)
    commands = (c for program in programs for task in program.card_tasks for c in task.commands)
    return sum(_products(command) for command in commands)


def _products(command: Command) -> int:
    """A Winograd convolution has fewer than its `macs`, which are the direct algorithm's."""
    if command.opcode != "winograd":
        return command.macs
    fields: Mapping[str, Any] = command.fields
    size = fields["tile_size"]
    tiles = fields["batch"] * math.ceil(fields["out_height"] / size) * math.ceil(fields["out_width"] / size)
    return int((size + 2) ** 2 * tiles * fields["in_channels"] * fields["out_channels"])


class OnCard:
    """A model compiled for the card, strictly: whatever it computes runs there or compiling it is an error."""

    def __init__(self, model: Callable[..., Any], example: Tensor) -> None:
        self.call = torch.compile(model, backend="fpga", options={"partition": "greedy", "strict": True})
        with collect_programs() as programs, torch.no_grad():
            self.call(example)
        self.programs: list[Program] = programs
        self._commands: dict[tuple[str, int], Command] = {
            (task.name, i): command
            for program in self.programs
            for task in program.card_tasks
            for i, command in enumerate(task.commands)
        }

    def __call__(self, x: Tensor) -> Any:
        return self.call(x)

    def seconds(self, x: Tensor) -> float:
        """One call's time in the card, without commands that only change a layout.

        Within a network such a command is not there, since the neighbours write what the layer reads.
        """
        with fpga_dynamo.trace() as trace:
            self.call(x)
        return sum(
            event.stop - event.start
            for event in trace.commands
            if not self._changes_layout(event.arguments["task"], event.arguments["index"])
        )

    def commands(self, x: Tensor, calls: int = 9) -> list[CommandTime]:
        """Every command with its median time over some calls.

        `bytes` counts each buffer that a command touches once: the least that has to move. A group of streams is one
        command, whose bytes are those of all its commands.
        """
        samples: dict[tuple[str, int], list[float]] = {}
        events = {}
        for _ in range(calls):
            with fpga_dynamo.trace() as trace:
                self.call(x)
            for event in trace.commands:
                key = event.arguments["task"], event.arguments["index"]
                samples.setdefault(key, []).append(event.stop - event.start)
                events[key] = event
        return [
            CommandTime(
                task=task,
                index=index,
                opcode=event.name,
                macs=event.arguments["macs"],
                bytes=self._bytes(task, index, event.arguments["bytes"]),
                layout_change=self._changes_layout(task, index),
                nodes=event.arguments["nodes"],
                seconds=statistics.median(samples[task, index]),
            )
            for (task, index), event in events.items()
        ]

    def _changes_layout(self, task: str, index: int) -> bool:
        command = self._commands.get((task, index))
        return command is not None and command.layout_change

    def _bytes(self, task: str, index: int, otherwise: int) -> int:
        command = self._commands.get((task, index))
        return otherwise if command is None or command.group else sum(buffer.nbytes for buffer in command.uses)
