"""How long it takes until a model can run: first calls in processes of their own, lowering by size, and binding a
program for all batches to another one.

A cold process finds empty caches; a warm one those that a cold one left. The xclbin is built beforehand: that happens
once on a machine, and for no model in particular.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch.fx import GraphModule

from benchmarks import pictures
from benchmarks.process import run
from benchmarks.results import OURS, Result, Row, Target
from benchmarks.rounds import Timing
from benchmarks.suites import Settings, guarded
from benchmarks.workloads import INDUCTOR
from fpga_dynamo import Options
from fpga_dynamo.frontend.backend import collect_programs
from fpga_dynamo.lowering.passes.pipeline import lower
from fpga_dynamo.runtime.calls.bind import Binder
from fpga_dynamo.runtime.cards.card import open_card, xclbin_path
from fpga_dynamo.tools.zoo import import_torchvision
from fpga_dynamo.torch_internals.dynamo import mark_dynamic
from fpga_dynamo.torch_internals.tracing import traced

SECONDS = 0.0  # rounds are counted here, not timed
PROCESSES = 3
"""Cold and warm processes of each contestant."""
NETWORKS = {"resnet50": True, "resnet18": False}
"""Networks, and whether the project's targets are about them."""
SIZES = (500, 2000, 8000)
_COLD_LIMIT, _WARM_LIMIT = 1 / 0.35, 1 / 0.5
_LINEAR_LIMIT = 4.4
"""How much longer four times as many nodes may take."""
BATCHES = range(2, 66)
_BINDING_LIMIT = 5e-4


def rows(settings: Settings, details: dict[str, Any]) -> Iterator[Row]:
    makers: dict[str, Callable[[], Iterator[Row]]] = {
        **{network: partial(_network, network, settings) for network in NETWORKS},
        "lowering one launch": partial(_lowering, "lowering one launch", _one_launch, settings),
        "lowering many segments": partial(_lowering, "lowering many segments", _many_segments, settings),
        "binding resnet50": lambda: guarded("binding resnet50", _binding),
    }
    names = list(makers)[2:3] if settings.quick and not settings.only else settings.chosen(list(makers))
    for name in names:
        yield from makers[name]()


def _network(network: str, settings: Settings) -> Iterator[Row]:
    cold, warm = Row(f"{network} cold"), Row(f"{network} warm")
    samples: dict[tuple[str, str], list[float]] = {}
    xclbin = str(xclbin_path(Options()).resolve())
    for _ in range(1 if settings.quick else PROCESSES):
        for contestant in (OURS, INDUCTOR):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                variables = {
                    "TORCHINDUCTOR_CACHE_DIR": str(folder / "torch"),
                    "FPGA_DYNAMO_CACHE": str(folder / "ours"),
                    "FPGA_DYNAMO_LANES": str(settings.threads),
                }
                asked = {"workload": network, "contestant": contestant, "threads": settings.threads, "xclbin": xclbin}
                for row in (cold, warm):
                    try:
                        seconds = run("first_call", folder, variables, **asked)["first_call"]
                        samples.setdefault((row.name, contestant), []).append(seconds)
                    except Exception as error:
                        row.failures[contestant] = str(error)
    for row, limit in ((cold, _COLD_LIMIT), (warm, _WARM_LIMIT)):
        row.timings = {who: Timing.of(times) for (name, who), times in samples.items() if name == row.name}
        if NETWORKS[network]:
            row.demand({INDUCTOR: limit})
        yield row


def _lowering(name: str, build: Callable[[int], GraphModule], settings: Settings) -> Iterator[Row]:
    return guarded(name, partial(_by_size, build, settings))


def _by_size(build: Callable[[int], GraphModule], settings: Settings, row: Row) -> None:
    """Our own lowering, without Dynamo and AOTAutograd, of graphs of growing length."""
    target = open_card(Options()).target
    sizes = SIZES[:2] if settings.quick else SIZES
    samples: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(1 if settings.quick else PROCESSES):
        for size in sizes:
            program = lower(build(size), target, Options(partition="greedy"))
            samples[size].append(program.lowering_seconds)
            row.figures[f"launches_{size}"] = len(program.card_tasks)
    row.timings = {f"{size} nodes": Timing.of(times) for size, times in samples.items()}
    per_node = {size: row.timings[f"{size} nodes"].median / size for size in sizes}
    row.figures |= {f"us_a_node_{size}": seconds * 1e6 for size, seconds in per_node.items()}
    if len(sizes) == len(SIZES):
        growth = row.timings["8000 nodes"].median / row.timings["2000 nodes"].median
        row.targets.append(Target("8000 nodes over 2000", growth, _LINEAR_LIMIT, "at most"))


def _binding(row: Row) -> None:
    """What a batch size that has not occurred costs: guards, command list, slots and the arena's plan."""
    model = import_torchvision().models.resnet50().eval()
    x = torch.randn(2, 3, 64, 64)
    mark_dynamic(x, 0)
    with torch.no_grad(), collect_programs() as programs:
        torch.compile(model, backend="fpga")(x)
    (program,) = programs
    binder = Binder(program)
    samples = []
    for batch in BATCHES:
        began = perf_counter()
        if binder.failed_guard((batch,)) is not None:
            raise ValueError(f"the program does not hold for a batch of {batch}")
        binder.bind((batch,))
        samples.append(perf_counter() - began)
    row.timings = {OURS: Timing.of(samples)}
    row.figures = {
        "bind_us": row.timings[OURS].median * 1e6,
        "guards": len(binder.guards),
        "commands": sum(len(task.commands) for task in program.card_tasks),
        "lowering_ms": program.lowering_seconds * 1e3,
    }
    row.targets.append(Target("seconds to bind a batch", row.timings[OURS].median, _BINDING_LIMIT, "at most"))


def _one_launch(nodes: int) -> GraphModule:
    """Softmax by softmax: each is a command of its own, and all are one launch."""

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(nodes):
            x = torch.softmax(x, -1)
        return x

    return _traced(chain)


def _many_segments(nodes: int) -> GraphModule:
    """Every fourth node is one that no core runs, so that launches and eager tasks take turns."""

    def chain(x: torch.Tensor) -> torch.Tensor:
        for i in range(nodes):
            x = torch.cumsum(x, -1) if i % 4 == 3 else torch.softmax(x, -1)
        return x

    return _traced(chain)


def _traced(function: Callable[[torch.Tensor], torch.Tensor]) -> GraphModule:
    return traced(function, [torch.randn(8, 64)])


def draw(result: Result, path: Path) -> None:
    pictures.times(result, path, "Time until a model runs; lowering by size", "seconds", 1.0)
