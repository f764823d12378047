"""A small convolutional network for the digits that scikit-learn ships, trained once."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

BATCH = 64
TRAINED = 1397


@dataclass(frozen=True)
class Digits:
    images: Tensor
    labels: Tensor
    model: nn.Module

    @property
    def calibration(self) -> list[Tensor]:
        return list(self.images[: 8 * BATCH].split(BATCH))

    def score(self, model: nn.Module) -> float:
        """Percent of the digits right that the model has not been trained on."""
        with torch.no_grad():
            found = model(self.images[TRAINED:]).argmax(1)
        return 100 * float((found == self.labels[TRAINED:]).float().mean())

    def train(self, model: nn.Module, epochs: int, rate: float) -> None:
        optimizer = torch.optim.Adam(model.parameters(), rate)
        for _ in range(epochs):
            for images, labels in zip(
                self.images[:TRAINED].split(BATCH), self.labels[:TRAINED].split(BATCH), strict=True
            ):
                optimizer.zero_grad()
                functional.cross_entropy(model(images), labels).backward()
                optimizer.step()


@functools.lru_cache(maxsize=1)
def digits() -> Digits:
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.Hardswish(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10),
        )  # fmt: skip
        found = Digits(images, torch.tensor(data.target), model)
        found.train(model, 10, 3e-3)
    model.eval()
    return found
