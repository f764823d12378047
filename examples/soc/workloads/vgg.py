"""VGG16 on images of 32 x 32: thirteen convolutions, five poolings, three linear layers.

K. Simonyan and A. Zisserman, "Very deep convolutional networks for large-scale image recognition" (2015), configuration
D, in the width that is usual for images of this size. The images are generated textures of ten kinds; the convolutions
are random and scaled, the last layer is fitted (readout.py).
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from examples.soc.workloads.readout import one_thread, ridge, scaled

WIDTHS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
CLASSES = 10


def textures(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images (count x 3 x 32 x 32) of stripes and their kinds: five directions in two hues, with phase and noise."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % CLASSES
    y, x = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    images = []
    for label in labels.tolist():
        angle = math.pi * (label % 5) / 5 + 0.05 * float(torch.randn((), generator=generator))
        phase = 2 * math.pi * float(torch.rand((), generator=generator))
        waves = torch.sin((x * math.cos(angle) + y * math.sin(angle)) * 2 * math.pi / 6 + phase)
        hue = torch.tensor([1.0, 0.2, -0.5] if label < 5 else [-0.5, 0.2, 1.0])
        images.append(hue[:, None, None] * waves + 0.3 * torch.randn(3, 32, 32, generator=generator))
    return torch.stack(images), labels


class VGG16(torch.nn.Module):
    """Images (batch x 3 x 32 x 32) -> scores of the kinds."""

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        layers: list[torch.nn.Module] = []
        channels = 3
        for width, count in WIDTHS:
            for _ in range(count):
                layers += [torch.nn.Conv2d(channels, width, 3, padding=1), torch.nn.ReLU()]
                channels = width
            layers.append(torch.nn.MaxPool2d(2))
        self.features = torch.nn.Sequential(*layers)
        self.classifier = torch.nn.Sequential(
            torch.nn.Linear(512, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images).flatten(1))


@lru_cache(maxsize=1)
def model() -> VGG16:
    """With weights that tell the textures apart."""
    made = VGG16().eval()
    images, labels = textures(200, seed=1)
    generator = torch.Generator().manual_seed(2)
    with one_thread():
        x = images
        for layer in made.features:
            if isinstance(layer, torch.nn.Conv2d):
                layer.weight.normal_(0, 0.3 * (9 * layer.in_channels) ** -0.5, generator=generator)
                if (
                    layer.in_channels > 3
                ):  # most of a pixel itself, mixed among channels, so that depth does not blur it
                    own = torch.randn(layer.out_channels, layer.in_channels, generator=generator)
                    layer.weight[:, :, 1, 1] += own * layer.in_channels**-0.5
                layer.get_parameter("bias").zero_()
                x = scaled(layer, x)
            else:
                x = layer(x)
        x = x.flatten(1)
        for layer in list(made.classifier)[:-1]:
            if isinstance(layer, torch.nn.Linear):
                layer.weight.normal_(0, 0.3 * layer.in_features**-0.5, generator=generator)
                layer.weight += torch.eye(layer.out_features, layer.in_features)
                layer.bias.zero_()
                x = scaled(layer, x)
            else:
                x = layer(x)
        last = made.classifier[-1]
        weight, bias = ridge(x, torch.nn.functional.one_hot(labels, CLASSES).float(), 3.0)
        last.get_parameter("weight").copy_(weight)
        last.get_parameter("bias").copy_(bias)
    return made


def example() -> tuple[torch.nn.Module, tuple[Tensor, ...]]:
    return model(), (textures(1, seed=7)[0],)
