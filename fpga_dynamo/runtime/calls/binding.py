"""A card task with a certain set of parameters: the packed weights and the command list that points at them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

from fpga_dynamo.ir.launch import CommandList
from fpga_dynamo.ir.program import CardTask
from fpga_dynamo.runtime.cards.card import COMMANDS, Card
from fpga_dynamo.runtime.cards.change import ChangeDetector, Stamp, memory_of
from fpga_dynamo.runtime.cards.weights import Entry, WeightStore, source_nodes

MOST_BINDINGS = 32
"""Sets of parameters that one task keeps packed (layers of one shape share a compiled graph, with weights each)."""


class Binding:
    """Packed weights of one set of source tensors, and the command lists in device memory that point at them.

    on_death: called when the memory of one of the tensors is gone, by the garbage collector and so at any time.
    """

    def __init__(
        self,
        task: CardTask,
        card: Card,
        sources: dict[Node, torch.Tensor],
        stamps: list[Stamp],
        on_death: Callable[[object], None],
    ) -> None:
        self._store: WeightStore = card.weights
        self._nodes = tuple(sources)
        self._ids = [id(tensor) for tensor in sources.values()]
        self._references = tuple(weakref.ref(memory_of(tensor), on_death) for tensor in sources.values())
        self._lock = threading.Lock()
        by_node = dict(zip(sources, stamps, strict=True))
        self._packs = [buffer.pack for buffer in task.weights]
        self._held: dict[int, Entry] = {}  # what is still to be released, by position
        self._finalizer = weakref.finalize(self, self._store.release, self._held.values())
        self._store.reserve(self._packs, sources)
        for i, pack in enumerate(self._packs):
            self._held[i] = self._store.acquire(pack, sources, by_node)
        self.entries = list(self._held.values())
        self.stamps = stamps
        """Of the sources as they were packed; another list whenever something was packed again."""
        self._task = task
        self._card = card
        self._commands: weakref.WeakKeyDictionary[CommandList, Any] = weakref.WeakKeyDictionary()

    def commands(self, code: CommandList) -> Any:
        """The buffer with `code` in device memory, a command list of the task; it goes when `code` does."""
        found = self._commands.get(code)
        if found is None:
            with self._lock:
                found = self._commands.get(code)
                if found is None:
                    found = self._commands[code] = self._written(code)
        return found

    def _written(self, code: CommandList) -> Any:
        places = {buffer: entry.place for buffer, entry in zip(self._task.weights, self.entries, strict=True)}
        words = code.bound(places)
        buffer = self._card.buffer(self._task.kernel, COMMANDS, words.nbytes, host=True)
        buffer.write(words.data, 0)
        direction = self._card.driver.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE
        buffer.sync(direction, words.nbytes, 0)
        return buffer

    def is_for(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether these are its tensors; one that has another's id and memory by now is told by its stamp."""
        return self._ids == [id(tensor) for tensor in tensors] and not self.is_dead

    @property
    def is_dead(self) -> bool:
        """Whether a source tensor's memory is gone, so that no call can ask for this binding again."""
        return any(ref() is None for ref in self._references)

    def surrender(self) -> bool:
        """Of a dead binding: releases the packs whose tensors are gone. Returns whether others are left.

        A parameter that is replaced takes its binding with it; the packs of its neighbours wait for the next one.
        """
        sources = dict(zip(self._nodes, (ref() for ref in self._references), strict=True))
        inputs = any(node.op == "placeholder" and tensor is not None for node, tensor in sources.items())
        for i, pack in enumerate(self._packs):
            if not inputs or any(sources[node] is None for node in pack.sources):
                entry = self._held.pop(i, None)  # atomic: two threads may be here at once
                if entry is not None:
                    self._store.release([entry])
        return bool(self._held)

    def refresh(self, tensors: Sequence[torch.Tensor], stamps: list[Stamp]) -> None:
        """Packs again what has changed since the last call."""
        if stamps == self.stamps:
            return
        with self._lock:
            sources = dict(zip(self._nodes, tensors, strict=True))
            by_node = dict(zip(self._nodes, stamps, strict=True))
            for entry, pack in zip(self.entries, self._packs, strict=True):
                self._store.refresh(entry, pack, sources, by_node)
            self.stamps = stamps

    def invalidate(self) -> None:
        """Has the next call look at every pack."""
        self.stamps = []


class Bindings:
    """The bindings of one task, found by the tensors of a call.

    A binding ends with its tensors: a model that is deleted leaves nothing on the card, though Dynamo keeps its code.
    The oldest one ends when there are more than MOST_BINDINGS.
    on_end: called when a binding has ended, on_empty when that was the last one.
    """

    def __init__(self, task: CardTask, card: Card, weight_check: str, on_empty: Callable[[], None]) -> None:
        self._task = task
        self._card = card
        self.detector = ChangeDetector(weight_check)
        self._lock = threading.Lock()
        self._known: list[Binding] = []
        self._leaving: list[Binding] = []  # dead ones with packs that the next binding may need
        self._on_empty = on_empty
        self.on_end: Callable[[], None] = lambda: None
        self.nodes = source_nodes([buffer.pack for buffer in task.weights])

    def find(self, tensors: list[torch.Tensor]) -> Binding:
        """The binding for these source tensors (of `nodes`, in order), with packs that are up to date."""
        stamps = self.detector.stamps(tensors)
        binding = self._look_up(tensors)
        if binding is None:
            with self._lock:
                binding = self._look_up(tensors) or self._add(tensors, stamps)
        binding.refresh(tensors, stamps)
        return binding

    def expect(self, tensors: Sequence[torch.Tensor]) -> None:
        """Makes room for the packs of these source tensors, ahead of the first call with them.

        Raises the driver's memory error if the bank is full.
        """
        packs = [buffer.pack for buffer in self._task.weights]
        self._card.weights.reserve(packs, dict(zip(self.nodes, tensors, strict=True)))

    def _look_up(self, tensors: list[torch.Tensor]) -> Binding | None:
        return next((binding for binding in self._known if binding.is_for(tensors)), None)

    def _add(self, tensors: list[torch.Tensor], stamps: list[Stamp]) -> Binding:
        this = weakref.ref(self)

        def on_death(reference: object) -> None:
            bindings = this()
            if bindings is not None:
                bindings._drop_dead()

        sources = dict(zip(self.nodes, tensors, strict=True))
        binding = Binding(self._task, self._card, sources, stamps, on_death)
        known = [binding, *self._known]
        self._known = known[:MOST_BINDINGS]
        self._leaving = []
        if len(known) > MOST_BINDINGS:
            self.on_end()
        return binding

    def _drop_dead(self) -> None:
        # No lock: the garbage collector may come while this very thread holds it. At worst a binding that was added
        # at the same moment is forgotten, and made again on the next call.
        dead = [binding for binding in self._known if binding.is_dead]
        self._known = [binding for binding in self._known if not binding.is_dead]
        self._leaving = [binding for binding in (*self._leaving, *dead) if binding.surrender()]
        if dead:
            self.on_end()
        if not self._known:
            self._on_empty()

    def rest(self) -> None:
        """Lets go of a binding that no tensor's end would end, for it has none. Acquires no lock, see above."""
        if not any(node.op == "placeholder" for node in self.nodes):
            self._known = []

    def invalidate(self) -> None:
        for binding in self._known:
            binding.invalidate()
