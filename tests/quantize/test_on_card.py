"""What FPGAQuantizer annotates, on the emulator: one launch, and with powers of two eager mode's bits."""

from __future__ import annotations

import pytest
import torch
from torch import nn

pytest.importorskip("torchao")

import fpga_dynamo
from fpga_dynamo.quantize import quantize
from tests.quantize.digits import digits


def runs_whole(model: nn.Module, inputs: list[torch.Tensor]) -> None:
    """Compares the model in powers of two, with biases in units of the sums, with eager, bit for bit.

    It is one launch, and every product in it is one of integers.
    """
    graph = quantize(model, inputs, "pow2", bias="int32", progress=False)
    with torch.no_grad():
        compiled = torch.compile(graph, backend="fpga", options={"strict": True})
        for x in inputs[:2]:
            assert torch.equal(compiled(x), graph(x))
        report = fpga_dynamo.explain(graph, inputs[0])
    assert "node offload 100.0%, MAC offload 100.0%, 1 PL launch(es) in 1 graph(s)" in str(report)
    products = [node for part in report.graphs for node in part.nodes if node.macs]
    assert products and all(node.how.startswith("int8; ") for node in products)


def test_a_transformer_layer() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, activation="gelu", batch_first=True).eval()
    runs_whole(layer, [torch.randn(2, 16, 64) for _ in range(3)])


@pytest.mark.slow
@pytest.mark.extended
def test_an_encoder_whose_sequences_come_first() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, activation="relu", norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    runs_whole(encoder, [torch.randn(9, 3, 64) for _ in range(3)])


def test_digits() -> None:
    runs_whole(digits().model, digits().calibration)


def test_convolutions_of_all_kinds() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2), nn.Hardswish(), nn.Conv2d(16, 16, 3, groups=16), nn.ReLU6(),
        nn.ConvTranspose2d(16, 8, 2, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    ).eval()  # fmt: skip
    runs_whole(model, [torch.randn(2, 3, 33, 33) for _ in range(3)])


class Words(nn.Module):
    """Embeddings of words and places, a layer of a transformer, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(60, 64), nn.Embedding(16, 64)
        self.norm = nn.LayerNorm(64)
        self.layer = nn.TransformerEncoderLayer(64, 4, 128, activation="gelu", batch_first=True)
        self.classifier = nn.Linear(64, 5)

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        places = torch.arange(index.shape[1]).expand_as(index)
        x = self.norm(self.words(index) + self.places(places))
        return self.classifier(self.layer(x).mean(1))


def test_embeddings() -> None:
    torch.manual_seed(0)
    runs_whole(Words().eval(), [torch.randint(0, 60, (2, 16)) for _ in range(3)])


def test_an_image_that_is_enlarged() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Upsample(scale_factor=2), nn.Conv2d(16, 8, 3),
        nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(8, 4, 1),
    ).eval()  # fmt: skip
    runs_whole(model, [torch.randn(2, 3, 16, 20) for _ in range(3)])


def test_products_are_of_integers_in_calls_with_gradients_too() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 5)).eval()
    x = torch.randn(2, 3, 8, 8)
    graph = quantize(model, [x], progress=False)
    products = [node for part in fpga_dynamo.explain(graph, x).graphs for node in part.nodes if node.macs]
    assert len(products) == 2 and all(node.how.startswith("int8; ") for node in products)
