"""What the patterns of concatenations hand on, which the engine's planning reads too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch.fx import Node


@dataclass(frozen=True)
class Concatenation:
    """The parts of a concatenation, in order."""

    parts: Sequence[Node]
