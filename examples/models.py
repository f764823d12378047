"""Models that torchvision does not have. Each function gives a module with random weights and inputs for one item.

`fpga-dynamo run examples.models:darknet53` runs one.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fpga_dynamo.tools.zoo import ZooModel, load, randomise_batch_norm

__all__ = ["ZooModel", "darknet53", "load", "mlp", "randomise_batch_norm", "tiny_bert"]


def _conv_bn_leaky(in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.LeakyReLU(0.1),
    )


class _DarkResidual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze = _conv_bn_leaky(channels, channels // 2, 1)
        self.expand = _conv_bn_leaky(channels // 2, channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.expand(self.squeeze(x))


class DarkNet53(nn.Module):
    """The classifier of Redmon and Farhadi, "YOLOv3: An Incremental Improvement" (2018), table 1."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [_conv_bn_leaky(3, 32, 3)]
        channels = 32
        for repeats in (1, 2, 8, 8, 4):
            layers.append(_conv_bn_leaky(channels, 2 * channels, 3, stride=2))
            channels *= 2
            layers += [_DarkResidual(channels) for _ in range(repeats)]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.adaptive_avg_pool2d(self.features(x), 1)
        return self.classifier(torch.flatten(x, 1))


class TinyBert(nn.Module):
    """A transformer encoder over token numbers, post-norm as in BERT (Devlin et al., 2018), with a classifier."""

    def __init__(
        self,
        vocabulary: int = 1000,
        width: int = 128,
        layers: int = 2,
        heads: int = 2,
        length: int = 128,
        classes: int = 2,
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(_EncoderLayer(width, heads) for _ in range(layers))
        self.pooler = nn.Linear(width, width)
        self.classifier = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.norm(self.token(tokens) + self.position(positions))
        for layer in self.layers:
            x = layer(x)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


class _EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width)
        self.grow = nn.Linear(width, 4 * width)
        self.shrink = nn.Linear(4 * width, width)
        self.output_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = self.query_key_value(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(batch, length, width)
        x = self.attention_norm(x + self.project(mixed))
        return self.output_norm(x + self.shrink(F.gelu(self.grow(x))))


class TinyLlama(nn.Module):
    """A decoder with rotary embedding, grouped-query attention, RMS norm and a key-value cache of fixed length.

    It takes one token and its position, as tensors, writes the cache and gives the next token.
    """

    cosine: Tensor
    sine: Tensor
    mask: Tensor

    def __init__(
        self, words: int = 100, width: int = 64, layers: int = 2, heads: int = 4, kv_heads: int = 2, most: int = 32
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList([_DecoderLayer(width, heads, kv_heads, most) for _ in range(layers)])
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        half = width // heads // 2
        angles = torch.outer(torch.arange(most), 1e4 ** (-torch.arange(half) / half))
        self.register_buffer("cosine", angles.cos().repeat(1, 2))
        self.register_buffer("sine", angles.sin().repeat(1, 2))
        self.register_buffer("mask", torch.full((most, most), -torch.inf).triu(1))

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        x = self.embed(token)
        cosine, sine, mask = (table.index_select(0, position) for table in (self.cosine, self.sine, self.mask))
        for layer in self.layers:
            x = layer(x, position, cosine, sine, mask)
        return self.head(self.norm(x)).argmax(-1)


class _DecoderLayer(nn.Module):
    keys: Tensor
    values: Tensor

    def __init__(self, width: int, heads: int, kv_heads: int, most: int) -> None:
        super().__init__()
        self.size = width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, kv_heads * self.size, bias=False)
        self.value = nn.Linear(width, kv_heads * self.size, bias=False)
        self.project = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 3 * width, bias=False)
        self.grow = nn.Linear(width, 3 * width, bias=False)
        self.shrink = nn.Linear(3 * width, width, bias=False)
        self.attention_norm, self.output_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.register_buffer("keys", torch.zeros(1, kv_heads, most, self.size))
        self.register_buffer("values", torch.zeros(1, kv_heads, most, self.size))

    def forward(self, x: Tensor, position: Tensor, cosine: Tensor, sine: Tensor, mask: Tensor) -> Tensor:
        given = self.attention_norm(x)
        query, key, value = (
            linear(given).view(1, 1, -1, self.size).transpose(1, 2) for linear in (self.query, self.key, self.value)
        )
        self.keys.index_copy_(2, position, _rotated(key, cosine, sine))
        self.values.index_copy_(2, position, value)
        mixed = F.scaled_dot_product_attention(
            _rotated(query, cosine, sine), self.keys, self.values, mask, enable_gqa=True
        )
        x = x + self.project(mixed.transpose(1, 2).reshape(x.shape))
        given = self.output_norm(x)
        return x + self.shrink(F.silu(self.gate(given)) * self.grow(given))


def _rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


class UNet(nn.Module):
    """A small U-Net: two halvings of the image and, by transposed convolutions, the way back."""

    def __init__(self, width: int = 16, classes: int = 5) -> None:
        super().__init__()
        self.down = nn.ModuleList([_double(3, width), _double(width, 2 * width), _double(2 * width, 4 * width)])
        self.up = nn.ModuleList(
            [nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)]
        )
        self.join = nn.ModuleList([_double(4 * width, 2 * width), _double(2 * width, width)])
        self.classify = nn.Conv2d(width, classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        fine = self.down[0](image)
        middle = self.down[1](torch.max_pool2d(fine, 2))
        x = self.down[2](torch.max_pool2d(middle, 2))
        for up, join, skipped in zip(self.up, self.join, (middle, fine), strict=True):
            x = join(torch.cat([up(x), skipped], 1))
        return self.classify(x)


def _double(channels: int, width: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before in (channels, width):
        layers += [nn.Conv2d(before, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers)


def darknet53() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """DarkNet-53 with leaky ReLU and 1000 classes; images of 3 x 256 x 256."""
    return DarkNet53(), (torch.randn(1, 3, 256, 256),)


def mlp(features: int = 8192, layers: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """`layers` square linear layers with ReLU between them; 805 MB of weights as it stands."""
    stack: list[nn.Module] = []
    for _ in range(layers):
        stack += [nn.Linear(features, features), nn.ReLU()]
    return nn.Sequential(*stack[:-1]), (torch.randn(1, features),)


def tiny_bert() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Two encoder layers, 128 wide; 32 token numbers."""
    return TinyBert(), (torch.randint(0, 1000, (1, 32)),)


def unet() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A U-Net, 16 wide, for five classes; images of 3 x 96 x 96."""
    return UNet(), (torch.randn(1, 3, 96, 96),)
