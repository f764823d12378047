"""`xclbin-build report`: what Vitis said of a build, or what an xclbin keeps of it, as text, HTML or JSON."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import jinja2
from rich.console import Console

from .. import atomic_file
from ..arguments import output_file
from ..axlf import MAGIC, read
from ..command_line import parse
from ..errors import RecipeError
from ..flow import csynth, implementation
from ..hls.resources import NAMES
from ..trusted_path import printable

_PAGE = Path(__file__).with_name("report.html.j2")


def run(words: list[str]) -> int:
    """Runs the command; 0 if all clocks are met, else 1."""
    parser = argparse.ArgumentParser(
        prog="xclbin-build report",
        description="Shows what Vitis said of a build: clocks, loops, resources, timing, times of steps. Returns 1 if "
        "a clock is missed.",
    )
    parser.add_argument("place", type=Path, help="a folder with reports of Vitis, or an xclbin that it built")
    parser.add_argument("--html", type=output_file, metavar="FILE", help="write a page")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parse(parser, words)
    found = document(options.place)
    if options.html:
        environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
        page = environment.from_string(_PAGE.read_text()).render(d=found, names=list(NAMES.values()))
        atomic_file.write(options.html, page)
    if options.json:
        print(json.dumps(found, indent=1))
    elif not options.html:
        _show(found, Console(width=None if sys.stdout.isatty() else 400))
    met = [kernel["meets_clock"] for kernel in found["kernels"]] + [one["met"] for one in found["timing"]]
    return 0 if all(met) else 1


def document(place: Path) -> dict[str, Any]:
    """The report as JSON. Raises RecipeError for a place without one, XclbinError for a file that is no xclbin."""
    if place.is_file():
        return _of_xclbin(place)
    if not place.is_dir():
        raise RecipeError(f"{printable(place)} does not exist; name a folder with reports of Vitis, or an xclbin.")
    kernels = [
        one.table() | {"loops": [{"module": loop.module, "name": loop.name, "ii": loop.ii, "depth": loop.depth}
                                 for loop in one.loops]}
        for one in csynth.load(place)
    ]  # fmt: skip
    timing, utilization = implementation.timing_in(place), implementation.utilization_in(place)
    if not kernels and not timing and not utilization:
        raise RecipeError(
            f"{printable(place)} has no report of Vitis (csynth.xml, timing and utilization); name another."
        )
    used = {one.path.name: one.whole.table() for one in utilization if one.whole}
    used |= {name: figures.table() for one in utilization for name, figures in one.kernels.items()}
    return {
        "name": place.name,
        "kernels": kernels,
        "timing": [{"report": one.path.name, "slack_ns": one.slack_ns, "met": one.met} for one in timing],
        "implementation": used,
        "steps": _steps(place),
    }


def _of_xclbin(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        begin = file.read(len(MAGIC))
    if begin != MAGIC:
        raise RecipeError(f"{printable(path)} is neither an xclbin nor a folder with reports of Vitis.")
    manifest = read(path).manifest
    synthesis = manifest.get("synthesis", {})
    if not synthesis:
        raise RecipeError(
            f"{printable(path)} was built for {manifest['target']} and keeps no result of synthesis; only builds with "
            "Vitis do."
        )
    return {
        "name": path.name,
        "kernels": [
            {"top": name, "target_ns": one["target_ns"], "estimated_ns": one["estimated_ns"], "part": "", "version": "",
             "meets_clock": one["estimated_ns"] <= one["target_ns"], "resources": {},
             "loops": [{"module": "", "name": label, **loop} for label, loop in one["loops"].items()]}
            for name, one in synthesis.items()
        ],
        "timing": [],
        "implementation": {},
        "steps": {},
    }  # fmt: skip


def _steps(folder: Path) -> dict[str, float]:
    """Seconds of the steps of a build in this folder."""
    found: dict[str, float] = {}
    for path in sorted((folder / "stamps").glob("*.json")):
        try:
            found[path.stem] = float(json.loads(path.read_text())["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def _show(found: dict[str, Any], console: Console) -> None:
    for kernel in found["kernels"]:
        state = "meets" if kernel["meets_clock"] else "misses"
        used = ", ".join(f"{value:g} {name}" for name, value in kernel["resources"].items() if value)
        head = f"{kernel['top']}: {state} the clock of {kernel['target_ns']:g} ns with {kernel['estimated_ns']:g} ns"
        _line(console, f"{head}; {used}" if used else head)
        for loop in kernel["loops"]:
            if loop["ii"]:
                name = f"{loop['module']}.{loop['name']}" if loop["module"] else loop["name"]
                _line(console, f"  {name}: II {loop['ii']}, depth {loop['depth'] or '?'}")
    for one in found["timing"]:
        _line(console, f"{one['report']}: worst slack {one['slack_ns']:g} ns")
    for name, used in found["implementation"].items():
        _line(console, f"{name}: " + ", ".join(f"{value:g} {key}" for key, value in used.items()))
    for name, seconds in found["steps"].items():
        _line(console, f"step {name}: {seconds:g} s")


def _line(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
