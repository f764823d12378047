"""Networks of bfloat16 and float32 on the hardware engine's sources: errors of the size of eager mode's own."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fpga_dynamo.codegen.engine.command import MacCommand, Operation, WeightKind
from fpga_dynamo.frontend.capture import Captured, capture
from fpga_dynamo.tools.estimate import hardware
from fpga_dynamo.tools.estimate.accuracy import errors
from fpga_dynamo.tools.estimate.program import EngineProgram, lower_for_engine
from fpga_dynamo.tools.estimate.simulation import EngineCard, EngineRun
from tests.lowering.test_engine_lowering import Joined, Residual
from tests.marks import EXTENDED

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
ARRAYS = {"bf16": "2x32x4", "fp32": "3x16x2"}
OF_EAGERS = {"bf16": 2.0, "fp32": 4.0}
"""Times eager mode's error that the card's may be. Sums are rounded in another order: the card's one after the other,
eager mode's by lanes, and in float32 nothing else is rounded (2.3 times eager mode's has been seen; it depends on eager
mode's CPU).
"""


@functools.cache
def recipe(dtype: str) -> Path:
    path = Path(tempfile.mkdtemp(prefix="fpga-dynamo-floats-")) / "little.toml"
    element = hardware.DTYPES[dtype]
    path.write_text(
        f'name = "little-{dtype}"\nplatform = "u250"\n[kernel.engine]\nengine = "{ARRAYS[dtype]}"\n'
        f'element = "{element}"\nwindow = 1024\nweights = 512\nvector_lanes = 0\n'
    )
    return path


@functools.cache
def card(dtype: str) -> EngineCard:
    return EngineCard(recipe(dtype), "u250")


def lowered(model: nn.Module, dtype: str, *size: int) -> tuple[EngineProgram, Captured]:
    torch.manual_seed(0)
    captured = capture(model.eval().to(DTYPES[dtype]), (torch.randn(size).to(DTYPES[dtype]),))
    engine = hardware.card("u250", str(recipe(dtype)), dtype).engine
    return lower_for_engine(captured.module, engine, captured.static), captured


class _Attention(nn.Module):
    """Products of two maps by heads, with a factor, a softmax on the host, and sums of rows behind."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.up = nn.Linear(32, 96), nn.Linear(32, 32), nn.Linear(32, 40)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.view(1, 16, 2, 16).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        weights = torch.softmax(q @ k.transpose(-1, -2) / 4.0, -1)
        rows = (weights @ v).transpose(1, 2).reshape(1, 16, 32)
        result: Tensor = torch.relu(self.up(self.out(rows) + x))
        return result


class _Scaled(nn.Module):
    """A factor behind a product that adds a row, and one behind a product that adds none."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(32, 48), nn.Linear(48, 32, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.b(self.a(x) * 0.25) * 3.0
        return result


class _Sums(nn.Module):
    """A batch norm and a limit that no convolution stands before, a sum of two maps, averages with padding."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(16, 32, 1, bias=False), nn.Conv2d(16, 32, 3, padding=1)
        self.norm, self.c = nn.BatchNorm2d(32), nn.Conv2d(32, 24, (1, 3), dilation=2, groups=2)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.a(x), self.b(x)
        total = torch.relu(self.norm(nn.functional.avg_pool2d(a + b, 3, 1, 1)))
        result: Tensor = self.c(nn.functional.relu6(total + a)).mean((2, 3))
        return result


class _Means(nn.Module):
    """Averages over more pixels than a kernel has positions: of whole images, and of windows that overlap."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.mean((2, 3), keepdim=True), nn.functional.avg_pool2d(x, (13, 12), (3, 4))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "residual": (lambda: Plain(), (1, 3, 33, 35)),
    "three images": (lambda: Plain(), (3, 3, 17, 19)),
    "joined": (lambda: Joined((32, 16, 40)), (1, 16, 12, 12)),
    "groups": (lambda: nn.Sequential(nn.Conv2d(48, 96, 3, groups=3, padding=1), nn.Conv2d(96, 24, 1)), (1, 48, 9, 9)),
    "deep": (lambda: Deep(), (1, 160, 6, 7)),
    "deep rows": (lambda: nn.Sequential(nn.Linear(2304, 20), nn.ReLU()), (3, 2304)),
    "sums": (_Sums, (1, 16, 9, 11)),
    "means": (_Means, (2, 24, 22, 20)),
    "factors": (_Scaled, (5, 32)),
    "patches": (lambda: nn.Sequential(nn.Conv2d(3, 24, 16, 16), nn.ReLU()), (2, 3, 35, 48)),
    "attention": (_Attention, (1, 16, 32)),
}


class Deep(nn.Module):
    """More channels than the memory of weights has steps for, with all that an ending has."""

    def __init__(self) -> None:
        super().__init__()
        self.deep, self.norm, self.beside = nn.Conv2d(160, 24, 3, padding=1), nn.BatchNorm2d(24), nn.Conv2d(160, 24, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.deep(x)) + self.beside(x))


class Plain(Residual):
    """With limits in the place of SiLU, and a batch norm that changes something."""

    def __init__(self) -> None:
        super().__init__()
        norm = self.first[1]
        assert isinstance(norm, nn.BatchNorm2d)
        for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
            assert tensor is not None
            nn.init.uniform_(tensor, 0.2, 2.0)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = torch.relu(self.narrow(nn.functional.relu6(self.depthwise(x))) + x)
        x = nn.functional.max_pool2d(x, 3, 2, 1)
        result: Tensor = self.classes(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return result


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dtype", ["bf16", pytest.param("fp32", marks=EXTENDED)])
def test_errors_are_of_the_size_of_eagers(name: str, dtype: str) -> None:
    make, size = NETWORKS[name]
    program, captured = lowered(make(), dtype, *size)
    run = EngineRun(program, card(dtype), captured.tensors())
    for result, wanted in zip(run.results(), captured.results, strict=True):
        assert result.dtype is wanted.dtype and result.shape == wanted.shape
    found = errors(program, run.value, captured.tensors())
    assert found
    unit = torch.finfo(DTYPES[dtype]).eps / 4
    for node, error in found.items():
        assert error.card <= OF_EAGERS[dtype] * max(error.eager, unit), (node, error)


def test_a_network_is_one_launch_with_its_endings_in_the_commands() -> None:
    program, _ = lowered(Plain(), "bf16", 1, 3, 33, 35)
    (launch,) = program.lists.launches
    assert not program.left
    assert [e.pattern for e in launch] == ["convolution"] * 3 + ["maxima", "average", "matmul"]
    first, depthwise, narrow, maximum = (e.command for e in launch[:4])
    assert isinstance(first, MacCommand) and first.pixel_channels == 4 and first.low == 0
    assert isinstance(depthwise, MacCommand) and depthwise.weight_kind is WeightKind.DIAGONAL
    assert isinstance(narrow, MacCommand) and narrow.residual == first.output and narrow.residual_after == 2
    assert isinstance(maximum, MacCommand) and maximum.operation is Operation.MAXIMUM and maximum.pad == 0xFF80


def test_what_is_too_deep_is_added_up_in_pieces() -> None:
    program, _ = lowered(Deep(), "fp32", 1, 160, 6, 7)
    (launch,) = program.lists.launches
    assert not program.left
    beside, first, second = (e.command for e in launch)
    assert isinstance(first, MacCommand) and isinstance(second, MacCommand) and isinstance(beside, MacCommand)
    assert (first.in_blocks, second.in_blocks) == (5, 5) and second.input > first.input
    assert first.residual == beside.output and second.residual == first.output and second.residual_after == 1
    assert first.low != 0 and second.low == 0
    assert sum(e.macs for e in launch) == 42 * 24 * 160 * 10


def test_an_average_over_many_pixels_is_one_along_rows_and_one_down() -> None:
    program, _ = lowered(_Means(), "bf16", 2, 24, 22, 20)
    (launch,) = program.lists.launches
    assert not program.left
    commands = [e.command for e in launch]
    assert all(isinstance(c, MacCommand) for c in commands)
    assert [(c.kernel, c.stride) for c in commands if isinstance(c, MacCommand)] == [
        ((1, 20), (1, 20)), ((22, 1), (1, 1)), ((1, 12), (1, 4)), ((13, 1), (3, 1)),
    ]  # fmt: skip


def test_what_it_does_not_take_is_said() -> None:
    model = nn.Sequential(nn.Conv2d(16, 16, 1), nn.GELU(), nn.ConvTranspose2d(16, 16, 2))
    program, _ = lowered(model, "fp32", 1, 16, 4, 4)
    (gelu, why), (transposed, other) = program.left.items()
    assert gelu.name == "gelu" and why == "aten.gelu.default has no engine command"
    assert transposed.name == "convolution_1" and other.startswith("transposed convolution")


def test_an_item_of_what_the_host_makes_goes_back_to_the_card() -> None:
    model = nn.Sequential(nn.Linear(32, 48), nn.LayerNorm(48), nn.Linear(48, 16))
    program, captured = lowered(model, "fp32", 5, 32)
    assert [node.name for node in program.left] == ["native_layer_norm"] and len(program.lists.launches) == 2
    run = EngineRun(program, card("fp32"), captured.tensors())
    torch.testing.assert_close(run.results()[0], captured.results[0], rtol=1e-5, atol=1e-5)


def test_cards_of_several_recipes_are_loaded_in_turns() -> None:
    for dtype in ("fp32", "bf16", "fp32"):
        program, captured = lowered(nn.Linear(32, 48), dtype, 5, 32)
        (made,) = EngineRun(program, card(dtype), captured.tensors()).results()
        torch.testing.assert_close(made, captured.results[0])
