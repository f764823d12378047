"""The networks that published cards are measured with, in PyTorch; random weights, one image or 128 tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fpga_dynamo.tools import zoo


class _Residual(nn.Module):
    """DarkNet's residual block: 1 x 1 to half the channels, 3 x 3 back, and the sum with its input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.narrow = _convolution(channels, channels // 2, 1)
        self.wide = _convolution(channels // 2, channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.wide(self.narrow(x))
        return result


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.LeakyReLU(0.1),
    )


def darknet53() -> nn.Module:
    """The classifier of YOLOv3 (Redmon, Farhadi 2018, table 1), for images of 256 x 256."""
    layers: list[nn.Module] = [_convolution(3, 32, 3)]
    channels = 32
    for blocks in (1, 2, 8, 8, 4):
        layers += [_convolution(channels, 2 * channels, 3, 2), *(_Residual(2 * channels) for _ in range(blocks))]
        channels *= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


class YoloTiny(nn.Module):
    """YOLOv3-tiny (Redmon, Farhadi 2018; yolov3-tiny.cfg): boxes at two resolutions, 80 classes, three boxes a cell."""

    def __init__(self, boxes: int = 3 * (5 + 80)) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in ((3, 16), (16, 32), (32, 64), (64, 128)):
            layers += [_convolution(inputs, outputs, 3), nn.MaxPool2d(2)]
        self.fine = nn.Sequential(*layers, _convolution(128, 256, 3))
        self.coarse = nn.Sequential(
            nn.MaxPool2d(2), _convolution(256, 512, 3), nn.ZeroPad2d((0, 1, 0, 1)), nn.MaxPool2d(2, 1),
            _convolution(512, 1024, 3), _convolution(1024, 256, 1),
        )  # fmt: skip
        self.large = nn.Sequential(_convolution(256, 512, 3), nn.Conv2d(512, boxes, 1))
        self.up = nn.Sequential(_convolution(256, 128, 1), nn.Upsample(scale_factor=2))
        self.small = nn.Sequential(_convolution(384, 256, 3), nn.Conv2d(256, boxes, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        fine = self.fine(x)
        coarse = self.coarse(fine)
        return self.large(coarse), self.small(torch.cat((self.up(coarse), fine), 1))


class _Encoder(nn.Module):
    """A layer of BERT: attention and two linear layers, each with a sum and a layer norm behind it."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.after_attention, self.after_layers = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        split = (x.shape[0], x.shape[1], self.heads, -1)
        q, k, v = (layer(x).view(split).transpose(1, 2) for layer in (self.query, self.key, self.value))
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = self.after_attention(x + self.output(mixed))
        result: Tensor = self.after_layers(x + self.down(functional.gelu(self.up(x))))
        return result


def bert_base() -> nn.Module:
    """The encoder of BERT-base (Devlin et al. 2018): 12 layers of 768, 12 heads, 3072 inner; no embeddings."""
    return nn.Sequential(*(_Encoder(768, 12, 3072) for _ in range(12)))


def _torchvision(name: str, **options: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        zoo.import_torchvision()
        from torchvision import models

        model: nn.Module = getattr(models, name)(weights=None, **options)
        return model

    return build


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet18": (_torchvision("resnet18"), (1, 3, 224, 224)),
    "resnet50": (_torchvision("resnet50"), (1, 3, 224, 224)),
    "inception_v3": (_torchvision("inception_v3", init_weights=False), (1, 3, 299, 299)),
    "darknet53": (darknet53, (1, 3, 256, 256)),
    "mobilenet_v2": (_torchvision("mobilenet_v2"), (1, 3, 224, 224)),
    "yolo_v3_tiny": (YoloTiny, (1, 3, 416, 416)),
    "bert_base_128": (bert_base, (1, 128, 768)),
}


def exported(name: str) -> torch.fx.GraphModule:
    """The network in inference, its ATen graph with sizes in `meta`; weights have shapes only. Raises KeyError."""
    build, size = NETWORKS[name]
    with torch.device("meta"):
        model, example = build().eval(), torch.empty(size)
    module: torch.fx.GraphModule = torch.export.export(model, (example,)).module()
    return module
