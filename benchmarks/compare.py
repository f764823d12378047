"""Two results of one suite as ratios: ``python -m benchmarks.compare before.json after.json``.

The peers are the control: what they have changed by is the machine's doing, and `ours, corrected` has it divided out.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import CARD, OURS, Result, Row
from benchmarks.rounds import Timing
from benchmarks.summary import table

WHOSE = (OURS, CARD)


@dataclass(frozen=True)
class Change:
    """before / after of a row's medians, so that above 1 it has become faster; None where one side was not measured.

    control: the median change of the peers.
    """

    name: str
    ours: float | None
    card: float | None
    control: float | None

    @property
    def corrected(self) -> float | None:
        best = self.ours if self.ours is not None else self.card
        return None if best is None else best / (self.control or 1.0)


def compare(before: Result, after: Result) -> list[Change]:
    """The changes of the rows that both have. Raises ValueError for results of two suites."""
    if before.suite != after.suite:
        raise ValueError(f"these are results of two suites, {before.suite} and {after.suite}")
    former = {row.name: row for row in before.rows}
    return [_change(former[row.name], row) for row in after.rows if row.name in former]


def _change(before: Row, after: Row) -> Change:
    changes = _speed_ups(before.timings, after.timings)
    peers = [ratio for name, ratio in changes.items() if name not in WHOSE]
    return Change(after.name, changes.get(OURS), changes.get(CARD), statistics.median(peers) if peers else None)


def _speed_ups(before: Mapping[str, Timing], after: Mapping[str, Timing]) -> dict[str, float]:
    return {name: before[name].median / after[name].median for name in after if name in before}


def markdown(changes: Sequence[Change]) -> str:
    head = ["before / after", "ours", "ours in the card", "peers (control)", "ours, corrected"]
    body = [[c.name, *(_cell(v) for v in (c.ours, c.card, c.control, c.corrected))] for c in changes]
    corrected = [c.corrected for c in changes if c.corrected is not None]
    if corrected:
        body.append(["geometric mean", "", "", "", _cell(statistics.geometric_mean(corrected))])
    return table(head, body)


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    given = parser.parse_args(arguments)
    try:
        changes = compare(Result.load(given.before), Result.load(given.after))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print(markdown(changes), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
