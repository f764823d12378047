"""Runs a network's command lists on the engine's kernel in the dataflow simulator, which counts its cycles."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from benchmarks.engine.build import Built
from fpga_dynamo.tools.estimate.simulator import EngineError, Simulator

__all__ = ["Engine", "EngineError"]


class Engine(Simulator):
    """A simulator of networks that are built."""

    def run(self, built: Built) -> tuple[dict[str, Any], Tensor]:
        """The simulator's report, and the region of maps afterwards. Raises EngineError."""
        lists = [b"".join(command.words() for command in own) for own in built.lists]
        return self.launch(lists, built.maps.bytes(), [region.bytes() for region in built.weights])
