"""Medians of each version: ``python -m benchmarks.medians`` writes docs/evaluation/history.md and its pictures.

`make bench` records the medians of its run in benchmarks/history/VERSION.json, without the name of the machine: times
of two machines are not comparable, so rows are kept apart by instruction set and number of threads, and the page
compares ratios to the peers. A row that is measured again replaces the former one of the same version.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from benchmarks.environment import ROOT
from benchmarks.results import OURS, Result
from benchmarks.summary import table
from benchmarks.workloads import EAGER
from xclbin_build import atomic_file

FOLDER = ROOT / "benchmarks/history"
PAGE = ROOT / "docs/evaluation/history.md"
INTRODUCTION = """\
# Speed of the versions

For users and contributors who want to know how the speed of the emulator develops. `make bench` records the medians of
a run in `benchmarks/history`, one file for each version. `python -m benchmarks.medians` makes this page of the files.
[Benchmarks](../benchmarks.md) describes suites and method. No figure comes from an FPGA card.

A ratio is the time of the peer divided by ours, so above 1 the emulator is faster. Compare ratios rather than times:
two versions may have been measured on two machines.
"""
Entry = dict[str, Any]


def record(result: Result, isa: str, folder: Path = FOLDER) -> Path | None:
    """Adds a result's medians to the file of its version; None if it has no median of ours.

    isa: the instruction set that the emulator's kernels were compiled for.
    """
    version = result.environment["packages"].get("fpga_dynamo")
    rows = {row.name: row for row in result.rows if OURS in row.timings}
    if version is None or not rows:
        return None
    path = folder / f"{version}.json"
    entry: Entry = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"version": version, "suites": {}}
    setting = f"{isa}, {result.environment['threads']} threads"
    measured = entry["suites"].setdefault(result.suite, {}).setdefault(setting, {})
    for name, row in rows.items():
        measured[name] = {
            "date": result.environment["time"][:10],
            "ms": round(row.timings[OURS].median * 1e3, 4),
            "ratios": {peer: round(ratio, 3) for peer, ratio in row.ratios().items()},
        }
    folder.mkdir(parents=True, exist_ok=True)
    atomic_file.write(path, json.dumps(entry, indent=1, sort_keys=True) + "\n", durable=True)
    return path


def entries(folder: Path = FOLDER) -> list[Entry]:
    """All versions, the oldest first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    return sorted(found, key=lambda entry: [int(part) for part in re.findall(r"\d+", entry["version"])])


def page(found: Sequence[Entry]) -> str:
    """The page: for each suite and setting a picture, and a table with a row for each name and version."""
    sections = [INTRODUCTION]
    for suite, setting in _settings(found):
        sections.append(f"## {suite}, {setting}\n")
        if _drawn(found, suite, setting):
            sections.append(f"![Ratios to eager mode by version](history/{_file(suite, setting)})\n")
        peers = sorted({peer for _, _, row in _rows(found, suite, setting) for peer in row["ratios"]})
        head = ["", "version", "date", "ours", *(f"{peer} / ours" for peer in peers)]
        body = [
            [name, version, row["date"], f"{row['ms']:.2f} ms", *(_ratio(row["ratios"].get(peer)) for peer in peers)]
            for name, version, row in _rows(found, suite, setting)
        ]
        sections.append(f"`python -m benchmarks {suite}`, medians:\n\n{table(head, body)}")
    return "\n".join(sections)


def draw(found: Sequence[Entry], folder: Path) -> None:
    """A picture for each suite and setting: the ratio of each row to eager mode, a bar for each version."""
    folder.mkdir(parents=True, exist_ok=True)
    versions = [entry["version"] for entry in found]
    for suite, setting in _settings(found):
        if not (rows := _drawn(found, suite, setting)):
            continue
        names = list(dict.fromkeys(name for name, _, _ in rows))
        height = 0.8 / len(versions)
        with rc_context({"svg.hashsalt": "history", "svg.fonttype": "none"}):  # equal figures give equal files
            figure = Figure(figsize=(8, 1 + 0.3 * len(rows)), layout="constrained")
            FigureCanvasSVG(figure)
            axes = figure.add_subplot()
            for number, version in enumerate(versions):
                bars = [(names.index(name), row["ratios"][EAGER]) for name, other, row in rows if other == version]
                places = [place + number * height for place, _ in bars]
                drawn = axes.barh(places, [ratio for _, ratio in bars], height=height, label=version)
                axes.bar_label(drawn, fmt="%.2f", padding=2, fontsize=7)
            axes.set_yticks([place + (len(versions) - 1) * height / 2 for place in range(len(names))], names)
            axes.invert_yaxis()
            axes.axvline(1.0, color="black", linewidth=0.8)
            axes.set_xlabel("time of eager mode / ours")
            axes.set_title(f"{suite}, {setting}", fontsize=10)
            axes.legend(title="version", fontsize=7)
            figure.savefig(folder / _file(suite, setting), format="svg", metadata={"Date": None})


def _settings(found: Sequence[Entry]) -> list[tuple[str, str]]:
    return sorted({(suite, setting) for entry in found for suite, by in entry["suites"].items() for setting in by})


def _rows(found: Sequence[Entry], suite: str, setting: str) -> list[tuple[str, str, Entry]]:
    """Name, version and figures of each row; the versions of a name stand together."""
    rows = [
        (name, entry["version"], row)
        for entry in found
        for name, row in entry["suites"].get(suite, {}).get(setting, {}).items()
    ]
    order = {name: place for place, name in enumerate(dict.fromkeys(name for name, _, _ in rows))}
    return sorted(rows, key=lambda row: order[row[0]])


def _drawn(found: Sequence[Entry], suite: str, setting: str) -> list[tuple[str, str, Entry]]:
    """The rows that were measured beside eager mode."""
    return [row for row in _rows(found, suite, setting) if EAGER in row[2]["ratios"]]


def _file(suite: str, setting: str) -> str:
    return re.sub(r"[^a-z0-9+]+", "-", f"{suite} {setting}".lower()) + ".svg"


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the page and the pictures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.medians", description=__doc__)
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args(arguments)
    found = entries()
    draw(found, given.page.parent / "history")
    given.page.write_text(page(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
