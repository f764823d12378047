"""A graph that is being drawn: the values so far, and what operators draw their operands and parameters with."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import strategies as st

MAX_ELEMENTS = 4096
MAX_MAGNITUDE = 1e4
"""Of the values of a graph, as far as no input is larger."""

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Instruction:
    """`target = call`, or just `call` if it writes to an operand; `module` is the constructor of `self.<target>_op`."""

    operator: str
    target: str | None
    call: str
    module: str | None = None


class NotApplicable(Exception):
    """No value of the graph so far suits the operator that was drawn."""


@dataclass
class Builder:
    """A graph that is being drawn. Operators (see `operators`) pick operands from it and emit instructions into it."""

    draw: Draw
    names: list[str] = field(default_factory=list)
    samples: list[Any] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    current: str = ""  # the operator that is being built

    # What operators draw with. The first choice is what an example shrinks to.

    def choose(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def flag(self) -> bool:
        return self.draw(st.booleans())

    def candidates(self, suits: Callable[[torch.Tensor], bool]) -> list[int]:
        """Positions of the values that suit, the newest first."""
        return [i for i in reversed(range(len(self.samples))) if suits(self.samples[i])]

    def pick(self, suits: Callable[[torch.Tensor], bool]) -> tuple[str, torch.Tensor]:
        """Name and sample of a value that suits."""
        found = self.candidates(suits)
        if not found:
            raise NotApplicable
        # Half the time the newest one, so that graphs get deep and not only wide.
        index = self.draw(st.sampled_from([found[0]] * len(found) + found))
        return self.names[index], self.samples[index]

    def dimension(self, sample: torch.Tensor) -> int:
        """A dimension of `sample`, counted from either end."""
        if not sample.dim():
            raise NotApplicable
        return self.integer(-sample.dim(), sample.dim() - 1)

    def emit(self, call: str, module: str | None = None, *, in_place: bool = False, results: int = 1) -> None:
        """Adds an instruction if it runs on the samples and its results are small; `OP` in `call` is the module.

        With `results` > 1 the call gives a tuple and each of its elements becomes a value.
        """
        number = len(self.instructions)
        target = f"v{number}" if results == 1 else ", ".join(f"v{number}_{i}" for i in range(results))
        environment = dict(zip(self.names, self.samples, strict=True), torch=torch, F=F)
        try:
            if module is not None:
                environment["OP"] = eval(module, {"torch": torch}).eval()
            with torch.no_grad():
                value = eval(call, environment)
        except (RuntimeError, IndexError, TypeError, ValueError, AssertionError):  # the last of attention's sizes
            return  # eager refuses it: not a program
        values = tuple(value) if results > 1 else (value,)
        largest = max(MAX_MAGNITUDE, *map(_magnitude, self.samples))
        if not in_place and not all(_is_small(v, largest) for v in values):
            return
        if module is not None:
            call = call.replace("OP", f"self.{target}_op", 1)
        self.instructions.append(Instruction(self.current, None if in_place else target, call, module))
        if in_place:
            return
        self.names += target.split(", ")
        self.samples += values

    def unused(self) -> list[str]:
        """Values that no instruction reads, but for the newest: dead code unless they are returned."""
        read = {word for i in self.instructions for word in re.findall(r"\w+", i.call)}
        return [name for name in self.names[:-1] if name not in read]


def _is_small(value: Any, largest: float) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() <= MAX_ELEMENTS and _magnitude(value) <= largest


def _magnitude(value: torch.Tensor) -> float:
    """Of the largest finite number; 0 of integers."""
    if not value.is_floating_point() or not value.numel():
        return 0.0
    return torch.nan_to_num(value, posinf=0.0, neginf=0.0).abs().max().item()
