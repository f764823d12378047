"""A sweep's report: one HTML file with figures, tables, and a Gantt chart to zoom in. Needs nothing from elsewhere."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from math import inf
from pathlib import Path

from jinja2 import Environment

from fpga_dynamo.tools.soc.drawing import FORMATS, Drawing
from fpga_dynamo.tools.soc.export import GANTT, read_gantt
from fpga_dynamo.tools.soc.figures import FIGURES
from fpga_dynamo.tools.soc.results import SATURATED, Results, load_results
from xclbin_build import atomic_file

_TEMPLATE = Path(__file__).with_name("report.html.j2")


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Writes `report.html` into the folder of a sweep.

    out: a folder for each figure as SVG, PDF and PNG, with its data as CSV.
    """
    results = load_results(folder)
    figures = []
    for name, draw in FIGURES:
        text = " ".join((draw.__doc__ or "").split())
        for number, drawing in enumerate(draw(results), start=1):
            label = name if number == 1 else f"{name}-{number}"
            if out is not None:
                _write(drawing, out, label)
            figures.append({"name": label, "text": text, "image": base64.b64encode(drawing.image("svg")).decode()})
    gantt = folder / GANTT
    page = (
        Environment(autoescape=True)
        .from_string(_TEMPLATE.read_text(encoding="utf-8"))
        .render(
            study=results.study,
            figures=figures,
            saturation=saturation_table(results),
            best=best_table(results),
            pairs=pairs_table(results),
            sampling=_sampling(results),
            runs=len(results.runs),
            saturated=SATURATED,
            gantt=_script(read_gantt(gantt)) if gantt.exists() else "null",
        )
    )
    path = folder / "report.html"
    atomic_file.write(path, page, durable=True)
    return path


def saturation_table(results: Results) -> list[list[str]]:
    """A row for each system: its capacity, and where each policy saturates (1/s); the first row has the titles."""
    rows = [["system", "capacity (1/s)", *results.policies]]
    for system in results.systems:
        capacity = next(row["capacity"] for row in results.runs if row["system"] == system)
        lowest = min(row["rate"] for row in results.runs if row["system"] == system)
        knees = [_knee(results.saturation(system, policy), lowest) for policy in results.policies]
        rows.append([results.title(system), f"{capacity:.4g}", *knees])
    return rows


def _knee(rate: float | None, lowest: float) -> str:
    if rate is None:
        return "-"
    return f"below {lowest:.4g}" if rate < lowest else f"{rate:.4g}"


def pairs_table(results: Results) -> list[list[str]]:
    """Mean response of each policy over that of the best one on average, with its 95 % interval over seeds."""
    policies = results.policies
    against_first = {policy: results.paired(policy, policies[0]) for policy in policies}
    best = min(policies, key=lambda policy: (against_first[policy] or (inf,))[0])
    rows = [["policy", f"mean response over {best}'s", "95 % interval, paired by seed"]]
    for policy in policies:
        found = results.paired(policy, best)
        if found is not None:
            mean, low, high = found
            interval = f"{low:.3f} to {high:.3f}" if len(results.seeds) > 1 else "none: one seed"
            rows.append([policy, f"{mean:.3f}", "1" if policy == best else interval])
    return rows


def best_table(results: Results) -> list[list[str]]:
    """For each policy: mean response relative to the best policy of each system and rate, and relative to the lower
    bound.
    """
    cells: dict[tuple[float, float], dict[str, float]] = {}
    bounds: dict[tuple[float, float], float] = {}
    for policy in results.policies:
        for system in results.systems:
            for rate, mean in results.curve("mean_ms", system=system, policy=policy):
                cells.setdefault((system, rate), {})[policy] = mean
            for rate, bound in results.curve("bound_ms", system=system, policy=policy):
                bounds[system, rate] = bound
    rows = [["policy", "relative to the best policy", "worst", "best in", "relative to the lower bound"]]
    for policy in results.policies:
        ratios = [cell[policy] / min(cell.values()) for cell in cells.values() if policy in cell and min(cell.values())]
        above = [cell[policy] / bounds[where] for where, cell in cells.items() if policy in cell and bounds[where]]
        if ratios and above:
            won = sum(ratio <= 1.0 + 1e-9 for ratio in ratios)
            rows.append(
                [policy, f"{_mean(ratios):.2f}", f"{max(ratios):.2f}", f"{won} of {len(ratios)}", f"{_mean(above):.2f}"]
            )
    return rows


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _write(drawing: Drawing, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for format_ in FORMATS:
        atomic_file.write(folder / f"{name}.{format_}", drawing.image(format_))
    atomic_file.write(folder / f"{name}.csv", drawing.table())


def _sampling(results: Results) -> str:
    """A sentence on seeds and intervals, and one on runs that are not in steady state."""
    seeds, moving = len(results.seeds), sum(row["steady"] == 0 for row in results.runs)
    bars = "bars are 95 % intervals over them" if seeds > 1 else "one seed has no interval, so there are no bars"
    return (
        f"{seeds} {'seed' if seeds == 1 else 'seeds'} of arrivals; {bars}. "
        f"{moving} of {len(results.runs)} runs are not in steady state after the warm-up: their responses grow with "
        "the length of the run, or there are too few to tell."
    )


def _script(value: object) -> str:
    """JSON that may stand in a script element."""
    return json.dumps(value, separators=(",", ":")).replace("</", "<\\/")


__all__ = ["GANTT", "best_table", "pairs_table", "saturation_table", "write_report"]
