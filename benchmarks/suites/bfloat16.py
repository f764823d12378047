"""bfloat16: models in it, and training steps of float32 models under autocast; ours beside eager and inductor.

The answer is held against eager mode's in float64 of the same numbers: its error may be `TOLERANCE` times that of eager
in bfloat16.
"""

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
from benchmarks.peers import quiet
from benchmarks.results import OURS, Result, Row
from benchmarks.rounds import describe, interleave
from benchmarks.suites import Settings, guarded
from benchmarks.suites.models import inside
from benchmarks.suites.training import Trainee
from benchmarks.verify import WrongOutputError
from benchmarks.workloads import EAGER, INDUCTOR, encoder

SECONDS = 8.0
TOLERANCE = 2.0
"""Of the error, beside that of eager in bfloat16."""
_SMALLEST = "mlp-1024-rows128"


@dataclass(frozen=True)
class Case:
    """build: a float32 model and its input. trains: a training step under autocast, else a call in bfloat16."""

    build: Callable[[], tuple[nn.Module, Tensor]]
    trains: bool = False


def _perceptron(width: int, inner: int, rows: int) -> tuple[nn.Module, Tensor]:
    """Three layers with a GELU between them."""
    layers = nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, inner), nn.GELU(), nn.Linear(inner, width)
    return nn.Sequential(*layers), torch.randn(rows, width)


def _batch(rows: int, *sizes: int) -> tuple[nn.Module, Tensor]:
    model, example = encoder(*sizes)
    return model, example.expand(rows, -1, -1) + torch.randn(rows, 1, example.shape[-1])


CASES: Mapping[str, Case] = {
    "mlp-4096-rows1": Case(partial(_perceptron, 4096, 4096, 1)),
    "mlp-4096-rows16": Case(partial(_perceptron, 4096, 4096, 16)),
    "mlp-1024-rows128": Case(partial(_perceptron, 1024, 4096, 128)),
    "bert-tiny": Case(lambda: encoder(128, 2, 2, 512)),
    "bert-base-x4": Case(lambda: encoder(768, 12, 4, 3072)),
    "mlp-1024-rows128-training": Case(partial(_perceptron, 1024, 2048, 128), trains=True),
    "bert-tiny-batch8-training": Case(partial(_batch, 8, 128, 2, 2, 512), trains=True),
}
_COMPILERS: Mapping[str, Callable[[nn.Module], Callable[[Tensor], Tensor]]] = {
    OURS: lambda model: torch.compile(model, backend="fpga"),
    EAGER: lambda model: model,
    INDUCTOR: torch.compile,
}


def rows(settings: Settings, details: dict[str, Any]) -> Iterator[Row]:
    names = [_SMALLEST] if settings.quick and not settings.only else settings.chosen(list(CASES))
    for name in names:
        yield from guarded(name, partial(measure, CASES[name], settings))


def measure(case: Case, settings: Settings, row: Row) -> None:
    """Fills the row of one case. Nothing that was compiled before is left in Dynamo's caches."""
    torch.compiler.reset()
    gc.collect()
    torch.manual_seed(0)
    model, example = case.build()
    prepared = _trainees(model, example) if case.trains else _calls(model, example)
    contestants: dict[str, Callable[[], object]] = {}
    answers: dict[str, Tensor] = {}
    with quiet():
        for name, make in prepared.items():
            if name not in (OURS, EAGER, "exact") and name not in settings.peers:
                continue
            try:
                call, answer = make()
                answers[name] = answer().double()
                if name != "exact":
                    contestants[name] = call
            except Exception as error:
                row.failures[name] = describe(error)
    exact = answers["exact"]
    errors = {name: float((answer - exact).norm() / exact.norm()) for name, answer in answers.items()}
    row.figures |= {f"{name}_error": error for name, error in errors.items() if name != "exact"}
    if OURS in errors and not errors[OURS] <= TOLERANCE * errors[EAGER]:
        wrong = WrongOutputError(f"the error is {errors[OURS]:.1e}, eager mode's in bfloat16 {errors[EAGER]:.1e}")
        row.failures[OURS] = describe(wrong)
    row.add(interleave(contestants, settings.seconds, least_rounds=settings.least_rounds))
    if OURS in contestants:
        row.figures |= inside(contestants[OURS])
    row.demand({EAGER: 1.0})


Prepared = Callable[[], tuple[Callable[[], object], Callable[[], Tensor]]]


def _calls(model: nn.Module, example: Tensor) -> dict[str, Prepared]:
    """What is timed, and what gives the answer, by name; "exact" is eager in float64 of the rounded numbers."""
    narrow, x = copy.deepcopy(model).eval().bfloat16(), example.bfloat16()

    def prepare(compiler: Callable[[nn.Module], Callable[[Tensor], Tensor]], module: nn.Module, given: Tensor) -> Any:
        run = compiler(module)

        def call() -> Tensor:
            with torch.no_grad():
                return run(given)

        return call, call

    found = {name: partial(prepare, compiler, narrow, x) for name, compiler in _COMPILERS.items()}
    exact = copy.deepcopy(narrow).double()
    return {**found, "exact": partial(prepare, lambda module: module, exact, x.double())}


def _trainees(model: nn.Module, example: Tensor) -> dict[str, Prepared]:
    """Training steps, whose answers are gradients; "exact" is eager in float64 without autocast."""

    def prepare(compiler: Callable[[nn.Module], Callable[[Tensor], Tensor]], *, exact: bool = False) -> Any:
        own = copy.deepcopy(model).train()
        own = own.double() if exact else own
        run = compiler(own)

        def under_autocast(x: Tensor) -> Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not exact):
                return run(x)

        trainee = Trainee(own, under_autocast, example.double() if exact else example)
        return trainee.step, trainee.gradients

    found: dict[str, Prepared] = {name: partial(prepare, compiler) for name, compiler in _COMPILERS.items()}
    return {**found, "exact": partial(prepare, lambda module: module, exact=True)}


def draw(result: Result, path: Path) -> None:
    pictures.ratios(result, path, "bfloat16: others' time / ours (above 1: ours is faster)")
