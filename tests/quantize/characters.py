"""A harder task than the digits: 62 letters and digits in twelve fonts of matplotlib, turned, sheared and noisy.

A network with depthwise convolutions, whose channels differ widely in size, learns them; that is what scales of whole
tensors and powers of two cost most.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor, nn
from torch.nn import functional

CHARACTERS = string.digits + string.ascii_letters
SIDE = 20
BATCH = 124
OF_EACH = {"train": 8, "test": 3}
"""Pictures of each character in each font."""
NOISE = 0.25


def fonts() -> list[Path]:
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return sorted(p for p in folder.glob("DejaVuS*.ttf") if "Display" not in p.name)


def _drawn(character: str, font: Any, random: np.random.Generator) -> np.ndarray:
    """(SIDE, SIDE) from 0 to 1 and noise: turned by up to 25 degrees, sheared, moved, of any contrast."""
    image = Image.new("L", (3 * SIDE, 3 * SIDE))
    ImageDraw.Draw(image).text((1.5 * SIDE, 1.5 * SIDE), character, fill=255, font=font, anchor="mm")
    angle, shear = np.deg2rad(random.uniform(-25, 25)), random.uniform(-0.3, 0.3)
    size = random.uniform(0.85, 1.3)
    turn = np.array([[np.cos(angle), -np.sin(angle) + shear], [np.sin(angle), np.cos(angle)]]) * size
    middle = np.array([1.5 * SIDE, 1.5 * SIDE]) + random.uniform(-2, 2, 2)
    offset = middle - turn @ np.array([SIDE / 2, SIDE / 2])
    matrix = (*turn[0], offset[0], *turn[1], offset[1])
    drawn = image.transform((SIDE, SIDE), Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR)
    picture = np.asarray(drawn, np.float32) / 255 * random.uniform(0.5, 1)
    return picture + NOISE * random.standard_normal((SIDE, SIDE), np.float32)


def pictures(kind: str) -> tuple[Tensor, Tensor]:
    """Images (n, 1, SIDE, SIDE) and labels, the same ones each time."""
    random = np.random.default_rng(sorted(OF_EACH).index(kind))
    loaded = [ImageFont.truetype(str(path), 16) for path in fonts()]
    images, labels = [], []
    for label, character in enumerate(CHARACTERS):
        for font in loaded:
            for _ in range(OF_EACH[kind]):
                images.append(_drawn(character, font, random))
                labels.append(label)
    order = random.permutation(len(images))
    return torch.from_numpy(np.stack(images)[order])[:, None], torch.tensor(labels)[order]


def _separable(given: int, made: int, stride: int) -> list[nn.Module]:
    return [
        nn.Conv2d(given, given, 3, stride, 1, groups=given, bias=False), nn.BatchNorm2d(given), nn.ReLU6(),
        nn.Conv2d(given, made, 1, bias=False), nn.BatchNorm2d(made), nn.Hardswish(),
    ]  # fmt: skip


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.Hardswish(),
        *_separable(24, 48, 2), *_separable(48, 48, 1), *_separable(48, 96, 2), *_separable(96, 96, 1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, len(CHARACTERS)),
    )  # fmt: skip


@dataclass
class Characters:
    """The task, and what learns it."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]

    @property
    def calibration(self) -> list[Tensor]:
        return list(self.train[0][: 8 * BATCH].split(BATCH))

    def score(self, model: Any) -> float:
        """Percent right of pictures that no training has seen."""
        images, labels = self.test
        batches = zip(images.split(BATCH), labels.split(BATCH), strict=True)
        with torch.no_grad():
            right = sum(int((model(x).argmax(1) == y).sum()) for x, y in batches)
        return 100 * right / len(labels)

    def learn(self, model: Any, epochs: int, rate: float) -> None:
        """By Adam, with a rate that falls to nothing."""
        images, labels = self.train
        optimizer = torch.optim.Adam(model.parameters(), rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * (len(labels) // BATCH))
        for _ in range(epochs):
            order = torch.randperm(len(labels))
            for chosen in order[: len(labels) // BATCH * BATCH].split(BATCH):
                optimizer.zero_grad()
                functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
                optimizer.step()
                schedule.step()


def characters() -> Characters:
    return Characters(pictures("train"), pictures("test"))
