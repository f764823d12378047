"""The search of an engine for a workload: candidates in the order of an estimate, most left out by a lower bound.

The order and all choices are functions of the models and the platform, so that a search repeated finds the same. Of two
candidates whose figures differ by less than `TIE`, the smaller one is better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from fpga_dynamo.codegen.engine.command import MacCommand
from fpga_dynamo.codegen.engine.target import EngineTarget
from fpga_dynamo.codegen.engine.vector import VectorCommand
from fpga_dynamo.tools.estimate.hardware import EstimateError
from fpga_dynamo.tools.recipe_search.limits import WorkloadLimits, limits_of
from fpga_dynamo.tools.recipe_search.space import FEATURES, Candidate, Card, Space
from fpga_dynamo.tools.recipe_search.workload import Cost, Workload
from xclbin_build.engine import VECTOR_LANES, Engine, epilogue_lanes
from xclbin_build.hls.resources import Resources

GOALS = ("latency", "throughput", "area")
TIE = 0.01
"""Figures that differ by this share are alike: the cost model is no better than that."""
_DOUBT = 0.03
"""By how much the difference between designs and their estimates varies."""
AREA_SLACK = 2.0
"""The least area is that of candidates at most so many times slower than the fastest."""
_MOST_EVALUATED, _MOST_MEMORIES, _MOST_TOGETHER, _MOST_SHRUNK = 12, 3, 1, 8
_SMALLER_ARRAYS = (3 / 4, 1 / 2, 1 / 3, 1 / 4, 1 / 8)
"""Arrays of the Pareto front, in products of the best one's."""
_SLOWEST = 10
"""Designs so many times slower than the chosen one leave layers to the host; the Pareto front does not show them."""
_ROOMY = 1 << 14
"""Words of window and weights of the engine that bounds are taken from."""
_VECTOR_BLOCKS = (128, 64)
_ALIKE = 1e-3
"""A feature that changes a call by less is not needed."""


@dataclass(frozen=True)
class Design:
    """A candidate with its figures. value: what the search minimises, in ms; area: see :meth:`Card.area`."""

    candidate: Candidate
    costs: tuple[Cost, ...]
    call_ms: float
    value: float
    resources: Resources
    area: float


@dataclass(frozen=True)
class Ranked:
    """A candidate that fits, with an estimate and a lower bound of its value, in ms, and its area."""

    candidate: Candidate
    estimate: float
    least: float
    area: float

    def order(self) -> tuple[float, float]:
        return self.estimate, self.area


@dataclass(frozen=True)
class Found:
    """best: the design that was chosen. evaluated: all designs that were lowered. tried: candidates that fit."""

    best: Design
    evaluated: tuple[Design, ...]
    tried: int

    def front(self) -> list[Design]:
        """Designs that no other beats in latency and in all resources, the fastest first; without very slow ones."""
        shown = [design for design in self.evaluated if design.value <= _SLOWEST * self.best.value]
        points = {_point(design): design for design in reversed(shown)}
        own = [
            design
            for point, design in points.items()
            if not any(other != point and all(a <= b for a, b in zip(other, point, strict=True)) for other in points)
        ]
        return sorted(own, key=lambda design: (design.value, design.area))


def _point(design: Design) -> tuple[float, ...]:
    own = design.resources * design.candidate.units
    return (design.value, own.dsp, own.lut, own.bram36, own.uram)


@dataclass
class Search:
    """A search. goal: one of GOALS."""

    workload: Workload
    card: Card
    element: str
    goal: str = "latency"
    space: Space = field(default_factory=Space)
    progress: Callable[[str], None] = lambda words: None
    _designs: dict[Candidate, Design] = field(default_factory=dict, init=False)

    def run(self) -> Found:
        """Raises EstimateError if no engine of the space fits the card, or if engines run nothing of a model."""
        base, space, lost = self._needed()
        limits = [limits_of(program) for program in self.workload.programs(self._target(Candidate(_roomy(base))))]
        ranked = sorted(self._ranked(base, space, limits, lost), key=Ranked.order)
        if not ranked:
            raise EstimateError(
                f"no {self.element} engine fits platform '{self.card.platform.name}' with the features that "
                f"{', '.join(self.workload.names)} need; choose a larger platform"
            )
        self._evaluate_arrays(ranked)
        self._evaluate_together(ranked)
        best = self._smallest(1 + TIE)
        for smaller in self._smaller_arrays(best.candidate, ranked):
            self.evaluate(smaller)
        slack = AREA_SLACK if self.goal == "area" else 1 + TIE
        best = self._shrunk(self._smallest(slack), slack, space)
        fitting = tuple(design for design in self._designs.values() if self.card.fits(design.candidate))
        return Found(best, fitting, len(ranked))

    def evaluate(self, candidate: Candidate) -> Design:
        """Lowers the models to a candidate, and has the cost model time their commands."""
        if candidate not in self._designs:
            costs = self.workload.costs(self._target(candidate))
            call_ms = self.workload.call_ms(costs)
            own = self.card.resources(candidate), self.card.area(candidate)
            self._designs[candidate] = Design(candidate, costs, call_ms, self._value(candidate, costs), *own)
            self.progress(f"{len(self._designs)} engines lowered")
        return self._designs[candidate]

    def _target(self, candidate: Candidate) -> EngineTarget:
        return self.card.target(candidate)

    def _value(self, candidate: Candidate, costs: tuple[Cost, ...]) -> float:
        """Milliseconds of a call; for throughput those between two results, while the host works beside the card."""
        if self.goal != "throughput":
            return self.workload.call_ms(costs)
        of_host = self.workload.combined([cost.host_ms for cost in costs])
        return max(self.workload.combined([cost.engine_ms for cost in costs]) / candidate.units, of_host)

    # --- what the models need -----------------------------------------------------------------------------------------

    def _needed(self) -> tuple[Engine, Space, dict[str, float]]:
        """An engine without the features that no model uses, the space of the others, and what each of them saves."""
        base, space = _roomy(self.card.base(self.element)), self.space
        base = replace(base, vector_blocks=_VECTOR_BLOCKS[0])
        whole = self._call(base)
        small = replace(
            base,
            pixels=min(space.pixels), window_rows=min(space.window_rows), weight_steps=min(space.weight_steps),
        )  # fmt: skip
        lost: dict[str, float] = {}
        for name in self._used(base):
            if name == "partial_sums":
                lost[name] = self._call(replace(small, partial_sums=False)) - self._call(small)
            elif name == "vector_lanes":
                lost[name] = self._call(replace(base, vector_lanes=0, gather=False, casts=False)) - whole
            else:
                lost[name] = self._call(_with(base, name, False)) - whole
        needed = [name for name, ms in lost.items() if ms > _ALIKE * whole]
        for name in sorted({*FEATURES, "vector_lanes"} - set(needed)):
            if name == "activations" and base.element == "int8":
                continue  # which always has them
            base = _with(base, name, 0 if name == "vector_lanes" else False)
        for blocks in _VECTOR_BLOCKS[1:]:
            if not base.vector_lanes or self._call(replace(base, vector_blocks=blocks)) <= (1 + _ALIKE) * whole:
                base = replace(base, vector_blocks=blocks)
        if "vector_lanes" not in needed:
            base, space = replace(base, gather=False, casts=False), replace(space, vector_lanes=(0,))
            needed = [name for name in needed if name != "gather"]
        space = replace(space, features=tuple(name for name in needed if name in FEATURES))
        # What a model loses without partial sums depends on the sizes of the memories.
        return base, space, {name: max(0.0, ms) for name, ms in lost.items() if name != "partial_sums"}

    def _used(self, engine: Engine) -> list[str]:
        """Features that a command of the models uses, or may use with other memories."""
        programs = self.workload.programs(self._target(Candidate(engine)))
        commands = [e.command for program in programs for launch in program.lists.launches for e in launch]
        vector = any(isinstance(command, VectorCommand) for command in commands)
        products = [command for command in commands if isinstance(command, MacCommand)]
        used = {
            "vector_lanes": vector,
            "gather": vector and engine.gather,
            "row_sums": any(command.second_operand_is_map for command in products),
            "activations": engine.element == "bfloat16" and any(command.table for command in products),
            "partial_sums": True,
        }
        return [name for name, is_used in used.items() if is_used]

    def _call(self, engine: Engine) -> float:
        """Of an engine that need not fit."""
        return self.workload.call_ms(self.workload.costs(self._target(Candidate(engine))))

    # --- the search ---------------------------------------------------------------------------------------------------

    def _ranked(
        self, base: Engine, space: Space, limits: list[WorkloadLimits], lost: dict[str, float]
    ) -> Iterator[Ranked]:
        """Candidates that fit and that none surpasses in all memories and lanes."""
        known: dict[tuple[int, Engine], tuple[float, float]] = {}
        for units in self._units():
            fitting = [c for e in space.engines(base) if self.card.fits(c := Candidate(e, units))]
            for candidate in _largest(fitting):
                engine = candidate.engine
                # Bounds do not depend on sizes of memories, which are loaded once there.
                key = replace(engine, window_rows=0, weight_steps=0)
                if (units, key) not in known:
                    found = [limit.limit(self._target(candidate)) for limit in limits]
                    known[units, key] = (
                        self.workload.combined([limit.estimate for limit in found]) / units,
                        self.workload.combined([limit.least for limit in found]) / units,
                    )
                more = sum(ms for name, ms in lost.items() if not getattr(engine, name)) / units
                estimate, least = known[units, key]
                yield Ranked(candidate, estimate + more, least, self.card.area(candidate))

    def _units(self) -> Iterable[int]:
        """Numbers of compute units that run launches of their own."""
        if self.goal != "throughput":
            return (1,)
        regions = len([region for region in self.card.platform.regions if region.usable["dsp"]])
        return sorted({1, 2, regions})

    def _evaluate_arrays(self, ranked: list[Ranked]) -> None:
        """Lowers a candidate of each array, and of the best array those with other memories."""
        left = _MOST_EVALUATED
        first = {_array(entry.candidate): entry for entry in reversed(ranked)}
        behind: float | None = None  # by how much designs are slower than their estimates, at least
        for entry in sorted(first.values(), key=Ranked.order):
            if self._designs:
                best = self._smallest(1.0)
                if entry.least >= best.value or entry.estimate + (behind or 0.0) > best.value * (1 + _DOUBT):
                    continue
            design = self.evaluate(entry.candidate)
            off = design.value - entry.estimate
            behind = off if behind is None else min(behind, off)
            left -= 1
            if not left:
                break
        array = _array(self._smallest(1 + TIE).candidate)
        others = [entry.candidate for entry in ranked if _array(entry.candidate) == array]
        for candidate in others[:_MOST_MEMORIES]:
            self.evaluate(candidate)

    def _smallest(self, slack: float) -> Design:
        """The smallest design that fits and is at most so many times slower than the fastest."""
        own = [design for design in self._designs.values() if self.card.fits(design.candidate)]
        fastest = min(design.value for design in own)
        return min((d for d in own if d.value <= slack * fastest), key=lambda d: (d.area, d.value))

    def _evaluate_together(self, ranked: list[Ranked]) -> None:
        """Tries units that share each layer, one in each region, where each has a memory bank of its own."""
        regions = len(self.card.platform.regions)
        if self.goal == "throughput" or not 1 < regions <= len(self.card.platform.banks):
            return
        several = (replace(entry.candidate, units=regions, together=True) for entry in ranked)
        for candidate in islice((c for c in several if self.card.fits(c)), _MOST_TOGETHER):
            self.evaluate(candidate)

    def _smaller_arrays(self, best: Candidate, ranked: list[Ranked]) -> Iterator[Candidate]:
        """Candidates with smaller arrays and memories, for the Pareto front."""
        for part in _SMALLER_ARRAYS:
            most = _products(best.engine) * part
            fitting = (entry.candidate for entry in ranked if entry.candidate.units == 1)
            found = next((c for c in fitting if _products(c.engine) <= most), None)
            if found is not None:
                own = found.engine
                window = min(own.window_rows, _second(self.space.window_rows))
                steps = min(own.weight_steps, _second(self.space.weight_steps))
                yield replace(found, engine=replace(own, window_rows=window, weight_steps=steps))

    def _shrunk(self, best: Design, slack: float, space: Space) -> Design:
        """The smallest that one reduced size after the other gives, with the same bound of its time."""
        slowest = slack * self._smallest(1.0).value
        tried: set[Candidate] = {best.candidate}
        for _ in range(_MOST_SHRUNK):
            steps = [c for c in _reduced(best.candidate, space) if c not in tried and self.card.fits(c)]
            steps = [c for c in steps if self.card.area(c) < best.area]
            if not steps:
                break
            smallest = min(steps, key=self.card.area)
            tried.add(smallest)
            design = self.evaluate(smallest)
            if design.value <= slowest:
                best = design
        return best


def _array(candidate: Candidate) -> tuple[int, ...]:
    own = candidate.engine
    return candidate.units, own.pixels, own.out_channels, own.in_channels


def _second(values: tuple[int, ...]) -> int:
    return sorted(values)[:2][-1]


def _with(engine: Engine, name: str, value: int) -> Engine:
    """An engine with another value of a size or feature."""
    changed: dict[str, Any] = {name: value}
    return replace(engine, **changed)


def _roomy(engine: Engine) -> Engine:
    return replace(engine, window_rows=_ROOMY, weight_steps=_ROOMY)


def _products(engine: Engine) -> int:
    return engine.pixels * engine.out_channels * engine.in_channels


_GROWING = ("lanes", "window_rows", "weight_steps", "vector_lanes", *FEATURES)
"""Sizes that an engine is never slower with if they are larger."""


def _largest(candidates: list[Candidate]) -> list[Candidate]:
    """Those that no other of the same array surpasses in all sizes."""
    arrays: dict[tuple[int, int, int], list[tuple[tuple[int, ...], Candidate]]] = {}
    for candidate in candidates:
        own = candidate.engine
        sizes = tuple(int(getattr(own, name)) for name in _GROWING)
        arrays.setdefault((own.pixels, own.out_channels, own.in_channels), []).append((sizes, candidate))
    found = []
    for group in arrays.values():
        kept: list[tuple[int, ...]] = []
        # What surpasses another comes before it in this order.
        for sizes, candidate in sorted(group, key=lambda entry: entry[0], reverse=True):
            if not any(all(a >= b for a, b in zip(other, sizes, strict=True)) for other in kept):
                kept.append(sizes)
                found.append(candidate)
    return found


def _reduced(candidate: Candidate, space: Space) -> Iterator[Candidate]:
    """A candidate with one size reduced."""
    engine = candidate.engine
    for name, values in (
        ("window_rows", space.window_rows),
        ("weight_steps", space.weight_steps),
        ("vector_lanes", tuple(n for n in VECTOR_LANES[engine.element] if n in space.vector_lanes)),
        ("set_tiles", (16, 32, 64)),
        ("lanes", tuple(epilogue_lanes(engine.element, engine.pixels))),
    ):
        below = [value for value in values if value < getattr(engine, name)]
        if below:
            smaller = _with(engine, name, below[-1])
            beside = smaller.vector_lanes > 0
            fitting = replace(smaller, gather=smaller.gather and beside, casts=smaller.casts and beside)
            yield replace(candidate, engine=fitting)
    for name in space.features:
        if getattr(engine, name):
            yield replace(candidate, engine=_with(engine, name, False))
