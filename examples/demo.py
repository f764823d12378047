"""The demonstration behind `make demo`: networks on real pictures, compiled for the card, held against eager.

    python -m examples.demo [--out out] [--options key=value ...]

1. A small CNN learns scikit-learn's handwritten digits for a few seconds and then reads the ones it has not seen.
2. ResNet-50, with random weights (nothing is downloaded), looks at one of scikit-learn's photographs.
3. The network of 1, quantised to 8 bits by torchao's flow, reads the same digits: with integers, and eager mode's bits.

Exit code 1 if the card and eager disagree.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from sklearn.datasets import load_digits, load_sample_image
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import fpga_dynamo
from fpga_dynamo.quantize import quantize
from fpga_dynamo.tools.cli import option
from fpga_dynamo.tools.zoo import load, randomise_batch_norm

SEED = 0
EPOCHS = 5
BATCH = 64

# Mean and deviation per channel that ImageNet networks are trained with.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)

console = Console()


class DigitsNet(nn.Module):
    """Two convolutions, a residual one and a linear layer over images of 1 x 8 x 8."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 32, 3, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(32)
        self.body = nn.Conv2d(32, 32, 3, padding=1, bias=False)
        self.body_norm = nn.BatchNorm2d(32)
        self.head = nn.Linear(32 * 4 * 4, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem_norm(self.stem(x)))
        x = F.relu(x + self.body_norm(self.body(x)))
        return self.head(torch.flatten(F.max_pool2d(x, 2), 1))


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images, test images (N x 1 x 8 x 8, from 0 to 1), training labels, test labels."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)
    indices = torch.arange(len(labels)).numpy()
    train, test = train_test_split(indices, test_size=400, random_state=SEED, stratify=data.target)
    return images[train], images[test], labels[train], labels[test]


def train(model: nn.Module, images: Tensor, labels: Tensor) -> None:
    """Adam with a cosine schedule over `EPOCHS` epochs; leaves the model in eval mode."""
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    model.train()
    for _ in range(EPOCHS):
        for chunk in torch.randperm(len(labels)).split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(model(images[chunk]), labels[chunk]).backward()
            optimizer.step()
        schedule.step()
    model.eval()


@dataclass(frozen=True)
class Trained:
    """A network and the digits that it knows, and those that it does not."""

    model: nn.Module
    train_images: Tensor
    test_images: Tensor
    test_labels: Tensor

    def accuracy(self, scores: Tensor) -> float:
        return (scores.argmax(1) == self.test_labels).float().mean().item()


def demonstrate_digits(backend: str, options: dict[str, Any], out: Path) -> tuple[bool, Trained]:
    """Whether the card agrees with eager on every digit, and the network."""
    console.print(Rule("Handwritten digits"))
    torch.manual_seed(SEED)
    train_images, test_images, train_labels, test_labels = digits()
    model = DigitsNet()
    trained = Trained(model, train_images, test_images, test_labels)
    start = time.perf_counter()
    train(model, train_images, train_labels)
    console.print(f"trained on {len(train_labels)} digits in {time.perf_counter() - start:.1f} s")

    compiled = torch.compile(model, backend=backend, options=options or None)
    with torch.no_grad():
        eager = model(test_images)
        start = time.perf_counter()
        compiled(test_images)
        console.print(f"compiled in {time.perf_counter() - start:.1f} s (the first time with the xclbin)")
        with fpga_dynamo.trace() as trace:
            card = compiled(test_images)
        explained = fpga_dynamo.explain(model, test_images, options=options or None)

    agreeing = int((card.argmax(1) == eager.argmax(1)).sum())
    table = Table("", "eager", "card", title=f"{len(test_labels)} digits that it has not seen")
    accuracies = [trained.accuracy(scores) for scores in (eager, card)]
    table.add_row("accuracy", *(f"{accuracy:.2%}" for accuracy in accuracies))
    table.add_row("same prediction", "", f"{agreeing} of {len(test_labels)}")
    table.add_row("largest difference of a score", "", f"{(card - eager).abs().max().item():.1e}")
    console.print(table)
    show_offload(explained)
    console.print(str(explained), markup=False, highlight=False, soft_wrap=True)
    console.print(f"trace    {trace.save(out / 'digits_trace.json')}  (open it at ui.perfetto.dev)", soft_wrap=True)
    console.print(f"picture  {trace.gantt(out / 'digits_gantt.png')}", soft_wrap=True)
    return agreeing == len(test_labels) and accuracies[0] == accuracies[1], trained


def demonstrate_int8(trained: Trained, backend: str, options: dict[str, Any]) -> bool:
    """Returns whether the card's results of the quantised network are eager mode's to the bit."""
    console.print(Rule("The digits in INT8"))
    images = trained.test_images
    calibration = trained.train_images.split(len(images))[:2]  # exported graphs have one size of batch
    model = quantize(trained.model, calibration, scales="pow2", bias="int32", progress=False)
    compiled = torch.compile(model, backend=backend, options=options or None)
    with torch.no_grad():
        real, eager, card = trained.model(images), model(images), compiled(images)
        explained = fpga_dynamo.explain(model, images, options=options or None)
    table = Table("", "float32", "INT8, eager", "INT8, card", title="scales are powers of two")
    table.add_row("accuracy", *(f"{trained.accuracy(scores):.2%}" for scores in (real, eager, card)))
    table.add_row("bits of eager mode's result", "", "", "the same" if torch.equal(card, eager) else "others")
    products = [node for graph in explained.graphs for node in graph.nodes if node.macs]
    integers = sum(node.macs for node in products if node.how.startswith("int8"))
    table.add_row("multiplied in int8", "", "", f"{integers / max(sum(node.macs for node in products), 1):.0%}")
    console.print(table)
    show_offload(explained)
    return torch.equal(card, eager)


def show_offload(explained: Any) -> None:
    """The offload in three figures."""
    table = Table("operators on the card", "multiply-accumulates on the card", "launches")
    table.add_row(f"{explained.node_offload:.0%}", f"{explained.mac_offload:.0%}", str(explained.pl_launches))
    console.print(table)


def photograph(name: str = "china.jpg", size: int = 224) -> Tensor:
    """One of scikit-learn's photographs as a network takes it: 1 x 3 x size x size, normalised."""
    pixels = torch.from_numpy(load_sample_image(name).copy()).permute(2, 0, 1).unsqueeze(0) / 255
    short = round(size * 256 / 224)
    scale = short / min(pixels.shape[2:])
    pixels = F.interpolate(pixels, scale_factor=scale, mode="bilinear", antialias=True, align_corners=False)
    top, left = ((side - size) // 2 for side in pixels.shape[2:])
    pixels = pixels[:, :, top : top + size, left : left + size]
    mean, deviation = (torch.tensor(values).view(1, 3, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_DEVIATION))
    return (pixels - mean) / deviation


def demonstrate_resnet(backend: str, options: dict[str, Any]) -> bool:
    """Returns whether the five best classes are the same on the card and in eager, in the same order."""
    console.print(Rule("ResNet-50"))
    model = randomise_batch_norm(load("resnet50", seed=SEED).model, SEED)
    image = photograph()
    compiled = torch.compile(model, backend=backend, options=options or None)
    with torch.no_grad():
        eager = model(image)
        compiled(image)
        before = fpga_dynamo.stats()
        card = compiled(image)
        after = fpga_dynamo.stats()
        explained = fpga_dynamo.explain(model, image, options=options or None)

    table = Table("", "eager: class", "score", "card: class", "score", title="scikit-learn's china.jpg, random weights")
    best = [scores[0].topk(5) for scores in (eager, card)]
    for place in range(5):
        cells = [(str(top.indices[place].item()), f"{top.values[place].item():.4f}") for top in best]
        table.add_row(str(place + 1), *cells[0], *cells[1])
    console.print(table)
    show_offload(explained)
    console.print(
        f"one call: {after['pl_launches'] - before['pl_launches']} launch(es), "
        f"{after['pl_commands'] - before['pl_commands']} commands, {after['ps_nodes'] - before['ps_nodes']} on the host"
    )
    return torch.equal(best[0].indices, best[1].indices)


def main(argv: Sequence[str] | None = None) -> int:
    """All demonstrations; returns the exit code."""
    parser = argparse.ArgumentParser(description="Networks on real pictures, on the card and in eager")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="for the trace and the picture")
    parser.add_argument("--options", nargs="+", type=option, default=[], metavar="key=value", help="of the backend")
    parser.add_argument("--backend", default="fpga", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    options = dict(arguments.options)
    arguments.out.mkdir(parents=True, exist_ok=True)

    agree, trained = demonstrate_digits(arguments.backend, options, arguments.out)
    agree &= demonstrate_resnet(arguments.backend, options)
    agree &= demonstrate_int8(trained, arguments.backend, options)
    verdict = "[green]The card and eager agree.[/green]" if agree else "[red]The card and eager DISAGREE.[/red]"
    console.print(Rule(), verdict)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
