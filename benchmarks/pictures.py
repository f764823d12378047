"""PNG pictures of results. Nothing here touches pyplot's state, so any thread may draw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.results import CARD, Result, Row

WIDTH = 10.0  # inches
ROW = 0.22  # inches a bar
DPI = 120
_COLOURS = [colormaps["tab10"](number) for number in range(10)]


def _axes(height: float, title: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(title, fontsize=10)
    axes.tick_params(labelsize=8)
    return figure, axes


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, format="png")


def _bars(axes: Any, names: Sequence[str], series: dict[str, list[float | None]]) -> None:
    """Horizontal bars, a group for each name and a colour for each series; None leaves a gap."""
    share = 0.8 / max(len(series), 1)
    for number, (label, values) in enumerate(series.items()):
        at = np.arange(len(names)) + (number - (len(series) - 1) / 2) * share
        shown = [(place, value) for place, value in zip(at, values, strict=True) if value is not None]
        colour = _COLOURS[number % len(_COLOURS)]
        axes.barh([p for p, _ in shown], [v for _, v in shown], height=share, color=colour, label=label)
        for place, value in shown:
            axes.annotate(
                f"{value:.3g}", (value, place), xytext=(2, 0), textcoords="offset points", va="center", size=6
            )
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.margins(x=0.08)
    if series:
        axes.legend(fontsize=7)


def _group_height(rows: int, series: int) -> float:
    return 1.2 + ROW * max(rows, 1) * max(series, 1)


def ratios(result: Result, path: Path, title: str) -> None:
    """The ratio over each peer, a group for each row, with a line at 1."""
    peers = list(dict.fromkeys(peer for row in result.rows for peer in row.ratios()))
    series = {peer: [row.ratios().get(peer) for row in result.rows] for peer in peers}
    figure, axes = _axes(_group_height(len(result.rows), len(peers)), title)
    _bars(axes, [row.name for row in result.rows], series)
    axes.axvline(1.0, color="black", linewidth=0.8)
    _save(figure, path)


def times(result: Result, path: Path, title: str, unit: str, scale: float) -> None:
    """Medians of every contestant with their quartiles, a panel for each row."""
    rows = [row for row in result.rows if row.timings]
    counts = [len(row.timings) for row in rows] or [1]
    figure = Figure(figsize=(WIDTH, 1 + sum(0.5 + ROW * n for n in counts)), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{title} ({unit})", fontsize=10)
    panels = figure.subplots(len(counts), 1, squeeze=False, height_ratios=[n + 2 for n in counts])[:, 0]
    for axes, row in zip(panels, rows, strict=False):
        medians = np.array([timing.median for timing in row.timings.values()]) * scale
        low = medians - np.array([timing.lower for timing in row.timings.values()]) * scale
        high = np.array([timing.upper for timing in row.timings.values()]) * scale - medians
        axes.barh(list(row.timings), medians, xerr=[low, high], color=_COLOURS[: len(medians)] or None, height=0.7)
        axes.set_title(row.name, fontsize=8, loc="left")
        axes.tick_params(labelsize=7)
        axes.invert_yaxis()
    _save(figure, path)


def layers(result: Result, path: Path) -> None:
    """For each layer that oneDNN runs too: its time over ours in the card, by multiply-accumulates."""
    figure, axes = _axes(5.5, "Layers: oneDNN with packed weights / ours in the card (above 1: ours is faster)")
    by_kind: dict[str, list[Row]] = {}
    for row in result.rows:
        if "onednn" in row.ratios(CARD):
            by_kind.setdefault(row.details["kind"], []).append(row)
    for number, (kind, rows) in enumerate(by_kind.items()):
        macs = [row.figures["macs"] / 1e6 for row in rows]
        axes.scatter(macs, [row.ratios(CARD)["onednn"] for row in rows], s=14, color=_COLOURS[number], label=kind)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xlabel("million multiply-accumulates", fontsize=8)
    axes.grid(alpha=0.3)
    if by_kind:
        axes.set_xscale("log")
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.legend(fontsize=8)
    _save(figure, path)


def memory(result: Result, path: Path, contestants: Sequence[str]) -> None:
    """Most resident memory of each contestant when warm, in MB."""
    figure, axes = _axes(_group_height(len(result.rows), len(contestants)), "Resident memory of a warm model (MB)")
    series: dict[str, list[float | None]] = {}
    for name in contestants:
        found = [row.figures.get(f"{name}_warm_peak_bytes") for row in result.rows]
        series[name] = [None if value is None else value / 1e6 for value in found]
    _bars(axes, [row.name for row in result.rows], series)
    _save(figure, path)


def roofline(result: Result, path: Path) -> None:
    """Commands as points under the roofs of the machine, a colour for each opcode; the area says the time."""
    figure, axes = _axes(6.0, "Roofline: commands of a network on the emulator")
    measured = [row for row in result.rows if "gflops" in row.figures]
    intensities = [row.figures["flops_per_byte"] for row in measured] or [1.0]
    span = np.geomspace(min(intensities) / 4, max(intensities) * 4, 200)
    machines = result.details.get("machine", [])
    for machine, style in zip(machines, ("-", "--") if len(machines) == 1 else ("--", "-"), strict=False):
        threads = f"{machine['threads']} thread" + ("s" if machine["threads"] > 1 else "")
        for number, (level, bandwidth) in enumerate(machine["bandwidth"].items()):
            roof = np.minimum(machine["flops"], span * bandwidth) / 1e9
            label = f"{level} {bandwidth / 1e9:.0f} GB/s, peak {machine['flops'] / 1e9:.0f} GFLOP/s, {threads}"
            axes.plot(span, roof, style, color=str(0.15 + 0.2 * number), linewidth=1, label=label)
    longest = max((row.timings[CARD].median for row in measured), default=1.0)
    for number, opcode in enumerate(dict.fromkeys(row.details["opcode"] for row in measured)):
        mine = [row for row in measured if row.details["opcode"] == opcode]
        axes.scatter(
            [row.figures["flops_per_byte"] for row in mine],
            [row.figures["gflops"] for row in mine],
            s=[10 + 150 * row.timings[CARD].median / longest for row in mine],
            color=_COLOURS[number % len(_COLOURS)],
            alpha=0.6,
            label=opcode,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("FLOPs a byte", fontsize=8)
    axes.set_ylabel("GFLOP/s", fontsize=8)
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=7)
    _save(figure, path)
