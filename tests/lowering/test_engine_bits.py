"""Quantised networks on the hardware engine's sources: every command's value is bit-identical to eager mode's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fpga_dynamo.codegen.engine import commands
from fpga_dynamo.codegen.engine.command import MacCommand
from tests.lowering.engine_kit import apart, left_of, lowered
from tests.lowering.test_engine_lowering import Joined, Residual


class _Flattened(nn.Module):
    """A linear layer over the pixels of an image, channel by channel."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.classes = nn.Conv2d(16, 20, 3), nn.Linear(20 * 9, 7)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.classes(torch.relu(self.image(x)).flatten(1))
        return result


class _Sums(nn.Module):
    """A sum of two values that both are read again, a table, averages of 3 x 3."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(16, 32, 1), nn.Conv2d(16, 32, 3, padding=1), nn.Conv2d(32, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        a, b = torch.relu(self.a(x)), self.b(x)
        total = a + b
        average = nn.functional.avg_pool2d(nn.functional.hardswish(total) + a, 3, 1, 1)
        result: Tensor = self.c(average) + self.c(b)
        return result


class _Rows(nn.Module):
    """Linear layers over rows of sequences, with sums behind them and no dropout in between, as BERT has them."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(32, 48), nn.Linear(48, 32), nn.LayerNorm(32)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.down(torch.relu(self.up(x)))
        result: Tensor = self.norm(x)
        return result


class _Cut(nn.Module):
    """Depthwise with a table, of more channels than the window has rows for: a command for some of them each."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.depthwise = nn.Conv2d(16, 304, 1), nn.Conv2d(304, 304, 3, padding=1, groups=304)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = nn.functional.silu(self.depthwise(torch.relu(self.wide(x))))
        return result


class _Squeezed(nn.Module):
    """Squeeze and excitation: channels scaled by what the means over them say; and a product of two maps."""

    def __init__(self, channels: int = 20) -> None:
        super().__init__()
        self.image, self.gate = nn.Conv2d(3, channels, 3, padding=1), nn.Conv2d(channels, channels, 1)
        self.down, self.up = nn.Conv2d(channels, 8, 1), nn.Conv2d(8, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.hardswish(self.image(x))
        scale = self.up(torch.relu(self.down(x.mean((2, 3), keepdim=True))))
        result: Tensor = (x * nn.functional.hardsigmoid(scale) * self.gate(x)).mean((2, 3))
        return result


def _stack(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


class _Signal(nn.Module):
    """Convolutions over one dimension, as M5 has them for speech: pooled, added, averaged or flattened at the end."""

    def __init__(self, channels: int, pixels: int = 1) -> None:
        super().__init__()
        self.pixels = pixels
        self.first, self.norm = nn.Conv1d(channels, 20, 9, stride=4, padding=3), nn.BatchNorm1d(20)
        self.second, self.third = nn.Conv1d(20, 20, 3, padding=1), nn.Conv1d(20, 20, 1, groups=20)
        self.classes = nn.Linear(20 * pixels, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool1d(torch.relu(self.norm(self.first(x))), 2)
        x = nn.functional.gelu(self.second(x)) + self.third(x)
        result: Tensor = self.classes(x.flatten(1) if self.pixels > 1 else x.mean(2))
        return result


def _between() -> nn.Module:
    """Every sixth mean lies between two integers: that of 6 numbers whose scale is the result's."""
    image = nn.Conv2d(16, 40, 1)
    nn.init.constant_(image.bias, 2.0)  # type: ignore[arg-type]
    return _stack(image, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Conv2d(40, 8, 1))


def _channels_last() -> nn.Module:
    """Whose mean has other strides than the number of its pixels says."""
    return _between().to(memory_format=torch.channels_last)  # type: ignore[call-overload]


class _Scaled(nn.Module):
    """A block of ConvNeXt: rows of features between images, and a scale for each channel before the sum."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.depthwise = nn.Conv2d(3, 32, 4, 4), nn.Conv2d(32, 32, 7, padding=3, groups=32)
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)
        self.scale = nn.Parameter(torch.empty(32, 1, 1).uniform_(-1.0, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        x = self.image(x)
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.down(nn.functional.gelu(self.up(y))).permute(0, 3, 1, 2)
        return self.scale * y + x


class _Pooled(nn.Module):
    """The mean of a sequence's rows, and the mean again as a row that a layer reads."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.classes, self.kept = nn.Linear(24, 40), nn.Linear(40, 6), nn.Linear(40, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.relu(self.rows(x))
        return self.classes(x.mean(1)), self.kept(x.mean(1, keepdim=True))


class _Pyramid(nn.Module):
    """A map that is enlarged, beside what it is put together with; twice, and by 3 in one direction."""

    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 24, 3, 2, 1)
        self.last = nn.Conv2d(40, 8, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        fine = torch.relu(self.fine(x))
        coarse = torch.relu(self.coarse(fine))
        upper = nn.functional.interpolate(coarse, scale_factor=2)
        wide = nn.functional.interpolate(self.fine(x), size=(x.shape[2], 3 * x.shape[3]))
        return self.last(torch.cat([fine, upper], 1)), torch.relu(self.coarse(wide))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "residual": (Residual, (1, 3, 33, 35)),
    "three images": (Residual, (3, 3, 17, 19)),
    "joined": (lambda: Joined((32, 16, 40)), (1, 16, 12, 12)),
    "joined on the host": (lambda: Joined((24, 16)), (1, 16, 12, 12)),
    "one channel": (lambda: _stack(nn.Conv2d(1, 8, 5, 2, 2), nn.ReLU(), nn.Conv2d(8, 8, 3)), (1, 1, 28, 28)),
    "groups": (lambda: _stack(nn.Conv2d(48, 96, 3, groups=3, padding=1), nn.Conv2d(96, 24, 1)), (1, 48, 9, 9)),
    "narrow groups": (lambda: _stack(nn.Conv2d(40, 40, 3, groups=10), nn.Conv2d(40, 24, 1)), (1, 40, 9, 9)),
    "cut into channels": (_Cut, (1, 16, 5, 40)),
    "patches": (lambda: _stack(nn.Conv2d(3, 40, 16, 16), nn.ReLU(), nn.Conv2d(40, 8, 1)), (2, 3, 35, 48)),
    "patches of a row": (lambda: _stack(nn.Conv2d(5, 24, (12, 13), (12, 13)), nn.ReLU()), (1, 5, 25, 41)),
    "dilated": (lambda: _stack(nn.Conv2d(20, 16, 3, dilation=2, padding=2), nn.ReLU6()), (1, 20, 11, 13)),
    "flattened": (_Flattened, (1, 16, 5, 5)),
    "flattened images": (_Flattened, (2, 16, 5, 5)),
    "dropped": (
        lambda: nn.Sequential(nn.Conv2d(16, 24, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(), nn.Linear(24 * 9, 20)),
        (1, 16, 5, 5),
    ),
    "sums": (_Sums, (1, 16, 9, 11)),
    "rows": (lambda: _stack(nn.Linear(40, 70), nn.GELU(), nn.Linear(70, 9)), (13, 40)),
    "sums of rows": (_Rows, (1, 13, 32)),
    "encoder": (_encoder, (1, 21, 32)),
    "squeezed": (_Squeezed, (1, 3, 14, 14)),
    "squeezed images": (lambda: _Squeezed(40), (2, 3, 11, 13)),
    "means between integers": (_between, (3, 16, 2, 3)),
    "signal": (lambda: _Signal(1), (1, 1, 200)),
    "signals": (lambda: _Signal(24), (3, 24, 90)),
    "flattened signals": (lambda: _Signal(24, 5), (2, 24, 43)),
    "channels last": (_channels_last, (1, 16, 7, 7)),
    "pyramid": (_Pyramid, (1, 3, 12, 10)),
    "pyramids": (_Pyramid, (2, 3, 6, 8)),
    "scaled": (_Scaled, (1, 3, 24, 32)),
    "means of rows": (_Pooled, (1, 21, 24)),
    "means of many rows": (_Pooled, (1, 200, 24)),
}


COMMANDS = {
    "cut into channels": 3,
    "flattened": 2,
    "flattened images": 2,
    "flattened signals": 5,
    "dropped": 2,
    "residual": 6,
    "joined": 4,
    "rows": 2,
    "sums of rows": 3,
    "encoder": 9,
    "squeezed": 12,
    "means between integers": 6,
    "scaled": 6,
}
"""Of networks whose sums, activations and concatenations are parts of other commands."""


@pytest.mark.parametrize("name", NETWORKS)
def test_every_value_has_eager_s_bits(name: str) -> None:
    torch.manual_seed(1)
    model, size = NETWORKS[name]
    program, captured = lowered(model(), torch.randn(size))
    assert any(program.lists.launches)
    if name in COMMANDS:
        casts = 2  # the input is quantized, the result scaled
        assert sum(map(len, program.lists.launches)) == COMMANDS[name] + casts
    found = apart(program, captured)
    rounded = {node.name for node, pattern in program.taken.items() if pattern in ("softmax_int8", "layer_norm_int8")}
    if not rounded:
        assert found == {}
    # Softmax and layer norms are exact up to a last rounding, where eager rounds sums of float32.
    assert all(most <= 1 for _, _, most in found.values())
    if name != "joined on the host":
        assert left_of(program) == []


@pytest.mark.parametrize(
    ("way", "why"),
    [
        ({"scale_factor": 1.5}, "only enlargement by integer factors of at most 8 is supported"),
        ({"scale_factor": 9}, "only enlargement by integer factors of at most 8 is supported"),
        ({"scale_factor": 3, "mode": "bilinear"}, "bilinear resizing is supported by factors of 2 and 4, with"),
    ],
    ids=["half", "large", "bilinear"],
)
def test_other_resizes_are_the_host_s_with_the_reason(way: dict[str, Any], why: str) -> None:
    class Resized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 8, 3)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.b(nn.functional.interpolate(torch.relu(self.a(x)), **way))
            return result

    torch.manual_seed(3)
    program, captured = lowered(Resized(), torch.randn(1, 3, 8, 8))
    assert any(own.startswith(why) for own in program.left.values())
    assert apart(program, captured) == {}


def test_what_the_host_makes_in_between_goes_back_to_the_card() -> None:
    torch.manual_seed(2)
    up = nn.Upsample(scale_factor=3, mode="bilinear")
    program, captured = lowered(
        _stack(nn.Conv2d(3, 16, 3), nn.ReLU(), up, nn.Conv2d(16, 8, 3)), torch.randn(1, 3, 8, 8)
    )
    assert len(program.lists.launches) == 2
    assert apart(program, captured) == {}


class _Batch(nn.Module):
    """Products, one with a residual, maxima, a depthwise one, and a linear layer of each image's means."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, 3, padding=1)
        self.c, self.d = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.a(x))
        x = nn.functional.max_pool2d(torch.relu(self.b(x) + x), 2)
        result: Tensor = self.d(torch.relu(self.c(x)).mean((2, 3)))
        return result


@pytest.mark.parametrize("most", [2, 3])
def test_more_images_than_a_command_counts_are_several_commands(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MOST_IMAGES", most)
    torch.manual_seed(2)
    program, captured = lowered(_Batch(), torch.randn(7, 3, 6, 6))
    images = [e.command.images for e in program.lists.launches[0] if isinstance(e.command, MacCommand)]
    assert max(images) == most and left_of(program) == [] and len(program.lists.launches) == 1
    assert apart(program, captured) == {}


def test_a_batch_of_thousands_of_images() -> None:
    torch.manual_seed(2)
    program, captured = lowered(nn.Conv2d(3, 8, 1), torch.randn(4097, 3, 1, 2))
    assert [e.command.images for e in program.lists.launches[0] if isinstance(e.command, MacCommand)] == [4095, 2]
    assert apart(program, captured) == {}
