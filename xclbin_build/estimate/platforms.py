"""One estimate for each platform, as a table: how large a recipe is on every card, or each card's own recipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .. import platform as platforms
from .. import recipe as recipes
from ..design import Design
from ..errors import BuildError, RecipeError
from ..hls.resources import NAMES, Resources, total
from ..platform import NO_PART
from .design import Estimate, estimate
from .fit import shares


@dataclass(frozen=True)
class Row:
    """A platform with its estimate, or the reason why it has no estimate."""

    platform: str
    recipe: str
    estimate: Estimate | None
    reason: str = ""


def estimate_all(
    recipe: str | Path | None, design_for: Callable[[str, str | Path], Design], *, whole: bool = True
) -> list[Row]:
    """A row for each platform with resources. recipe: for all of them; None: the platform's own.

    design_for: works out a recipe for a platform, and may raise BuildError. whole: see :func:`estimate`.
    """
    rows: list[Row] = []
    for name in platforms.names():
        if platforms.load(name).part == NO_PART:
            continue
        try:
            chosen = recipes.own(name) if recipe is None else recipe
            found = estimate(design_for(name, chosen), whole=whole, advise=False)
            rows.append(Row(name, found.recipe, found))
        except BuildError as error:
            rows.append(Row(name, "" if recipe is None else str(recipe), None, str(error)))
    if all(row.estimate is None for row in rows):
        raise RecipeError(f"no platform accepts the recipe: {rows[0].reason}")
    return rows


def document(rows: list[Row]) -> list[dict[str, Any]]:
    """The rows as JSON: `fits` (null where parts are unknown), what is used of what the shell leaves, or the reason."""
    return [
        {"platform": row.platform, "recipe": row.recipe or None, "fits": None, "reason": row.reason}
        if row.estimate is None
        else {
            "platform": row.platform,
            "recipe": row.recipe,
            "fits": row.estimate.fits,
            "used": _used(row.estimate).table(),
            "available": _available(row.estimate),
            "problems": row.estimate.fit.problems,
            "unknown": row.estimate.unknown,
        }
        for row in rows
    ]


def show(rows: list[Row], console: Console) -> None:
    """Prints a row for each platform: what all compute units use together, of what the shell leaves of the card."""
    table = Table(box=None, pad_edge=False)
    table.add_column("platform")
    table.add_column("recipe")
    for label in NAMES.values():
        table.add_column(label, justify="right")
    table.add_column("fits", overflow="fold")
    for row in rows:
        if row.estimate is None:
            table.add_row(row.platform, row.recipe or "-", *["-"] * len(NAMES), row.reason.replace("[", r"\["))
            continue
        cells = []
        used, have = _used(row.estimate), _available(row.estimate)
        for (name, value), (_, share) in zip(used.items(), shares(used, have), strict=True):
            cells.append(f"{value:,.0f}" + (f" ({share:.0%})" if have[name] else ""))
        words = "; ".join([*row.estimate.fit.problems, *row.estimate.unknown])
        state = {True: "yes", False: "no", None: "unknown"}[row.estimate.fits]
        table.add_row(row.platform, row.recipe, *cells, f"{state}: {words}" if words else state)
    console.print(table)
    console.print(
        "Estimated, not synthesized. Percentages are of what the shell leaves of the card; a compute unit must fit one "
        "region.", markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip


def _used(found: Estimate) -> Resources:
    return total(unit.kernel.resources for unit in found.units)


def _available(found: Estimate) -> dict[str, int]:
    return {name: sum(region.usable[name] for region in found.platform.regions) for name in NAMES}
