"""Float operators between integers, one command each: softmax, layer norm, resize, embedding; eager mode's integers to
the bit.

Exponentials and means are rounded in another order than eager mode's: an integer may be the next one where eager mode's
own real number lies between two, to the last bits of a float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fpga_dynamo.torch_internals.quantized import decomposed
from tests.lowering.quantised_kit import (
    FINE,
    I8,
    POSITIVE,
    U8,
    Grid,
    Layer,
    RandomWeights,
    check,
    opcodes,
    quantize,
    rounded,
    strict,
)

each_grid = pytest.mark.parametrize("source", [U8, I8], ids=("uint8", "int8"))
SHARES: Grid = (2.0**-8, 0, torch.uint8)
MOST = 1e-3
"""Of the integers, may be the next one."""


def nearly(model: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    """Integers of eager mode's, but for a step where float32 values are rounded to either side."""
    with torch.no_grad():
        expected = model(*inputs).int()
    found = strict(model, *inputs).int()
    apart = (found - expected).abs()
    assert apart.max() <= 1
    assert (apart > 0).float().mean() <= MOST


def resize(**settings: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: F.interpolate(x, **settings)


NEIGHBOURS = {
    "twice": {"scale_factor": 2},
    "to another size": {"size": (13, 5)},
    "by other factors": {"scale_factor": (1.7, 2.3)},
}
MIXTURES = {
    "twice": {"scale_factor": 2},
    "by halves of pixels": {"scale_factor": 0.5},
    "twice and four times": {"scale_factor": (2, 4)},
    "corner to corner": {"size": (17, 25), "align_corners": True},
}


@each_grid
@pytest.mark.parametrize("grid", [None, FINE, POSITIVE], ids=("one scale", "another scale", "unsigned"))
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_nearest_resize(name: str, grid: Grid | None, source: Grid) -> None:
    torch.manual_seed(0)
    settings = NEIGHBOURS[name]

    def run(x: torch.Tensor) -> torch.Tensor:
        return quantize(F.interpolate(rounded(x, source), mode="nearest", **settings), grid or source)  # type: ignore[arg-type]

    x = torch.randn(2, 20, 9, 7)
    check(run, x)
    assert opcodes(run, x) == ["quantize", "resample"]


@each_grid
@pytest.mark.parametrize("grid", [None, FINE], ids=("one scale", "another scale"))
@pytest.mark.parametrize("name", MIXTURES)
def test_bilinear_resize(name: str, grid: Grid | None, source: Grid) -> None:
    """With shares that are powers of two eager mode's float32 is exact."""
    torch.manual_seed(0)
    settings = MIXTURES[name]

    def run(x: torch.Tensor) -> torch.Tensor:
        return quantize(F.interpolate(rounded(x, source), mode="bilinear", **settings), grid or source)  # type: ignore[arg-type]

    x = torch.randn(2, 20, 9, 7)
    check(run, x)
    assert opcodes(run, x) == ["quantize", "resample"]


def test_bilinear_resize_by_any_factor() -> None:
    torch.manual_seed(0)

    def run(x: torch.Tensor) -> torch.Tensor:
        return quantize(F.interpolate(rounded(x, U8), size=(31, 23), mode="bilinear"), I8)

    nearly(run, torch.randn(2, 20, 9, 7))


def test_a_product_in_front_of_a_resize_gives_bytes() -> None:
    """Its result is not quantised: neighbours of rounded values are rounded values."""
    torch.manual_seed(0)
    model = Layer(RandomWeights(12, 5, 3, 3), lambda x, w, b: F.conv2d(x, w, b, padding=1), U8)

    def run(x: torch.Tensor) -> torch.Tensor:
        return quantize(F.interpolate(model(x), scale_factor=2), I8)

    x = torch.randn(2, 5, 9, 7)
    check(run, x)
    assert opcodes(run, x) == ["quantize", "conv2d_int8", "resample"]


@each_grid
@pytest.mark.parametrize("size", [(3, 5, 33), (2, 4, 7, 64), (6, 1), (2, 3000), (40, 17)])
def test_softmax(size: tuple[int, ...], source: Grid) -> None:
    torch.manual_seed(0)

    def run(x: torch.Tensor) -> torch.Tensor:
        return quantize(torch.softmax(rounded(x, source), -1), SHARES)

    x = 2 * torch.randn(size)
    nearly(run, x)
    assert opcodes(run, x) == ["quantize", "reduce"]


def test_softmax_along_channels() -> None:
    torch.manual_seed(0)

    def run(x: torch.Tensor) -> torch.Tensor:
        return quantize(torch.softmax(F.max_pool2d(rounded(x, U8), 2), 1), SHARES)

    x = 2 * torch.randn(2, 21, 8, 6)
    nearly(run, x)
    assert "dequantize" not in opcodes(run, x)
    nearly(lambda x: quantize(torch.softmax(rounded(x, I8), 0), SHARES), x)


@pytest.mark.parametrize("name", ["softmax", "log-softmax"])
def test_one_end_of_bytes(name: str) -> None:
    torch.manual_seed(0)
    function = torch.softmax if name == "softmax" else torch.log_softmax
    x = 2 * torch.randn(5, 40)
    nearly(lambda x: quantize(function(x, -1), FINE), x)
    torch.testing.assert_close(strict(lambda x: function(rounded(x, U8), -1), x), function(rounded(x, U8), -1))
    assert opcodes(lambda x: function(rounded(x, U8), -1), x) == ["quantize", "reduce"]


def test_rows_that_are_too_long_are_dequantised() -> None:
    x = torch.randn(1, 20000)

    def run(x: torch.Tensor) -> torch.Tensor:
        return quantize(torch.softmax(rounded(x, U8), -1), (2.0**-12, 0, torch.uint8))

    nearly(run, x)
    assert opcodes(run, x) == ["quantize", "dequantize", "reduce", "quantize"]


@each_grid
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("size", [(3, 5, 33), (2, 7, 64), (1, 1500)])
def test_layer_norm(size: tuple[int, ...], affine: bool, source: Grid) -> None:
    torch.manual_seed(0)
    norm = nn.LayerNorm(size[-1], elementwise_affine=affine)
    if affine:
        nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)

    def run(x: torch.Tensor) -> torch.Tensor:
        return quantize(norm(rounded(x, source)), I8)

    x = torch.randn(size) + 0.3
    nearly(run, x)
    assert opcodes(run, x) == ["quantize", "reduce"]


class Table(nn.Module):
    """Rows of a table of integers by index, rounded if there is a grid."""

    def __init__(self, weights: RandomWeights, grid: Grid | None) -> None:
        super().__init__()
        self.weights, self.grid = weights, grid

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        rows = F.embedding(index, self.weights())
        return rows if self.grid is None else quantize(rows, self.grid)


@pytest.mark.parametrize("per_tensor", [False, True], ids=("a scale for each row", "one scale"))
@pytest.mark.parametrize("grid", [None, FINE], ids=("real", "rounded"))
def test_embedding(grid: Grid | None, per_tensor: bool) -> None:
    torch.manual_seed(0)
    model = Table(RandomWeights(50, 24, bias=False, per_tensor=per_tensor), grid)
    index = torch.randint(0, 50, (3, 7))
    check(model, index)
    found = opcodes(model, index)
    expected = ["gather"] if grid else ["gather", "dequantize"] if per_tensor else ["gather"] * 3 + ["dequantize"]
    assert found == expected


def test_zero_points_of_rows() -> None:
    torch.manual_seed(0)
    model = Table(RandomWeights(50, 24, bias=False), None)
    model.weights.zeros = torch.randint(-9, 9, (50,))
    check(model, torch.randint(0, 50, (3, 7)))


def test_a_table_of_floats_lies_in_bytes_if_its_rows_are_rounded() -> None:
    torch.manual_seed(0)
    table = nn.Embedding(50, 24)

    def run(index: torch.Tensor) -> torch.Tensor:
        return quantize(table(index).transpose(1, 2), FINE)

    index = torch.randint(0, 50, (3, 7))
    check(run, index)
    assert opcodes(run, index) == ["gather"]
    with torch.no_grad():
        table.weight.mul_(0.5)
    check(run, index)


def test_an_index_out_of_range_is_eagers_error() -> None:
    model = Table(RandomWeights(50, 24, bias=False), FINE)
    compiled = torch.compile(model, backend="fpga")
    with torch.no_grad():
        compiled(torch.tensor([[1, 2]]))
        with pytest.raises(IndexError):
            compiled(torch.tensor([[1, 50]]))


def test_a_table_of_unsigned_bytes_with_scales_of_rows() -> None:
    """As torchao's quantizer of embeddings leaves it: affine, with zero points in float32."""
    torch.manual_seed(0)
    integers = torch.randint(0, 256, (50, 24), dtype=torch.uint8)
    scales, zeros = torch.rand(50) + 0.01, torch.randint(0, 256, (50,))

    def run(index: torch.Tensor) -> torch.Tensor:
        table = decomposed.dequantize_per_channel.default(integers, scales, zeros, 0, 0, 255, torch.uint8)
        return F.embedding(index, table)

    index = torch.randint(0, 50, (3, 7))
    torch.testing.assert_close(strict(run, index), run(index), rtol=1e-7, atol=0)
