"""A program for all sizes, bound to those of a call: guards checked, command lists and slots made, the arena planned.

Everything that depends on the symbols is one generated function for each launch. The arena keeps the planner's order of
buffers for the hint sizes: each buffer lies above the lower ones that live at the same time. So a call plans nothing,
and buffers that grow by the same factor lie as the planner would place them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fpga_dynamo.ir.launch import CommandList, Form
from fpga_dynamo.ir.program import CardTask, Program
from fpga_dynamo.ir.sizes.code import FunctionSource, SizeWriter, checker
from fpga_dynamo.ir.sizes.size import Number
from fpga_dynamo.ir.sizes.symbols import Guard, Symbols
from fpga_dynamo.ir.view import Buffer, Role, numel
from fpga_dynamo.lowering.passes.cores.memory import STATUS_BEATS, stacking


class FormMaker:
    """Makes the forms of one launch; see the module's description."""

    def __init__(self, task: CardTask, symbols: Symbols) -> None:
        self._task = task
        source = FunctionSource(symbols)
        begins, ends = lay_out(task, source)
        words = patched_words(task, begins, source)
        self._places = np.array([word for word, _ in words], np.intp)
        slots = [
            ", ".join([_tuple(source, slot.shape), _tuple(source, slot.strides), place])
            for slot, place in zip((*task.inputs, *task.outputs), slot_places(task, begins), strict=True)
        ]
        given = ", ".join([value for _, value in words])
        source.returns(f"[{given}], [{', '.join(f'({slot})' for slot in slots)}], {', '.join(ends)}")
        self._evaluate: Callable[..., Any] = source.function()

    def __call__(self, values: Sequence[int]) -> Form:
        """The launch for these values of the symbols."""
        changed, slots, output_end, input_end, beats = self._evaluate(*values)
        task = self._task
        words = task.code.words.copy()
        words[self._places] = np.array(changed, np.int64).astype(np.uint32)
        bound = [
            replace(slot, shape=shape, strides=strides, place=place, numel=numel(shape))
            for slot, (shape, strides, place) in zip((*task.inputs, *task.outputs), slots, strict=True)
        ]
        count = len(task.inputs)
        code = CommandList(words, task.code.count, task.code.fixups)
        return Form(code, bound[:count], bound[count:], beats, output_end, input_end)


def lay_out(task: CardTask, source: SizeWriter) -> tuple[dict[Buffer, str], list[str]]:
    """Names of the places of all buffers in the arena; and of the ends of its outputs, inputs, and its own."""
    begins: dict[Buffer, str] = {}
    after: dict[Buffer, str] = {}

    def put(buffer: Buffer, place: str) -> str:
        begins[buffer] = place
        after[buffer] = source.add(place, source.name(buffer.beats))
        return after[buffer]

    ends = []
    cursor = source.name(STATUS_BEATS)
    for role in (Role.OUTPUT, Role.INPUT):
        for buffer in task.plan.places:
            if buffer.role is role:
                cursor = put(buffer, cursor)
        ends.append(cursor)
    tops = [cursor]
    for buffer, below in stacking(task.commands, task.plan.places).items():
        place = [after[other] for other in below]
        tops.append(put(buffer, source.largest(place) if place else cursor))
    ends.append(source.largest(tops))
    return begins, ends


def patched_words(task: CardTask, begins: Mapping[Buffer, str], source: SizeWriter) -> list[tuple[int, str]]:
    """Words of the task's commands that depend on sizes, and the names of their values."""
    patches = task.code.patches
    assert patches is not None, "a program with symbolic sizes must keep its size-dependent records"
    words = [
        (word, source.add(source.multiply(begins[buffer], buffer.element.lanes), source.name(offset)))
        for word, buffer, offset in patches.arena
    ]
    return words + [(word, source.name(size)) for word, size in patches.sizes]


def slot_places(task: CardTask, begins: Mapping[Buffer, str]) -> list[str]:
    """Names of the places of the task's inputs and outputs, in this order."""
    own = {place: buffer for buffer, place in task.plan.places.items()}
    return [begins[own[slot.place]] for slot in (*task.inputs, *task.outputs)]


def _tuple(source: FunctionSource, numbers: Sequence[Number]) -> str:
    return f"({''.join(source.name(number) + ', ' for number in numbers)})"


@dataclass(frozen=True)
class Sizes:
    """A program bound to sizes: the values of its symbols, and the forms of its launches in their order."""

    values: tuple[int, ...]
    forms: list[Form]


class Binder:
    """Binds one program to sizes."""

    def __init__(self, program: Program) -> None:
        symbols = program.symbols
        assert symbols is not None, "a program without symbolic sizes needs no binding"
        self.guards: list[Guard] = list(symbols.guards.values())
        self._failed = checker(symbols, self.guards)
        self._makers = [FormMaker(task, symbols) for task in program.card_tasks]

    def failed_guard(self, values: Sequence[int]) -> Guard | None:
        """The first guard that does not hold for these values of the symbols, or None if all do."""
        first = self._failed(*values)
        return None if first < 0 else self.guards[first]

    def bind(self, values: Sequence[int]) -> Sizes:
        """The program at these values, for which all guards hold."""
        return Sizes(tuple(values), [make(values) for make in self._makers])
