"""Layers that are more than an engine's memories hold: parts with partial sums, bit for bit beside eager mode's.

The small engine of engine_kit.py holds 128 steps of weights, 2,048 words of a window and kernels of 128 positions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from fpga_dynamo.codegen.engine import parts, split
from fpga_dynamo.codegen.engine.command import NO_OPERAND, Flags, MacCommand, WeightKind
from fpga_dynamo.codegen.engine.cycles import cycles
from fpga_dynamo.codegen.engine.launch import modelled_ends
from fpga_dynamo.codegen.engine.parts import CommandPart
from fpga_dynamo.codegen.engine.sizes import EngineSizes
from fpga_dynamo.frontend.capture import capture
from fpga_dynamo.quantize import quantize
from fpga_dynamo.tools.estimate import hardware
from fpga_dynamo.tools.estimate.program import EngineProgram, lower_for_engine
from fpga_dynamo.tools.estimate.simulation import EngineCard, EngineRun, counted
from tests.lowering.engine_kit import apart, card, left_of, lowered
from tests.lowering.quantised_kit import strict
from tests.lowering.test_engine_lowering import ENGINE
from tests.marks import EXTENDED


def _stack(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


class _Added(nn.Module):
    """A deep convolution in the middle of others, with another map and a limit behind it; and one with a table."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.deep = nn.Conv2d(8, 304, 1), nn.Conv2d(304, 40, 3, padding=1)
        self.side, self.again = nn.Conv2d(304, 40, 1), nn.Conv2d(304, 24, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.relu(self.up(x))
        return torch.relu(self.deep(x) + self.side(x)), nn.functional.silu(self.again(x))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "deep": (lambda: _stack(nn.Conv2d(304, 40, 3, padding=1), nn.ReLU(), nn.Conv2d(40, 8, 1)), (1, 304, 5, 7)),
    "three parts": (lambda: _stack(nn.Conv2d(560, 24, 3), nn.ReLU6()), (1, 560, 6, 5)),
    "added": (_Added, (1, 8, 6, 7)),
    "two images": (lambda: _stack(nn.Conv2d(304, 20, 3, 2, 1), nn.ReLU()), (2, 304, 9, 7)),
    "dilated": (lambda: _stack(nn.Conv2d(300, 33, 3, dilation=2, padding=(3, 2))), (1, 300, 9, 8)),
    "one dimension": (lambda: _stack(nn.Conv1d(304, 24, 9, padding=4), nn.ReLU()), (1, 304, 40)),
    "long": (lambda: _stack(nn.Linear(2100, 40), nn.ReLU(), nn.Linear(40, 5)), (1, 2100)),
    "long rows": (lambda: _stack(nn.Linear(2100, 40), nn.GELU()), (70, 2100)),
    "flattened image": (lambda: _stack(nn.Conv2d(16, 96, 1), nn.Flatten(), nn.Linear(96 * 25, 20)), (1, 16, 5, 5)),
    "patches": (lambda: _stack(nn.Conv2d(9, 24, 16, 16), nn.ReLU()), (1, 9, 33, 32)),
    "transposed": (lambda: _stack(nn.Conv2d(3, 560, 1), nn.ConvTranspose2d(560, 16, 4, 2, 1)), (1, 3, 4, 5)),
    "wide": (lambda: _stack(nn.Conv2d(20, 24, 5, padding=2), nn.ReLU(), nn.Conv2d(24, 8, 1)), (1, 20, 6, 500)),
    "wide of few channels": (lambda: _stack(nn.Conv2d(3, 24, 7, padding=3), nn.ReLU()), (1, 3, 9, 2000)),
    "wide in steps": (
        lambda: _stack(nn.Conv2d(16, 24, (5, 3), 2, (4, 1), dilation=(2, 1)), nn.ReLU()),
        (1, 16, 9, 1001),
    ),
    "wide depthwise": (lambda: _stack(nn.Conv2d(40, 40, 5, padding=2, groups=40), nn.SiLU()), (1, 40, 6, 700)),
    "large kernel": (lambda: _stack(nn.Conv2d(16, 8, (13, 11), padding=(6, 5)), nn.ReLU()), (1, 16, 14, 13)),
    "large depthwise": (lambda: _stack(nn.Conv2d(24, 24, 13, padding=6, groups=24)), (1, 24, 14, 9)),
    "large average": (lambda: _stack(nn.Conv2d(3, 20, 1), nn.AvgPool2d(16, 5, 3)), (1, 3, 19, 22)),
    "large groups": (lambda: _stack(nn.Conv2d(32, 64, 13, padding=6, groups=2), nn.ReLU()), (1, 32, 14, 9)),
}


def _commands(program: EngineProgram) -> list[MacCommand]:
    return [e.command for launch in program.lists.launches for e in launch if isinstance(e.command, MacCommand)]


@pytest.mark.parametrize("name", NETWORKS)
def test_parts_have_eager_s_bits(name: str) -> None:
    torch.manual_seed(1)
    model, size = NETWORKS[name]
    program, captured = lowered(model(), torch.randn(size))
    assert left_of(program) == [] and len(program.lists.launches) == 1
    commands = _commands(program)
    assert any(c.raw for c in commands)
    for before, behind in pairwise(commands):
        if behind.has_sums:
            assert before.raw and before.output == behind.sums and behind.residual_after == 1
    assert apart(program, captured) == {}


def _random(seed: int) -> tuple[nn.Module, Tensor]:
    """A convolution or linear layer of random sizes that is too deep, too wide or has too large a kernel."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    kernel, outputs = (rng.choice([1, 2, 3, 5, 7]), rng.choice([1, 2, 3, 5])), rng.randint(1, 70)
    stride, dilation = (rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2])), (rng.choice([1, 1, 2]), rng.choice([1, 1, 2]))
    padding = (rng.randint(0, kernel[0]), rng.randint(0, kernel[1] // 2))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    if rng.random() < 0.5 or kernel[0] == 1:
        channels = rng.randint(2100 // (kernel[0] * kernel[1]), 5000 // (kernel[0] * kernel[1]))
        height, width = reach[0] + rng.randint(0, 5), reach[1] + rng.randint(0, 9)
    else:
        channels, height = rng.choice([1, 3, 8, 16, 40]), reach[0] + rng.randint(0, 3)
        width = 2048 // reach[0] + rng.randint(1, 50)
    layer = nn.Conv2d(channels, outputs, kernel, stride, padding, dilation)
    model = _stack(layer, rng.choice([nn.ReLU(), nn.Identity(), nn.Hardswish()]))
    return model, torch.randn(rng.randint(1, 2), channels, height, width)


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=EXTENDED) for seed in range(3, 60))])
def test_random_layers_have_eager_s_bits(seed: int) -> None:
    model, x = _random(seed)
    program, captured = lowered(model, x)
    assert left_of(program) == []
    assert apart(program, captured) == {}


@pytest.mark.parametrize("name", ["deep", "added", "wide"])
def test_other_scales_have_the_cores_bits(name: str) -> None:
    torch.manual_seed(2)
    model, size = NETWORKS[name]
    x = torch.randn(size)
    converted = quantize(model().eval(), [(x,)], scales="float", progress=False)
    captured = capture(converted, (x,))
    engine = lowered(nn.Conv2d(3, 3, 1), torch.randn(1, 3, 2, 2))[0].engine
    program = lower_for_engine(captured.module, engine, captured.static)
    assert any(c.raw for c in _commands(program))
    made = EngineRun(program, card(), captured.tensors()).results()
    expected = strict(converted, x)
    expected = [expected] if isinstance(expected, Tensor) else expected
    assert all(torch.equal(a, b) for a, b in zip(made, expected, strict=True))


Cut = Callable[..., Iterator[CommandPart]]


def _no_sums(part: CommandPart, last: bool) -> CommandPart:
    return replace(part, command=replace(part.command, sums=NO_OPERAND)) if last else part


def _first_channels(part: CommandPart, last: bool) -> CommandPart:
    return replace(part, channels=(0, part.command.in_blocks * 16)) if last else part


def _first_input(part: CommandPart, last: bool) -> CommandPart:
    return replace(part, command=replace(part.command, input=0)) if last else part


def _first_rows(part: CommandPart, last: bool) -> CommandPart:
    return replace(part, rows=(0, part.command.kernel[0])) if last else part


def _without_padding(part: CommandPart, last: bool) -> CommandPart:
    return replace(part, command=replace(part.command, padding=(0, part.command.padding[1]))) if last else part


@pytest.mark.parametrize(
    ("mistake", "name"),
    [
        (_no_sums, "deep"),
        (_first_channels, "deep"),
        (_first_input, "deep"),
        (_no_sums, "wide"),
        (_first_rows, "wide"),
        (_without_padding, "wide"),
    ],
)
def test_mistakes_are_noticed(
    mistake: Callable[[CommandPart, bool], CommandPart], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right: Cut = parts._cut

    def wrong(*arguments: object) -> Iterator[CommandPart]:
        found = list(right(*arguments))
        return (mistake(part, part is found[-1]) for part in found)

    split._shares.cache_clear()
    try:
        monkeypatch.setattr(parts, "_cut", wrong)
        torch.manual_seed(1)
        program, captured = lowered(NETWORKS[name][0](), torch.randn(NETWORKS[name][1]))
        assert apart(program, captured) != {}
    finally:
        split._shares.cache_clear()


def test_the_first_part_has_the_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What begins with sums adds no offset: if the first part did, zero points would be left out."""
    right: Cut = parts._cut

    def wrong(*arguments: object) -> Iterator[CommandPart]:
        return (replace(part, command=replace(part.command, sums=0)) for part in right(*arguments))

    split._shares.cache_clear()
    try:
        monkeypatch.setattr(parts, "_cut", wrong)
        torch.manual_seed(1)
        program, captured = lowered(NETWORKS["deep"][0](), torch.randn(NETWORKS["deep"][1]))
        assert apart(program, captured) != {}
    finally:
        split._shares.cache_clear()


def _without_sums(model: nn.Module, *size: int) -> EngineProgram:
    torch.manual_seed(1)
    sizes = EngineSizes(4, 32, window_rows=512, weight_steps=128, partial_sums=False)
    converted = quantize(model.eval(), [(torch.randn(size),)], scales="pow2", progress=False)
    captured = capture(converted, (torch.randn(size),))
    return lower_for_engine(captured.module, replace(ENGINE, sizes=sizes), captured.static)


def test_an_engine_without_sums_names_what_its_recipe_lacks() -> None:
    (left,) = left_of(_without_sums(nn.Conv2d(304, 40, 3), 1, 304, 5, 7))
    assert "steps of weights in a set, more than the engine's 128" in left
    assert left.endswith(", and the recipe has no partial sums; int8 recipes of other platforms have them")


def test_an_engine_without_sums_goes_along_wide_rows() -> None:
    program = _without_sums(nn.Conv2d(20, 16, 5), 1, 20, 6, 500)
    assert left_of(program) == [] and not any(c.raw for c in _commands(program))


def test_sums_take_the_cost_model_s_cycles() -> None:
    """Sums in and out are a line a pixel and block each way, and the epilogue takes one pixel a cycle."""
    sizes, memory = ENGINE.sizes, ENGINE.memory
    plain = MacCommand(in_blocks=4, in_height=16, in_width=16, out_blocks=4, out_height=16, out_width=16, band_rows=16)
    between = replace(plain, sums=0, flags=Flags.RAW)
    assert cycles(between, sizes, memory).lines - cycles(plain, sizes, memory).lines == 4 * (2 * 256 - 64)
    assert cycles(between, sizes, memory).epilogue > 2 * cycles(plain, sizes, memory).epilogue
    assert cycles(between, sizes, memory).residual > 4 * 256


def test_parts_are_as_few_as_rows_of_a_kernel_allow() -> None:
    """128 positions are 4 rows of 31; a block of channels is cut as every other."""
    command = MacCommand(
        weight_kind=WeightKind.DIAGONAL,
        in_blocks=3,
        in_height=56,
        in_width=56,
        out_blocks=3,
        out_height=56,
        out_width=56,
        kernel=(31, 31),
        padding=(15, 15),
    )
    found = parts.parts_of(command, ENGINE.sizes, ENGINE.memory)
    assert [part.block for part in found] == [0] * 8 + [1] * 8 + [2] * 8
    assert [part.rows for part in found[:8]] == [(row, min(row + 4, 31)) for row in range(0, 31, 4)]
    plane = 56 * 56 // 4
    for one, other in zip(found[:8], found[8:16], strict=True):
        moved = replace(one.command, input=plane, output=plane, params=3)
        assert other == replace(one, block=1, command=moved)


LARGE: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "deep": (lambda: nn.Conv2d(4096, 64, 3, padding=1), (1, 4096, 6, 6), 2),
    "long": (lambda: nn.Linear(40000, 64), (1, 40000), 2),
    "wide": (lambda: nn.Conv2d(64, 32, 7, padding=3), (1, 64, 20, 3000), 7),
}


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.parametrize("name", LARGE)
def test_large_layers_on_a_u250_have_eager_s_bits_and_the_model_s_cycles(name: str) -> None:
    torch.manual_seed(0)
    model, size, count = LARGE[name]
    converted = quantize(model().eval(), [(torch.randn(size),)], scales="pow2", bias="int32", progress=False)
    captured = capture(converted, (torch.randn(size),))
    engine = hardware.card("u250", None, "int8").engine
    program = lower_for_engine(captured.module, engine, captured.static)
    assert left_of(program) == [] and len(_commands(program)) == count
    found = counted(program, EngineCard("engine-u250", "u250"), captured.tensors())
    assert found.values == 2 and found.differences == {}
    (launch,), (ends,) = program.lists.launches, found.ends
    assert modelled_ends(launch, engine)[-1] == pytest.approx(ends[-1], rel=0.1)
