"""Random quantised networks: whatever is put behind what, the card's integers are eager's.

Scales are powers of two, biases multiples of the sums' grid and sums short, so that eager's float32 is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from tests.lowering.quantised_kit import Grid, Weights, check, dequantize, quantize, rounded

CHANNELS = 8
EXAMPLES = 10

grids: st.SearchStrategy[Grid] = st.builds(
    lambda scale, zero, is_signed: (
        2.0**scale,
        zero if is_signed else zero + 128,
        torch.int8 if is_signed else torch.uint8,
    ),
    st.integers(-6, -3),
    st.integers(-128, 127),
    st.booleans(),
)


@dataclass(frozen=True)
class Step:
    """One layer: its kind, settings, and the grid that it is rounded to."""

    kind: str
    grid: Grid
    pick: int
    also: Grid


KINDS = (
    "3x3",
    "1x1",
    "stride",
    "groups",
    "depthwise",
    "max",
    "mean of 2x2",
    "add",
    "cat",
    "table",
    "relu",
    "view",
    "pad",
)
steps = st.lists(st.builds(Step, st.sampled_from(KINDS), grids, st.integers(0, 5), grids), min_size=1, max_size=6)


class Network(nn.Module):
    """Steps one after the other; those of two operands take an earlier value of the same size, if there is one."""

    def __init__(self, given: list[Step], source: Grid) -> None:
        super().__init__()
        self.given, self.source = given, source
        sizes = {
            "3x3": (CHANNELS, CHANNELS, 3, 3),
            "stride": (CHANNELS, CHANNELS, 3, 3),
            "1x1": (CHANNELS, CHANNELS, 1, 1),
        }
        sizes |= {"groups": (CHANNELS, CHANNELS // 2, 3, 3), "depthwise": (CHANNELS, 1, 3, 3)}
        self.weights = nn.ModuleList(Weights(*sizes.get(step.kind, (1, 1, 1, 1))) for step in given)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, grid = quantize(x, self.source), self.source
        earlier: list[tuple[torch.Tensor, Grid]] = []
        for step, weights in zip(self.given, self.weights, strict=True):
            earlier.append((q, grid))
            real = self._real(step, weights, q, grid, earlier)
            q, grid = quantize(real, step.grid), step.grid
        return q

    def _real(
        self, step: Step, weights: Any, q: torch.Tensor, grid: Grid, earlier: list[tuple[torch.Tensor, Grid]]
    ) -> Any:
        x = dequantize(q, grid)
        convolve: dict[str, dict[str, int]] = {
            "3x3": {"padding": 1},
            "stride": {"padding": 1, "stride": 2},
            "1x1": {},
            "groups": {"padding": 1, "groups": 2},
            "depthwise": {"padding": 1, "groups": CHANNELS},
        }
        if step.kind in convolve:
            y = F.conv2d(x, weights(), weights.bias, **convolve[step.kind])
            return torch.relu(y) if step.pick % 2 else y
        same = [(other, scale) for other, scale in earlier if other.shape == q.shape]
        other, scale = same[step.pick % len(same)]
        functions: dict[str, Callable[[], torch.Tensor]] = {
            "max": lambda: F.max_pool2d(x, 2) if x.shape[-1] > 2 else x,
            "mean of 2x2": lambda: F.avg_pool2d(x, 2) if x.shape[-1] > 2 else x,
            "add": lambda: x + dequantize(other, scale),
            "cat": lambda: torch.cat([x, rounded(dequantize(other, scale), step.also)], 1)[:, 4 : 4 + CHANNELS],
            "table": lambda: F.hardswish(x),
            "relu": lambda: F.hardtanh(x, -1.0, 2.5),
            "view": lambda: x.flatten(2).unflatten(2, x.shape[2:]),
            "pad": lambda: F.pad(x, (0, 1, 1, 0)),
        }
        return functions[step.kind]()


def run(given: list[Step], source: Grid, seed: int) -> None:
    torch.manual_seed(seed)
    check(Network(given, source), torch.randn(1 + seed % 2, CHANNELS, 9, 8))


SETTINGS = settings(
    deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), max_examples=EXAMPLES, database=None
)


@SETTINGS
@given(steps, grids, st.integers(0, 99))
def test_random_networks(given_: list[Step], source: Grid, seed: int) -> None:
    run(given_, source, seed)


@pytest.mark.slow
@settings(SETTINGS, max_examples=5000, derandomize=False)
@given(steps, grids, st.integers(0, 99))
def test_many_random_networks(given_: list[Step], source: Grid, seed: int) -> None:
    run(given_, source, seed)
