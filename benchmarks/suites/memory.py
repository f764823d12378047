"""How much memory a model takes: resident memory of processes of their own, and the card's regions.

The emulator's memory is host memory and so within the process's. `dynamo` shows what Dynamo and AOTAutograd take
with nothing behind them, which is no backend's doing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

import fpga_dynamo
from benchmarks import pictures
from benchmarks.pieces import FLOOR
from benchmarks.process import run
from benchmarks.results import OURS, Result, Row, Target
from benchmarks.rounds import describe
from benchmarks.suites import Settings, guarded
from benchmarks.workloads import EAGER, INDUCTOR, WORKLOADS
from fpga_dynamo import Options
from fpga_dynamo.runtime.cards.card import xclbin_path

SECONDS = 0.0  # nothing is timed here
NETWORKS = ("resnet50", "bert-tiny")
CONTESTANTS = (OURS, EAGER, FLOOR, INDUCTOR)
_ARENA_LIMIT = 1.2


def rows(settings: Settings, details: dict[str, Any]) -> Iterator[Row]:
    names = NETWORKS[1:] if settings.quick and not settings.only else settings.chosen(NETWORKS)
    for name in names:
        yield from guarded(name, partial(_measure, name, settings))


def _measure(name: str, settings: Settings, row: Row) -> None:
    xclbin = str(xclbin_path(Options()).resolve())
    variables = {"FPGA_DYNAMO_LANES": str(settings.threads)}
    for contestant in CONTESTANTS[:2] if settings.quick else CONTESTANTS:
        asked = {"workload": name, "contestant": contestant, "threads": settings.threads, "xclbin": xclbin}
        with tempfile.TemporaryDirectory() as folder:
            try:
                figures = run("memory", Path(folder), variables, **asked)
            except Exception as error:
                row.failures[contestant] = describe(error)
                continue
        row.figures |= {f"{contestant}_{figure}": value for figure, value in figures.items()}
    row.figures |= _planned(name)
    row.targets += _targets(row.figures)


def _planned(name: str) -> dict[str, float]:
    """What lowering says of the card's memory; `live_bytes` is the lower bound of the arena."""
    torch.compiler.reset()
    model, x = WORKLOADS[name].make()
    explained = fpga_dynamo.explain(model, x)
    sums = {"arena_bytes": 0, "live_bytes": 0, "weight_bytes": 0}
    for graph in explained.graphs:
        for figure in sums:
            sums[figure] += getattr(graph, figure, 0)
    parameters = sum(p.numel() * p.element_size() for p in model.parameters())
    return {**sums, "parameter_bytes": parameters}


def _targets(figures: dict[str, float]) -> list[Target]:
    targets = []
    if figures.get("live_bytes"):
        ratio = figures["arena_bytes"] / figures["live_bytes"]
        targets.append(Target("arena over its lower bound", ratio, _ARENA_LIMIT, "at most"))
    ours, eager = figures.get(f"{OURS}_warm_peak_bytes"), figures.get(f"{EAGER}_warm_peak_bytes")
    if ours and eager:
        allowed = eager + figures["weight_bytes"] + figures["arena_bytes"]
        what = "MB at most when warm, eager mode's + packed weights + arena"
        targets.append(Target(what, ours / 1e6, allowed / 1e6, "at most"))
    return targets


def draw(result: Result, path: Path) -> None:
    pictures.memory(result, path, CONTESTANTS)
