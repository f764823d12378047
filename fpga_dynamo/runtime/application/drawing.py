"""An application as a picture: tasks in columns by their depth, coloured by what can run them, edges between."""

from __future__ import annotations

from xml.sax.saxutils import escape

from fpga_dynamo.runtime.application.graph import Application, ApplicationTask

WIDTH, HEIGHT, ACROSS, DOWN, MARGIN = 150, 34, 200, 46, 16
"""Of a box, from one box to the next, and around: pixels."""

HOST = "#e8e8e8"
COLOURS = ("#bcd9f5", "#cdeac0", "#fde2b3", "#f5c6d6", "#dccff0", "#c9ece9")
"""Of the kernels, in the order in which they first occur."""


def to_svg(application: Application) -> str:
    """The picture as SVG. A task lies a column behind the last of those that it depends on; its tip names its costs."""
    depth: list[int] = []
    rows: dict[int, int] = {}
    places: list[tuple[int, int]] = []
    for task in application.tasks:
        column = 1 + max((depth[edge.task] for edge in task.dependencies), default=-1)
        depth.append(column)
        row = rows.get(column, 0)
        rows[column] = row + 1
        places.append((MARGIN + column * ACROSS, MARGIN + row * DOWN))
    kernels = list(dict.fromkeys(task.kernel for task in application.tasks if task.kernel))
    width = 2 * MARGIN + WIDTH + ACROSS * max(depth, default=0)
    height = 2 * MARGIN + DOWN * max(rows.values(), default=1)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="Helvetica, Arial, sans-serif" font-size="10">',
        f"<title>{escape(application.name)}</title>",
    ]
    for task, (x, y) in zip(application.tasks, places, strict=True):
        for edge in task.dependencies:
            (a, b), half = places[edge.task], HEIGHT / 2
            start, middle = a + WIDTH, (a + WIDTH + x) / 2
            path = f"M{start},{b + half} C{middle:g},{b + half} {middle:g},{y + half} {x},{y + half}"
            lines.append(f'<path d="{path}" fill="none" stroke="#888"><title>{edge.bytes} bytes</title></path>')
    for task, (x, y) in zip(application.tasks, places, strict=True):
        fill = COLOURS[kernels.index(task.kernel) % len(COLOURS)] if task.kernel else HOST
        lines += [
            f"<g><title>{escape(_tip(task))}</title>",
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="4" fill="{fill}" stroke="#555"/>',
            f'<text x="{x + 6}" y="{y + 14}">{escape(_short(task.name, 26))}</text>',
            f'<text x="{x + 6}" y="{y + 27}" fill="#555">{escape(_short(task.kernel or "host", 10))}</text></g>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def _tip(task: ApplicationTask) -> str:
    costs = "; ".join(f"{kind} {seconds * 1e6:.3g} us" for kind, seconds in task.seconds.items())
    return f"{task.name}: {costs}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
