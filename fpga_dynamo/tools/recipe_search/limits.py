"""A lower bound of a model's latency on an engine, from the commands of an engine with large memories.

A process of the engine works on one command after the other, so a launch lasts at least as long as any one process is
busy. How long that is at least, a command tells whose rows are one band and whose weights are one set: nothing is then
loaded twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from fpga_dynamo.codegen.engine.choose import flattened, tiled
from fpga_dynamo.codegen.engine.command import NO_OPERAND, CommandGeometry, MacCommand, Peers
from fpga_dynamo.codegen.engine.cycles import Cycles, cycles
from fpga_dynamo.codegen.engine.target import EngineTarget
from fpga_dynamo.codegen.engine.vector import VectorCommand
from fpga_dynamo.codegen.engine.vector_timing import vector_cycles
from fpga_dynamo.tools.estimate.program import EngineProgram

_PROCESSES = ("array", "epilogue", "load", "fill", "weights", "residual", "store")


@dataclass(frozen=True)
class Limit:
    """Milliseconds of a launch: least of any engine of these sizes, and estimated from its commands one by one."""

    least: float
    estimate: float


@dataclass(frozen=True)
class WorkloadLimits:
    """The different commands of a model, and how often each runs."""

    products: Counter[MacCommand]
    vectors: Counter[VectorCommand]

    def limit(self, engine: EngineTarget) -> Limit:
        """The limit of an engine; its commands of the vector side count in the estimate alone."""
        busy, total = dict.fromkeys(_PROCESSES, 0.0), 0.0
        if engine.sizes.has_vector_side:
            for of_rows, count in self.vectors.items():
                total += count * vector_cycles(of_rows, engine.sizes, engine.memory)
        for command, count in self.products.items():
            found = _least(command, engine)
            for name in _PROCESSES:
                busy[name] += count * getattr(found, name)
            total += count * found.busiest
        ms = 1e3 / engine.platform.clock_hz / engine.units
        return Limit(max(busy.values()) * ms, total * ms)


def limits_of(program: EngineProgram) -> WorkloadLimits:
    """program: on one unit with memories large enough that no command is a part of a layer."""
    commands = [emitted.command for launch in program.lists.launches for emitted in launch]
    return WorkloadLimits(
        Counter(_without_addresses(command) for command in commands if isinstance(command, MacCommand)),
        Counter(_at_one_place(command) for command in commands if isinstance(command, VectorCommand)),
    )


def _at_one_place(command: VectorCommand) -> VectorCommand:
    c = replace(command, input=0, output=0, params=0, input_after=0, other_after=0)
    return replace(c, other=0 if c.has_other else c.other)


def _without_addresses(command: MacCommand) -> MacCommand:
    c = replace(command, input=0, output=0, params=0, weight=0, table=0, peers=Peers.NONE, sums=NO_OPERAND)
    c = replace(c, input_after=0, residual_after=0, weight_after=0)
    return replace(c, residual=0 if c.has_residual else c.residual)


def _least(command: MacCommand, engine: EngineTarget) -> Cycles:
    whole = replace(flattened(tiled(command, engine.sizes), engine.sizes), set_tiles=1)
    tiles = CommandGeometry(whole, engine.sizes).tiles
    return cycles(replace(whole, band_rows=whole.out_height, set_tiles=tiles), engine.sizes, engine.memory)
