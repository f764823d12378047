"""A Gantt chart of a trace: a row per processing element, with its tasks and, in launches, the commands by layer.

A task is a bar in its program's colour. In a launch whose commands are known they fill the bar, in the colours of
their cores, and the program's colour is a strip below them. Whatever is drawn is at least a pixel wide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fpga_dynamo.plotting import Figure, FigureCanvasAgg, Line2D, Patch, colormaps
from fpga_dynamo.runtime.observe.events import ApplicationEvent, CommandEvent, PathLike, TaskEvent
from xclbin_build import atomic_file


class DrawnTrace(Protocol):
    """What is drawn: a recorder's events, and the PEs' names in the order of their rows."""

    @property
    def tasks(self) -> list[TaskEvent]: ...

    @property
    def commands(self) -> list[CommandEvent]: ...

    @property
    def applications(self) -> list[ApplicationEvent]: ...

    @property
    def rows(self) -> list[str]: ...

    @property
    def in_card_time(self) -> bool: ...


WIDTH = 12.0  # inches
ROW = 0.5  # inches per PE
TALL, MOST_TALL = 1.4, 8  # inches, where commands have names; of at most so many PEs
BAR = 0.76  # share of a row
STRIP = 0.12  # share of a bar that the task keeps below its commands
DPI = 130
NARROWEST = 500  # a bar is at least such a part of the axes: over two pixels of a PNG, one of an SVG
FONT, SMALL = 8, 6  # points; the small one is for upright text
CHARACTER = 0.62 / 72  # inches for each point of the font, about
_TAB20 = [colormaps["tab20"](number) for number in range(20)]
_STRONG, _PALE = _TAB20[0::2], _TAB20[1::2]
OTHERS = _PALE[7]  # grey, so no program has it for itself
PALETTE = [*_STRONG[:7], *_STRONG[8:], *_PALE[:7], *_PALE[8:]]
CORES = [colormaps["Set2"](number) for number in range(8)] + [colormaps["Dark2"](number) for number in range(8)]


@dataclass(frozen=True)
class _Bar:
    """A rectangle, in ms and rows, and the text that goes into it if there is room; gid: of its group in an SVG."""

    begin: float
    end: float
    bottom: float
    height: float
    colour: Any
    text: str
    gid: str


def picture_format(path: PathLike) -> str:
    """The format of a picture with such a name: png if it has no ending. ValueError for one that nothing draws."""
    wanted = Path(path).suffix.removeprefix(".").lower() or "png"
    known = sorted(FigureCanvasAgg(Figure()).get_supported_filetypes())
    if wanted not in known:
        raise ValueError(
            f"cannot draw a picture called {Path(path).name}: its file extension must be one of {', '.join(known)}"
        )
    return wanted


def draw(trace: DrawnTrace, path: PathLike, begin: float | None = None, end: float | None = None) -> Path:
    """Draws the trace from `begin` to `end` (ms) into a file; see :meth:`~fpga_dynamo.trace.gantt`.

    Does not touch pyplot's state, so any thread may call it.
    """
    path = Path(path)
    wanted = picture_format(path)
    with atomic_file.opened(path, durable=True) as file:
        render(trace, begin, end).savefig(file, format=wanted)
    return path


def render(trace: DrawnTrace, begin: float | None = None, end: float | None = None) -> Figure:
    """The figure that :func:`draw` saves."""
    tasks, rows = trace.tasks, trace.rows
    starts = [event.start for event in tasks] + [event.arrival for event in trace.applications]
    origin = min(starts, default=0.0)
    last = max((max((event.stop for event in tasks), default=origin) - origin) * 1e3, 1e-9)
    begin, end = begin or 0.0, last if end is None else end
    if not begin < end or begin >= last or end <= 0:
        raise ValueError(f"there is nothing to draw from {begin:g} to {end:g} ms: the trace is {last:g} ms long")

    def milliseconds(time: float) -> float:
        return (time - origin) * 1e3

    def overlaps(event: Any) -> bool:
        return milliseconds(event.start) <= end and milliseconds(event.stop) >= begin

    tasks = [event for event in tasks if overlaps(event)]
    commands = [event for event in trace.commands if overlaps(event) and event.pe in rows]
    row = TALL if commands and len(rows) <= MOST_TALL else ROW
    figure = Figure(figsize=(WIDTH, 1.8 + row * max(len(rows), 2)), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    colours = _colours(tasks)
    cores = dict(zip(dict.fromkeys(event.name for event in commands), _endless(CORES), strict=False))
    detailed = {event.arguments.get("task") for event in commands}

    bars: list[_Bar] = []
    for event in tasks:
        top, height = rows.index(event.pe) - BAR / 2, BAR
        text = f"{event.task}: {event.arguments['ops']}" if event.arguments.get("ops") else event.task
        if event.task in detailed:
            top, height, text = top + BAR * (1 - STRIP), BAR * STRIP, ""
        span = milliseconds(event.start), milliseconds(event.stop)
        bars.append(_Bar(*span, top, height, colours[event.program], text, f"task {event.task}"))
    for command in commands:
        layer = str(command.arguments.get("layer") or command.name)
        top, height = rows.index(command.pe) - BAR / 2, BAR * (1 - STRIP)
        span = milliseconds(command.start), milliseconds(command.stop)
        bars.append(_Bar(*span, top, height, cores[command.name], layer, f"command {layer} {command.name}"))
    _draw_bars(axes, bars, begin, end, row)

    arrivals = [event for event in trace.applications if begin <= milliseconds(event.arrival) <= end]
    for arrival in arrivals:
        colour = colours.get(arrival.program, OTHERS)
        at = milliseconds(arrival.arrival)
        axes.plot([at], [-0.5], marker="v", color=colour, markersize=6, clip_on=False, zorder=5, gid="arrival")
    _decorate(axes, rows, tasks, origin, begin, end, trace.in_card_time)
    models = {event.program: event.model for event in trace.applications}
    handles = _legend(colours, models, cores, bool(arrivals))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6), frameon=False)
    return figure


def _draw_bars(axes: Any, bars: Sequence[_Bar], begin: float, end: float, row: float) -> None:
    """The shortest last, so that none is hidden by a longer one; `row`: inches of a row."""
    narrowest = (end - begin) / NARROWEST
    groups: dict[tuple[float, float, Any], list[tuple[float, float]]] = defaultdict(list)
    short: list[tuple[_Bar, float]] = []
    for bar in sorted(bars, key=lambda bar: bar.begin - bar.end):
        width = max(bar.end - bar.begin, narrowest)
        if width > narrowest:
            # What follows at once is told apart by a gap within the bar: an outline would hide short neighbours.
            gap = narrowest / 3 if width > 4 * narrowest else 0.0
            groups[bar.bottom, bar.height, bar.colour].append((bar.begin, width - gap))
            _write(axes, bar, begin, end, row)
        else:
            short.append((bar, width))
    for (bottom, height, colour), spans in groups.items():
        axes.broken_barh(spans, (bottom, height), facecolors=colour, linewidth=0, zorder=2)
    for bar, width in short:
        axes.broken_barh(
            [(min(bar.begin, end - width), width)],
            (bar.bottom, bar.height),
            facecolors=bar.colour,
            linewidth=0,
            zorder=3,
            gid=bar.gid,
        )


def _write(axes: Any, bar: _Bar, begin: float, end: float, row: float) -> None:
    """The bar's text: across, else upright, else the last parts of a path across; nothing if there is no room."""
    left, right = max(bar.begin, begin), min(bar.end, end)
    width, height = (right - left) / (end - begin) * WIDTH * 0.8, bar.height * row  # inches
    room, upright, text = int(width / (CHARACTER * FONT)) - 1, False, bar.text
    if len(text) > room:
        upright = width * 72 > SMALL * 1.4 and len(text) < height / (CHARACTER * SMALL)
        while not upright and len(text) > room and "." in text and ":" not in text:
            text = text.partition(".")[2]
    if not text or not (upright or len(text) <= room):
        return
    red, green, blue = bar.colour[:3]
    dark = 0.299 * red + 0.587 * green + 0.114 * blue <= 0.5
    style: dict[str, Any] = {"ha": "center", "va": "center", "clip_on": True, "zorder": 4}
    style |= {"rotation": 90, "fontsize": SMALL} if upright else {"fontsize": FONT}
    axes.text((left + right) / 2, bar.bottom + bar.height / 2, text, color="white" if dark else "black", **style)


def _colours(tasks: list[TaskEvent]) -> dict[str, Any]:
    """A colour of its own for each program, by first appearance; of too many, only for those that run longest."""
    seconds: dict[str, float] = defaultdict(float)
    for event in tasks:
        seconds[event.program] += event.stop - event.start
    longest = set(sorted(seconds, key=lambda program: -seconds[program])[: len(PALETTE)])
    palette = iter(PALETTE)
    return {program: next(palette) if program in longest else OTHERS for program in seconds}


def _endless(colours: Sequence[Any]) -> Iterable[Any]:
    while True:
        yield from colours


def _legend(colours: dict[str, Any], models: dict[str, str], cores: dict[str, Any], arrivals: bool) -> list[Any]:
    """Programs with the names of their models, what arrivals look like, and cores."""
    handles: list[Any] = [
        Patch(color=colour, label=f"{program}: {models[program]}" if models.get(program) else program)
        for program, colour in colours.items()
        if colour != OTHERS
    ]
    if len(colours) > len(handles):
        handles.append(Patch(color=OTHERS, label=f"{len(colours) - len(handles)} shorter programs"))
    if arrivals:
        handles.append(Line2D([], [], color="0.3", marker="v", linestyle="", label="arrival"))
    return handles + [Patch(color=colour, label=f"core {core}") for core, colour in cores.items()]


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _decorate(
    axes: Any,
    rows: list[str],
    tasks: list[TaskEvent],
    origin: float,
    begin: float,
    end: float,
    in_card_time: bool,
) -> None:
    busy: dict[str, float] = defaultdict(float)
    for event in tasks:
        seen = min((event.stop - origin) * 1e3, end) - max((event.start - origin) * 1e3, begin)
        busy[event.pe] += max(seen, 0.0)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)  # the first row on top
    axes.set_xlim(begin, end)
    axes.set_xlabel("time (ms); the length of a launch is its simulated cycles" if in_card_time else "time (ms)")
    axes.set_axisbelow(True)
    axes.grid(axis="x", color="0.88")
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    for row, name in enumerate(rows):
        style = {"va": "center", "fontsize": FONT, "color": "0.35"}
        share = busy[name] / (end - begin)
        axes.text(1.008, row, f"{share:.0%} busy", transform=axes.get_yaxis_transform(), **style)
    programs = len({event.program for event in tasks})
    counts = f"{len(tasks)} task{'s' * (len(tasks) != 1)} of {programs} program{'s' * (programs != 1)}"
    title = f"{counts}, {_short(end - begin)} ms" if tasks else "no tasks"
    axes.set_title(title, loc="left", fontsize=FONT + 2, pad=10)
