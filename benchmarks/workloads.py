"""The networks that are measured: random weights, eval mode, one float32 input; and what is asked of their speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from fpga_dynamo.tools import zoo

EAGER, CHANNELS_LAST, INDUCTOR = "eager", "channels_last", "inductor"
FREEZING, ONNXRUNTIME, OPENVINO = "inductor+freezing", "onnxruntime", "openvino"


def _limits(eager: float, freezing: float, openvino: float) -> dict[str, float]:
    return {EAGER: eager, FREEZING: freezing, OPENVINO: openvino}


_OTHER_IMAGES = _limits(1.8, 1.5, 1.0)
_ANY_PEER = dict.fromkeys((EAGER, CHANNELS_LAST, INDUCTOR, FREEZING, ONNXRUNTIME, OPENVINO), 1 / 1.05)


@dataclass(frozen=True)
class Workload:
    """A network by name. `limits`: the speed-up over each peer that the project has set itself (two threads)."""

    name: str
    build: Callable[[], tuple[nn.Module, Tensor]]
    limits: Mapping[str, float] = field(default_factory=dict)

    def make(self, seed: int = 0) -> tuple[nn.Module, Tensor]:
        """The model in eval mode and its input; the same for the same seed."""
        torch.manual_seed(seed)
        model, example = self.build()
        return model.eval(), example


def image_model(name: str, batch: int = 1) -> Callable[[], tuple[nn.Module, Tensor]]:
    """What loads a network of torchvision, with images for it."""

    def build() -> tuple[nn.Module, Tensor]:
        found = zoo.load(name, batch)
        return found.model, found.inputs[0]

    return build


def encoder(width: int, heads: int, layers: int, inner: int, length: int = 128) -> tuple[nn.Module, Tensor]:
    """`nn.TransformerEncoder` in BERT's shape, over `length` vectors."""
    layer = nn.TransformerEncoderLayer(width, heads, inner, activation="gelu", batch_first=True, dropout=0)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), torch.randn(1, length, width)


def perceptron(width: int = 8192, layers: int = 3) -> tuple[nn.Module, Tensor]:
    """Square linear layers with ReLU between them, for a single vector."""
    stack: list[nn.Module] = []
    for _ in range(layers):
        stack += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*stack[:-1]), torch.randn(1, width)


WORKLOADS: Mapping[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("resnet18", image_model("resnet18"), _limits(2.8, 2.5, 1.2)),
        Workload("resnet50", image_model("resnet50"), _limits(2.4, 2.0, 1.2)),
        Workload("mobilenet_v2", image_model("mobilenet_v2"), _limits(4.5, 2.5, 1.2)),
        Workload("bert-tiny", lambda: encoder(128, 2, 2, 512), _limits(3.3, 2.6, 1.2)),
        Workload("bert-base-x4", lambda: encoder(768, 12, 4, 3072), _limits(1.3, 1.2, 1.0)),
        Workload("mlp-8192", perceptron, _limits(1.05, 1.05, 1.0)),
        Workload("vgg19", image_model("vgg19"), _OTHER_IMAGES),
        Workload("inception_v3", image_model("inception_v3"), _OTHER_IMAGES),
        Workload("densenet121", image_model("densenet121"), _OTHER_IMAGES),
        Workload("squeezenet1_1", image_model("squeezenet1_1"), _OTHER_IMAGES),
        Workload("shufflenet_v2_x1_0", image_model("shufflenet_v2_x1_0"), _OTHER_IMAGES),
        Workload("resnet50-batch8", image_model("resnet50", 8), _ANY_PEER),
    )
}
