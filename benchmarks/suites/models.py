"""Whole networks: one call of each contestant, Dynamo, guards and outputs included.

Where there is a target, the machine's peak is measured too, and with it what no program of as many products can exceed.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

import fpga_dynamo
from benchmarks import machine, pictures
from benchmarks.card import products
from benchmarks.peers import Runner, UnsuitableError, make
from benchmarks.results import OURS, Result, Row
from benchmarks.rounds import describe, interleave
from benchmarks.suites import Settings, guarded
from benchmarks.verify import cases, check
from benchmarks.workloads import WORKLOADS, Workload

SECONDS = 10.0
_SMALLEST = ("squeezenet1_1",)


def rows(settings: Settings, details: dict[str, Any]) -> Iterator[Row]:
    names = _SMALLEST if settings.quick and not settings.only else settings.chosen(list(WORKLOADS))
    for name in names:
        yield from guarded(name, partial(measure, WORKLOADS[name], settings))


def measure(workload: Workload, settings: Settings, row: Row) -> None:
    """Fills the row of one network. Nothing that was compiled before is left in Dynamo's caches."""
    torch.compiler.reset()
    gc.collect()
    model, example = workload.make()
    with torch.no_grad():
        wanted = cases(model, example)
        runners: dict[str, Runner] = {}
        for name in (OURS, *settings.peers):
            try:
                runner = make(name, model, example, settings.threads)
                row.figures[f"{name}_error"] = check(runner, wanted)
                runners[name] = runner
            except UnsuitableError as error:
                row.details.setdefault("left_out", {})[name] = str(error)
            except Exception as error:
                row.failures[name] = describe(error)
        contestants = {name: runner.bound(example) for name, runner in runners.items()}
        row.add(interleave(contestants, settings.seconds, least_rounds=settings.least_rounds))
        if OURS in contestants:
            row.figures |= inside(runners[OURS].bound(example))
    if workload.limits and OURS in row.timings:
        try:
            peak, performed = machine.measure(settings.threads)[0].flops, products(model, example)
            row.figures |= {"peak_gflops": peak / 1e9, "products": performed, "least_seconds": 2 * performed / peak}
        except machine.NoCompilerError as error:
            row.details["peak"] = str(error)
    row.demand(workload.limits, row.figures.get("least_seconds"))


def inside(call: Callable[[], object], calls: int = 5) -> dict[str, float]:
    """How much of our call is spent in the card's commands, what is packed, and what runs in eager."""
    spent = []
    for _ in range(calls):
        with fpga_dynamo.trace() as trace:
            call()
        spent.append(sum(event.stop - event.start for event in trace.commands))
    before = fpga_dynamo.stats()
    call()
    after = fpga_dynamo.stats()
    counted = ("pl_launches", "pl_commands", "ps_nodes", "weights_packed")
    return {"in_commands_seconds": statistics.median(spent), **{name: after[name] - before[name] for name in counted}}


def draw(result: Result, path: Path) -> None:
    pictures.ratios(result, path, "Networks: time of each peer / ours (above 1: ours is faster)")
