"""Whether a design fits a card: compute units laid into super logic regions, each against what the shell leaves
there."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..hls.resources import NAMES, Component, Resources, total
from ..platform import Platform, Region

# Above these shares of a region timing is hard to close: what FINN takes as AMD's recommendation
# (Xilinx/finn src/finn/util/platforms.py at 39f0c9a, DEFAULT_RES_LIMITS).
COMFORTABLE = {"dsp": 0.8, "bram36": 0.8, "uram": 0.8, "lut": 0.7, "ff": 0.5}


@dataclass(frozen=True)
class PlacedUnit:
    """A compute unit. kernel: its part of the estimate. slr: the region that the recipe names, if any. banks: those
    that its arguments lie in."""

    name: str
    kernel: Component
    slr: str | None = None
    banks: tuple[str, ...] = ()


@dataclass
class RegionLoad:
    """A region and the compute units in it."""

    region: Region
    units: list[PlacedUnit] = field(default_factory=list)

    @property
    def used(self) -> Resources:
        return total(unit.kernel.resources for unit in self.units)

    def share(self, more: Resources | None = None) -> float:
        """The largest share of a resource that is used, with `more` added."""
        used = self.used + more if more else self.used
        return max(share for _, share in shares(used, self.region.usable))


@dataclass
class Fit:
    """loads: by region. problems: sentences, one for each thing that does not fit; tight: what fits but is hard to
    route."""

    loads: list[RegionLoad]
    problems: list[str] = field(default_factory=list)
    tight: list[str] = field(default_factory=list)
    homeless: list[PlacedUnit] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        return not self.problems


def shares(used: Resources, available: dict[str, int]) -> list[tuple[str, float]]:
    """Share of each resource that is used; of what the device does not have, infinite or 0."""
    found = []
    for name, value in used.items():
        most = available[name]
        found.append((name, value / most if most else float("inf") if value else 0.0))
    return found


def fit(units: list[PlacedUnit], platform: Platform) -> Fit:
    """Lays compute units into regions: where the recipe says, else the largest first into the emptiest region beside
    their memory that still takes them."""
    loads = {region.name: RegionLoad(region) for region in platform.regions}
    result = Fit(list(loads.values()))
    for unit in [u for u in units if u.slr]:
        loads[unit.slr or ""].units.append(unit)
    free = [u for u in units if not u.slr]
    for unit in sorted(free, key=lambda u: -max(value for value in u.kernel.resources.values())):
        _place(unit, result)
    for load in result.loads:
        _judge(load, result)
    return result


def _place(unit: PlacedUnit, result: Fit) -> None:
    need = unit.kernel.resources

    def rank(load: RegionLoad) -> tuple[bool, int, float]:
        beside = sum(load.region.beside(bank) for bank in unit.banks)
        return (load.share(need) > 1, -beside, load.share(need))

    best = min(result.loads, key=rank)
    if best.share(need) <= 1:
        best.units.append(unit)
        return
    result.homeless.append(unit)
    alone = min(result.loads, key=lambda load: _excess(need, load.region))
    over = _over(need, alone.region.usable)
    if over:
        result.problems.append(
            f"compute unit {unit.name} is larger than any region of the card: it needs {over} of {alone.region.name}."
        )
    else:
        result.problems.append(f"no region has room left for compute unit {unit.name}; build fewer compute units.")


def _excess(need: Resources, region: Region) -> float:
    return max(share for _, share in shares(need, region.usable))


def _judge(load: RegionLoad, result: Fit) -> None:
    names = ", ".join(unit.name for unit in load.units)
    over = _over(load.used, load.region.usable)
    if over:
        largest = max(load.units, key=lambda unit: _excess(unit.kernel.resources, load.region))
        whose = "" if len(load.units) == 1 else f"; the largest is {largest.name}"
        result.problems.append(f"{load.region.name} is too small for {names}: {over}{whose}.")
        return
    tight = [
        f"{share:.0%} of its {NAMES[name]}"
        for name, share in shares(load.used, load.region.usable)
        if share > COMFORTABLE[name]
    ]
    if tight:
        result.tight.append(f"{load.region.name} is tight with {names}: {', '.join(tight)}.")


def _over(need: Resources, usable: dict[str, int]) -> str:
    """What exceeds a region, in words: "9,340 of 2,877 DSP"."""
    words = [f"{value:,.0f} of {usable[name]:,} {NAMES[name]}" for name, value in need.items() if value > usable[name]]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
