"""The figures of a report. Each function gives a matplotlib figure, or None if the sweep has nothing to show in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from fpga_dynamo.plotting import Figure, FigureCanvasAgg
from fpga_dynamo.tools.soc.results import Results, Row, pareto, saturation

COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0")
MOST_PANELS = 12
_MARKERS = "osD^vP*X<>"


def _figure(panels: int, width: float = 3.6, height: float = 2.7) -> tuple[Figure, list[Any]]:
    columns = min(3, max(panels, 1))
    lines = -(-panels // columns)
    figure = Figure(figsize=(width * columns + 0.4, height * lines + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(lines, columns, squeeze=False)
    flat = [ax for line in axes for ax in line]
    for ax in flat[panels:]:
        ax.set_visible(False)
    for ax in flat:
        ax.grid(color="0.92")
        ax.tick_params(labelsize=7)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    return figure, flat[:panels]


def _lines(ax: Any, curves: Sequence[tuple[str, Sequence[tuple[float, float]]]], logarithmic: bool = True) -> None:
    for number, (label, curve) in enumerate(curves):
        if curve:
            style = {"color": COLOURS[number % len(COLOURS)], "marker": _MARKERS[number % len(_MARKERS)]}
            ax.plot(*zip(*curve, strict=True), label=label, markersize=3, linewidth=1.2, **style)
    if logarithmic and any(value > 0 for _, curve in curves for _, value in curve):
        ax.set_yscale("log")
    ax.set_xlabel("injected (1/s)", fontsize=7)


def _legend(figure: Figure, ax: Any) -> None:
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        longest = max(map(len, labels)) + 6  # characters, with the line before them
        columns = max(1, min(len(labels), int(figure.get_figwidth() * 16 / longest)))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=7)


def response_by_system(results: Results) -> Figure | None:
    """Mean response against rate: a panel for each system, a line for each policy, a tick where it saturates."""
    systems = spread(results.systems, MOST_PANELS)
    figure, axes = _figure(len(systems))
    for ax, system in zip(axes, systems, strict=True):
        curves = [(policy, results.curve("mean_ms", system=system, policy=policy)) for policy in results.policies]
        _lines(ax, curves)
        for number, (_, curve) in enumerate(curves):
            knee = saturation(curve)
            if knee is not None:
                ax.axvline(knee, color=COLOURS[number % len(COLOURS)], linewidth=0.8, linestyle=":")
        bound = results.curve("bound_ms", system=system, policy=results.policies[0])
        ax.plot(*zip(*bound, strict=True), color="0.6", linewidth=0.8, linestyle="--", label="lower bound")
        ax.set_title(results.title(system), fontsize=8)
        ax.set_ylabel("mean response (ms)", fontsize=7)
    _legend(figure, axes[0])
    return figure


Curve = tuple[str, Sequence[tuple[float, float]]]
"""A label, and (rate, value) of each rate."""


def _panels(panels: Mapping[str, Sequence[Curve]], unit: str, linear: Collection[str] = ()) -> Figure:
    """A panel for each title, with a line for each curve. linear: titles of panels without a logarithmic axis."""
    figure, axes = _figure(len(panels))
    for ax, (title, curves) in zip(axes, panels.items(), strict=True):
        _lines(ax, curves, title not in linear)
        ax.set_title(title, fontsize=8)
        ax.set_ylabel(unit, fontsize=7)
    _legend(figure, axes[0])
    return figure


def execution_by_application(results: Results) -> Figure | None:
    """Execution time of each application against rate, on the richest system: a line for each policy."""
    system = results.richest()

    def curves(name: str) -> list[Curve]:
        of = results.application_curve
        return [(policy, of(name, "execution_ms", system=system, policy=policy)) for policy in results.policies]

    names = dict.fromkeys(row["application"] for row in results.applications)
    return _panels({name: curves(name) for name in names}, "execution (ms)")


def response_by_policy(results: Results) -> Figure | None:
    """Mean response against rate: a panel for each policy, a line for each system."""
    if len(results.systems) < 2:
        return None
    systems = spread(results.systems, len(COLOURS))
    panels = {
        policy: [(results.title(s), results.curve("mean_ms", system=s, policy=policy)) for s in systems]
        for policy in results.policies
    }
    return _panels(panels, "mean response (ms)")


def percentiles(results: Results) -> Figure | None:
    """Percentiles of the response on the richest system: a panel for each policy."""
    system = results.richest()
    columns = (("median", "p50_ms"), ("95 %", "p95_ms"), ("99 %", "p99_ms"))
    panels = {
        policy: [(label, results.curve(column, system=system, policy=policy)) for label, column in columns]
        for policy in results.policies
    }
    return _panels(panels, "response (ms)")


_Columns = Mapping[str, str | Callable[[Row], float]]


def _by_rate(results: Results, columns: _Columns, linear: Collection[str] = ()) -> Figure:
    """A panel for each column of the richest system's runs, by its title, with a line for each policy."""
    system = results.richest()
    panels = {
        title: [(policy, results.curve(column, system=system, policy=policy)) for policy in results.policies]
        for title, column in columns.items()
    }
    return _panels(panels, "", linear)


def utilisation(results: Results) -> Figure | None:
    """How busy the units of the richest system are, and what it serves."""
    columns = {
        "processor cores busy (share)": "busy_cpu",
        "compute units busy (share)": "busy_pl",
        "served (1/s)": "throughput",
    }
    return _by_rate(results, columns, linear=columns)


def _millijoules(row: Row) -> float:
    """Of an instance."""
    return float(row["joules"] / max(row["instances"], 1) * 1e3)


def energy(results: Results) -> Figure | None:
    """Energy of an instance and power of the richest system."""
    columns: _Columns = {"energy per instance (mJ)": _millijoules, "power (W)": "watts"}
    return _by_rate(results, columns, linear=columns)


def overhead(results: Results) -> Figure | None:
    """What scheduling costs on the richest system."""
    columns = {
        "scheduling time per task (us)": "us_a_decision",
        "scheduler busy (share)": "deciding",
        "most tasks waiting": "most_waiting",
    }
    return _by_rate(results, columns, linear=["scheduler busy (share)"])


def fronts(results: Results) -> Figure | None:
    """Systems at the highest rate that all have been run at: size and energy against response, Pareto fronts."""
    if len(results.systems) < 2:
        return None
    policies = spread(results.policies, 4)
    figure, axes = _figure(2 * len(policies))
    for row, policy in enumerate(policies):
        response, joules = {}, {}
        for system in results.systems:
            curve = results.curve("mean_ms", system=system, policy=policy)
            of_energy = results.curve(_millijoules, system=system, policy=policy)
            if curve:
                response[system], joules[system] = curve[-1][1], of_energy[-1][1]
        for ax, label, value in (
            (axes[2 * row], "processing elements", {s: float(results.units(s)) for s in response}),
            (axes[2 * row + 1], "energy per instance (mJ)", joules),
        ):
            points = [(value[s], response[s]) for s in response]
            ax.plot(*zip(*points, strict=True), "o", color="0.75", markersize=4)
            front = pareto(points)
            ax.plot(*zip(*(points[i] for i in front), strict=True), "o-", color=COLOURS[0], markersize=4, linewidth=1)
            for i in front:
                name = results.title(list(response)[i])
                ax.annotate(name, points[i], fontsize=5, xytext=(3, 3), textcoords="offset points")
            ax.set(yscale="log")
            ax.set_xlabel(label, fontsize=7)
            ax.set_ylabel("mean response (ms)", fontsize=7)
            ax.set_title(policy, fontsize=8)
    return figure


def spread(values: Sequence[Any], most: int) -> list[Any]:
    """At most so many of the values, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


FIGURES: tuple[tuple[str, Callable[[Results], Figure | None]], ...] = (
    ("response-by-system", response_by_system),
    ("response-by-policy", response_by_policy),
    ("execution-by-application", execution_by_application),
    ("percentiles", percentiles),
    ("utilisation", utilisation),
    ("energy", energy),
    ("overhead", overhead),
    ("fronts", fronts),
)
