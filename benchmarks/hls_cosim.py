"""Cycles of `xclbin-build cosim` beside those of published co-simulations (`hls_cosim.jsonl`).

    python -m benchmarks.hls_cosim --mirrors DIR [--only NAME] [--half untouched]

DIR has bare git repositories, owner+name/repo. A line of the jsonl is a design: its repository, commit and folder, its
sources, bench and top, the files to take (paths), the cycles of its log, and figures that its bench prints. half:
`calibration` for designs that were looked at while the simulation was made, `untouched` for those that were run once.
Prints a Markdown table; nothing of the sources.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_DESIGNS = Path(__file__).with_suffix(".jsonl")
_TOOL = Path(sys.executable).parent / "xclbin-build"


def designs(half: str | None = None) -> list[dict[str, Any]]:
    """The designs of the file, of one half if it is named."""
    found = [json.loads(line) for line in _DESIGNS.read_text().splitlines()]
    return [one for one in found if half is None or one["half"] == half]


def simulated(design: dict[str, Any], mirrors: Path, seconds: float) -> dict[str, Any]:
    """What the command says of a design: `found`, its JSON; `printed`, of the bench; `seconds`; or `error`."""
    git = mirrors / design["repo"].replace("/", "+") / "repo"
    with tempfile.TemporaryDirectory(prefix="hls-cosim-") as folder:
        archive = ["git", "--git-dir", str(git), "archive", design["commit"], "--"]
        archive += [f":(glob){path}" for path in design["paths"]]
        tree = subprocess.run(archive, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "x", "-C", folder], input=tree, check=True)
        own = Path(folder) / design["folder"]
        words = [*design["sources"], "-k", design["top"]]
        for bench in design["bench"]:
            words += ["--tb", bench]
        words += ["--part", design["part"], "--clock", str(design["clock_ns"]), "--flow", "vivado", "--json"]
        words += ["--vitis", design["version"]] if design["version"] else []
        begin = time.perf_counter()
        try:
            done = subprocess.run(
                [str(_TOOL), "cosim", *words], cwd=own, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return {"error": f"not finished after {seconds:g} s"}
        took = time.perf_counter() - begin
    if not done.stdout.startswith("{"):
        return {"error": (done.stderr.splitlines() or ["nothing printed"])[-1]}
    return {"found": json.loads(done.stdout), "printed": done.stderr, "seconds": took}


def _row(design: dict[str, Any], result: dict[str, Any]) -> tuple[str, bool]:
    """A row of the table, and whether its cycles are within 5 % and its results those of the hardware."""
    name = f"{design['repo']} {design['folder']}"
    if "error" in result:
        return f"| {name} | {design['cycles']} | | | {result['error']} | |", False
    found = result["found"]
    prints = [line for line in design["prints"] if line not in result["printed"]]
    same = "as published" if not prints else f"not {', '.join(prints)}"
    if design["deadlock"] or found["deadlock"]:
        right = bool(design["deadlock"]) == bool(found["deadlock"])
        return f"| {name} | deadlock | {'deadlock' if found['deadlock'] else found['cycles']} | | | |", right
    off = found["cycles"] / design["cycles"] - 1
    row = f"| {name} | {design['cycles']:,} | {found['cycles']:,} | {off:+.2%} | {same} | {result['seconds']:.1f} |"
    return row, abs(off) <= 0.05 and not prints


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hls_cosim", description=__doc__.splitlines()[0])
    parser.add_argument("--mirrors", type=Path, required=True, help="a folder of bare repositories")
    parser.add_argument("--only", default="", metavar="NAME", help="designs whose folder has this in it")
    parser.add_argument("--half", choices=("calibration", "untouched"))
    parser.add_argument("--seconds", type=float, default=120.0, help="for each design (120)")
    options = parser.parse_args(arguments)
    chosen = [one for one in designs(options.half) if options.only in one["folder"]]
    print("| design | published | simulated | difference | results | s |\n|---|--:|--:|--:|---|--:|")
    right = 0
    for design in chosen:
        row, good = _row(design, simulated(design, options.mirrors, options.seconds))
        right += good
        print(row, flush=True)
    print(f"\n{right} of {len(chosen)} designs are within 5 % with the published results")
    return 0 if right == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
