"""Tensors of extreme numbers, and a comparison that sees errors of the smallest of them.

`fpga_dynamo.testing.reference` measures against the largest element of a tensor. Here each element counts by itself, so
that a result of 1e-40 that became 0 is wrong, whatever lies beside it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from hypothesis import strategies as st

from fpga_dynamo.testing.reference import Mismatch
from fpga_dynamo.torch_internals.pytree import tree_leaves

SMALLEST = 2.0**-149
LARGEST = torch.finfo(torch.float32).max
ULP = torch.finfo(torch.float32).eps
EDGES = (
    *(0.0, -0.0, SMALLEST, -SMALLEST, 1e-40, 2.0**-126),
    *(1.0, -1.0, 1e19, LARGEST, -LARGEST),
    *(math.inf, -math.inf, math.nan),
)
"""Numbers at which float32 arithmetic changes its ways."""


def magnitudes(low: float = -45.0, high: float = 38.5) -> st.SearchStrategy[float]:
    """Powers of ten, from the smallest denormal float32 to the largest float32."""
    return st.floats(low, high, allow_nan=False).map(lambda exponent: min(10.0**exponent, LARGEST))


def constants() -> st.SearchStrategy[float]:
    """Numbers as parameters of operators: edges, and any magnitude of either sign."""
    return st.one_of(st.sampled_from(EDGES), st.builds(math.copysign, magnitudes(), st.sampled_from((1.0, -1.0))))


@st.composite
def rows(draw: Any, low: float = -45.0, high: float = 38.5) -> torch.Tensor:
    """A matrix of normally distributed numbers times one magnitude, with any strides; it may have one row or column."""
    height, width = draw(st.sampled_from((1, 3, 8, 65))), draw(st.sampled_from((1, 2, 16, 37, 130)))
    x = torch.randn(height, width, generator=torch.Generator().manual_seed(draw(st.integers(0, 99))))
    x = (x.double() * draw(magnitudes(low, high))).clamp(-LARGEST, LARGEST).float()
    layout = draw(st.sampled_from(("plain", "transposed", "strided")))
    if layout == "transposed":
        return x.t().contiguous().t()
    return x.repeat_interleave(2, 1)[:, ::2] if layout == "strided" else x


def assert_each_close(compiled: Any, eager: Any, exact: Any, *, ulps: float = 8.0, factor: float = 4.0) -> None:
    """Raises `Mismatch` unless each element is as near to float64's as eager mode's is, within a few ulp of itself.

    NaN and infinities are where eager mode has them. Where eager mode overflows and float64 does not, float64's number
    is as right.
    """
    for position, (mine, theirs, truth) in enumerate(
        zip(*(tree_leaves(tree) for tree in (compiled, eager, exact)), strict=True)
    ):
        if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
            raise Mismatch(f"output {position} is {mine.dtype} {mine.shape}, in eager {theirs.dtype} {theirs.shape}")
        if not mine.is_floating_point():
            wrong = mine != theirs
        else:
            wrong = _wrong_numbers(mine.double(), theirs.double(), truth.double(), ulps, factor)
        if wrong.any():
            at = tuple(int(i) for i in wrong.nonzero()[0])
            raise Mismatch(
                f"output {position} is {mine[at].item()!r} at {at}, in eager {theirs[at].item()!r}, "
                f"exactly {truth[at].item()!r}"
            )


def _wrong_numbers(
    mine: torch.Tensor, theirs: torch.Tensor, truth: torch.Tensor, ulps: float, factor: float
) -> torch.Tensor:
    allowed = factor * (theirs - truth).abs() + ulps * ULP * truth.abs() + 4 * SMALLEST
    near = (mine - truth).abs() <= allowed.nan_to_num(0.0, 0.0, 0.0)
    same = (mine == theirs) | (mine.isnan() & theirs.isnan())
    overflow = truth.abs() > LARGEST
    return ~(same | (near & torch.isfinite(mine) & ~(theirs.isnan() & truth.isnan())) | (overflow & mine.isinf()))
