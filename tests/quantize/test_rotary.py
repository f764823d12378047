"""Rotary positions in 8 bits: one launch, accurate, and eager mode's bits on emulator and engine."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fpga_dynamo
from fpga_dynamo.quantize import quantize
from tests.lowering.engine_kit import assert_one_exact_launch
from tests.marks import EXTENDED


class Rotary(nn.Module):
    """Attention with rotary positions behind `prefix` tokens. halves: of features, else neighbours are rotated."""

    def __init__(self, *, halves: bool, prefix: int = 1, heads: int = 2, size: int = 32, length: int = 9) -> None:
        super().__init__()
        self.halves, self.prefix, self.heads, self.size = halves, prefix, heads, size
        self.split, self.last = nn.Linear(heads * size, 3 * heads * size), nn.Linear(heads * size, 24)
        angles = torch.outer(torch.arange(length).float(), 0.5 ** torch.arange(size // 2))
        angles = torch.cat([angles, angles], -1) if halves else angles.repeat_interleave(2, -1)
        self.register_buffer("angles", angles)

    def rotated(self, x: Tensor) -> Tensor:
        if self.halves:
            first, second = x.chunk(2, -1)
            return torch.cat([-second, first], -1)
        return torch.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)

    def placed(self, x: Tensor) -> Tensor:
        angles = self.get_buffer("angles")
        sines, cosines = torch.cat([angles.sin(), angles.cos()], -1).chunk(2, -1)
        kept, x = x[:, :, : self.prefix], x[:, :, self.prefix :]
        x = x * cosines + self.rotated(x) * sines
        return (torch.cat([kept, x], 2) if self.prefix else x).type_as(kept)

    def forward(self, x: Tensor) -> Tensor:
        sequences, length, channels = x.shape
        parts = self.split(x).reshape(sequences, length, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(self.placed(parts[0]), self.placed(parts[1]), parts[2])
        result: Tensor = self.last(mixed.transpose(1, 2).reshape(sequences, length, channels))
        return result


class Scaled(Rotary):
    """What is no rotation: a feature counts twice."""

    def rotated(self, x: Tensor) -> Tensor:
        first, _ = x.chunk(2, -1)
        return torch.cat([-first, first], -1)


CASES = {
    "halves": (True, 1, (1, 10, 64)),
    "halves, no prefix, two sequences": (True, 0, (2, 9, 64)),
    "neighbours": (False, 2, (2, 11, 64)),
    "neighbours, no prefix": (False, 0, (1, 9, 64)),
}
ALWAYS = ("neighbours",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in ALWAYS else EXTENDED) for n in CASES])
def test_one_launch_of_the_engine_with_the_bits_of_eager(name: str) -> None:
    torch.manual_seed(3)
    halves, prefix, size = CASES[name]
    assert_one_exact_launch(Rotary(halves=halves, prefix=prefix), torch.randn(size))


@pytest.mark.parametrize("name", CASES)
def test_all_of_it_is_in_8_bits_and_accurate(name: str) -> None:
    torch.manual_seed(3)
    torch._dynamo.reset()
    halves, prefix, size = CASES[name]
    model, data = Rotary(halves=halves, prefix=prefix).eval(), [torch.randn(size) for _ in range(4)]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*stay float32")
        quantized = quantize(model, data, "pow2", bias="int32", progress=False)
    with torch.no_grad():
        wanted, exact = quantized(data[0]), model(data[0])
        assert torch.equal(torch.compile(quantized, backend="fpga")(data[0]), wanted)
    assert (wanted - exact).norm() / exact.norm() < 0.05
    assert fpga_dynamo.explain(quantized, data[0]).pl_launches == 1


def test_other_sums_of_products_stay_as_they_are() -> None:
    torch.manual_seed(3)
    model = Scaled(halves=True).eval()
    quantized = quantize(model, [torch.randn(1, 10, 64)], progress=False)
    assert any(node.target is torch.ops.aten.neg.default for node in quantized.graph.nodes)


def test_keep_float_leaves_a_rotation_alone() -> None:
    torch.manual_seed(3)
    model, x = Rotary(halves=True).eval(), torch.randn(1, 10, 64)
    names = [node.name for node in quantize(model, [x], progress=False).graph.nodes if node.name.startswith("mul")]
    quantized = quantize(model, [x], keep_float=names[:1], progress=False)
    with torch.no_grad():
        assert (quantized(x) - model(x)).norm() / model(x).norm() < 0.05
