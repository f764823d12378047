"""What a suite finds: rows of timings and figures, and their JSON.

A ratio is another contestant's time divided by ours, so that above 1 ours is the faster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.rounds import Measurement, Timing
from xclbin_build import atomic_file

OURS = "fpga"
CARD = "card"
"""Our time without what is around the card: Dynamo, Python, copies."""


@dataclass(frozen=True)
class Target:
    """A figure that is asked for: `what` ("over eager"), its `value`, and the `limit` that it must keep.

    ceiling: what the figure cannot exceed with as many products at this machine's peak, if that is known.
    """

    what: str
    value: float
    limit: float
    sense: Literal["at least", "at most"] = "at least"
    ceiling: float | None = None

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.sense == "at least" else self.value <= self.limit


@dataclass
class Row:
    """One line of a suite. `figures` are numbers whose names end in their unit (`arena_bytes`)."""

    name: str
    timings: dict[str, Timing] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)

    def add(self, measurement: Measurement) -> None:
        self.timings |= measurement.timings
        self.failures |= measurement.failures

    def ratios(self, ours: str = OURS) -> dict[str, float]:
        """Median of each other contestant over the median of `ours`; empty if `ours` was not measured."""
        if ours not in self.timings:
            return {}
        own = self.timings[ours].median
        return {name: timing.median / own for name, timing in self.timings.items() if name not in (OURS, CARD)}

    def demand(self, limits: Mapping[str, float], floor: float | None = None) -> None:
        """Adds a target "over PEER" for each peer in `limits` that was measured.

        floor: seconds that ours would take at the machine's peak.
        """
        for peer, limit in limits.items():
            ratio = self.ratios().get(peer)
            if ratio is not None:
                ceiling = self.timings[peer].median / floor if floor else None
                self.targets.append(Target(f"over {peer}", ratio, limit, ceiling=ceiling))

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "timings": {name: asdict(timing) for name, timing in self.timings.items()},
            "ratios": self.ratios(),
            "card_ratios": self.ratios(CARD),
            "figures": self.figures,
            "targets": [{**asdict(target), "met": target.met} for target in self.targets],
            "failures": self.failures,
            "details": self.details,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Row:
        targets = [Target(**{k: v for k, v in target.items() if k != "met"}) for target in data["targets"]]
        timings = {name: Timing(**timing) for name, timing in data["timings"].items()}
        return cls(data["name"], timings, dict(data["figures"]), targets, dict(data["failures"]), dict(data["details"]))


@dataclass
class Result:
    """A suite's rows, where they were measured, and with which settings. `error`: why the suite ended early."""

    suite: str
    environment: dict[str, Any]
    settings: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "suite": self.suite,
            "environment": self.environment,
            "settings": self.settings,
            "rows": [row.to_dict() for row in self.rows],
            "details": self.details,
            "error": self.error,
        }

    def save(self, folder: Path) -> Path:
        """Writes SUITE.json into the folder; returns its path."""
        path = folder / f"{self.suite}.json"
        atomic_file.write(path, json.dumps(self.to_dict(), indent=1) + "\n", durable=True)
        return path

    @classmethod
    def load(cls, path: Path) -> Result:
        """Raises ValueError if :meth:`save` did not write the file."""
        data = json.loads(path.read_text(encoding="utf-8"))
        try:
            rows = [Row.from_dict(row) for row in data["rows"]]
            return cls(data["suite"], data["environment"], data["settings"], rows, data["details"], data["error"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} is no result of benchmarks: {error}") from error
