"""Quantised graphs on the hardware engine: which commands there are, and what is left to the host, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from fpga_dynamo.codegen.engine.command import Flags, MacCommand, Operation, WeightKind
from fpga_dynamo.codegen.engine.commands import Emitted
from fpga_dynamo.codegen.engine.cycles import MemoryTiming
from fpga_dynamo.codegen.engine.sizes import EngineSizes
from fpga_dynamo.codegen.engine.target import EngineTarget
from fpga_dynamo.codegen.engine.vector import VectorCommand, VectorOperation
from fpga_dynamo.frontend.capture import capture
from fpga_dynamo.ir.target import Platform
from fpga_dynamo.quantize import quantize
from fpga_dynamo.tools.estimate.program import EngineProgram, lower_for_engine
from tests.lowering.engine_kit import computing, left_of

CARD = Platform("card", 300e6, 60e-6, 12e9, 100e9, 10e9, 4e-6)
ENGINE = EngineTarget("test", EngineSizes(8, 32, vector_depth=4096), MemoryTiming(0.93, 70, 70), CARD)


def lowered(model: nn.Module, *inputs: Tensor, engine: EngineTarget = ENGINE) -> EngineProgram:
    torch.manual_seed(0)
    converted = quantize(model.eval(), [inputs], scales="pow2", progress=False)
    captured = capture(converted, inputs)
    return lower_for_engine(captured.module, engine, captured.static)


def only_launch(program: EngineProgram) -> list[Emitted]:
    (launch,) = program.lists.launches
    return computing(launch)


def products(launch: Sequence[Emitted]) -> list[MacCommand]:
    return [e.command for e in launch if isinstance(e.command, MacCommand)]


def vectors(launch: Sequence[Emitted]) -> list[VectorCommand]:
    return [e.command for e in launch if isinstance(e.command, VectorCommand)]


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 24, 5, 2, 2), nn.BatchNorm2d(24), nn.ReLU())
        self.depthwise = nn.Conv2d(24, 24, 3, 1, 1, groups=24)
        self.narrow = nn.Conv2d(24, 24, 1)
        self.classes = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = torch.relu(self.narrow(torch.nn.functional.silu(self.depthwise(x))) + x)
        x = nn.functional.max_pool2d(x, 3, 2, 1)
        result: Tensor = self.classes(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return result


def test_a_network_is_one_launch_with_its_endings_in_the_commands() -> None:
    program = lowered(Residual(), torch.randn(1, 3, 33, 35))
    launch = only_launch(program)
    assert left_of(program) == []
    assert [e.pattern for e in launch] == [
        *("convolution_int8", "convolution_int8", "convolution_int8", "maxima_int8", "average_int8", "matmul_int8")
    ]
    first, depthwise, narrow, maximum, average, classes = products(launch)
    assert first.pixel_channels == 4 and first.kernel == (5, 5) and first.stride == (2, 2)
    assert depthwise.weight_kind is WeightKind.DIAGONAL and Flags.TABLE in depthwise.flags
    assert narrow.has_residual and narrow.residual == first.output and narrow.residual_after == 2
    assert maximum.operation is Operation.MAXIMUM and average.kernel == (9, 9)
    assert (classes.in_blocks, classes.out_blocks) == (2, 1)
    assert [e.macs for e in launch] == [17 * 18 * 24 * 75, 17 * 18 * 24 * 9, 17 * 18 * 24 * 24, 0, 0, 240]


def test_each_command_waits_for_the_one_that_makes_its_operand() -> None:
    launch = only_launch(lowered(Residual(), torch.randn(1, 3, 33, 35)))
    made: dict[int, int] = {}
    for place, command in enumerate(products(launch)):
        wanted = place - made[command.input] if command.input in made else 0
        assert command.input_after == wanted
        made[command.output] = place


class Joined(nn.Module):
    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Conv2d(16, width, 1) for width in widths)
        self.last = nn.Conv2d(sum(widths), 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(torch.cat([torch.relu(part(x)) for part in self.parts], 1))
        return result


def test_parts_of_a_concatenation_are_written_to_their_place() -> None:
    launch = only_launch(lowered(Joined((32, 16, 40)), torch.randn(1, 16, 12, 12)))
    *parts, last = products(launch)
    assert len(launch) == 4 and last.input == parts[0].output and last.input_after == 1
    assert [part.output - last.input for part in parts] == [0, 2 * 36, 3 * 36]


def test_parts_of_a_concatenation_within_a_block_are_put_to_their_place_one_after_the_other() -> None:
    launch = only_launch(lowered(Joined((24, 16)), torch.randn(1, 16, 12, 12)))
    a, b, first, second, last = products(launch)
    assert (first.input, second.input, second.residual) == (a.output, b.output, first.output)
    assert not first.has_residual and last.input == second.output


@pytest.mark.parametrize("row_sums", [True, False], ids=["any zero points", "keys and values without"])
def test_an_encoder_is_one_launch(row_sums: bool) -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, activation="gelu")
    engine = replace(ENGINE, sizes=replace(ENGINE.sizes, row_sums=row_sums))
    x = torch.randn(1, 21, 64)
    program = lowered(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), x, engine=engine)
    launch = only_launch(program)
    assert left_of(program) == []
    kinds = [command.weight_kind for command in products(launch)]
    packed = WeightKind.PACKED
    assert kinds == [packed, WeightKind.MAP, WeightKind.TRANSPOSED, packed, packed, packed]
    scores, values = products(launch)[1:3]
    assert scores.heads == values.heads == (1, 4)
    assert products(launch)[3].has_residual and products(launch)[5].has_residual
    assert Flags.TABLE in products(launch)[4].flags  # GELU
    operations = [command.operation for command in vectors(launch)]
    assert operations == [VectorOperation.SOFTMAX, VectorOperation.NORM, VectorOperation.NORM]


def test_an_engine_without_a_vector_side_leaves_its_rows_to_the_host() -> None:
    bare = EngineTarget("test", EngineSizes(8, 32, vector_lanes=0), MemoryTiming(0.93), CARD)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    program = lowered(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), torch.randn(1, 21, 64), engine=bare)
    assert left_of(program) == ["the command needs the vector side, which this engine does not have"] * 3
    assert len(program.lists.launches) == 3


def test_an_image_that_the_host_does_not_write_has_no_patches_but_parts_of_the_kernel() -> None:
    program = lowered(
        nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 24, 12, 12)), torch.randn(1, 3, 24, 24)
    )
    assert left_of(program) == []
    assert sum(command.kernel[0] for command in products(only_launch(program))[1:]) == 12


@pytest.mark.parametrize(
    ("model", "size", "why"),
    [
        (nn.ConvTranspose2d(16, 16, 2, 2, 1), (1, 16, 8, 8), "windows that begin right of the first column"),
        (nn.Conv3d(16, 16, 3), (1, 16, 8, 8, 8), "3-D convolution is not supported"),
        (
            nn.Sequential(nn.Conv2d(16, 16, 3), nn.AvgPool2d(3, 2, 1, count_include_pad=False)),
            (1, 16, 9, 9),
            "windows of different pixel counts",
        ),
    ],
    ids=["transposed", "volume", "border"],
)
def test_what_the_engine_cannot_do_is_left_with_a_reason(model: nn.Module, size: tuple[int, ...], why: str) -> None:
    torch.manual_seed(0)
    whole = nn.Sequential(model, nn.Conv2d(16, 16, 1) if len(size) == 4 else nn.ReLU())
    for layer in whole.modules():
        if isinstance(layer, (nn.ConvTranspose2d, nn.Conv3d, nn.Conv2d)):
            layer.reset_parameters()  # by the seed: with some scales another reason would come first
    program = lowered(whole, torch.randn(size))
    assert any(why in found for found in program.left.values()), program.left


def test_several_images_are_images_of_the_commands() -> None:
    program = lowered(Residual(), torch.randn(3, 3, 33, 35))
    launch = only_launch(program)
    assert left_of(program) == []
    assert {command.images for command in products(launch)} == {3}
