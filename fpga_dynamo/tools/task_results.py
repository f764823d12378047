"""The results of a model's call: which task writes each, and how to make them of what the tasks wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fpga_dynamo.runtime.application import Result
from fpga_dynamo.runtime.calls.executor import Executor
from fpga_dynamo.torch_internals.pytree import TreeSpec, tree_flatten, tree_unflatten


@dataclass(frozen=True)
class GraphCall:
    """The last call of one of a model's graphs. first: the number of its first task in the application."""

    executor: Executor
    inputs: Sequence[Any]
    results: Sequence[Any]
    first: int = 0

    def writer(self, number: int) -> tuple[int, int] | None:
        """(task, output) of the value that result `number` is or is a view of; None if no task writes it."""
        program, values = self.executor.program, self._values_in_eager()
        wanted = self._results_of(values)[number]
        for node in program.result_reads:
            if not _share(values[self.executor.place(node)], wanted):
                continue
            for index, task in enumerate(program.tasks):
                if node in task.writes:
                    return self.first + index, task.writes.index(node)
        return None

    def collect(self, written: Sequence[Sequence[Any]], number: int) -> Any:
        """Result `number`, of what all tasks of the application wrote."""
        values = self.executor.start_values(self.inputs)
        for index, task in enumerate(self.executor.program.tasks):
            for node, value in zip(task.writes, written[self.first + index], strict=True):
                values[self.executor.place(node)] = value
        return self._results_of(values)[number]

    def _results_of(self, values: Sequence[Any]) -> Sequence[Any]:
        reads = [values[self.executor.place(node)] for node in self.executor.program.result_reads]
        return flat(self.executor.program.result(*reads))

    def _values_in_eager(self) -> list[Any]:
        values = self.executor.start_values(self.inputs)
        for index in range(len(self.executor.program.tasks)):
            self.executor.run_task(index, values, self.executor.host)
        return values


def flat(results: Any) -> Sequence[Any]:
    return results if isinstance(results, (tuple, list)) else (results,)


@dataclass(frozen=True)
class _Part:
    """Where one tensor of the model's results comes from. call: None if no graph gives it."""

    call: GraphCall | None
    number: int
    seen: torch.Tensor = field(repr=False)

    def collect(self, written: Sequence[Sequence[Any]]) -> Any:
        if self.call is None:
            return self.seen
        value, then = self.call.collect(written, self.number), self.call.results[self.number]
        if _layout(then) == _layout(self.seen):
            return value
        return value.as_strided(*_layout(self.seen))  # a view that is made behind the graph


def results_of(given: Any, calls: Sequence[GraphCall]) -> tuple[list[Result], Callable[[Sequence[Sequence[Any]]], Any]]:
    """The results that `given`, what the model returned, consists of, and what makes them of the tasks' values."""
    leaves, structure = tree_flatten(given)
    parts = {number: _part(leaf, calls) for number, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)}
    results = []
    for part in parts.values():
        writer = part.call.writer(part.number) if part.call is not None else None
        results.append(Result(tuple(part.seen.shape), *(writer or ())))
    return results, _collector(leaves, structure, parts)


def _collector(
    leaves: Sequence[Any], structure: TreeSpec, parts: Mapping[int, _Part]
) -> Callable[[Sequence[Sequence[Any]]], Any]:
    def collect(written: Sequence[Sequence[Any]]) -> Any:
        made = [parts[number].collect(written) if number in parts else leaf for number, leaf in enumerate(leaves)]
        return tree_unflatten(made, structure)

    return collect


def _part(leaf: torch.Tensor, calls: Sequence[GraphCall]) -> _Part:
    """The graph's result that a tensor is, else one that it is a view of; the last graph that gives it counts."""
    found = [
        _Part(call, number, leaf)
        for call in reversed(calls)
        for number, one in enumerate(call.results)
        if _share(one, leaf)
    ]
    same = [part for part in found if part.call and _layout(part.call.results[part.number]) == _layout(leaf)]
    return (same or found or [_Part(None, 0, leaf)])[0]


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.storage_offset()


def _share(one: Any, other: Any) -> bool:
    """Whether two values are tensors of the same elements, in the same memory."""
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return False
    if one is other:
        return True
    if one.layout != torch.strided or other.layout != torch.strided:
        return False
    same_kind = (one.dtype, one.is_conj(), one.is_neg()) == (other.dtype, other.is_conj(), other.is_neg())
    return same_kind and one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr() != 0
