"""A page with the timeline of a co-simulation."""

from __future__ import annotations

import html
from typing import Any

from . import report
from .simulate import Settings

_WIDTH, _ROW, _LEFT = 1000, 24, 180
_COLORS = {"read": "#e8a33d", "write": "#d1495b", "memory": "#8d6bb8"}
_LEGEND = {"busy": "#4a7fb5", "waits to read": "#e8a33d", "waits to write": "#d1495b", "waits for memory": "#8d6bb8"}


def page(found: dict[str, Any], settings: Settings) -> str:
    """HTML without other files: the report, and a bar for each process with the cycles in which it waits."""
    last = max((end for each in found["processes"] for _, end in each["spans"]), default=0) or 1
    rows = [_row(each, number, last) for number, each in enumerate(found["processes"])]
    height = _ROW * len(rows) + 30
    places = [(_LEFT + _WIDTH * part / 4, round(last * part / 4)) for part in range(5)]
    axis = "".join(f'<text x="{x:.0f}" y="{height - 6}">{cycle:,}</text>' for x, cycle in places)
    legend = " ".join(f'<span style="color:{color}">&#9632;</span> {name}' for name, color in _LEGEND.items())
    title = f"{html.escape(settings.top)}: co-simulation"
    return (
        f"<!doctype html><meta charset=utf-8><title>{title}</title><style>body{{font-family:sans-serif}}"
        f"svg text{{font-size:12px}}</style><h1>{title}</h1>"
        f'<p>{legend}</p><svg width="{_LEFT + _WIDTH + 60}" height="{height}">{"".join(rows)}{axis}</svg>'
        f"<pre>{html.escape(report.text(found, 160))}</pre>\n"
    )


def _row(each: dict[str, Any], number: int, last: int) -> str:
    top = number * _ROW
    parts = [f'<text x="0" y="{top + 15}">{html.escape(each["name"])}</text>']
    parts += [_bar(begin, end, top, last, _LEGEND["busy"], "") for begin, end in each["spans"]]
    parts += [_bar(begin, end, top, last, _COLORS[way], f"{way} {thing}") for begin, end, thing, way in each["stalls"]]
    return "".join(parts)


def _bar(begin: int, end: int, top: int, last: int, color: str, what: str) -> str:
    x, width = _LEFT + _WIDTH * begin / last, max(0.5, _WIDTH * (end - begin) / last)
    tip = f"<title>{html.escape(what)} {begin:,} to {end:,}</title>"
    return f'<rect x="{x:.1f}" y="{top + 3}" width="{width:.1f}" height="{_ROW - 6}" fill="{color}">{tip}</rect>'
