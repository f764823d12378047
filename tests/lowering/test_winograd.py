"""3x3 convolutions by Winograd's method: values against float64, when it is chosen, what it does with infinities."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fpga_dynamo import explain, stats
from fpga_dynamo.codegen import cost
from fpga_dynamo.ir.records import Winograd
from fpga_dynamo.ir.target import Target
from fpga_dynamo.ir.tuning import PLAIN_WINOGRAD, Tuning
from fpga_dynamo.lowering.ops.convolution import winograd
from fpga_dynamo.lowering.ops.convolution.axes import Axis
from fpga_dynamo.lowering.ops.convolution.choice import choose
from fpga_dynamo.lowering.ops.convolution.implementation import ConvolutionShape
from fpga_dynamo.lowering.ops.convolution.winograd import LARGE_TILES, SMALL_TILES, pack_transformed
from fpga_dynamo.testing.reference import measure
from tests.lowering.lowering_cases import GREEDY, programs_of, randomise
from xclbin_build import platform

FACTOR = 8.0  # of eager float32's own error against float64
FRESH: dict[str, Any] = {**GREEDY, "cache": False}


class Block(nn.Module):
    """conv, batch norm, residual and activation: all that one command does."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.norm(self.conv(x)) + x)


class DenseBlock(nn.Module):
    """Each layer reads what all before it have written: concatenations that begin alike."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv2d(channels, count, 3, padding=1) for channels, count in ((16, 32), (48, 20))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.cat([x, F.relu(layer(x))], 1)
        return x * 2


SHAPES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "whole tiles": (nn.Conv2d(16, 64, 3, padding=1), (1, 16, 8, 8)),
    "odd sizes": (nn.Conv2d(32, 32, 3, padding=1), (1, 32, 13, 15)),
    "smaller than a tile": (nn.Conv2d(16, 16, 3, padding=1), (1, 16, 1, 3)),
    "one pixel": (nn.Conv2d(48, 16, 3, padding=1), (2, 48, 1, 1)),
    "no padding": (nn.Conv2d(20, 20, 3), (2, 20, 9, 11)),
    "padding of two": (nn.Conv2d(16, 16, 3, padding=2), (1, 16, 6, 7)),
    "padding of one side": (nn.Conv2d(16, 16, 3, padding=(0, 1)), (1, 16, 6, 7)),
    "channels that are no multiple of 16": (nn.Conv2d(17, 58, 3, padding=1), (3, 17, 10, 6)),
    "several panels": (nn.Conv2d(24, 150, 3, padding=1, bias=False), (1, 24, 7, 7)),
    "several blocks": (nn.Conv2d(384, 16, 3, padding=1), (2, 384, 16, 15)),
    "long sums, wide panels": (nn.Conv2d(512, 64, 3, padding=1), (1, 512, 14, 13)),
    "everything behind it": (Block(40), (2, 40, 11, 9)),
    "into a concatenation": (DenseBlock(), (2, 16, 9, 7)),
}


def opcodes(model: nn.Module, x: torch.Tensor, **options: object) -> list[str]:
    programs = programs_of(model, x, cache=False, **options)
    return [command.opcode for program in programs for task in program.card_tasks for command in task.commands]


@pytest.fixture(params=[2, 4])
def tile_size(request: pytest.FixtureRequest) -> int:
    """Of the option, by which every convolution that can is computed with such tiles."""
    return int(request.param)


@pytest.mark.parametrize("name", SHAPES)
def test_values_are_those_of_float64(tile_size: int, name: str) -> None:
    model, shape = SHAPES[name]
    model = randomise(copy.deepcopy(model))
    x = torch.randn(shape, generator=torch.Generator().manual_seed(5))
    failed = stats()["ps_fallbacks"]
    with torch.no_grad():
        compiled = torch.compile(model, backend="fpga", options={**FRESH, "winograd": tile_size})
        compiled(torch.full_like(x, float("nan")))  # what is not written again stays visible
        card, eager = compiled(x), model(x)
        exact = copy.deepcopy(model).double()(x.double())
    errors = measure(card, eager, exact, FACTOR)
    assert torch.isfinite(card).all()
    assert errors.compiled <= errors.bound, errors
    assert "winograd" in opcodes(model, x, winograd=tile_size)
    assert stats()["ps_fallbacks"] == failed


@pytest.mark.parametrize(
    "model",
    [
        nn.Conv2d(64, 64, 3, stride=2, padding=1),
        nn.Conv2d(64, 64, 3, dilation=2, padding=2),
        nn.Conv2d(64, 64, 3, groups=2, padding=1),
        nn.Conv2d(64, 64, 3, padding=3),
        nn.Conv2d(64, 64, (3, 1), padding=(1, 0)),
        nn.Conv2d(3, 64, 3, padding=1),
    ],
    ids=str,
)
def test_other_convolutions_are_direct(tile_size: int, model: nn.Conv2d) -> None:
    commands = opcodes(randomise(model), torch.randn(1, model.in_channels, 12, 12), winograd=tile_size)
    assert commands.count("winograd") == 0


def test_the_option_turns_it_off() -> None:
    model, x = randomise(nn.Conv2d(64, 64, 3, padding=1)), torch.randn(1, 64, 28, 28)
    assert "winograd" in opcodes(model, x)
    assert "winograd" not in opcodes(model, x, winograd=False)
    assert "winograd" not in opcodes(model, x, disable=["winograd"])


def test_a_dense_block_copies_no_layers_result(tile_size: int) -> None:
    commands = opcodes(randomise(DenseBlock()), torch.randn(1, 16, 12, 12), winograd=tile_size)
    assert commands.count("winograd") == 2
    assert commands.count("move") == 3, "the input, also into the concatenation, and the result"


def test_explain_names_it() -> None:
    model = randomise(nn.Conv2d(64, 64, 3, padding=1))
    assert "sequencer: winograd" in str(explain(model, torch.randn(1, 64, 28, 28)))


WIDE: dict[str, list[tuple[int, int, int, int | None]]] = {
    "ResNet": [(64, 56, 64, 4), (128, 28, 128, 4), (256, 14, 256, 2), (512, 7, 512, None)],
    "VGG19": [
        (64, 224, 64, 4), (64, 112, 128, 4), (128, 112, 128, 4), (128, 56, 256, 4), (256, 56, 256, 4),
        (256, 28, 512, 4), (512, 28, 512, 4), (512, 14, 512, 2),
    ],
    "Inception V3": [(32, 147, 64, 4), (64, 35, 96, 4), (96, 35, 96, 4), (448, 8, 384, 2)],
    "DenseNet-121": [(128, 56, 32, 4), (128, 28, 32, 4), (128, 14, 32, 2), (128, 7, 32, None)],
    "SqueezeNet": [(16, 55, 64, 4), (32, 27, 128, 4), (48, 13, 192, 2), (64, 13, 256, 2)],
}  # fmt: skip
"""Input channels, side, output channels and the tile size, at batch 1, that was the fastest with AVX-512 on one lane or
on two.

Weights came from memory, as in a network of 150 MB. Of 128 x 7 to 32 the small tile saves some 5 us.
"""

NARROW: dict[str, list[tuple[int, int, int, int | None]]] = {
    "ResNet": [(64, 56, 64, 4), (128, 28, 128, 4), (256, 14, 256, 4), (512, 7, 512, 2)],
    "VGG19": [*WIDE["VGG19"][:-1], (512, 14, 512, 4)],
    "Inception V3": WIDE["Inception V3"],
    "DenseNet-121": [(128, 56, 32, 4), (128, 28, 32, 4), (128, 14, 32, 4), (128, 7, 32, 2)],
}
"""The same with AVX2, one layer at a time, so weights came from the last cache. On two lanes 512 x 14 is faster with
the small tile."""

MEASURED = [
    *(("x86-64-v4", name, layers) for name, layers in WIDE.items()),
    *(("x86-64-v3", name, layers) for name, layers in NARROW.items()),
]


def choice(target: Target, channels: int, side: int, out_channels: int) -> int | None:
    axis = Axis((0, 1, 2), 1, 1, 1, side)
    shape = ConvolutionShape((1, channels, side, side), (1, out_channels, side, side), axis, axis, groups=1)
    way = choose(shape, target, target.opcodes)
    assert way is not None
    return {SMALL_TILES.name: 2, LARGE_TILES.name: 4}.get(way.name)


@pytest.mark.parametrize(
    ("plan", "network", "layers"), MEASURED, ids=lambda value: value if str(value) == value else ""
)
def test_the_choice_follows_what_was_measured(
    target: Target, plan: str, network: str, layers: list[tuple[int, int, int, int | None]]
) -> None:
    target = replace(target, tuning=Tuning.from_manifest(platform.load("emu").tuning_for(plan)))
    assert [(*shape, choice(target, *shape)) for *shape, _ in layers] == layers


@pytest.mark.parametrize("plan", ["x86-64-v2", "aarch64", ""])
def test_without_figures_of_the_host_the_plain_formula_holds(target: Target, plan: str) -> None:
    assert Tuning.from_manifest(platform.load("emu").tuning_for(plan)).winograd == PLAIN_WINOGRAD
    plain = replace(target, tuning=Tuning())
    assert choice(plain, 128, 56, 256) == 4, "a large image"
    assert choice(plain, 512, 7, 512) is None, "mostly weights"


def test_a_small_convolution_is_direct(target: Target) -> None:
    assert choice(target, 16, 7, 16) is None


def test_cycles_grow_with_the_work(target: Target) -> None:
    def cycles(batch: int = 1, side: int = 28, channels: int = 64, tile_size: int = 4) -> float:
        record = Winograd(
            batch=batch, in_channels=channels, in_height=side, in_width=side, out_channels=channels,
            out_height=side, out_width=side, vectors=4, tile_size=tile_size,
        )  # fmt: skip
        return cost.cycles(record, target)

    for size in (2, 4):
        assert cycles(tile_size=size) < cycles(batch=2, tile_size=size) < cycles(batch=8, tile_size=size)
        assert cycles(side=14, tile_size=size) < cycles(side=28, tile_size=size) < cycles(side=56, tile_size=size)
        assert cycles(channels=64, tile_size=size) < cycles(channels=128, tile_size=size)
    assert cycles(tile_size=4) < cycles(tile_size=2)


def test_weights_are_transformed_in_float64() -> None:
    weight = torch.randn(20, 16, 3, 3, generator=torch.Generator().manual_seed(7))
    packed = pack_transformed((4, 2, None), weight, None, None, None, None, None).reshape(36, 16, 32)
    g = winograd.weight_transform(4)
    exact = torch.einsum("ya,ocab,xb->yxco", g, weight.double(), g).reshape(36, 16, 20)
    torch.testing.assert_close(packed[..., :20], exact.float(), rtol=0, atol=0)
    assert packed[..., 20:].eq(0).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_spreads_over_its_tiles_and_is_never_lost(tile_size: int, value: float) -> None:
    model = randomise(nn.Conv2d(16, 16, 3, padding=1))
    x = torch.randn(2, 16, 12, 12)
    x[0, 3, 6, 7] = value
    with torch.no_grad():
        card = torch.compile(model, backend="fpga", options={**FRESH, "winograd": tile_size})(x)
        eager = model(x)
    lost = ~torch.isfinite(eager) & torch.isfinite(card)
    assert not lost.any()
    touched = ~torch.isfinite(card)
    assert not touched[1].any()
    reach = tile_size + 2
    assert not touched[0, :, : 6 - reach].any()
    assert not touched[0, :, 6 + reach :].any()


def test_verify_accepts_the_spread(tile_size: int) -> None:
    model = randomise(nn.Conv2d(16, 16, 3, padding=1))
    x = torch.randn(1, 16, 12, 12)
    x[0, 3, 6, 7] = float("inf")
    with torch.no_grad():
        card = torch.compile(model, backend="fpga", options={**FRESH, "verify": True, "winograd": tile_size})(x)
    assert torch.isfinite(card).any()
