"""One launch as lowering leaves it: its commands and their words, its slots, its places in the arena."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch.fx import Node

from fpga_dynamo.ir.blocked import Blocked
from fpga_dynamo.ir.command import Command
from fpga_dynamo.ir.dtypes import slot_bytes
from fpga_dynamo.ir.elements import BEAT_BYTES
from fpga_dynamo.ir.sizes.size import Number, Size
from fpga_dynamo.ir.view import Buffer
from fpga_dynamo.ir.weights import WeightBuffer


@dataclass(frozen=True)
class Patches:
    """Words that may be others at other sizes: (word, arena buffer, offset in it) and (word, size)."""

    arena: list[tuple[int, Buffer, Number]] = field(default_factory=list)
    sizes: list[tuple[int, Size]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class CommandList:
    """words: records, then what they refer to. fixups: (word, buffer, offset) that wait for the weights' addresses,
    where `offset` counts the buffer's elements; or beats, as the addresses then do, if `in_beats` (an engine's).

    patches: of a list that sizes occur in, whose words are those for the sizes' hints.
    """

    words: npt.NDArray[np.uint32]
    count: int
    fixups: tuple[tuple[int, WeightBuffer, int], ...]
    patches: Patches | None = None
    in_beats: bool = False

    def bound(self, weights: Mapping[WeightBuffer, int]) -> npt.NDArray[np.uint32]:
        """The words with every weight at its place (beats)."""
        words = self.words.copy()
        words[[word for word, _, _ in self.fixups]] = [
            weights[buffer] * (1 if self.in_beats else buffer.element.lanes) + offset
            for _, buffer, offset in self.fixups
        ]
        return words


@dataclass(frozen=True)
class MemoryPlan:
    """All in beats. places: from the arena's base. live: the most that is live at once, the least size possible."""

    places: Mapping[Buffer, int]
    beats: int
    output_end: int
    input_begin: int
    input_end: int
    live: int


@dataclass(frozen=True)
class Slot:
    """A tensor that crosses between host and arena: dense, in eager mode's strides. `place` in beats.

    blocked: how it lies there instead, as a map of an engine.
    """

    node: Node
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    place: int
    numel: int
    blocked: Blocked | None = None

    @cached_property
    def device(self) -> torch.device:
        """Where eager mode has the tensor: on the CPU, or on a card."""
        fake = self.node.meta.get("val")
        return fake.device if isinstance(fake, torch.Tensor) else torch.device("cpu")

    @property
    def nbytes(self) -> int:
        if self.blocked is not None:
            return self.blocked.nbytes
        return self.numel * slot_bytes(self.dtype)

    @property
    def begin(self) -> int:
        """Bytes from the arena's base."""
        return self.place * BEAT_BYTES


@dataclass(frozen=True, eq=False)
class Form:
    """What a launch is at certain sizes: its commands, its slots, and the extent of its arena, in beats.

    Outputs lie from the arena's begin to `output_end`, inputs from there to `input_end`.
    """

    code: CommandList
    inputs: list[Slot]
    outputs: list[Slot]
    beats: int
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
class Lowered:
    """A segment for the card in commands."""

    commands: list[Command]
    plan: MemoryPlan
    code: CommandList
    inputs: list[Slot]
    outputs: list[Slot]
    weights: list[WeightBuffer]

    @cached_property
    def form(self) -> Form:
        """The launch as lowered; for a task with sizes, at their hints."""
        plan = self.plan
        return Form(self.code, self.inputs, self.outputs, plan.beats, plan.output_end, plan.input_end)
