"""A task in which 8 bits cost something: noise is to be taken off the two photographs that scikit-learn ships.

What the network answers is the picture itself, and so every rounding on the way is noise again. Scored in dB, where a
twentieth of a step of a byte is seen, while a class changes for large errors only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

SIDE = 32
BATCH = 16
NOISE = 4 / 255
TEST_COLUMNS = 512
"""Of 640: to the right of these lies what no training has seen."""


def photographs() -> Tensor:
    """(2, 3, 427, 640) from 0 to 1."""
    from sklearn.datasets import load_sample_images

    pictures = np.stack(load_sample_images().images).astype(np.float32) / 255
    return torch.from_numpy(pictures).permute(0, 3, 1, 2).contiguous()


def _separable(given: int, made: int) -> list[nn.Module]:
    return [
        nn.Conv2d(given, given, 3, padding=1, groups=given, bias=False), nn.BatchNorm2d(given), nn.ReLU6(),
        nn.Conv2d(given, made, 1, bias=False), nn.BatchNorm2d(made), nn.ReLU6(),
    ]  # fmt: skip


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU6(),
        *_separable(32, 32), *_separable(32, 32), *_separable(32, 32), nn.Conv2d(32, 3, 3, padding=1),
    )  # fmt: skip


@dataclass
class Photographs:
    """The task, and what learns it."""

    train: Tensor
    test: tuple[Tensor, Tensor]

    @property
    def calibration(self) -> list[Tensor]:
        generator = torch.Generator().manual_seed(5)
        return [self.drawn(generator)[0] for _ in range(16)]

    def drawn(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A batch of squares, turned over or not, with noise and without."""
        _, _, height, width = self.train.shape
        squares = []
        for _ in range(BATCH):
            which, y, x, flip = (int(torch.randint(n, (), generator=generator)) for n in (2, height - SIDE, width - SIDE, 2))
            square = self.train[which, :, y : y + SIDE, x : x + SIDE]
            squares.append(square.flip(2) if flip else square)
        clean = torch.stack(squares)
        return clean + NOISE * torch.randn(clean.shape, generator=generator), clean

    def score(self, model: Any) -> float:
        """Peak signal-to-noise ratio in dB of pictures that no training has seen."""
        noisy, clean = self.test
        with torch.no_grad():
            batches = zip(noisy.split(BATCH), clean.split(BATCH), strict=True)
            error = sum(float((model(x) - y).square().sum()) for x, y in batches) / clean.numel()
        return -10 * float(np.log10(error))

    def learn(self, model: Any, steps: int, rate: float) -> None:
        """By Adam, with a rate that falls to nothing."""
        generator = torch.Generator().manual_seed(steps)
        optimizer = torch.optim.Adam(model.parameters(), rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for _ in range(steps):
            noisy, clean = self.drawn(generator)
            optimizer.zero_grad()
            functional.mse_loss(model(noisy), clean).backward()
            optimizer.step()
            schedule.step()


def task() -> Photographs:
    pictures = photographs()
    unseen = pictures[..., TEST_COLUMNS : TEST_COLUMNS + 4 * SIDE][:, :, : 13 * SIDE]
    clean = unseen.unfold(2, SIDE, SIDE).unfold(3, SIDE, SIDE).permute(0, 2, 3, 1, 4, 5).reshape(-1, 3, SIDE, SIDE)
    clean = clean[: len(clean) // BATCH * BATCH]
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(7))
    return Photographs(pictures[..., :TEST_COLUMNS], (clean + NOISE * noise, clean))
