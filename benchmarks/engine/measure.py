"""A network on an engine: right, counted by the simulator, and told by the cost model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from benchmarks.engine import memory
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
    "u250": Pick(EngineSizes(8, 32, lanes=64, window_rows=2048, weight_steps=2048), Memory(0.93, 70, 70)),
    "zcu102": Pick(EngineSizes(8, 16, lanes=32, window_rows=512, weight_steps=512), Memory(0.25, 75, 75, 0.9)),
    "kv260": Pick(EngineSizes(7, 16, lanes=32, window_rows=512, weight_steps=2048), Memory(0.25, 75, 75, 0.9)),
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

    left_out: layers that the engine has no command for. stalls: cycles that the array waited, by cause. bursts: how
    many beats passed in bursts of 16 and more, and how many in all.
    """

    network: Network
    sizes: EngineSizes
    mhz: float
    commands: tuple[Counted, ...]
    wrong: int | None
    left_out: tuple[str, ...]
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
        _wrong(built, layers, maps) if check else None,
        tuple(layer.name for layer in built.left_out),
        processes["mac_array"]["stalls"],
        (sum(n for length, n in beats if length >= 16), sum(n for _, n in beats)),
    )


def _wrong(built: Built, layers: Network, maps: memory.Tensor) -> int:
    wrong = 0
    for index, place in built.places.items():
        if index == 0:
            continue
        shape = layers.maps[index]
        got = memory.unblocked(maps, place, shape.channels, shape.pixels)
        wrong += int((got != built.values[index].flatten(1)).sum())
    return wrong
