"""A network on an engine: right, counted by the simulator, and told by the cost model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from torch import Tensor

from benchmarks.engine.build import Builder, Built
from benchmarks.engine.layers import Network
from benchmarks.engine.networks import exported
from benchmarks.engine.run import Engine
from benchmarks.engine.walk import network
from fpga_dynamo.codegen.engine.cycles import Memory
from fpga_dynamo.codegen.engine.sizes import EngineSizes
from fpga_dynamo.codegen.engine.timeline import ends


@dataclass(frozen=True)
class Pick:
    """An engine for a platform, and what its memory gives by the cost model (fitted to the simulator's DRAM)."""

    sizes: EngineSizes
    memory: Memory


# The arrays of the design study; windows and weights as large as each platform's memories hold.
PICKS: Mapping[str, Pick] = {
    "u250": Pick(EngineSizes(8, 32, lanes=64, vector_lanes=64, vector_depth=1024), Memory(0.93, 70, 70)),
    "zcu102": Pick(
        EngineSizes(8, 16, lanes=32, window_rows=512, weight_steps=512, vector_depth=512), Memory(0.25, 75, 75, 0.9)
    ),
    "kv260": Pick(EngineSizes(7, 16, lanes=32, window_rows=512, vector_depth=512), Memory(0.25, 75, 75, 0.9)),
}


@dataclass(frozen=True)
class Counted:
    """A command: cycles from the end of the one before to its own, counted and by the cost model."""

    name: str
    macs: int
    cycles: int
    model: float


@dataclass(frozen=True)
class Outcome:
    """A network's run. wrong: elements of maps that differ from the reference; None if that was not worked out.

    stalls: cycles that the array waited, by cause. bursts: how many beats passed in bursts of 16 and more, and how many
    in all.
    """

    network: Network
    sizes: EngineSizes
    mhz: float
    commands: tuple[Counted, ...]
    wrong: int | None
    stalls: Mapping[str, int]
    bursts: tuple[int, int]

    @property
    def cycles(self) -> int:
        return sum(command.cycles for command in self.commands)

    @property
    def milliseconds(self) -> float:
        return self.cycles / self.mhz / 1e3

    @property
    def model_milliseconds(self) -> float:
        return sum(command.model for command in self.commands) / self.mhz / 1e3

    @property
    def utilisation(self) -> float:
        """Products that the network has, over those that the array could have made meanwhile."""
        return sum(command.macs for command in self.commands) / (self.cycles * self.sizes.macs)


@cache
def engine_of(platform: str, mhz: float = 300.0) -> Engine:
    """The platform's engine, compiled for the simulator. Raises KeyError for a platform without one."""
    return Engine(PICKS[platform].sizes, platform, mhz)


def measure(name: str, platform: str, *, check: bool = True, mhz: float = 300.0) -> Outcome:
    """Runs a network by name. Raises EngineError if it does not run to its end."""
    pick = PICKS[platform]
    layers = network(name, exported(name).graph)
    built = Builder(layers, pick.sizes, pick.memory, check=check).build()
    report, maps = engine_of(platform, mhz).run(built)
    processes = {process["process"]: process for process in report["processes"]}
    begin = min(process["first"] for process in processes.values())
    counted = [c["last"] - begin for c in processes["store"]["commands"] if c["index"] >= 0]
    model = ends(built.commands, pick.sizes, pick.memory)
    lengths = [port["burst_lengths"] for port in report["ports"] if port["port"] != "commands"]
    beats = [(int(length), int(length) * count) for of_port in lengths for length, count in of_port.items()]
    return Outcome(
        layers,
        pick.sizes,
        mhz,
        tuple(
            Counted(layer.name, layer.macs, end - before, told - told_before)
            for layer, end, before, told, told_before in zip(
                built.layers, counted, [0, *counted], model, [0.0, *model], strict=False
            )
        ),
        _wrong(built, maps) if check else None,
        processes["mac_array"]["stalls"],
        (sum(n for length, n in beats if length >= 16), sum(n for _, n in beats)),
    )


def _wrong(built: Built, maps: Tensor) -> int:
    return sum(int((built.stored(maps, i) != built.values[i]).sum()) for i in built.places if i)
