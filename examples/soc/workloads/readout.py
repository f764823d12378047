"""Last layers in closed form: ridge regression on features of layers that stay as they were made.

That takes a second where gradient descent takes minutes, and gives the same weights every time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


def ridge(features: Tensor, targets: Tensor, strength: float = 1e-2) -> tuple[Tensor, Tensor]:
    """Weight (outputs x inputs) and bias of the linear layer that gives `targets` (n x outputs) with the least squares.

    strength: of the penalty, as a share of the features' mean square.
    """
    x, y = features.double(), targets.double()
    mean, scale = x.mean(0), x.std(0) + 1e-9
    centred = (x - mean) / scale
    gram = centred.T @ centred
    gram += strength * len(x) * torch.eye(gram.shape[0], dtype=torch.float64)
    weight = torch.linalg.solve(gram, centred.T @ (y - y.mean(0))).T / scale
    bias = y.mean(0) - weight @ mean
    return weight.float(), bias.float()


@contextmanager
def one_thread() -> Iterator[None]:
    """Fits alike on any machine, and without threads that wait for each other where cores are few; no gradients."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_num_threads(before)


def scaled(module: torch.nn.Module, inputs: Tensor) -> Tensor:
    """Has a convolution give numbers of mean 0 and variance 1 in each channel for `inputs`; returns them."""
    y: Tensor = module(inputs)
    dims = [d for d in range(y.dim()) if d != 1]
    mean, deviation = y.mean(dims), y.std(dims) + 1e-6
    with torch.no_grad():
        weight, bias = module.get_parameter("weight"), module.get_parameter("bias")
        weight.div_(deviation.reshape(-1, *[1] * (weight.dim() - 1)))
        bias.copy_((bias - mean) / deviation)
    shape = (1, -1, *[1] * (y.dim() - 2))
    return (y - mean.reshape(shape)) / deviation.reshape(shape)
