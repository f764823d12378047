"""Tasks of plain kernels: a launch on a compute unit, or the kernel's function on tensors in its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from fpga_dynamo.errors import DeviceError, VerificationError
from fpga_dynamo.ir.graph import describe
from fpga_dynamo.ir.program import KernelTask
from fpga_dynamo.runtime.calls.launch import LONGEST_MS
from fpga_dynamo.runtime.cards.plain_units import HOST, Place, Units, placed
from fpga_dynamo.runtime.task import ProcessingElement

RELATIVE = 1e-3
"""How far a kernel may be from its function on tensors under `verify`: the two may add up in another order."""


def on_host(eager: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
    """`eager` with plain kernels computed by their functions on tensors, where they have one."""

    def run(*values: Any) -> Sequence[Any]:
        with placed(HOST):
            return eager(*values)

    return run


class KernelRunner:
    """Runs the operator of a task where the scheduler has put it.

    instead: what computes the results of a launch that failed, from its error and a function that gives them.
    """

    def __init__(
        self,
        task: KernelTask,
        units: Units,
        timeout: float,
        verify: bool,
        instead: Callable[[DeviceError, Callable[[], Sequence[Any]]], Sequence[Any]],
    ) -> None:
        self._task = task
        self._units = units
        self._timeout_ms = int(min(max(timeout * 1000, 1), LONGEST_MS))
        self._verify = verify and task.kernel.has_cpu
        self._instead = instead

    def __call__(self, pe: ProcessingElement, values: Sequence[Any]) -> Sequence[Any]:
        """The task's results. Raises DeviceError if the launch failed and the kernel has no function on tensors."""
        has_cpu = self._task.kernel.has_cpu
        if pe.kernel is None and has_cpu:
            return self._on_host(values)
        place = Place(self._units, 0 if pe.kernel is None else pe.index, self._timeout_ms)
        try:
            with placed(place):
                results: Sequence[Any] = self._task.eager.forward(*values)
        except DeviceError as error:
            if not has_cpu:
                raise
            return self._instead(error, lambda: self._on_host(values))
        if self._verify:
            self._compare(results, self._on_host(values))
        return results

    def _on_host(self, values: Sequence[Any]) -> Sequence[Any]:
        return on_host(self._task.eager.forward)(*values)

    def _compare(self, results: Sequence[Any], expected: Sequence[Any]) -> None:
        for node, given, reference in zip(self._task.writes, results, expected, strict=True):
            pairs = zip(given, reference, strict=True) if isinstance(given, (tuple, list)) else [(given, reference)]
            for mine, theirs in pairs:
                if not torch.allclose(mine, theirs, rtol=RELATIVE, atol=RELATIVE, equal_nan=True):
                    raise VerificationError(
                        f"{describe(node)}, which kernel '{self._task.kernel.name}' has computed, differs from its "
                        "function cpu=..."
                    )
