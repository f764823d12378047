"""Int8 operators over any dimension on the hardware engine: one launch, and the bits of eager mode on its sources."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.lowering.engine_kit import assert_one_exact_launch
from tests.marks import EXTENDED

Between = Callable[["Layers", Tensor], Tensor]


class Layers(nn.Module):
    """Two layers, and what is done with the first one's result `x` of 32 channels or features. aside: a layer of x."""

    def __init__(self, between: Between, *, rows: bool = False, aside: int = 32, last: int = 32) -> None:
        super().__init__()
        self.between = between

        def layer(inputs: int, outputs: int) -> nn.Module:
            return nn.Linear(inputs, outputs) if rows else nn.Conv2d(inputs, outputs, 1)

        self.first, self.aside, self.last = layer(3, 32), layer(32, aside), layer(last, 16)
        self.depthwise, self.norm = nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.BatchNorm2d(32)
        self.scale = nn.Parameter(torch.rand(32) if rows else torch.rand(32, 1, 1) - 0.5)
        self.token, self.layer_norm = nn.Parameter(torch.randn(1, 1, 32)), nn.LayerNorm(32)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.between(self, torch.relu(self.first(x))))
        return result


def gates(of: Layers, x: Tensor) -> Tensor:
    """Focal modulation: a sum of products by a number for each pixel, and an outer product."""
    weights = of.aside(x)[:, 32:]
    total = 0 + x * weights[:, :1] + of.depthwise(x) * weights[:, 1:2]
    result: Tensor = total + x.mean((2, 3), keepdim=True) * weights[:, 2:]
    return result


def token_and_image(of: Layers, x: Tensor) -> Tensor:
    """A position encoding of all tokens but the first: slices of rows are images, and an addend."""
    images, _, height, width = x.shape
    rows = torch.cat([of.token.expand(images, -1, -1), of.layer_norm(x.flatten(2).transpose(1, 2))], 1)
    image = rows[:, 1:].transpose(1, 2).reshape(images, 32, height, width)
    moved = (of.depthwise(image) + image).flatten(2).transpose(1, 2)
    return torch.cat([rows[:, :1], moved], 1)[:, 1:].transpose(1, 2).reshape(images, 32, height, width)


def separable_attention(of: Layers, x: Tensor) -> Tensor:
    """A softmax over pixels of one channel, which weighs those of a sum."""
    queries, keys = of.aside(x).flatten(2).split([1, 32], 1)
    context = (keys * queries.softmax(-1)).sum(-1, keepdim=True)
    return (x.flatten(2) * context.expand(-1, -1, x[0, 0].numel())).reshape_as(x)


def pooled(x: Tensor, kernel: int, stride: int, padding: int = 0, *, ceil_mode: bool = False) -> Tensor:
    return nn.functional.avg_pool2d(x, kernel, stride, padding, ceil_mode=ceil_mode, count_include_pad=False)


IMAGE, IMAGES, ROWS = (1, 3, 8, 6), (2, 3, 5, 6), (2, 10, 3)
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "softmax over channels": (lambda: Layers(lambda of, x: of.aside(x).softmax(1)), IMAGES),
    "softmax over columns": (lambda: Layers(lambda of, x: of.aside(x).softmax(2)), IMAGE),
    "softmax over rows": (lambda: Layers(lambda of, x: of.aside(x).softmax(1), rows=True), ROWS),
    "a difference": (lambda: Layers(lambda of, x: of.aside(x) - x), IMAGES),
    "what a token is subtracted from": (lambda: Layers(lambda of, x: x.mean(1, True) - x, rows=True), ROWS),
    "a number for each pixel": (lambda: Layers(lambda of, x: x * of.aside(x).sigmoid(), aside=1), IMAGES),
    "a number added to each pixel": (lambda: Layers(lambda of, x: x + of.aside(x), aside=1), IMAGE),
    "a number for each token": (lambda: Layers(lambda of, x: x * of.aside(x).sigmoid(), rows=True, aside=1), ROWS),
    "a number for each feature": (lambda: Layers(lambda of, x: x * of.aside(x.mean(1, True)), rows=True), ROWS),
    "gates": (lambda: Layers(gates, aside=35), IMAGE),
    "gates of two images": (lambda: Layers(gates, aside=35), IMAGES),
    "a scale of channels": (lambda: Layers(lambda of, x: x + of.scale * (of.depthwise(x) - of.norm(x))), IMAGE),
    "a scale of features": (lambda: Layers(lambda of, x: x + of.scale * (of.aside(x) - x), rows=True), ROWS),
    "a token and an image": (lambda: Layers(token_and_image), IMAGES),
    "the mean of channels": (lambda: Layers(lambda of, x: x * x.mean(1, True).sigmoid()), IMAGES),
    "the mean of columns": (lambda: Layers(lambda of, x: of.aside(x).mean(3, keepdim=True)), IMAGES),
    "the mean of tokens": (lambda: Layers(lambda of, x: x.mean(1, True), rows=True), ROWS),
    "the sum of pixels": (lambda: Layers(lambda of, x: x.sum((2, 3), keepdim=True)), IMAGES),
    "the sum of rows": (lambda: Layers(lambda of, x: of.aside(x).sum(2, keepdim=True)), IMAGE),
    "windows without what pads them": (lambda: Layers(lambda of, x: pooled(of.aside(x), 3, 1, 1) - x), IMAGES),
    "windows that end beyond the image": (lambda: Layers(lambda of, x: pooled(x, 2, 2, 0, ceil_mode=True)), IMAGES),
    "separable attention": (lambda: Layers(separable_attention, aside=33), IMAGES),
}
ALWAYS = ("softmax over channels", "gates", "a token and an image", "the mean of channels")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in ALWAYS else EXTENDED) for n in CASES])
def test_one_launch_with_the_bits_of_eager(name: str) -> None:
    torch.manual_seed(4)
    make, size = CASES[name]
    assert_one_exact_launch(make(), torch.randn(size))
