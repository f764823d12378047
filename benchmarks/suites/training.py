"""Training steps: forward, loss, backward and an SGD step, which all contestants take in eager."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import pictures
from benchmarks.results import OURS, Result, Row
from benchmarks.rounds import describe, interleave
from benchmarks.suites import Settings, guarded
from benchmarks.suites.models import inside
from benchmarks.verify import WrongOutputError
from benchmarks.workloads import EAGER, INDUCTOR, Workload, encoder, image_model

SECONDS = 15.0
TOLERANCE = 1e-2
"""Largest error of a gradient, as a share of the largest one: statistics of eight samples amplify rounding."""
RATE = 1e-6
"""So small that the thousands of steps of a measurement leave the model what it is."""


def _tiny() -> tuple[nn.Module, Tensor]:
    model, example = encoder(128, 2, 2, 512)
    return model, example.expand(8, -1, -1) + torch.randn(8, 1, 128)


WORKLOADS: Mapping[str, Workload] = {
    workload.name: workload
    for workload in (Workload("resnet18-batch8", image_model("resnet18", 8)), Workload("bert-tiny-batch8", _tiny))
}
_COMPILERS: Mapping[str, Callable[[nn.Module], Callable[[Tensor], Tensor]]] = {
    OURS: lambda model: torch.compile(model, backend="fpga"),
    EAGER: lambda model: model,
    INDUCTOR: torch.compile,
}


@dataclass
class Trainee:
    """A model of its own, `run` as its contestant compiles it, and what a step does with it."""

    model: nn.Module
    run: Callable[[Tensor], Tensor]
    example: Tensor

    def __post_init__(self) -> None:
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE)

    def step(self) -> None:
        self._optimizer.zero_grad()
        self.run(self.example).square().mean().backward()
        self._optimizer.step()

    def gradients(self) -> Tensor:
        """Of one step, all of them in a row."""
        self.step()
        return torch.cat([parameter.grad.flatten() for parameter in self.model.parameters()])  # type: ignore[union-attr]


def rows(settings: Settings, details: dict[str, Any]) -> Iterator[Row]:
    names = ["bert-tiny-batch8"] if settings.quick and not settings.only else settings.chosen(list(WORKLOADS))
    for name in names:
        yield from guarded(name, partial(measure, WORKLOADS[name], settings))


def measure(workload: Workload, settings: Settings, row: Row) -> None:
    """Fills the row of one network. Nothing that was compiled before is left in Dynamo's caches."""
    torch.compiler.reset()
    gc.collect()
    model, example = workload.make()
    model.train()
    reference = copy.deepcopy(model)
    expected = Trainee(reference, reference, example).gradients()
    trainees: dict[str, Trainee] = {}
    for name, compiler in _COMPILERS.items():
        if name != OURS and name not in settings.peers:
            continue
        own = copy.deepcopy(model)
        try:
            trainee = Trainee(own, compiler(own), example)
            row.figures[f"{name}_error"] = check(trainee, expected)
            trainees[name] = trainee
        except Exception as error:
            row.failures[name] = describe(error)
    contestants = {name: trainee.step for name, trainee in trainees.items()}
    row.add(interleave(contestants, settings.seconds, least_rounds=settings.least_rounds))
    if OURS in trainees:
        row.figures |= inside(trainees[OURS].step)


def check(trainee: Trainee, expected: Tensor) -> float:
    """The largest error of a gradient, as a share of the largest. Raises WrongOutputError if it is above TOLERANCE."""
    worst = float((trainee.gradients() - expected).abs().max() / expected.abs().max())
    if not worst <= TOLERANCE:
        raise WrongOutputError(f"a gradient's error is {worst:.1e} of the largest, above {TOLERANCE:.0e}")
    return worst


def draw(result: Result, path: Path) -> None:
    pictures.ratios(result, path, "Training steps: time of each peer / ours (above 1: ours is faster)")
