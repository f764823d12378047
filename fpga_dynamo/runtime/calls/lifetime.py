"""When the graphs of a model may give their idle memory on the card back."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol

import torch

from fpga_dynamo.runtime.cards.change import memory_of


class Restful(Protocol):
    """What has idle memory on the card, such as an executor."""

    def rest(self) -> None:
        """Gives it back; called by the garbage collector, and so at any time."""


class Lifetime:
    """Ends the stay on the card of the graphs that one frame was compiled to (forward and backward, all sizes).

    Dynamo keeps the code of a model that is deleted, for another of its class may come. So each forward call names a
    parameter of its model. When that is gone, nobody is known to need the arenas; whoever does makes them again.
    """

    def __init__(self) -> None:
        self._executors: weakref.WeakSet[Restful] = weakref.WeakSet()
        self._memory: weakref.ref[object] | None = None

    def add(self, executor: Restful) -> None:
        """`executor.rest()` will be called, by the garbage collector and so at any time."""
        self._executors.add(executor)

    def follow(self, parameter: torch.Tensor) -> None:
        """A call for the model that `parameter` belongs to."""
        memory = memory_of(parameter)
        if self._memory is None or self._memory() is not memory:
            this = weakref.ref(self)

            def on_death(reference: object) -> None:
                lifetime = this()
                if lifetime is not None:
                    lifetime._rest()

            self._memory = weakref.ref(memory, on_death)

    def of_parameter(self, position: int, run: Callable[..., Any]) -> Callable[..., Any]:
        """`run` for the model that the argument at `position` is a parameter of."""

        def call(*args: Any) -> Any:
            self.follow(args[position])
            return run(*args)

        return call

    def settle(self) -> None:
        """After a call: the model may have been deleted during it, or before a backward pass."""
        if self._memory is not None and self._memory() is None:
            self._rest()

    def _rest(self) -> None:
        for executor in list(self._executors):
            executor.rest()
