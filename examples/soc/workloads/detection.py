"""Object detection in one pass: where squares, discs and crosses are in an image, and what they are.

After J. Redmon et al., "You only look once" (2016): the image is a grid of cells; the network gives for each whether an
object's centre is in it, where in the cell, how large it is and of which class; of boxes that overlap, the surest is
kept. Images are generated, so that every object is known. All layers but the head are random; the head is fitted
(readout.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from examples.soc.workloads.readout import one_thread, ridge, scaled

SIZE, CELL = 96, 8
GRID = SIZE // CELL
CLASSES = ("square", "disc", "cross")
COLOURS = torch.tensor([[1.0, 0.1, 0.1], [0.1, 1.0, 0.1], [0.2, 0.2, 1.0]])
"""Of the classes: most of what tells them apart for so small a network."""


@dataclass(frozen=True)
class Box:
    """Centre and size in pixels, the number of its class, and how sure the detector is (1 for the truth)."""

    x: float
    y: float
    size: float
    kind: int
    score: float = 1.0

    def overlap(self, other: Box) -> float:
        """Intersection over union."""
        half = (self.size + other.size) / 2
        across = max(0.0, min(half - abs(self.x - other.x), self.size, other.size))
        down = max(0.0, min(half - abs(self.y - other.y), self.size, other.size))
        shared = across * down
        return shared / (self.size**2 + other.size**2 - shared)


def scene(generator: torch.Generator, most: int = 4) -> tuple[Tensor, list[Box]]:
    """An image (3 x SIZE x SIZE) and the objects in it, which do not touch."""
    image = 0.15 * torch.randn(3, SIZE, SIZE, generator=generator)
    y, x = torch.meshgrid(torch.arange(float(SIZE)), torch.arange(float(SIZE)), indexing="ij")
    boxes: list[Box] = []
    wanted = int(torch.randint(1, most + 1, (), generator=generator))
    while len(boxes) < wanted:
        u = torch.rand(4, generator=generator).tolist()
        size = 10 + 8 * u[0]
        room = SIZE - size - 2
        box = Box(1 + size / 2 + room * u[1], 1 + size / 2 + room * u[2], size, int(3 * u[3]))
        if any(
            abs(box.x - o.x) < (size + o.size) / 2 + 4 and abs(box.y - o.y) < (size + o.size) / 2 + 4 for o in boxes
        ):
            continue
        across, down, half = (x + 0.5 - box.x).abs(), (y + 0.5 - box.y).abs(), size / 2
        inside = (
            torch.maximum(across, down) < half,
            across**2 + down**2 < half**2,
            (torch.maximum(across, down) < half) & (torch.minimum(across, down) < size / 5),
        )[box.kind]
        image += inside * COLOURS[box.kind][:, None, None]
        boxes.append(box)
    return image, boxes


def scenes(count: int, seed: int) -> tuple[Tensor, list[list[Box]]]:
    generator = torch.Generator().manual_seed(seed)
    made = [scene(generator) for _ in range(count)]
    return torch.stack([image for image, _ in made]), [boxes for _, boxes in made]


class Detector(torch.nn.Module):
    """Images (batch x 3 x SIZE x SIZE) -> (batch x 7 x GRID x GRID): objectness, x and y in the cell, size, classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 24, 3, stride=2, padding=1)
        self.second = torch.nn.Conv2d(24, 48, 3, stride=2, padding=1)
        self.third = torch.nn.Conv2d(48, 96, 3, stride=2, padding=1)
        self.fourth = torch.nn.Conv2d(96, 128, 3, padding=1)
        self.fine = torch.nn.Conv2d(96, 4 + len(CLASSES), 3, padding=1, bias=False)
        self.coarse = torch.nn.Conv2d(128, 4 + len(CLASSES), 3, padding=1)

    def backbone(self, images: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.relu(self.second(torch.relu(self.stem(images))))
        fine = torch.relu(self.third(x))
        return fine, torch.relu(self.fourth(fine))

    def forward(self, images: Tensor) -> Tensor:
        fine, coarse = self.backbone(images)
        return self.fine(fine) + self.coarse(coarse)


def decode(head: Tensor, threshold: float = 0.35) -> list[Box]:
    """Boxes of one image's head; of those that overlap, the surest."""
    found = []
    rows, columns = (head[0] > threshold).nonzero(as_tuple=True)
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        cell = head[:, row, column]
        x, y = (column + 0.5 + float(cell[1])) * CELL, (row + 0.5 + float(cell[2])) * CELL
        found.append(Box(x, y, max(float(cell[3]) * SIZE, 1.0), int(cell[4:].argmax()), float(cell[0])))
    found.sort(key=lambda box: -box.score)
    kept: list[Box] = []
    for box in found:
        if all(box.overlap(other) < 0.3 for other in kept):
            kept.append(box)
    return kept


def _patches(features: Tensor) -> Tensor:
    """What a 3 x 3 convolution sees at each cell: cells x (9 channels)."""
    columns = torch.nn.functional.unfold(features, 3, padding=1)
    return columns.transpose(1, 2).flatten(0, 1)


def _targets(boxes: list[list[Box]]) -> tuple[Tensor, Tensor]:
    """What the head should give for each cell, and which cells have an object."""
    targets = torch.zeros(len(boxes), GRID, GRID, 4 + len(CLASSES))
    for target, objects in zip(targets, boxes, strict=True):
        for box in objects:
            row, column = int(box.y / CELL), int(box.x / CELL)
            x, y = box.x / CELL - column - 0.5, box.y / CELL - row - 0.5
            target[row, column] = torch.tensor([1, x, y, box.size / SIZE, *(float(box.kind == k) for k in range(3))])
    targets = targets.flatten(0, 2)
    return targets, targets[:, 0] > 0


@lru_cache(maxsize=1)
def model() -> Detector:
    """With weights that find the objects."""
    made = Detector().eval()
    images, boxes = scenes(300, seed=1)
    generator = torch.Generator().manual_seed(2)
    with one_thread():
        for layer in (made.stem, made.second, made.third, made.fourth):
            layer.weight.normal_(0, (9 * layer.in_channels) ** -0.5, generator=generator)
            layer.get_parameter("bias").zero_()
        x = torch.relu(scaled(made.second, torch.relu(scaled(made.stem, images))))
        fine = torch.relu(scaled(made.third, x))
        coarse = torch.relu(scaled(made.fourth, fine))
        seen = torch.cat([_patches(fine), _patches(coarse)], 1)
        targets, there = _targets(boxes)
        # Objectness by all cells, the rest by those that have an object and their neighbours' likes.
        every = torch.cat([there.nonzero().flatten(), torch.randperm(len(seen), generator=generator)[:12000]])
        objectness = ridge(seen[every], targets[every][:, :1], 1e-3)
        others = ridge(seen[there], targets[there][:, 1:], 0.3)
        weight, bias = (torch.cat([a, b]) for a, b in zip(objectness, others, strict=True))
        cut = 9 * made.third.out_channels
        made.fine.weight.copy_(weight[:, :cut].reshape(made.fine.weight.shape))
        made.coarse.weight.copy_(weight[:, cut:].reshape(made.coarse.weight.shape))
        made.coarse.get_parameter("bias").copy_(bias)
    return made


def example() -> tuple[torch.nn.Module, tuple[Tensor, ...]]:
    return model(), (scenes(1, seed=7)[0],)
