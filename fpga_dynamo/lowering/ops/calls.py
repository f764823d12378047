"""Typical calls that operators of several families share, for the probes of docs/ops.md."""

from __future__ import annotations

from typing import Any

import torch

from fpga_dynamo.ir.operators import Arguments, Tensors


def rows(t: Tensors, *args: Any) -> Arguments:
    """Of a matrix of 4 rows of 16 elements."""
    return (t(4, 16), *args), {}


def image(t: Tensors, *args: Any) -> Arguments:
    """Of an image of 16 channels, 8 pixels high and wide."""
    return (t(1, 16, 8, 8), *args), {}


def images(t: Tensors, *args: Any) -> Arguments:
    """Of two such images: a gradient, and what the forward pass saved."""
    return image(t, t(1, 16, 8, 8), *args)


def volume(t: Tensors, *args: Any) -> Arguments:
    """Of a volume of 16 channels, 4 deep, 8 high and wide."""
    return (t(1, 16, 4, 8, 8), *args), {}


def per_channel(t: Tensors, count: int, *, parameter: bool = False) -> list[torch.Tensor]:
    """`count` vectors with an element for each of 16 channels."""
    return [t(16, parameter=parameter) for _ in range(count)]


def indices(t: Tensors, *size: int) -> torch.Tensor:
    """Indices of int64."""
    return t(*size, dtype=torch.int64)
