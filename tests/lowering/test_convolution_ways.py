"""The ways to compute a convolution of images: what each can, what each costs, and which is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from fpga_dynamo.ir.target import Target
from fpga_dynamo.lowering.ops.convolution.axes import Axis
from fpga_dynamo.lowering.ops.convolution.choice import IMPLEMENTATIONS, choose
from fpga_dynamo.lowering.ops.convolution.implementation import ConvolutionShape, Implementation
from fpga_dynamo.lowering.ops.convolution.winograd import LARGE_TILES, SMALL_TILES
from tests.lowering.lowering_cases import programs_of, randomise

BY_NAME: Mapping[str, Implementation] = {way.name: way for way in IMPLEMENTATIONS}


def shape(channels: int, side: int, out: int, kernel: int = 3, *, groups: int = 1, **more: Any) -> ConvolutionShape:
    axis = Axis(tuple(range(kernel)), 1, kernel // 2, 1, side)
    return ConvolutionShape((1, channels, side, side), (1, out, side, side), axis, axis, groups, **more)


SHAPES: dict[str, tuple[ConvolutionShape, str]] = {
    "each pixel by itself": (shape(64, 28, 64, 1, pitches=(64, 64, 0)), "product"),
    "each pixel by itself, in columns": (shape(64, 28, 64, 1), "direct"),
    "each channel by itself": (shape(64, 28, 64, groups=64), "by channel"),
    "one channel": (shape(1, 28, 1), "direct"),
    "groups": (shape(64, 28, 64, groups=2), "direct"),
    "a large image": (shape(128, 56, 256), "tiles of 4x4"),
    "a small one": (shape(16, 7, 16), "direct"),
    "weights that change": (shape(128, 56, 256, static=False), "direct"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_way_that_is_chosen(target: Target, name: str) -> None:
    given, expected = SHAPES[name]
    way = choose(given, target, target.opcodes)
    assert way is not None and way.name == expected


REFUSALS: list[tuple[str, ConvolutionShape, str]] = [
    ("product", shape(64, 28, 64), "only 1x1 kernels over pixels at equal distances are supported"),
    ("by channel", shape(64, 28, 64, groups=2), "groups of more than one channel are not supported"),
    ("direct", shape(64, 28, 64, groups=64), "depthwise weights"),
    ("tiles of 2x2", shape(64, 28, 64, static=False), "weights change between calls"),
    ("tiles of 2x2", shape(64, 28, 64, groups=2), "grouped convolutions"),
    ("tiles of 4x4", shape(64, 28, 64, 5), "only 3x3 kernels of stride 1"),
    ("tiles of 4x4", shape(8, 28, 64), "input has 8 channels; the core supports 16 to 2048"),
    ("tiles of 4x4", shape(64, 0, 64), "the image has no pixels"),
]


@pytest.mark.parametrize(("name", "given", "why"), REFUSALS, ids=lambda value: value if type(value) is str else "")
def test_a_way_that_cannot_says_why(target: Target, name: str, given: ConvolutionShape, why: str) -> None:
    assert why in (BY_NAME[name].can(given, target) or "")


def test_what_local_arrays_do_not_hold_is_refused(target: Target) -> None:
    small = replace(target, tiles={**target.tiles, "WINOGRAD_INPUT_FLOATS": 1 << 14})
    assert LARGE_TILES.can(shape(512, 28, 64), target) is None
    assert "hold no patches of 512 channels" in (LARGE_TILES.can(shape(512, 28, 64), small) or "")


def test_a_kernel_without_a_core_takes_another_way(target: Target) -> None:
    pixels = shape(64, 28, 64, 1, pitches=(64, 64, 0))
    way = choose(pixels, target, {"conv2d"})
    assert way is not None and way.name == "direct"
    assert choose(pixels, target, {"winograd"}) is None


def test_what_an_option_asks_for_is_taken_wherever_it_can_be(target: Target) -> None:
    def asked(given: ConvolutionShape, tile: int) -> Implementation | None:
        return choose(given, replace(target, tuning=replace(target.tuning, winograd_tile=tile)), target.opcodes)

    assert asked(shape(16, 7, 16), 2) is SMALL_TILES and asked(shape(16, 7, 16), 4) is LARGE_TILES
    assert asked(shape(64, 28, 64, groups=2), 4) is BY_NAME["direct"]
    off = replace(target, tuning=replace(target.tuning, winograd=None))
    assert choose(shape(128, 56, 256), off, target.opcodes) is BY_NAME["direct"]


LAYERS: dict[str, tuple[nn.Conv2d, ConvolutionShape]] = {
    "product": (nn.Conv2d(32, 24, 1), shape(32, 28, 24, 1, pitches=(32, 32, 0))),
    "by channel": (nn.Conv2d(32, 32, 3, padding=1, groups=32), shape(32, 28, 32, groups=32)),
    "direct": (nn.Conv2d(32, 24, 3, padding=1, groups=2), shape(32, 28, 24, groups=2)),
    "tiles of 4x4": (nn.Conv2d(64, 64, 3, padding=1), shape(64, 28, 64)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_cycles_of_a_way_are_those_of_its_command(target: Target, name: str) -> None:
    layer, given = LAYERS[name]
    x = torch.randn(given.source).to(memory_format=torch.channels_last)
    programs = programs_of(randomise(layer), x, cache=False)
    commands = [command for program in programs for task in program.card_tasks for command in task.commands]
    (command,) = (command for command in commands if command.opcode != "move")
    way = BY_NAME[name]
    assert command.opcode == way.opcode and command.cycles == way.cycles(given, target)
