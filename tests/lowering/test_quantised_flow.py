"""Graphs as torchao's quantizers leave them: one launch, every product in integers, nothing quantised on the host."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fpga_dynamo
from fpga_dynamo.ir.quantised import DEQUANTIZE, QUANTIZE
from tests.lowering.lowering_cases import GREEDY

pytest.importorskip("torchao", reason="torchao, whose quantizers make these graphs, is not installed")

each_quantizer = pytest.mark.parametrize("quantizer", ["x86", "xnnpack"])


def quantised(model: nn.Module, x: torch.Tensor, quantizer: str) -> nn.Module:
    """`model` after export, preparation, calibration and conversion."""
    with contextlib.redirect_stderr(io.StringIO()):
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86
        from torchao.testing.pt2e import _xnnpack_quantizer as xnnpack
    chosen: Any
    if quantizer == "x86":
        chosen = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    else:
        chosen = xnnpack.XNNPACKQuantizer().set_global(xnnpack.get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(torch.export.export(model.eval(), (x,), strict=True).module(), chosen)
    for _ in range(2):
        prepared(torch.randn_like(x))
    converted: nn.Module = convert_pt2e(prepared)
    return converted


class Residual(nn.Module):
    """Blocks of a ResNet and of a MobileNet, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16))
        self.second = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16))
        self.by_channel = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16), nn.ReLU6())
        self.classifier = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(torch.relu(self.first(x)), 2)
        x = torch.relu(self.second(x) + x)
        x = self.by_channel(x)
        return self.classifier(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Branches(nn.Module):
    """Branches of an Inception and the two sides of a U-Net, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(8, 16, 1), nn.Conv2d(8, 16, 3, padding=1)
        self.last = nn.Conv2d(40, 8, 3, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = F.avg_pool2d(x, 3, 1, 1)
        return self.last(torch.cat([torch.relu(self.one(x)), torch.relu(self.two(x)), pooled], 1))


MODELS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "residual": (Residual, (2, 3, 16, 16)),
    "branches": (Branches, (1, 8, 12, 12)),
}


@each_quantizer
@pytest.mark.parametrize("name", MODELS)
def test_networks_are_one_launch_of_integers(name: str, quantizer: str) -> None:
    torch.manual_seed(0)
    build, size = MODELS[name]
    x = torch.randn(size)
    model = quantised(build(), x, quantizer)
    torch._dynamo.reset()
    with torch.no_grad():
        expected = model(x)
        found = torch.compile(model, backend="fpga", options={**GREEDY, "strict": True})(x)
        explained = fpga_dynamo.explain(model, x, options=GREEDY)
    # Scales are no powers of two: a step here and there is another than eager mode's, which differs from itself as
    # often.
    steps = (found - expected).abs().max() / expected.abs().max()
    assert steps < 0.03
    (graph,) = explained.graphs
    assert graph.launches == 1
    products = [node for node in graph.nodes if node.macs]
    assert products and all(node.how.startswith("int8; ") for node in products)
    casts = {str(QUANTIZE), str(DEQUANTIZE)}
    assert all(node.place == "PL" for node in graph.nodes if node.op in casts)


def test_what_is_not_quantised_says_so() -> None:
    x = torch.randn(1, 8, 12, 12)
    torch.manual_seed(0)

    class Partly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.integers, self.floats = quantised(Branches(), x, "x86"), nn.Conv2d(8, 4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.floats(self.integers(x))

    with torch.no_grad():
        explained = fpga_dynamo.explain(Partly(), x, options=GREEDY)
    (graph,) = explained.graphs
    said = [node.how.partition(";")[0] for node in graph.nodes if node.op == "aten.convolution.default"]
    assert said[:-1] == ["int8"] * 3
    assert said[-1] == "float32, because an operand of the product is not int8 or uint8"
