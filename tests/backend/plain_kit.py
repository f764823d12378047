"""The kernels of data/plain.cpp as operators, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import fpga_dynamo

SOURCE = Path(__file__).parent / "data" / "plain.cpp"
BROKEN = SOURCE.with_name("plain_broken.cpp")
RECIPE = SOURCE.with_name("plain.toml")


def define(top: str, **rules: Any) -> Any:
    """An operator of a kernel in the source."""
    return fpga_dynamo.kernel(SOURCE, top, **rules)


axpy = define(
    "axpy",
    mutates_args=("y",),
    sizes={"n": "x.numel()"},
    backward=lambda gradient, x, y, alpha: (alpha * gradient, gradient),
)
widen = define("widen", outputs={"out": "like in_"}, sizes={"n": "in_.numel()"})
halves = define("halves", outputs={"out": "like a"}, sizes={"n": lambda a: a.numel()})
split = define(
    "split",
    outputs=lambda a: {"low": torch.empty_like(a), "high": torch.empty_like(a)},
    sizes={"n": "a.numel()"},
    cpu=lambda a: (a.clamp(max=0), a.clamp(min=0)),
    backward=lambda low, high, a: torch.where(a < 0, low, torch.where(a > 0, high, 0)),
)
fail = define("fail", outputs={"out": "like a"}, sizes={"n": "a.numel()"}, timeout=0.5)
fail_with_cpu = define("fail", outputs={"out": "like a"}, sizes={"n": "a.numel()"}, cpu=lambda a: a + 1)
