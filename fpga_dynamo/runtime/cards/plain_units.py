"""The compute units of a plain kernel: buffers, starts, and which unit the operator of a task runs on.

A start copies tensors into buffers of exactly their size. So the emulator notices an access behind a tensor.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fpga_dynamo.errors import DeviceError
from fpga_dynamo.runtime.cards.card import Card
from fpga_dynamo.runtime.observe import counters
from fpga_dynamo.runtime.scheduling.scheduler import Scheduler
from fpga_dynamo.runtime.task import Frame, ProcessingElement, Task, TaskGraph

BEAT = 64
"""Bytes of the widest memory port: what a pointer to wide elements may be read by."""


@dataclass(frozen=True)
class Pointer:
    """A tensor in C's order as a kernel's argument. read: its content goes to the card; written: and comes back."""

    tensor: torch.Tensor
    read: bool
    written: bool
    wide: bool
    """Whether the kernel accesses whole beats, so that the buffer ends with one."""

    @property
    def nbytes(self) -> int:
        return self.tensor.numel() * self.tensor.itemsize


Argument = Pointer | int | float


@dataclass(frozen=True)
class Call:
    """A start: the arguments in C's order, and the milliseconds that it may take."""

    arguments: Sequence[Argument]
    timeout_ms: int


class _Start:
    """A run handle with buffers, for one start at a time."""

    def __init__(self, card: Card, kernel: str, unit: int) -> None:
        self._card = card
        self._kernel = kernel
        self.run = card.driver.run(card.kernels[kernel, unit])
        self._buffers: dict[int, Any] = {}

    def buffer(self, argument: int, pointer: Pointer) -> Any:
        """The buffer of an argument, made again when the size changes."""
        size = max(pointer.nbytes, 1)
        if pointer.wide:
            size = -(-size // BEAT) * BEAT
        known = self._buffers.get(argument)
        if known is None or known.size() != size:
            bo = self._card.driver.bo
            # The emulator has one memory: what the host writes there need not be copied again.
            flags = bo.flags.host_only if self._card.holds_several else bo.flags.normal
            group = self._card.kernels[self._kernel, 0].group_id(argument)
            known = self._buffers[argument] = bo(self._card.device, size, flags, group)
            self.run.set_arg(argument, known)
        return known


class Units:
    """The compute units of one plain kernel on one card. Made by :func:`units_of`.

    resource: the resource type under which tasks state their costs there.
    """

    def __init__(self, card: Card, kernel: str) -> None:
        self.card = card
        self.kernel = kernel
        self._free: dict[int, deque[_Start]] = {pe.index: deque() for pe in self.pes}
        self._guests: weakref.WeakKeyDictionary[Scheduler, str] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        # The graph of a call in eager mode, which is one task.
        task = Task(kernel, {kernel: card.target.platform.launch_seconds}, self._run_task)
        self._graph = TaskGraph(kernel, [task])

    @property
    def pes(self) -> list[ProcessingElement]:
        return [pe for pe in self.card.pes if pe.kernel == self.kernel]

    def resource_in(self, scheduler: Scheduler, card: Card) -> str:
        """The resource type of the units in a scheduler of `card`, to which they are added if they are not on it."""
        if card is self.card:
            return self.kernel
        with self._lock:
            if scheduler not in self._guests:
                resource = f"{self.kernel}@{self.card.target.uuid}"
                for pe in self.pes:
                    scheduler.add(ProcessingElement(pe.name, "PL", pe.kernel, pe.index, variant=resource))
                self._guests[scheduler] = resource
            return self._guests[scheduler]

    def execute(self, call: Call) -> None:
        """A call in eager mode: on whichever unit is free."""
        self.card.scheduler("adaptive").execute(self._graph, call)

    def _run_task(self, pe: ProcessingElement, frame: Frame) -> None:
        self.launch(pe.index, frame.values)

    def launch(self, unit: int, call: Call) -> None:
        """Copies in, starts a unit, waits, copies out. Raises DeviceError, with the driver's sentence, for a fault."""
        start = self._take(unit)
        try:
            moved = self._bring(start, call.arguments)
            state = self._execute(start.run, call.timeout_ms)
            if state != self.card.driver.ert_cmd_state.ERT_CMD_STATE_COMPLETED:
                raise DeviceError(self._explain(start.run, state, call.timeout_ms))
            fetched = self._fetch(start, call.arguments)
        finally:
            self._free[unit].append(start)
        counters.add(pl_launches=1, bytes_to_device=moved, bytes_from_device=fetched)

    def _take(self, unit: int) -> _Start:
        # Without a lock, as pop() and append() are one step each.
        with contextlib.suppress(IndexError):
            return self._free[unit].pop()
        return _Start(self.card, self.kernel, unit)

    def _bring(self, start: _Start, arguments: Sequence[Argument]) -> int:
        to_device = self.card.driver.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE
        moved = 0
        for index, argument in enumerate(arguments):
            if not isinstance(argument, Pointer):
                start.run.set_arg(index, argument)
                continue
            buffer = start.buffer(index, argument)
            if argument.read and argument.nbytes:
                buffer.write_ptr(argument.tensor.data_ptr(), argument.nbytes, 0)
                buffer.sync(to_device, argument.nbytes, 0)
                moved += argument.nbytes
        return moved

    def _execute(self, run: Any, timeout_ms: int) -> Any:
        if hasattr(run, "execute"):
            return run.execute(timeout_ms)
        run.start()
        state = run.wait(timeout_ms)
        if state == self.card.driver.ert_cmd_state.ERT_CMD_STATE_TIMEOUT:
            run.abort()
        return state

    def _fetch(self, start: _Start, arguments: Sequence[Argument]) -> int:
        from_device = self.card.driver.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE
        fetched = 0
        for index, argument in enumerate(arguments):
            if isinstance(argument, Pointer) and argument.written and argument.nbytes:
                buffer = start.buffer(index, argument)
                buffer.sync(from_device, argument.nbytes, 0)
                buffer.read_ptr(argument.tensor.data_ptr(), argument.nbytes, 0)
                fetched += argument.nbytes
        return fetched

    def _explain(self, run: Any, state: Any, timeout_ms: int) -> str:
        """One sentence on a run that ended in another state than completed."""
        sentence = getattr(run, "error", "") or f"the run ended in state {getattr(state, 'name', state)}"
        hint = ""
        if state == self.card.driver.ert_cmd_state.ERT_CMD_STATE_TIMEOUT:
            hint = f" ('timeout' allows more than {timeout_ms / 1000:g} s)"
        return f"kernel '{self.kernel}' of {self.card.path}: {sentence}{hint}"


_lock = threading.Lock()


def units_of(card: Card, kernel: str) -> Units:
    """The units of a card's plain kernel."""
    found: Units | None
    with _lock:
        found = card.plain_units.get(kernel)
        if found is None:
            found = card.plain_units[kernel] = Units(card, kernel)
        return found


def has_kernel(manifest: Mapping[str, Any], kernel: str, arguments: Sequence[tuple[str, str, int]]) -> bool:
    """Whether an xclbin has a plain kernel with these arguments: name, kind and bytes of each."""
    return any(
        table["name"] == kernel
        and not table["lanes"]
        and [(a["name"], a["kind"], a["bytes"]) for a in table["args"]] == list(arguments)
        for table in manifest["kernels"]
    )


@dataclass(frozen=True)
class Place:
    """Where the operator of a task runs: on a unit of `units`; None: by its function on tensors, if it has one."""

    units: Units | None
    unit: int
    timeout_ms: int


HOST = Place(None, 0, 0)


class _Thread(threading.local):
    place: Place | None = None


_thread = _Thread()


@contextlib.contextmanager
def placed(place: Place | None) -> Iterator[None]:
    """Within the context, the operator of a plain kernel runs at `place` in this thread; None: as in eager mode."""
    before, _thread.place = _thread.place, place
    try:
        yield
    finally:
        _thread.place = before


def chosen_place() -> Place | None:
    """Where the scheduler has put the task that this thread runs; None for a call in eager mode."""
    return _thread.place
