"""A network on an engine: right, counted by the simulator, and told by the cost model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from itertools import accumulate

from torch import Tensor

from benchmarks.engine.build import Builder, Built
from benchmarks.engine.layers import Network
from benchmarks.engine.networks import exported
from benchmarks.engine.run import Engine
from benchmarks.engine.walk import network
from fpga_dynamo.codegen.engine.cycles import MemoryTiming
from fpga_dynamo.codegen.engine.sizes import EngineSizes
from fpga_dynamo.codegen.engine.target import FITTED
from fpga_dynamo.codegen.engine.timeline import ends_together
from xclbin_build import engine, recipe


def engine_recipe(platform: str) -> engine.Engine:
    """The engine of the recipe that comes along for the platform, `engine-PLATFORM`.

    Raises xclbin_build.errors.RecipeError if there is no such recipe, ValueError if it has no engine or several.
    """
    found = [kernel.engine for kernel in recipe.load(f"engine-{platform}").kernels if kernel.engine]
    if len(found) != 1:
        raise ValueError(f"recipe 'engine-{platform}' has {len(found)} kernels that are engines; one is measured.")
    return found[0]


@cache
def sizes_of(platform: str) -> EngineSizes:
    """The sizes of the platform's engine. Raises as `engine_recipe` does."""
    values = asdict(engine_recipe(platform))
    del values["uram"]  # where its memories lie changes no cycle
    return EngineSizes(element_bytes=1 << engine.ELEMENTS.index(values.pop("element")), **values)


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

    stalls: cycles that the arrays waited, by cause. bursts: how many beats passed in bursts of 16 and more, and how
    many in all.
    """

    network: Network
    sizes: EngineSizes
    units: int
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
        """Products that the network has, over those that the array could make in the same cycles."""
        return sum(command.macs for command in self.commands) / (self.cycles * self.sizes.macs * self.units)


@cache
def engine_of(platform: str, mhz: float = 300.0, units: int = 1) -> Engine:
    """The engine of the platform's recipe, so many of it, compiled for the simulator. Raises as `sizes_of` does."""
    return Engine(sizes_of(platform), platform, mhz, units)


def measure(name: str, platform: str, *, check: bool = True, mhz: float = 300.0, units: int = 1) -> Outcome:
    """Runs a network by name. Raises EngineError if it does not run to its end."""
    return measure_on(engine_of(platform, mhz, units), name, FITTED[platform], check=check)


def measure_on(engine: Engine, name: str, memory: MemoryTiming, *, check: bool = True) -> Outcome:
    """The same on an engine; `memory` is what the cost model takes for a unit's."""
    layers = network(name, exported(name).graph)
    built = Builder(layers, engine.sizes, memory, check=check, units=engine.units).build()
    report, maps = engine.run(built)
    processes = {process["process"]: process for process in report["processes"]}
    begin = min(process["first"] for process in processes.values())
    units = [f"engine_{unit + 1}/" for unit in range(engine.units)] if engine.units > 1 else [""]
    counted = [0] * len(built.layers)
    for unit in units:
        for command in processes[f"{unit}store"]["commands"]:
            if command["index"] >= 0:
                counted[command["index"]] = max(counted[command["index"]], command["last"] - begin)
    model = ends_together(built.lists, engine.sizes, memory)
    lengths = [port["burst_lengths"] for port in report["ports"] if not port["port"].endswith("commands")]
    beats = [(int(length), int(length) * count) for of_port in lengths for length, count in of_port.items()]
    stalls: dict[str, int] = {}
    for unit in units:
        for cause, cycles in processes[f"{unit}mac_array"]["stalls"].items():
            stalls[cause] = stalls.get(cause, 0) + cycles
    # A command may end before one that stands before it, if others than its unit work on that.
    counted, model = list(accumulate(counted, max)), list(accumulate(model, max))
    return Outcome(
        layers,
        engine.sizes,
        engine.units,
        engine.mhz,
        tuple(
            Counted(layer.name, layer.macs, end - before, told - told_before)
            for layer, end, before, told, told_before in zip(
                built.layers, counted, [0, *counted], model, [0.0, *model], strict=False
            )
        ),
        _wrong(built, maps) if check else None,
        stalls,
        (sum(n for length, n in beats if length >= 16), sum(n for _, n in beats)),
    )


def _wrong(built: Built, maps: Tensor) -> int:
    return sum(int((built.stored(maps, i) != built.values[i]).sum()) for i in built.places if i)
