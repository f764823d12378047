"""The figures of a report. Each function draws all systems and policies of a sweep; it gives one drawing or several, or
none if the sweep has nothing to show in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from fpga_dynamo.tools.soc.drawing import (
    COLOURS,
    SIZE,
    Curve,
    Drawing,
    equal_axes,
    figure,
    legend,
    lines,
    panels,
    style,
)
from fpga_dynamo.tools.soc.results import Results, Row, pareto

PANELS = 12
"""Of one drawing; more systems or policies make more drawings."""
FRONT_LOAD = 0.8
"""Systems are compared at the highest common rate that is at most so much of the least capacity."""


def parts(values: Iterable[Any], size: int) -> list[list[Any]]:
    """The values in lists of at most so many."""
    every = list(values)
    return [every[first : first + size] for first in range(0, len(every), size)]


def response_by_system(results: Results) -> list[Drawing]:
    """Mean response against rate: a panel for each system, a line for each policy, a dotted line where it saturates."""
    return [_responses(results, systems) for systems in parts(results.systems, PANELS)]


def _responses(results: Results, systems: Sequence[int]) -> Drawing:
    drawing, axes = figure(len(systems))
    for ax, system in zip(axes, systems, strict=True):
        lines(
            drawing,
            ax,
            results.title(system),
            [(p, results.estimates("mean_ms", system=system, policy=p)) for p in results.policies],
        )
        for number, policy in enumerate(results.policies):
            knee = results.saturation(system, policy)
            if knee is not None and knee > 0:
                ax.axvline(knee, color=style(number)["color"], linewidth=0.8, linestyle=":")
        bound = results.curve("bound_ms", system=system, policy=results.policies[0])
        ax.plot(*zip(*bound, strict=True), color="0.6", linewidth=0.8, linestyle="--", label="lower bound")
        drawing.rows += [(results.title(system), "lower bound", rate, value, "", "") for rate, value in bound]
        ax.set_ylim(bottom=min(ax.get_ylim()[0], min((value for _, value in bound if value > 0), default=1.0) / 1.6))
        ax.set_ylabel("mean response (ms)", fontsize=SIZE)
    equal_axes(axes)
    legend(drawing, axes[0])
    return drawing


def execution_by_application(results: Results) -> list[Drawing]:
    """Execution time of each application against rate, on the richest system: a line for each policy."""
    system = results.richest()

    def curves(name: str) -> list[Curve]:
        of = results.application_estimates
        return [(policy, of(name, "execution_ms", system=system, policy=policy)) for policy in results.policies]

    names = dict.fromkeys(row["application"] for row in results.applications)
    return [panels({name: curves(name) for name in part}, "execution (ms)") for part in parts(names, PANELS)]


def response_by_policy(results: Results) -> list[Drawing]:
    """Mean response against rate: a panel for each policy, a line for each system."""
    if len(results.systems) < 2:
        return []
    return [
        panels(
            {
                policy: [(results.title(s), results.estimates("mean_ms", system=s, policy=policy)) for s in systems]
                for policy in results.policies
            },
            "mean response (ms)",
            equal=True,
        )
        for systems in parts(results.systems, 3 * len(COLOURS))
    ]


def percentiles(results: Results) -> list[Drawing]:
    """Percentiles of the response on the richest system: a panel for each policy."""
    system = results.richest()
    columns = (("median", "p50_ms"), ("95 %", "p95_ms"), ("99 %", "p99_ms"))
    every = {
        policy: [(label, results.estimates(column, system=system, policy=policy)) for label, column in columns]
        for policy in results.policies
    }
    return [panels({name: every[name] for name in part}, "response (ms)", equal=True) for part in parts(every, PANELS)]


_Columns = Mapping[str, str | Callable[[Row], float]]


def _by_rate(results: Results, columns: _Columns, linear: Collection[str] = ()) -> list[Drawing]:
    """A panel for each column of the richest system's runs, by its title, with a line for each policy."""
    system = results.richest()
    drawing, axes = figure(len(columns))
    for ax, (title, column) in zip(axes, columns.items(), strict=True):
        curves = [(policy, results.estimates(column, system=system, policy=policy)) for policy in results.policies]
        lines(drawing, ax, title, curves, title not in linear)
    legend(drawing, axes[0])
    return [drawing]


def utilisation(results: Results) -> list[Drawing]:
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


def energy(results: Results) -> list[Drawing]:
    """Energy of an instance and power of the richest system."""
    columns: _Columns = {"energy per instance (mJ)": _millijoules, "power (W)": "watts"}
    return _by_rate(results, columns, linear=columns)


def overhead(results: Results) -> list[Drawing]:
    """What scheduling costs on the richest system."""
    columns = {
        "scheduling time per task (us)": "us_a_decision",
        "scheduler busy (share)": "deciding",
        "most tasks waiting": "most_waiting",
    }
    return _by_rate(results, columns, linear=["scheduler busy (share)"])


def missed_deadlines(results: Results) -> list[Drawing]:
    """Share of the instances of each application that miss their deadline on the richest system: a line for each
    policy."""
    system = results.richest()
    names = dict.fromkeys(row["application"] for row in results.applications if row["deadline_ms"])

    def curves(name: str) -> list[Curve]:
        of = results.application_estimates
        return [(policy, of(name, "missed", system=system, policy=policy)) for policy in results.policies]

    titles = {name: curves(name) for name in names}
    return [
        panels({name: titles[name] for name in part}, "missed deadlines (share)", linear=True, equal=True)
        for part in parts(names, PANELS)
    ]


def fronts(results: Results) -> list[Drawing]:
    """Systems at one load below every capacity: size and energy against response, and the Pareto fronts."""
    if len(results.systems) < 2:
        return []
    return [_fronts(results, policies) for policies in parts(results.policies, PANELS // 2)]


def front_rate(results: Results, system: int, policy: str) -> float | None:
    """The highest rate of a system's runs of at most 0.8 of the least capacity; its lowest if all are higher."""
    least = min(float(row["capacity"]) for row in results.runs)
    rates = sorted({row["rate"] for row in results.runs if (row["system"], row["policy"]) == (system, policy)})
    below = [rate for rate in rates if rate <= FRONT_LOAD * least]
    return (below[-1] if below else rates[0]) if rates else None


def _fronts(results: Results, policies: Sequence[str]) -> Drawing:
    drawing, axes = figure(2 * len(policies))
    for number, policy in enumerate(policies):
        response: dict[int, float] = {}
        joules: dict[int, float] = {}
        rate = 0.0
        for system in results.systems:
            found = front_rate(results, system, policy)
            if found is not None:
                rate = found
                response[system] = dict(results.curve("mean_ms", system=system, policy=policy))[rate]
                joules[system] = dict(results.curve(_millijoules, system=system, policy=policy))[rate]
        sizes = {system: float(results.units(system)) for system in response}
        for ax, label, value in (
            (axes[2 * number], "processing elements", sizes),
            (axes[2 * number + 1], "energy per instance (mJ)", joules),
        ):
            _front(
                results, drawing, ax, f"{policy}, {rate:.4g}/s", label, [(value[s], response[s], s) for s in response]
            )
    equal_axes(axes)
    return drawing


def _front(
    results: Results, drawing: Drawing, ax: Any, title: str, label: str, systems: Sequence[tuple[float, float, int]]
) -> None:
    """Points, and the front with numbers, which a key names: names at the points would cover each other."""
    points = [(x, y) for x, y, _ in systems]
    front = pareto(points)
    ax.plot(*zip(*points, strict=True), "o", color="0.75", markersize=4)
    ax.plot(*zip(*(points[i] for i in front), strict=True), "-", color=COLOURS[0], linewidth=1)
    for number, i in enumerate(front):
        name = f"{number + 1}: {results.title(systems[i][2])}"
        ax.plot(*points[i], "o", color=COLOURS[0], markersize=4, label=name)
        offset = (3, -8 if number % 2 else 3)  # neighbours that nearly coincide have numbers above and below
        ax.annotate(str(number + 1), points[i], fontsize=SIZE - 1, xytext=offset, textcoords="offset points")
    for i, (x, y, system) in enumerate(systems):
        drawing.rows.append((f"{title}: {label}", results.title(system), x, y, "front" if i in front else "", ""))
    if front:
        where = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.18)}
        ax.legend(fontsize=SIZE - 2, frameon=False, handlelength=0, markerscale=0, ncols=2, **where)
    ax.set(yscale="log")
    ax.set_xlabel(label, fontsize=SIZE)
    ax.set_ylabel("mean response (ms)", fontsize=SIZE)
    ax.set_title(title, fontsize=SIZE + 1)


FIGURES: tuple[tuple[str, Callable[[Results], list[Drawing]]], ...] = (
    ("response-by-system", response_by_system),
    ("response-by-policy", response_by_policy),
    ("execution-by-application", execution_by_application),
    ("percentiles", percentiles),
    ("utilisation", utilisation),
    ("energy", energy),
    ("overhead", overhead),
    ("missed-deadlines", missed_deadlines),
    ("fronts", fronts),
)
