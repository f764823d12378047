"""Small networks that have everything that the engine's commands can do."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Everything(nn.Module):
    """Odd sizes, strides, dilation, depthwise, pools, a concatenation, residuals before and behind an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 24, 5, 2, 2)
        self.dilated = nn.Conv2d(24, 24, 3, 1, 2, dilation=2)
        self.depthwise = nn.Conv2d(24, 24, 3, 2, 1, groups=24)
        self.left, self.right = nn.Conv2d(24, 32, 1), nn.Conv2d(24, 16, (1, 5), padding=(0, 2))
        self.last = nn.Conv2d(48, 48, 3, padding=1)
        self.classes = nn.Linear(48, 37)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(self.dilated(x) + x)
        x = nn.functional.max_pool2d(x, 3, 2, 1)
        x = self.depthwise(x)
        x = torch.cat([torch.relu(self.left(x)), nn.functional.silu(self.right(x))], 1)
        x = x + nn.functional.leaky_relu(self.last(x))
        result: Tensor = self.classes(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return result


class Attention(nn.Module):
    """A layer of an encoder: products of maps, softmax, layer norms, a table, residuals."""

    def __init__(self, width: int = 96, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output, self.up = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.middle, self.last = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        split = (x.shape[0], x.shape[1], self.heads, -1)
        q, k, v = (layer(x).view(split).transpose(1, 2) for layer in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = self.middle(x + self.output(mixed))
        result: Tensor = self.last(x + self.down(nn.functional.gelu(self.up(x))))
        return result
