"""Charts of a report: panels of lines with intervals, of one font, and the figures behind what is drawn."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fpga_dynamo.plotting import Figure, FigureCanvasAgg, rc_context
from fpga_dynamo.tools.soc.statistics import Estimate

COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0")
MARKERS = "osD^vP*X<>"
COLUMNS = 3
SIZE = 7
"""Points of the font, of titles one more."""
MOST_DECIMAL = 8.0
"""Times the lowest rate that the highest is, from which on the axis of rates is logarithmic."""

Curve = tuple[str, Sequence[tuple[float, Estimate]]]
"""A label, and (rate, value) of each rate."""

FORMATS = ("svg", "pdf", "png")


@dataclass
class Drawing:
    """A figure, and the table behind it: panel, curve, x, y, and the ends of the 95 % interval ("" without one)."""

    figure: Figure
    rows: list[tuple[str, str, float, float, float | str, float | str]] = field(default_factory=list)

    def image(self, format_: str) -> bytes:
        """The figure as "svg", "pdf" or "png". The same sweep gives the same bytes: no date, no random names."""
        if self.figure.get_layout_engine() is not None:
            # The layout moves a little each time that it is computed: once, then all formats are the same picture.
            self.figure.draw_without_rendering()
            self.figure.set_layout_engine("none")
        out = io.BytesIO()
        dates = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}}.get(format_, {})
        with rc_context({"svg.hashsalt": "fpga_dynamo", "svg.fonttype": "none", "pdf.fonttype": 42}):
            self.figure.savefig(out, format=format_, metadata=dates, dpi=200)
        return out.getvalue()

    def table(self) -> str:
        """The rows as CSV."""
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(["panel", "curve", "x", "y", "low", "high"])
        for row in self.rows:
            writer.writerow([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row])
        return text.getvalue()


def figure(panels: int, width: float = 3.6, height: float = 2.7) -> tuple[Drawing, list[Any]]:
    """A drawing with so many axes, in rows of three."""
    columns = min(COLUMNS, max(panels, 1))
    lines = -(-panels // columns)
    made = Figure(figsize=(width * columns + 0.4, height * lines + 0.5), layout="constrained")
    FigureCanvasAgg(made)
    axes = made.subplots(lines, columns, squeeze=False)
    flat = [ax for line in axes for ax in line]
    for ax in flat[panels:]:
        ax.set_visible(False)
    for ax in flat:
        ax.grid(color="0.92")
        ax.tick_params(labelsize=SIZE, which="both")
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    return Drawing(made), flat[:panels]


def lines(drawing: Drawing, ax: Any, title: str, curves: Sequence[Curve], logarithmic: bool = True) -> None:
    """Curves with error bars of their intervals. The axis of rates is logarithmic where they span a factor of eight."""
    for number, (label, curve) in enumerate(curves):
        if not curve:
            continue
        rates, means = [rate for rate, _ in curve], [found.mean for _, found in curve]
        above = [found.half or 0.0 for _, found in curve]
        # An interval that reaches below zero has no place on a logarithmic axis.
        below = [min(half, 0.999 * mean) for half, mean in zip(above, means, strict=True)] if logarithmic else above
        bars = [below, above] if any(above) else None
        ax.errorbar(rates, means, yerr=bars, label=label, markersize=3, linewidth=1.2, capsize=2, **style(number))
        for rate, found in curve:
            ends = ("", "") if found.half is None else (found.low, found.high)
            drawing.rows.append((title, label, rate, found.mean, *ends))
    every = [rate for _, curve in curves for rate, _ in curve if rate > 0]
    positive = [found for _, curve in curves for _, found in curve if found.mean > 0]
    if logarithmic and positive:
        ax.set_yscale("log")
        # By means: an interval of two seeds can reach to zero, and would leave no room for what is compared.
        ax.set_ylim(min(found.mean for found in positive) / 1.6, max(found.high for found in positive) * 1.2)
    if every and max(every) >= MOST_DECIMAL * min(every):
        ax.set_xscale("log")
        ticks = sorted(set(every))
        ax.set_xticks(ticks[:: math.ceil(len(ticks) / 7)])
        ax.set_xticks([], minor=True)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel("injected (1/s)", fontsize=SIZE)
    ax.set_title(title, fontsize=SIZE + 1)


def style(number: int) -> dict[str, str]:
    """A colour and a marker, different for a hundred curves."""
    shift = number // len(COLOURS)
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[(number + shift) % len(MARKERS)]}


def legend(drawing: Drawing, ax: Any) -> None:
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        longest = max(map(len, labels)) + 6  # characters, with the line before them
        columns = max(1, min(len(labels), int(drawing.figure.get_figwidth() * 16 / longest)))
        drawing.figure.legend(
            handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=SIZE
        )  # fmt: skip


def equal_axes(axes: Sequence[Any]) -> None:
    """Gives panels that are compared the same range of values."""
    drawn = [ax.get_ylim() for ax in axes if ax.has_data()]
    for ax in axes:
        ax.set_ylim(min(low for low, _ in drawn), max(high for _, high in drawn))


def panels(curves: Mapping[str, Sequence[Curve]], unit: str, linear: bool = False, equal: bool = False) -> Drawing:
    """A panel for each title, with a line for each curve. equal: with one range of values."""
    drawing, axes = figure(len(curves))
    for ax, (title, those) in zip(axes, curves.items(), strict=True):
        lines(drawing, ax, title, those, not linear)
        ax.set_ylabel(unit, fontsize=SIZE)
    if equal and axes:
        equal_axes(axes)
    legend(drawing, axes[0])
    return drawing
