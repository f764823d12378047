"""Direct calls: a compiled graph that is one launch, run from Dynamo's inputs to its outputs by one native call.

A full call goes through AOTAutograd's wrappers, the executor and the scheduler. A graph without gradients, changed
inputs and aliased outputs does not need the wrappers, and a task without competitors does not need the scheduler. A
call is full if a parameter or an input's strides changed since the last full call, if a trace or the profiler records
tasks, and after any failure. It then binds the direct call again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.multiprocessing.reductions import StorageWeakRef

from fpga_dynamo._native import direct_call
from fpga_dynamo.errors import DeviceError
from fpga_dynamo.ir.elements import BEAT_BYTES
from fpga_dynamo.ir.graph import STORABLE, is_view, value
from fpga_dynamo.ir.launch import Slot
from fpga_dynamo.ir.program import CardTask, Program
from fpga_dynamo.ir.view import extent
from fpga_dynamo.runtime.calls.binding import Binding, Bindings
from fpga_dynamo.runtime.calls.executor import Executor
from fpga_dynamo.runtime.calls.launch import Arena, Launcher
from fpga_dynamo.runtime.calls.transfer import is_slot
from fpga_dynamo.runtime.cards.card import ARENA, COMMANDS, COUNT, WEIGHTS, Card
from fpga_dynamo.runtime.cards.change import Stamp
from fpga_dynamo.runtime.scheduling.scheduler import Scheduler
from fpga_dynamo.runtime.task import ProcessingElement
from fpga_dynamo.torch_internals import tensors as internals

_DTYPES = {dtype: str(dtype).removeprefix("torch.") for dtype in STORABLE}

Result = tuple[Slot, tuple[int, ...], tuple[int, ...]]
"""A slot, and the shape and strides in which the graph returns it."""


def direct(whole: Callable[..., Any], executor: Executor, arity: int) -> Callable[..., Any]:
    """What calls `executor`'s program directly when that can be done, and else is `whole`, the compiled graph.

    To be used only if `whole`, called with `arity` inputs, does nothing but hand them to the executor in this order.
    """
    program = executor.program
    results = _results(program)
    if results is None or not _fits(executor, program.card_tasks[0], arity):
        return whole
    executor.direct = Direct(executor, program.card_tasks[0])
    return executor.direct.make(whole, executor.scheduler, results)


def _fits(executor: Executor, task: CardTask, arity: int) -> bool:
    card, placeholders = executor.card, executor.program.graph.placeholders
    return (
        hasattr(card.driver.run, "launchable")
        and not any(internals.differences())
        and not executor.options.verify
        and executor.options.granularity == "launch"
        and not task.must_be_finite
        and executor.scheduler.policy.indifferent
        and len(placeholders) == arity
        and all(slot.node in placeholders for slot in task.inputs)
        and len({slot.device for slot in task.outputs}) == 1
        and all(slot.dtype in _DTYPES and slot.blocked is None for slot in (*task.inputs, *task.outputs))
    )


def _first_unit(card: Card, task: CardTask) -> ProcessingElement:
    return next(pe for pe in card.pes if pe.kernel == task.kernel)


def _results(program: Program) -> list[Result] | None:
    """The graph's results as whole outputs of its only task, no two of them in one memory; None if they are not so."""
    if len(program.card_tasks) != 1 or len(program.tasks) != 1:
        return None
    slots = {slot.node: slot for slot in program.card_tasks[0].outputs}
    output = next(node for node in reversed(program.graph.module.graph.nodes) if node.op == "output")
    results: list[Result] = []
    for node in output.args[0]:
        slot = _slot_behind(node, slots)
        if slot is None:
            return None
        shape, strides = tuple(value(node).shape), tuple(value(node).stride())
        results.append((slot, shape, strides))
    distinct = {slot.node for slot, _, _ in results}
    return results if len(distinct) == len(results) == len(slots) else None


def _slot_behind(node: Any, slots: dict[Node, Slot]) -> Slot | None:
    """The slot with all elements of `node`, each where the strides of `node` say; None without such a slot."""
    made = node
    while isinstance(made, Node) and made not in slots and is_view(made) and len(made.all_input_nodes) == 1:
        source = made.all_input_nodes[0]
        if not _lies_as(value(made), value(source)):
            return None
        made = source
    slot = slots.get(made) if isinstance(made, Node) else None
    if slot is None or slot.strides != value(made).stride():
        return None
    fake = value(node)
    # The result's memory is made for its shape and strides, and the launch writes the whole slot: views that leave
    # elements out, or show some twice (unfold), are no results of a direct call.
    dense = fake.numel() == slot.numel and (not slot.numel or extent(fake.shape, fake.stride()) == slot.numel)
    return slot if dense else None


def _lies_as(result: Any, source: Any) -> bool:
    """Whether `result`, a view or a copy of `source`, has each element at the same distance from the first one."""
    if not isinstance(result, torch.Tensor) or not isinstance(source, torch.Tensor):
        return False
    if result.dtype is not source.dtype or result.storage_offset() != 0 or source.storage_offset() != 0:
        return False
    # A copy may be in another order, of which shape and strides say nothing once it is reshaped.
    shared = StorageWeakRef(result.untyped_storage()) == StorageWeakRef(source.untyped_storage())
    return shared or (result.shape, result.stride()) == (source.shape, source.stride())


class Direct:
    """When the direct way of an executor is open: it is bound to what a call by the whole way has found."""

    def __init__(self, executor: Executor, task: CardTask) -> None:
        self._task = task
        self._executor = weakref.ref(executor)  # which has this object
        placeholders = executor.program.graph.placeholders
        self._positions = {node: i for i, node in enumerate(placeholders)}
        self._reference: weakref.ref[direct_call] | None = None
        self._bound: tuple[Any, ...] = ()
        self.follow(executor)

    def follow(self, executor: Executor) -> None:
        """What is bound next is on the card on which the executor's tasks are now."""
        self._card: Card = executor.card
        self._launcher: Launcher = executor.launchers[0]
        self._bindings: Bindings = executor.bindings[0]
        self._pe = _first_unit(executor.card, self._task)
        self._graph = executor.graph
        self._bindings.on_end = self.close
        if self._task.weights:
            self._card.weights.add_user(self)

    def make(self, whole: Callable[..., Any], scheduler: Scheduler, results: list[Result]) -> direct_call:
        """The callable for Dynamo. `whole` has the executor, so this object must not hold it."""
        samples = self._bindings.detector.samples
        call = direct_call(
            otherwise=whole,
            failed=self._failed,
            gate=scheduler.bypass,
            empty=internals.empty_on(results[0][0].device),
            profiling=internals.profiling,
            arity=len(self._positions),
            inputs=[
                (self._positions[slot.node], _DTYPES[slot.dtype], slot.numel, slot.begin) for slot in self._task.inputs
            ],
            outputs=[
                (shape, strides, slot.dtype, _DTYPES[slot.dtype], slot.numel, slot.begin)
                for slot, shape, strides in results
            ],
            commands=self._task.code.count,
            timeout_ms=self._launcher.timeout_ms,
            samples=-1 if samples is None else samples,
        )
        self._reference = weakref.ref(call)
        return call

    @property
    def _call(self) -> direct_call | None:
        return None if self._reference is None else self._reference()

    def open(self, binding: Binding, inputs: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
        """After a launch by the whole way: calls with these parameters and inputs like these may go the direct one."""
        call, found = self._call, self._snapshot(binding)
        _, stamps, weights, arena = found
        kinds = [(t.shape, t.stride(), t.requires_grad) for t in inputs]
        if call is None or arena is None or (found, kinds) == self._bound:
            return
        if len(stamps) != len(sources) or not all(map(is_slot, inputs, self._task.inputs)):
            return
        if any(tensor.numel() != slot.numel for tensor, slot in zip(inputs, self._task.inputs, strict=True)):
            return  # the native call copies as many elements as the slot has
        sizes = self._bindings.detector.sizes(sources)
        positions = [self._positions.get(node, -1) for node in self._bindings.nodes]
        rows = [
            (position, tensor, size, *stamp)
            for position, tensor, size, stamp in zip(positions, sources, sizes, stamps, strict=True)
        ]
        # The binding, as a call that runs when it is dropped still reads its weights.
        owner, guard = (self._graph, self._pe, binding), internals.input_guard(inputs)
        call.bind(self._run(binding, weights, arena), arena.buffer, owner, guard, rows)
        self._bound = (found, kinds)
        if self._snapshot(binding) != found:  # another thread closed it, before this one stored `found`
            self.close()

    def _snapshot(self, binding: Binding) -> tuple[Binding, list[Stamp], Any, Arena | None]:
        """What a call by the whole way depended on: while this stays, so does what it gives."""
        return binding, binding.stamps, self._card.weights.buffer, self._launcher.idle(self._pe.index)

    def close(self) -> None:
        """The next call goes the whole way. Acquires no lock: the garbage collector may call it."""
        self._bound = ()
        call = self._call
        if call is not None:
            call.unbind()

    def weights_moved(self, buffer: Any) -> None:
        """Called by the weight store: the region is in another buffer now."""
        self.close()

    def report(self, scheduler: Scheduler) -> None:
        """Tells the scheduler's policy how long direct calls have taken since this was last called."""
        call = self._call
        seconds = [] if call is None else call.take_durations()
        if seconds and self._graph is not None:
            scheduler.observe(self._graph.tasks[0], self._pe, seconds)

    def _run(self, binding: Binding, weights: Any, arena: Arena) -> Any:
        card, task = self._card, self._task
        run = card.run(task.kernel, self._pe.index)
        run.set_arg(COMMANDS, binding.commands(task.code))
        run.set_arg(COUNT, task.code.count)
        run.set_arg(ARENA, arena.buffer)
        run.set_arg(WEIGHTS, weights if task.weights else card.buffer(task.kernel, WEIGHTS, BEAT_BYTES, host=False))
        return run

    def _failed(self, run: Any, state: int) -> None:
        executor = self._executor()
        if executor is not None:
            executor.fail_next(DeviceError(self._launcher.explain(run, self._card.driver.ert_cmd_state(state))))
