"""How much single calls differ: graphs of launches and eager nodes, small ones and two long branches.

Each call is timed by itself, in blocks that take turns: what a user waits for now and then is in the 95th percentile.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from benchmarks import pictures
from benchmarks.results import OURS, Result, Row, Target
from benchmarks.rounds import SETTLE, Timing
from benchmarks.suites import Settings, guarded
from benchmarks.verify import cases, check
from benchmarks.workloads import EAGER

SECONDS = 5.0
DYNAMO = "aot_eager"
"""Dynamo and AOTAutograd with eager behind them: what a compiled call of eager nodes cannot be below."""
BLOCK = 0.02
"""Seconds of calls of one contestant in a row."""
_SPREAD_LIMIT = 1.3

Graph = Callable[[Tensor], tuple[Tensor, Tensor]]


def rows(settings: Settings, details: dict[str, Any]) -> Iterator[Row]:
    names = ["small"] if settings.quick and not settings.only else settings.chosen(list(GRAPHS))
    for name in names:
        yield from guarded(name, partial(_measure, *GRAPHS[name], settings))


def _small() -> tuple[Graph, Tensor]:
    """Two chains of which the cores support the last node, each in some microseconds."""
    w = torch.randn(64, 64, dtype=torch.complex64)

    def graph(x: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.view_as_complex(x)
        return (x @ w).abs().relu(), torch.fft.fft(x).real.tanh()

    return graph, torch.randn(32, 64, 2)


def _long() -> tuple[Graph, Tensor]:
    """Two chains on the host that are worth a thread each."""
    w = torch.randn(256, 256, dtype=torch.complex64) / 256

    def graph(x: Tensor) -> tuple[Tensor, Tensor]:
        a = b = torch.view_as_complex(x)
        for _ in range(4):
            a, b = a @ w, w @ b
        return a.abs().relu(), b.abs().tanh()

    return graph, torch.randn(256, 256, 2)


GRAPHS: Mapping[str, tuple[Callable[[], tuple[Graph, Tensor]], dict[str, Any], int | None]] = {
    "small": (_small, {}, None),
    "small, with a launch": (_small, {"partition": "greedy"}, None),
    "small, round robin": (_small, {"partition": "greedy", "policy": "simple"}, None),
    "two long branches": (_long, {}, 1),
}
"""What makes a graph and its input, our options, and PyTorch's threads if they are not those of the settings."""


def _measure(
    make: Callable[[], tuple[Graph, Tensor]], options: dict[str, Any], threads: int | None, settings: Settings, row: Row
) -> None:
    torch.compiler.reset()
    torch.manual_seed(0)
    graph, x = make()
    torch.set_num_threads(threads or settings.threads)
    try:
        with torch.no_grad():
            contestants: dict[str, Graph] = {
                OURS: torch.compile(graph, backend="fpga", options=options),
                EAGER: graph,
                DYNAMO: torch.compile(graph, backend="aot_eager"),
            }
            wanted = cases(_joined(graph), x)
            for runner in contestants.values():
                check(_joined(runner), wanted)
            _race(contestants, x, settings, row)
    finally:
        torch.set_num_threads(settings.threads)
    if threads is None:
        spread = row.figures[f"{OURS}_p95_of_p50"]
        row.targets.append(Target("95th percentile over median", spread, _SPREAD_LIMIT, "at most"))


def _joined(graph: Graph) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.cat([result.flatten() for result in graph(x)])


def _race(contestants: Mapping[str, Graph], x: Tensor, settings: Settings, row: Row) -> None:
    """Blocks of calls in turns; the medians, and the 95th percentiles as figures."""
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    began, rounds = perf_counter(), 0
    while rounds < settings.least_rounds or perf_counter() - began < settings.seconds:
        for name, call in contestants.items():
            _block(call, x, SETTLE)
            samples[name] += _block(call, x, BLOCK)
        rounds += 1
    for name, taken in samples.items():
        row.timings[name] = Timing.of(taken)
        late = statistics.quantiles(taken, n=20, method="inclusive")[-1] if len(taken) > 1 else taken[0]
        row.figures[f"{name}_p95_us"] = late * 1e6
        row.figures[f"{name}_p95_of_p50"] = late / row.timings[name].median


def _block(call: Graph, x: Tensor, seconds: float) -> list[float]:
    taken: list[float] = []
    began = now = perf_counter()
    while now - began < seconds:
        call(x)
        before, now = now, perf_counter()
        taken.append(now - before)
    return taken


def draw(result: Result, path: Path) -> None:
    pictures.times(result, path, "Calls of small graphs of many tasks", "µs a call", 1e6)
