"""The engines that a search tries, and those of them that a card has room for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product

from fpga_dynamo.codegen.engine.cycles import MemoryTiming
from fpga_dynamo.codegen.engine.target import EngineTarget, memory_of, sizes_of
from fpga_dynamo.ir.target import Platform as HostPlatform
from xclbin_build.engine import MOST_PIXELS, OUTPUT_CHANNELS, VECTOR_LANES, Engine, epilogue_lanes, input_channels
from xclbin_build.estimate import engine_logic
from xclbin_build.estimate.fit import COMFORTABLE
from xclbin_build.hls.operators import Operators
from xclbin_build.hls.resources import NAMES, Resources
from xclbin_build.platform import Platform, Region

NARROW_PORT_BITS, PORT_BITS = 128, 512


@dataclass(frozen=True)
class Candidate:
    """Compute units of an engine. together: they share each layer of a launch."""

    engine: Engine
    units: int = 1
    together: bool = False


@dataclass(frozen=True)
class Space:
    """The values of each size that are tried; `features` are fields of Engine that a model can do without."""

    pixels: tuple[int, ...] = tuple(range(1, MOST_PIXELS + 1))
    out_channels: tuple[int, ...] = OUTPUT_CHANNELS
    window_rows: tuple[int, ...] = (512, 1024, 2048, 4096)
    weight_steps: tuple[int, ...] = (512, 1024, 2048, 4096)
    vector_lanes: tuple[int, ...] = (0, 2, 4, 8, 16)
    features: tuple[str, ...] = ()

    def engines(self, base: Engine) -> Iterator[Engine]:
        """base: what all of them have in common."""
        lanes = [n for n in VECTOR_LANES[base.element] if n in self.vector_lanes]
        switches = [(True, False) if name in self.features else (getattr(base, name),) for name in FEATURES]
        for pixels, outputs, inputs in product(self.pixels, self.out_channels, input_channels(base.element)):
            array = replace(base, pixels=pixels, out_channels=outputs, in_channels=inputs)
            for window, steps, of_rows, *on in product(self.window_rows, self.weight_steps, lanes, *switches):
                own = dict(zip(FEATURES, on, strict=True))
                if own["gather"] and not of_rows:
                    continue
                own["casts"] = base.casts and of_rows > 0
                for words in epilogue_lanes(base.element, pixels):
                    yield replace(
                        array, lanes=words, window_rows=window, weight_steps=steps, vector_lanes=of_rows, **own
                    )


FEATURES = ("gather", "row_sums", "partial_sums", "activations")
"""Fields of Engine that switch a feature on."""


@dataclass(frozen=True)
class Card:
    """A platform as a search sees it."""

    platform: Platform

    @cached_property
    def has_uram(self) -> bool:
        return any(region.usable["uram"] for region in self.platform.regions)

    @cached_property
    def region(self) -> Region:
        """Where one compute unit goes: beside a memory bank, and of these regions the first that is largest."""
        beside = [region for region in self.platform.regions if region.banks] or list(self.platform.regions)
        return max(beside, key=lambda region: region.usable["dsp"])

    def base(self, element: str) -> Engine:
        """The sizes that no search changes."""
        links = [model.figures["link_bits"] for model in self.platform.memories.values()]
        narrow = element == "int8" and bool(links) and max(links) <= NARROW_PORT_BITS
        port = (NARROW_PORT_BITS if narrow else PORT_BITS) // 8
        return Engine(
            pixels=8, out_channels=16, in_channels=input_channels(element)[-1], element=element, lanes=16,
            window_rows=2048, weight_steps=2048, set_tiles=64, taps=128, port_bytes=port, uram=self.has_uram,
            vector_lanes=VECTOR_LANES[element][-1], vector_depth=512, vector_blocks=64, row_sums=True,
            partial_sums=True, activations=element != "float32", gather=element == "int8", casts=element == "int8",
        )  # fmt: skip

    def target(self, candidate: Candidate) -> EngineTarget:
        """A candidate as a target of the cost model."""
        name = self.platform.name
        memory = memory_of(name, self.platform.speeds)
        if candidate.units > 1 and not candidate.together:
            memory = self._shared(memory, candidate.units)
        host = HostPlatform.from_manifest(self.platform.table())
        units = candidate.units if candidate.together else 1
        return EngineTarget("search", sizes_of(asdict(candidate.engine)), memory, host, units)

    def _shared(self, memory: MemoryTiming, units: int) -> MemoryTiming:
        """Compute units that run launches of their own: those of one bank share it."""
        of_bank = -(-units // max(1, len(self.platform.banks)))
        bank = memory.bank / of_bank
        return replace(memory, lines_per_cycle=min(memory.lines_per_cycle, bank), shared=bank)

    def resources(self, candidate: Candidate) -> Resources:
        """Of one compute unit."""
        banks = min(candidate.units, len(self.platform.banks)) if candidate.together else 1
        operators = Operators(1000 / self.platform.speeds["clock_mhz"])
        return engine_logic.estimated(candidate.engine, "engine", operators, banks).resources

    def fits(self, candidate: Candidate) -> bool:
        """With the room that routing wants: one unit in `region`, or so many in as many regions, or all in the one."""
        return all(share <= COMFORTABLE[name] for name, share in self.shares(candidate).items())

    def shares(self, candidate: Candidate) -> dict[str, float]:
        """Shares that are used of a region: of the smallest, if there is one for each unit; else of `region`."""
        own, regions = self.resources(candidate), self.platform.regions
        spread = candidate.units > 1 and len(regions) >= candidate.units
        units = 1 if spread else candidate.units
        found = {}
        for name, value in own.items():
            have = min(region.usable[name] for region in regions) if spread else self.region.usable[name]
            found[name] = units * value / have if have else float("inf") if value else 0.0
        return found

    def area(self, candidate: Candidate) -> float:
        """One figure for comparisons: the sum of the shares, of all units."""
        spread = candidate.units if len(self.platform.regions) >= candidate.units > 1 else 1
        return spread * sum(self.shares(candidate)[name] for name in NAMES)


def memory_banks(platform: Platform, units: int) -> Mapping[str, str]:
    """Banks of arguments: of one unit feature maps in the first, the rest in the second; of several one for each."""
    tags = [bank.tag for bank in platform.banks]
    if len(tags) < 2:
        return {}
    if units == 1:
        return {"arena": tags[0], "weights": tags[1], "commands": tags[1]}
    arguments = ("arena", "weights", "commands")
    return {f"engine_{n + 1}.{name}": tags[n % len(tags)] for n in range(units) for name in arguments}
