"""The README's table of speeds: ``python -m benchmarks.readme models.json ... [--into README.md]``.

It is made from results of the suite `models`, which may have been measured in pieces; of a network that several have,
the last one counts. Without `--into` it is printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.results import OURS, Result, Row
from benchmarks.summary import table
from benchmarks.workloads import EAGER, FREEZING, OPENVINO, WORKLOADS

PEERS = (EAGER, FREEZING, OPENVINO)
INTRODUCTION = """\
Time of one call on the emulator's cores, with Dynamo, guards and outputs, and the time of each peer divided by ours. A
ratio above 1 means that the emulator is faster. Medians of interleaved rounds in one process, on one machine, with
random weights. Ratios differ between CPUs.
"""
BEGIN, END = "<!-- speeds: written by python -m benchmarks.readme -->", "<!-- end of speeds -->"


def section(results: Sequence[Result]) -> str:
    """What the figures are, where they were measured, and the table of networks: our time, the peers' over it.

    Raises ValueError for results of another suite, of two machines or of two settings of threads.
    """
    if any(result.suite != "models" for result in results):
        raise ValueError("the table is made from results of the suite 'models'")
    places = {(result.environment["cpu"], result.environment["threads"]) for result in results}
    if len(places) != 1:
        raise ValueError(f"one table is one machine's with one number of threads, not {len(places)}")
    ((cpu, threads),) = places
    rows = {row.name: row for result in results for row in result.rows if OURS in row.timings}
    versions = ", ".join(f"{name} {version}" for name, version in results[-1].environment["packages"].items())
    head = ["float32, batch size 1 unless noted", "ours", *(f"{peer} / ours" for peer in PEERS)]
    body = [_cells(rows[name]) for name in WORKLOADS if name in rows]
    return f"{INTRODUCTION}\n{cpu}, {threads} threads against {threads} lanes; {versions}.\n\n{table(head, body)}"


def _cells(row: Row) -> list[str]:
    ratios: Mapping[str, float] = row.ratios()
    return [
        row.name,
        f"{row.timings[OURS].median * 1e3:.2f} ms",
        *(f"{ratios[peer]:.2f}" if peer in ratios else "-" for peer in PEERS),
    ]


def replaced(text: str, new: str) -> str:
    """`text` with `new` between the two marks. Raises ValueError if they are not there."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no place for the table: '{BEGIN}' and '{END}' mark it")
    return f"{before}{begin}\n{new}\n{end}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readme", description=__doc__)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--into", type=Path, help="file that has the marks; printed if left out")
    given = parser.parse_args(arguments)
    try:
        text = section([Result.load(path) for path in given.results])
        if given.into is None:
            print(text, end="")
        else:
            given.into.write_text(replaced(given.into.read_text(encoding="utf-8"), text), encoding="utf-8")
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
