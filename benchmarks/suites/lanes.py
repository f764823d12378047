"""What a network gains from the card's lanes: one call with all of them and with one, on two cards of this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import pictures
from benchmarks.results import OURS, Result, Row
from benchmarks.rounds import Contestant, interleave
from benchmarks.suites import Settings, guarded
from benchmarks.verify import cases, check
from benchmarks.workloads import WORKLOADS, Workload

SECONDS = 8.0
ONE_LANE = "one lane"
NETWORKS = ("resnet18", "resnet50", "mobilenet_v2", "bert-tiny", "bert-base-x4", "mlp-8192")
_SMALLEST = "bert-tiny"
_LIMITS = {"resnet50": {ONE_LANE: 1.8}}


def rows(settings: Settings, details: dict[str, Any]) -> Iterator[Row]:
    names = [_SMALLEST] if settings.quick and not settings.only else settings.chosen(NETWORKS)
    for name in names:
        yield from guarded(name, partial(measure, WORKLOADS[name], settings))


def measure(workload: Workload, settings: Settings, row: Row) -> None:
    """Fills the row of one network; with `threads` = 1 both contestants have one lane."""
    torch.compiler.reset()
    model, example = workload.make()
    with torch.no_grad():
        wanted = cases(model, example)
        contestants: dict[str, Contestant] = {}
        for device, (name, lanes) in enumerate({OURS: settings.threads, ONE_LANE: 1}.items()):
            compiled = _compiled(model, example, device, lanes)
            check(compiled, wanted)
            contestants[name] = partial(compiled, example)
        row.add(interleave(contestants, settings.seconds, least_rounds=settings.least_rounds))
    row.figures["lanes"] = settings.threads
    row.demand(_LIMITS.get(workload.name, {}))


def _compiled(model: nn.Module, example: Tensor, device: int, lanes: int) -> Any:
    """The model on an emulator that is loaded with so many lanes."""
    compiled = torch.compile(model, backend="fpga", options={"device": device})
    with _environment(FPGA_DYNAMO_EMULATED_CARDS="2", FPGA_DYNAMO_LANES=str(lanes)):
        compiled(example)
    return compiled


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def draw(result: Result, path: Path) -> None:
    pictures.ratios(result, path, "Networks: time with one lane / with all lanes")
