"""Models whose graphs are captured once, and what they cost on engines of any sizes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from torch.fx import GraphModule

from fpga_dynamo.codegen.engine.target import EngineTarget, features
from fpga_dynamo.ir.flops import macs
from fpga_dynamo.ir.graph import GraphInfo
from fpga_dynamo.lowering.passes.pipeline import prepare
from fpga_dynamo.tools.estimate.figures import host_work, modelled
from fpga_dynamo.tools.estimate.hardware import EstimateError
from fpga_dynamo.tools.estimate.model import Model
from fpga_dynamo.tools.estimate.program import EngineProgram, lower_prepared, target_of

COMBINATIONS: dict[str, Callable[[float, float], float]] = {"sum": lambda a, b: a + b, "max": max}
"""How the latencies of several models are combined."""


@dataclass(frozen=True)
class Cost:
    """Milliseconds of a call: of the engine, and of the host around the launches."""

    engine_ms: float
    host_ms: float

    @property
    def call_ms(self) -> float:
        return self.engine_ms + self.host_ms


@dataclass
class TracedModel:
    """A model, and its graph prepared once for each set of features that an engine may have."""

    model: Model
    _graphs: dict[frozenset[str], GraphInfo] = field(default_factory=dict)

    def program(self, engine: EngineTarget) -> EngineProgram:
        """The model's commands on an engine."""
        target = target_of(engine)
        wanted = features(target)
        if wanted not in self._graphs:
            captured = self.model.graph
            copied = GraphModule(captured.module, copy.deepcopy(captured.module.graph))
            self._graphs[wanted] = prepare(copied, target, captured.static)
        return lower_prepared(self._graphs[wanted], engine)

    def cost(self, engine: EngineTarget) -> Cost:
        program = self.program(engine)
        ends = modelled(program)
        cycles = sum(launch[-1] for launch in ends if launch)
        host = host_work(program, sum(map(bool, program.lists.launches)))
        return Cost(cycles / engine.platform.clock_hz * 1e3, host.launch_ms + host.transfer_ms + host.nodes_ms)


@dataclass
class Workload:
    """The models of a recipe. combine: a key of COMBINATIONS."""

    models: Sequence[TracedModel]
    combine: str = "sum"

    @property
    def names(self) -> list[str]:
        return [traced.model.name for traced in self.models]

    def costs(self, engine: EngineTarget) -> tuple[Cost, ...]:
        """Of each model."""
        return tuple(traced.cost(engine) for traced in self.models)

    def combined(self, values: Sequence[float]) -> float:
        return reduce(COMBINATIONS[self.combine], values)

    def call_ms(self, costs: Sequence[Cost]) -> float:
        return self.combined([cost.call_ms for cost in costs])

    def programs(self, engine: EngineTarget) -> list[EngineProgram]:
        """Raises EstimateError for a model of which this engine runs nothing."""
        found = [traced.program(engine) for traced in self.models]
        for traced, program in zip(self.models, found, strict=True):
            if not any(program.lists.launches):
                node = max(program.left, key=macs)
                raise EstimateError(
                    f"the engine supports no node of '{traced.model.name}': {node.name}: {program.left[node]}"
                )
        return found
