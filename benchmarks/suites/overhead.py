"""What a call costs when there is next to nothing to compute."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import pictures
from benchmarks.peers import PEERS
from benchmarks.results import OURS, Result, Row, Target
from benchmarks.rounds import interleave
from benchmarks.suites import Settings, guarded
from benchmarks.verify import cases, check
from benchmarks.workloads import EAGER, INDUCTOR
from fpga_dynamo import Options
from fpga_dynamo.runtime.cards.card import ARENA, COMMANDS, COUNT, WEIGHTS, open_card
from fpga_dynamo.torch_internals import dynamo

SECONDS = 5.0
FLOOR = "dynamo"
"""Dynamo with a backend that returns an answer which it has already: no compiler gets below that."""
LENGTHS = (16, 64, 256)
"""Commands in the lists whose times give the cost of one command, as a slope."""
_CALL_LIMIT = 35e-6
_COMMAND_LIMIT = 1e-6
_LAUNCH_LIMIT = 5e-6


def rows(settings: Settings, details: dict[str, Any]) -> Iterator[Row]:
    makers: dict[str, Callable[[Row], None]] = {
        name: partial(_small_model, build, settings) for name, build in MODELS.items()
    }
    makers |= {"launch": partial(_launch, settings), "command": partial(_command, settings)}
    names = ["relu-1000", "launch"] if settings.quick and not settings.only else settings.chosen(list(makers))
    for name in names:
        yield from guarded(name, makers[name])


def _perceptron() -> tuple[nn.Module, Tensor]:
    width = 16
    layers = (nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    return nn.Sequential(*layers), torch.randn(1, width)


def _linears() -> tuple[nn.Module, Tensor]:
    return nn.Sequential(*(nn.Linear(64, 64) for _ in range(12))), torch.randn(1, 64)


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "relu-1000": lambda: (nn.ReLU(), torch.randn(1000)),
    "mlp-16": _perceptron,
    "12-linear-64": _linears,
}


def _small_model(build: Callable[[], tuple[nn.Module, Tensor]], settings: Settings, row: Row) -> None:
    torch.compiler.reset()
    torch.manual_seed(0)
    model, x = build()
    model.eval()
    # On the card whether it pays or not: the way to the card is measured.
    ours = torch.compile(model, backend="fpga", options={"partition": "greedy", "strict": True})
    with torch.no_grad():
        runners: dict[str, Callable[[Tensor], Tensor]] = {
            OURS: ours,
            EAGER: model,
            INDUCTOR: PEERS[INDUCTOR](model, x, settings.threads).call,
            FLOOR: torch.compile(model, backend=_answer_at_hand),
        }
        for name, runner in runners.items():
            # The floor has one answer for all inputs, and is not compared.
            check(runner, cases(model, x, 1 if name == FLOOR else 2))
        contestants = {name: partial(runner, x) for name, runner in runners.items()}
        row.add(interleave(contestants, settings.seconds, least_rounds=settings.least_rounds))
    row.demand({INDUCTOR: 1.0})
    if OURS in row.timings and row.name != "12-linear-64":
        row.targets.append(Target("microseconds a call", row.timings[OURS].median * 1e6, _CALL_LIMIT * 1e6, "at most"))


def _answer_at_hand(module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    """A backend that does not compute: the answer to the example inputs is the answer to all."""
    real: dict[str, Any] = {}

    def call(*args: Any) -> Any:
        if not real:
            real["answer"] = module(*args)
        return real["answer"]

    return call


def _launch(settings: Settings, row: Row) -> None:
    """A start of a compute unit with an empty command list, as Python calls the driver; alone and with copies."""
    card = open_card(Options())
    kernel = card.target.kernels[0].name
    run = card.driver.run(card.kernels[kernel, 0])
    arena = card.buffer(kernel, ARENA, 1 << 14, host=False)
    run.set_arg(COMMANDS, card.buffer(kernel, COMMANDS, 4096, host=True))
    run.set_arg(COUNT, 0)
    run.set_arg(ARENA, arena)
    run.set_arg(WEIGHTS, card.buffer(kernel, WEIGHTS, 4096, host=False))
    source, result = torch.zeros(1024), torch.zeros(1024)
    given, taken = [(source.data_ptr(), 4096, 4096)], [(result.data_ptr(), 4096, 8192)]
    contestants = {
        "launch": lambda: run.execute(0),
        "launch with 4 KiB in and out": lambda: run.execute_io(given, taken, arena, 0),
    }
    row.add(interleave(contestants, min(settings.seconds, 2.0), least_rounds=settings.least_rounds))
    seconds = row.timings["launch"].median
    row.figures["launch_us"] = seconds * 1e6
    row.targets.append(Target("microseconds a launch", seconds * 1e6, _LAUNCH_LIMIT * 1e6, "at most"))


class _SoftmaxChain(nn.Module):
    """One small command for each softmax: they cannot be merged."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.length):
            x = torch.softmax(x, -1)
        return x


def _command(settings: Settings, row: Row) -> None:
    """What one command more costs in the card: the slope of the time over lists of small commands."""
    torch.compiler.reset()
    x = torch.randn(1, 16)
    compiled = {
        length: torch.compile(_SoftmaxChain(length), backend="fpga", options={"partition": "greedy", "strict": True})
        for length in LENGTHS
    }
    with torch.no_grad(), dynamo.settings(recompile_limit=64):
        contestants = {f"{length} commands": partial(call, x) for length, call in compiled.items()}
        for length, call in compiled.items():
            check(call, cases(_SoftmaxChain(length), x))
        row.add(interleave(contestants, min(settings.seconds, 3.0), least_rounds=settings.least_rounds))
    medians = [row.timings[f"{length} commands"].median for length in LENGTHS]
    slope, _ = statistics.linear_regression(LENGTHS, medians)
    row.figures["command_us"] = slope * 1e6
    row.targets.append(Target("microseconds a command", slope * 1e6, _COMMAND_LIMIT * 1e6, "at most"))


def draw(result: Result, path: Path) -> None:
    pictures.times(result, path, "A call of next to nothing", "µs a call", 1e6)
