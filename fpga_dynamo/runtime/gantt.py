"""A Gantt chart of a trace: a row per processing element, a colour per program."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

if TYPE_CHECKING:
    from .trace import PathLike, TaskEvent, TraceRecorder

WIDTH = 12.0  # inches
ROW = 0.5  # inches per PE
BAR = 0.72  # share of a row
DPI = 130
OUTLINED_EVENTS = 400  # with more bars than this their outlines would hide their colours
FONT = 8  # points
_TAB20 = [colormaps["tab20"](number) for number in range(20)]
_STRONG, _PALE = _TAB20[0::2], _TAB20[1::2]
OTHERS = _PALE[7]  # grey, so no program has it for itself
PALETTE = [*_STRONG[:7], *_STRONG[8:], *_PALE[:7], *_PALE[8:]]
CHARACTER = 0.62 * FONT / 72  # inches, about


def draw(trace: TraceRecorder, path: PathLike) -> Path:
    """Write a PNG to `path` and return the path. Does not touch pyplot's state, so any thread may call it."""
    tasks, rows = trace.tasks, trace.rows
    origin = min([event.start for event in tasks] + [event.arrival for event in trace.applications], default=0.0)
    end = max((event.stop for event in tasks), default=origin)
    span = max((end - origin) * 1e3, 1e-9)  # ms

    figure = Figure(figsize=(WIDTH, 1.5 + ROW * max(len(rows), 2)), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    colours = _colours(tasks)

    bars: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for event in tasks:
        bars[event.pe, event.program].append(((event.start - origin) * 1e3, (event.stop - event.start) * 1e3))
    outline = 0.6 if len(tasks) <= OUTLINED_EVENTS else 0.0
    for (pe, program), spans in bars.items():
        at = (rows.index(pe) - BAR / 2, BAR)
        axes.broken_barh(spans, at, facecolors=colours[program], edgecolor="white", linewidth=outline)
    for event in tasks:
        _label(axes, event, rows.index(event.pe), origin, span, colours[event.program])

    _decorate(axes, rows, tasks, span)
    handles = [Patch(color=colour, label=program) for program, colour in colours.items() if colour != OTHERS]
    if len(colours) > len(handles):
        handles.append(Patch(color=OTHERS, label=f"{len(colours) - len(handles)} shorter programs"))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6), frameon=False)
    path = Path(path)
    figure.savefig(path, format="png")
    return path


def _colours(tasks: list[TaskEvent]) -> dict[str, Any]:
    """A colour of its own for each program, by first appearance; of too many, only for those that run longest."""
    seconds: dict[str, float] = defaultdict(float)
    for event in tasks:
        seconds[event.program] += event.stop - event.start
    longest = set(sorted(seconds, key=lambda program: -seconds[program])[: len(PALETTE)])
    palette = iter(PALETTE)
    return {program: next(palette) if program in longest else OTHERS for program in seconds}


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _label(axes: Any, event: TaskEvent, row: int, origin: float, span: float, colour: Any) -> None:
    """Write the task's name into its bar if it fits there."""
    inches = (event.stop - event.start) * 1e3 / span * WIDTH * 0.8
    if inches < (len(event.task) + 1) * CHARACTER:
        return
    luminance = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]
    middle = ((event.start + event.stop) / 2 - origin) * 1e3
    style = {"ha": "center", "va": "center", "fontsize": FONT, "clip_on": True}
    axes.text(middle, row, event.task, color="black" if luminance > 0.5 else "white", **style)


def _decorate(axes: Any, rows: list[str], tasks: list[TaskEvent], span: float) -> None:
    busy: dict[str, float] = defaultdict(float)
    for event in tasks:
        busy[event.pe] += (event.stop - event.start) * 1e3
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)  # the first row on top
    axes.set_xlim(0, span)
    axes.set_xlabel("time (ms)")
    axes.set_axisbelow(True)
    axes.grid(axis="x", color="0.88")
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    for row, name in enumerate(rows):
        style = {"va": "center", "fontsize": FONT, "color": "0.35"}
        axes.text(1.008, row, f"{busy[name] / span:.0%} busy", transform=axes.get_yaxis_transform(), **style)
    programs = len({event.program for event in tasks})
    counts = f"{len(tasks)} task{'s' * (len(tasks) != 1)} of {programs} program{'s' * (programs != 1)}"
    axes.set_title(f"{counts}, {_short(span)} ms" if tasks else "no tasks", loc="left", fontsize=FONT + 2)
