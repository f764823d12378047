"""What a search found, as tables and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fpga_dynamo.tools.estimate.linking import Link, links
from fpga_dynamo.tools.recipe_search.search import Design, Found
from fpga_dynamo.tools.recipe_search.space import FEATURES, Candidate, Card
from fpga_dynamo.tools.recipe_search.workload import Workload
from xclbin_build.build import load_design
from xclbin_build.hls.resources import NAMES

BASIS = {
    "latencies": "formulas of the cost model (codegen/engine), compared with the cycle simulator; the host's share is "
    "made of the platform file's figures",
    "resources": "arrays and memories from their sizes, logic by linear formulas (xclbin_build/estimate); estimates, "
    "not confirmed by synthesis",
    "clock": "the platform file; it is not known whether the engine closes timing there",
}
_ROWS = 12


def comments(found: Found, workload: Workload, goal: str) -> list[str]:
    """The first lines of a recipe."""
    command = f"xclbin-build --from-model {' '.join(workload.names)} --{goal}"
    return [
        f"Found by `{command}`: {found.best.call_ms:.3f} ms a call by the cost model.",
        "Latency and resources are estimates (docs/resources.md); nothing has been synthesized.",
    ]


@dataclass(frozen=True)
class Summary:
    """A finished search, and the recipe that it wrote to `path`."""

    workload: Workload
    card: Card
    found: Found
    goal: str
    path: Path

    @cached_property
    def links(self) -> list[Link]:
        """Cores that would run nodes of the host, over all models."""
        design = load_design(self.path)
        programs = self.workload.programs(self.card.target(self.found.best.candidate))
        return [link for program in programs for link in links(program, design)]

    def document(self) -> dict[str, Any]:
        best = self.found.best
        return {
            "recipe": str(self.path), "models": self.workload.names, "combine": self.workload.combine,
            "platform": self.card.platform.name, "goal": self.goal, "best": self._design(best),
            "front": [self._design(design) for design in self.found.front()],
            "engines_that_fit": self.found.tried, "engines_lowered": len(self.found.evaluated),
            "links": [asdict(link) for link in self.links], "basis": BASIS,
        }  # fmt: skip

    def _design(self, design: Design) -> dict[str, Any]:
        costs = zip(self.workload.names, design.costs, strict=True)
        return {
            "engine": name_of(design.candidate), "units": design.candidate.units,
            "together": design.candidate.together, "sizes": asdict(design.candidate.engine),
            "call_ms": design.call_ms, "calls_per_s": self._rate(design),
            "models": {name: asdict(cost) for name, cost in costs},
            "resources": (design.resources * design.candidate.units).table(),
            "shares": self.card.shares(design.candidate),
        }  # fmt: skip

    def _rate(self, design: Design) -> float:
        """Calls of all models a second; with one unit, a call after the other."""
        return 1e3 / design.value

    def show(self) -> None:
        # As wide as it comes where nobody looks at it, so that no figure is cut.
        console = Console(width=None if sys.stdout.isatty() else 400, soft_wrap=True, highlight=False)
        best = self.found.best
        platform = self.card.platform
        names = ", ".join(self.workload.names)
        console.print(
            f"{names} on {platform.name}, {platform.speeds['clock_mhz']:g} MHz, best {self.goal}: "
            f"{self.found.tried} engines fit, {len(self.found.evaluated)} lowered", markup=False,
        )  # fmt: skip
        console.print(self._table(_shown(best, self.found.front())))
        for name, cost in zip(self.workload.names, best.costs, strict=True):
            console.print(
                f"{name}: {cost.call_ms:.3f} ms a call: engine {cost.engine_ms:.3f}, host {cost.host_ms:.3f}",
                markup=False,
            )
        for link in self.links:
            console.print(str(link), markup=False)
        for name, words in BASIS.items():
            console.print(f"{name}: {words}", markup=False)
        console.print(f"wrote {self.path}: build it with xclbin-build --recipe {self.path}", markup=False)

    def _table(self, designs: Iterable[Design]) -> Table:
        table = Table(title="Pareto front; * marks the recipe", title_justify="left")
        for label in ("", "engine", "window", "weights", "lanes", "ms a call", "calls/s", *NAMES.values()):
            table.add_column(label, justify="left" if label in ("", "engine") else "right", overflow="fold")
        for design in designs:
            e, own = design.candidate.engine, design.resources * design.candidate.units
            mark = "*" if design is self.found.best else ""
            table.add_row(
                mark, name_of(design.candidate), str(e.window_rows), str(e.weight_steps),
                f"{e.lanes}, {e.vector_lanes}", f"{design.call_ms:.3f}", f"{self._rate(design):.1f}",
                *(f"{value:,.1f}" if name == "bram36" else f"{value:,.0f}" for name, value in own.items()),
            )  # fmt: skip
        return table


def _shown(best: Design, front: list[Design]) -> list[Design]:
    """The front, and the chosen design, which may be as fast as one of it."""
    kept = front[:_ROWS]
    return kept if best in kept else sorted([*kept, best], key=lambda design: design.value)


def name_of(candidate: Candidate) -> str:
    e = candidate.engine
    kind = "sharing layers" if candidate.together else "units"
    units = f"{candidate.units} {kind} of " if candidate.units > 1 else ""
    switches = [name for name in FEATURES if getattr(e, name) and not (name == "activations" and e.element == "int8")]
    return f"{units}{e.pixels}x{e.out_channels}x{e.in_channels} {e.element}" + "".join(f" +{name}" for name in switches)
