"""What the tests of the backend share: small models, and "the same answer as eager"."""

from __future__ import annotations

import contextlib
import copy
import gc
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

import fpga_dynamo
from fpga_dynamo.runtime.cards.card import open_card
from fpga_dynamo.testing.reference import assert_close_to_eager, sharing

ROOT = Path(__file__).resolve().parents[2]
GREEDY: dict[str, Any] = {"partition": "greedy"}
"""The models here are so small that the cost model would leave most of them to eager."""


def on_card(model: Any, **options: Any) -> Any:
    """`model` compiled with everything on the card that a core can run."""
    return torch.compile(model, backend="fpga", options={**GREEDY, **options})


def wide(value: Any) -> Any:
    """The same in float64; tensors are copies, with their strides."""

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.detach().double() if leaf.dtype is torch.float32 else leaf.detach().clone()

    return tree_map(one, value)


def assert_same_answer(compiled: Callable[..., Any], model: Callable[..., Any], *inputs: Any) -> Any:
    """Calls both on copies of the inputs in no-grad mode: outputs and changed inputs as near to float64 as eager
    mode's.

    Returns the compiled answer.
    """
    mine, theirs, exact = copy.deepcopy(inputs), copy.deepcopy(inputs), wide(inputs)
    in_float64 = copy.deepcopy(model).double() if isinstance(model, nn.Module) else model
    with torch.no_grad():
        answer, expected, truth = compiled(*mine), model(*theirs), in_float64(*exact)
    assert_close_to_eager((answer, mine), (expected, theirs), (truth, exact))
    assert sharing(answer, mine) == sharing(expected, theirs), "outputs share memory as in eager"
    return answer


@contextlib.contextmanager
def counting() -> Iterator[dict[str, float]]:
    """A dict that has what the counters went up by once the block is left."""
    before = fpga_dynamo.stats()
    grown: dict[str, float] = {}
    yield grown
    grown.update({name: value - before[name] for name, value in fpga_dynamo.stats().items()})


class Net(nn.Module):
    """Convolution, batch norm and a linear layer: weights that are packed alone, folded and transposed."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.head = nn.Linear(width, 5)
        with torch.no_grad():
            self.norm.running_mean.normal_()  # type: ignore[union-attr]
            self.norm.running_var.uniform_(0.5, 2.0)  # type: ignore[union-attr]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


def image(batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 3, 8, 8)


def mlp(*widths: int) -> nn.Sequential:
    """Linear layers of these widths with ReLU between them."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def memory_used(card: int = 0) -> int:
    """Bytes in use on a card once everything that can be collected has been."""
    gc.collect()
    return fpga_dynamo.devices()[card].memory_used


def weights_nbytes() -> int:
    """Bytes of packed parameters on the first card."""
    gc.collect()
    return open_card(fpga_dynamo.Options()).weights.nbytes


def run_python(
    code: str, *arguments: str, timeout: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a fresh interpreter; an environment variable that is empty is taken out."""
    names = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    names = {name: value for name, value in names.items() if value}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=names, capture_output=True, text=True, timeout=timeout, check=False)
