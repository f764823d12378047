"""One card task on one card: run handles, arenas, copies in and out, and what happens if the launch fails."""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import torch

from fpga_dynamo._native import critical_section
from fpga_dynamo.errors import DeviceError, InternalError
from fpga_dynamo.ir.elements import BEAT_BYTES
from fpga_dynamo.ir.launch import CommandList, Form, Slot
from fpga_dynamo.ir.program import CardTask
from fpga_dynamo.runtime.calls.binding import Binding
from fpga_dynamo.runtime.calls.transfer import empty_for, from_slot, to_slot
from fpga_dynamo.runtime.cards.card import ARENA, COMMANDS, COUNT, WEIGHTS, Card
from fpga_dynamo.runtime.device_tensors import as_host_tensor
from fpga_dynamo.runtime.observe import counters, trace
from fpga_dynamo.runtime.observe.card_time import card_count
from fpga_dynamo.runtime.observe.events import CommandEvent, CountedCommand, CountedEvent

LONGEST_MS = (1 << 31) - 1
"""The longest time-out that a driver is given, 24 days; stands for an infinite one too."""


class Arena:
    """A task's activations on one compute unit: memory, and the run handle whose arguments point at it.

    It serves all forms of the task that need no more than `beats`.
    """

    def __init__(self, task: CardTask, card: Card, unit: int, beats: int) -> None:
        self.beats = beats
        self._card = card
        self._count = task.code.count
        self.buffer = card.buffer(task.kernel, ARENA, beats * BEAT_BYTES, host=not card.driver.COPIES_ON_CARD)
        self.run = card.run(task.kernel, unit)
        self.run.set_arg(COUNT, self._count)
        for argument in (ARENA, *card.aliases(task.kernel, ARENA)):
            self.run.set_arg(argument, self.buffer)
        self._commands: tuple[weakref.ref[Binding], weakref.ref[CommandList]] | None = None
        self._section = critical_section()
        self._busy = False
        self._traced = False
        self._has_weights = bool(task.weights)
        self._weights: Any = None
        if task.weights:
            card.weights.add_user(self)
        else:  # an argument has to be set, though nothing reads it
            self.run.set_arg(WEIGHTS, card.buffer(task.kernel, WEIGHTS, BEAT_BYTES, host=False))

    def begin(self, binding: Binding, code: CommandList) -> None:
        """Points the run at the binding's commands; until :meth:`end` the weights region stays where it is."""
        self._section(self._begin, binding, code)

    def _begin(self, binding: Binding, code: CommandList) -> None:
        known = self._commands
        if known is None or known[0]() is not binding or known[1]() is not code:
            self.run.set_arg(COMMANDS, binding.commands(code))
            self._commands = (weakref.ref(binding), weakref.ref(code))
        self._follow_weights()
        self._busy = True

    def trace(self, wanted: bool) -> None:
        """Has the next run note the time of each command, if the driver can, and it is not counted in any case."""
        wanted = wanted and not self._card.target.counts
        if wanted != self._traced and hasattr(self.run, "trace_steps"):
            self.run.trace_steps(wanted)
            self._traced = wanted

    def report(self, pe: str, task: CardTask) -> None:
        """Gives the commands of the last run to those who record; a group of streams is one event."""
        if not self._traced:
            return
        for i, (command, (start, stop)) in enumerate(zip(task.commands, self.run.step_times, strict=True)):
            if not stop:  # in a stream
                continue
            members = task.commands[i : i + 1 + command.group]
            macs, moved = (sum(getattr(member, what) for member in members) for what in ("macs", "bytes"))
            arguments = _arguments(task, i, macs, moved)
            trace.report(CommandEvent(pe, command.opcode, start * 1e-9, stop * 1e-9, arguments))

    def counted(self, pe: str, task: CardTask, start: float, stop: float) -> None:
        """Gives what a cycle simulator has counted of the last run, from `start` to `stop`, to those who record."""
        if not self._card.target.counts or (count := card_count(self.run.counters)) is None:
            return
        counters.add(card_cycles=count.cycles, card_seconds=count.seconds)
        if trace.recorders:
            units = self._card.peers.get(pe, (pe,))
            commands = []
            for unit, ends in zip(units, count.units, strict=True):
                begin = 0
                for i, end in ends.items():
                    command = task.commands[i]
                    arguments = _arguments(task, i, command.macs, command.bytes)
                    commands.append(CountedCommand(unit, command.opcode, begin, end, arguments))
                    begin = end
            figures = (count.cycles, count.clock_hz, count.ends, tuple(commands), units[1:])
            trace.report(CountedEvent(pe, task.name, start, stop, *figures))

    def end(self) -> None:
        self._section(self._end)

    def _end(self) -> None:
        self._busy = False
        self._follow_weights()

    def weights_moved(self, buffer: Any) -> None:
        """Called by the store: the old buffer is let go of at once, or when the run that uses it has ended."""
        self._section(self._moved)

    def _moved(self) -> None:
        if not self._busy:
            self._follow_weights()

    def _follow_weights(self) -> None:
        # The store is asked each time: an interrupt may have kept it from telling.
        buffer = self._card.weights.buffer if self._has_weights else None
        if buffer is not None and buffer is not self._weights:
            self.run.set_arg(WEIGHTS, buffer)
            self._weights = buffer


class Launcher:
    """Runs a card task; one arena per compute unit, made when the unit is first used."""

    def __init__(self, task: CardTask, card: Card, timeout: float) -> None:
        self._task = task
        self._card = card
        self._units = [pe.name for pe in card.pes if pe.kernel == task.kernel]
        # A simulated launch takes as long as it takes: seconds of the host say nothing of the card.
        self.timeout_ms = LONGEST_MS if card.target.counts else int(min(max(timeout * 1000, 1), LONGEST_MS))
        self._arenas: dict[int, deque[Arena]] = {}
        self._state = card.driver.ert_cmd_state

    def __call__(self, unit: int, binding: Binding, tensors: Sequence[torch.Tensor], form: Form) -> list[torch.Tensor]:
        """The task's outputs for the given inputs, in order; `form`: what the task is at their sizes.

        Raises :class:`DeviceError` if the launch failed, OutOfRangeError if an input cannot be represented.
        """
        task = self._task
        sources = [to_slot(as_host_tensor(tensor), slot) for tensor, slot in zip(tensors, form.inputs, strict=True)]
        results = [empty_for(slot) for slot in form.outputs]
        arena = self._take(unit, form.beats)
        try:
            arena.begin(binding, form.code)
            arena.trace(bool(trace.recorders))
            start = perf_counter()
            state = self._execute(arena, sources, results, form)
            if state != self._state.ERT_CMD_STATE_COMPLETED:
                raise DeviceError(self.explain(arena.run, state))
            arena.report(self._units[unit], task)
            arena.counted(self._units[unit], task, start, perf_counter())
        finally:
            arena.end()
            self._give(unit, arena)
        counters.add(
            pl_launches=1,
            pl_commands=task.code.count,
            bytes_to_device=form.in_bytes,
            bytes_from_device=form.out_bytes,
        )
        return [from_slot(raw, slot) for raw, slot in zip(results, form.outputs, strict=True)]

    def _execute(self, arena: Arena, sources: list[torch.Tensor], results: list[torch.Tensor], form: Form) -> Any:
        inputs = [_piece(tensor, slot) for tensor, slot in zip(sources, form.inputs, strict=True)]
        outputs = [_piece(tensor, slot) for tensor, slot in zip(results, form.outputs, strict=True)]
        return arena.run.execute_io(inputs, outputs, arena.buffer, self.timeout_ms)

    def explain(self, run: Any, state: Any) -> str:
        """What became of a run that ended in another state than completed, one sentence."""
        sentence = getattr(run, "error", "") or f"the run ended in state {getattr(state, 'name', state)}"
        hint = ""
        if state == self._state.ERT_CMD_STATE_TIMEOUT:
            hint = f" (options={{'timeout': seconds}} allows more than {self.timeout_ms / 1000:g} s)"
        return f"{self._task.name} on kernel {self._task.kernel} of {self._card.path}: {sentence}{hint}"

    def _take(self, unit: int, beats: int) -> Arena:
        # Without a lock, as pop() and append() are one step each: an arena that an interrupt loses is freed.
        with contextlib.suppress(IndexError):
            arena = self._free(unit).pop()
            if arena.beats >= beats:
                return arena
            del arena  # a larger one takes its place
        return Arena(self._task, self._card, unit, beats)

    def _give(self, unit: int, arena: Arena) -> None:
        self._free(unit).append(arena)

    def _free(self, unit: int) -> deque[Arena]:
        return self._arenas.get(unit) or self._arenas.setdefault(unit, deque())

    def idle(self, unit: int) -> Arena | None:
        """An arena of the unit that no call of this launcher uses; the next one may."""
        try:
            return self._free(unit)[-1]
        except IndexError:
            return None

    def free(self) -> None:
        """Gives the memory of idle arenas back; the next call makes new ones. Acquires no lock: see Bindings."""
        self._arenas = {}


def _arguments(task: CardTask, index: int, macs: int, moved: int) -> dict[str, Any]:
    """What traces say of a command."""
    nodes = " ".join(task.commands[index].nodes)
    return {
        "task": task.name,
        "index": index,
        "nodes": nodes,
        "layer": task.layers[index],
        "macs": macs,
        "bytes": moved,
    }


def _piece(tensor: torch.Tensor, slot: Slot) -> tuple[int, int, int]:
    """What is copied: address, bytes, and place in the arena. Raises InternalError rather than copy too much."""
    if tensor.numel() * tensor.itemsize < slot.nbytes:
        raise InternalError(f"{slot.node} has {slot.nbytes} bytes on the card, but is a {tensor.dtype} tensor of "
                            f"{tensor.numel()} elements")  # fmt: skip
    return (tensor.data_ptr(), slot.nbytes, slot.begin)
