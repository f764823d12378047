"""A sweep's report: one HTML file with figures, tables, and a Gantt chart to zoom in. Needs nothing from elsewhere."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment

from fpga_dynamo.plotting import Figure, rc_context
from fpga_dynamo.tools.soc.export import GANTT, read_gantt
from fpga_dynamo.tools.soc.figures import FIGURES
from fpga_dynamo.tools.soc.results import SATURATED, Results, load_results
from xclbin_build import atomic_file

_TEMPLATE = Path(__file__).with_name("report.html.j2")


def write_report(folder: Path, svg: Path | None = None) -> Path:
    """Writes `report.html` into the folder of a sweep, and the figures as SVG files into another one if asked."""
    results = load_results(folder)
    figures = []
    for name, draw in FIGURES:
        figure = draw(results)
        if figure is None:
            continue
        image = _svg(figure)
        if svg is not None:
            svg.mkdir(parents=True, exist_ok=True)
            atomic_file.write(svg / f"{name}.svg", image)
        text = " ".join((draw.__doc__ or "").split())
        figures.append({"name": name, "text": text, "image": base64.b64encode(image).decode()})
    gantt = folder / GANTT
    page = (
        Environment(autoescape=True)
        .from_string(_TEMPLATE.read_text(encoding="utf-8"))
        .render(
            study=results.study,
            figures=figures,
            saturation=saturation_table(results),
            best=best_table(results),
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
        knees = [results.saturation(system, policy) for policy in results.policies]
        rows.append(
            [results.title(system), f"{capacity:.4g}", *("-" if knee is None else f"{knee:.4g}" for knee in knees)]
        )
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


def _svg(figure: Figure) -> bytes:
    out = io.BytesIO()
    # No date, and names of elements that depend on what is drawn alone: the same sweep, the same bytes.
    with rc_context({"svg.hashsalt": "fpga_dynamo", "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def _script(value: object) -> str:
    """JSON that may stand in a script element."""
    return json.dumps(value, separators=(",", ":")).replace("</", "<\\/")


__all__ = ["GANTT", "best_table", "saturation_table", "write_report"]
