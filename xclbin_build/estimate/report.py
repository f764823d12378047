"""An estimate as a table for people, and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from ..hls.resources import NAMES, Component, Resources, total
from ..platform import Platform
from .design import Estimate
from .fit import shares
from .uncertainty import BASES, Bounds, add_bounds, bounds, rests_on


def document(estimate: Estimate) -> dict[str, Any]:
    """The estimate as JSON: `fits` (null where parts are unknown), `problems`, `used`, `available`, and more."""
    platform = estimate.platform
    used = total(unit.kernel.resources for unit in estimate.units)
    available = {name: sum(region.usable[name] for region in platform.regions) for name in NAMES}
    return {
        "recipe": estimate.recipe,
        "platform": platform.name,
        "fits": estimate.fits,
        "problems": estimate.fit.problems,
        "tight": estimate.fit.tight,
        "unknown": estimate.unknown,
        "used": used.table(),
        "bounds": _round(add_bounds(bounds(unit.kernel) for unit in estimate.units)),
        "available": available,
        "source_of_available": platform.source,
        "regions": [
            {
                "name": load.region.name,
                "compute_units": [unit.name for unit in load.units],
                "used": load.used.table(),
                "bounds": _round(add_bounds(bounds(unit.kernel) for unit in load.units)),
                "available": dict(load.region.usable),
            }
            for load in estimate.fit.loads
        ],
        "kernels": [_part(part) for part in estimate.kernels],
        "rests_on": dict(BASES),
        "bounds_rest_on": rests_on(),
    }


def _part(part: Component) -> dict[str, Any]:
    found: dict[str, Any] = {
        "kind": part.kind,
        "name": part.name,
        "rests_on": part.basis,
        "used": part.resources.table(),
    }
    found["bounds"] = _round(bounds(part))
    if part.note:
        found["note"] = part.note
    if part.parts:
        found["parts"] = [_part(child) for child in part.parts]
    return found


def _round(found: Bounds) -> dict[str, list[int | None]]:
    return {name: [round(low), None if high == float("inf") else round(high)] for name, (low, high) in found.items()}


def show(estimate: Estimate, console: Console) -> None:
    for kernel in estimate.kernels:
        units = sum(unit.kernel is kernel for unit in estimate.units)
        table = Table(title=f"kernel {kernel.name}, {units} compute unit{'s' * (units > 1)}", title_justify="left")
        table.add_column("part")
        for label in NAMES.values():
            table.add_column(label, justify="right")
        table.add_column("rests on")
        for part in kernel.parts or [kernel]:
            _row(table, part, "")
        _total(table, kernel)
        console.print(table)
    console.print(_regions(estimate.platform, estimate))
    for words in estimate.unknown:
        console.print(f"unknown: {words}", markup=False, highlight=False, soft_wrap=True)
    for words in estimate.fit.tight:
        console.print(f"tight: {words}", markup=False, highlight=False, soft_wrap=True)
    for words in [*estimate.fit.problems, estimate.advice]:
        if words:
            console.print(words, markup=False, highlight=False, soft_wrap=True)
    if estimate.fits is None:
        console.print(
            f"The known part of recipe {estimate.recipe} fits {estimate.platform.name}; the rest is unknown.",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip
    if estimate.fits:
        console.print(f"Recipe {estimate.recipe} fits {estimate.platform.name}.", markup=False, highlight=False)
    console.print(
        f"Below each figure: {rests_on()} docs/resources.md has more.", markup=False, highlight=False, soft_wrap=True
    )


def _row(table: Table, part: Component, indent: str) -> None:
    cells = _figures(part.resources)
    table.add_row(indent + part.name, *_with_bands(cells, bounds(part)), part.basis)
    for child in part.parts:
        _row(table, child, indent + "  ")


def _figures(resources: Resources) -> list[str]:
    return [
        f"{value:,.1f}".removesuffix(".0") if name == "bram36" else f"{value:,.0f}" for name, value in resources.items()
    ]


def _with_bands(cells: list[str], found: Bounds) -> list[str]:
    """Cells with the bands of their figures below them, where there is one."""
    words = []
    for cell, (low, high) in zip(cells, found.values(), strict=True):
        most = "?" if high == float("inf") else f"{high:,.0f}"
        words.append(cell if f"{low:,.0f}" == most else f"{cell}\n[dim]{low:,.0f} to {most}[/]")
    return words


def _total(table: Table, kernel: Component) -> None:
    table.add_section()
    table.add_row("in all", *_with_bands(_figures(kernel.resources), bounds(kernel)), "")


def _regions(platform: Platform, estimate: Estimate) -> Table:
    table = Table(title=f"{platform.name}: resources left by the shell ({platform.source})", title_justify="left")
    table.add_column("region")
    for label in NAMES.values():
        table.add_column(label, justify="right")
    table.add_column("compute units")
    for load in estimate.fit.loads:
        cells = []
        for name, share in shares(load.used, load.region.usable):
            have = load.region.usable[name]
            used = dict(load.used.items())[name]
            cells.append(f"{used:,.0f} of {have:,}" + (f" ({share:.0%})" if have else ""))
        cells = _with_bands(cells, add_bounds(bounds(unit.kernel) for unit in load.units))
        table.add_row(load.region.name, *cells, ", ".join(unit.name for unit in load.units) or "-")
    return table
