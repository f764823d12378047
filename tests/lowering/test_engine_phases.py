"""Transposed convolutions on the hardware engine: phases and their interleaving, bit-identical to eager mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fpga_dynamo.codegen.engine.vector import VectorCommand
from fpga_dynamo.quantize import quantize
from tests.lowering.engine_kit import apart, assert_one_exact_launch, left_of, lowered
from tests.lowering.quantised_kit import check


def transposed(*arguments: Any, **named: Any) -> nn.Module:
    """A transposed convolution between two others, with an activation behind it."""
    rank = named.pop("rank", 2)
    plain = (nn.Conv1d, nn.Conv2d)[rank - 1]
    up = (nn.ConvTranspose1d, nn.ConvTranspose2d)[rank - 1](*arguments, **named)
    return nn.Sequential(plain(3, up.in_channels, 3), nn.ReLU(), up, nn.ReLU(), plain(up.out_channels, 8, 1))


def normalised(network: nn.Module) -> nn.Module:
    """The same with a batch norm that is not the identity behind the transposed convolution."""
    norm = nn.BatchNorm2d(24)
    nn.init.uniform_(norm.weight, 0.5, 2.0)
    nn.init.normal_(norm.bias)
    return nn.Sequential(*network[:3], norm, *network[3:])  # type: ignore[index]


class Skipped(nn.Module):
    """As U-Net has them: the result is a part of a concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 48, 3, 2, 1)
        self.up, self.join = nn.ConvTranspose2d(48, 16, 2, 2), nn.Conv2d(48, 24, 1)

    def forward(self, x: Tensor) -> Tensor:
        fine = torch.relu(self.fine(x))
        result: Tensor = self.join(torch.cat([self.up(torch.relu(self.coarse(fine))), fine], 1))
        return result


class Added(nn.Module):
    """A sum that is rounded once, of a transposed convolution and a map."""

    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(3, 16, 2, 2)
        self.up = nn.ConvTranspose2d(16, 16, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = torch.relu(self.up(torch.relu(self.coarse(x))) + self.fine(x))
        return result


CASES: dict[str, tuple[Any, tuple[int, ...], int]] = {
    # network, input, commands that interleave
    "kernel of the stride": (lambda: transposed(16, 24, 2, 2), (1, 3, 9, 11), 3),
    "several images": (lambda: transposed(16, 40, 2, 2), (3, 3, 7, 8), 3),
    "wider": (lambda: transposed(20, 16, 3, 2, 1, output_padding=1), (1, 3, 8, 9), 3),
    "odd": (lambda: transposed(20, 16, 3, 2, 1), (1, 3, 8, 9), 3),
    "of four": (lambda: transposed(20, 16, 4, 2, 1), (2, 3, 9, 8), 3),
    "by three": (lambda: transposed(16, 16, 5, 3, 1, output_padding=2), (1, 3, 6, 7), 8),
    "along columns": (lambda: transposed(16, 16, (3, 2), (1, 2), (1, 0)), (1, 3, 6, 7), 1),
    "along rows": (lambda: transposed(16, 16, (4, 3), (4, 1), (0, 1)), (1, 3, 6, 7), 3),
    "holes": (lambda: transposed(16, 16, 1, 2), (1, 3, 6, 7), 3),
    "dilated": (lambda: transposed(16, 16, 3, 2, 2, dilation=2, output_padding=1), (1, 3, 8, 7), 3),
    "no stride": (lambda: transposed(16, 24, 3, 1, 1), (1, 3, 8, 7), 0),
    "one pixel": (lambda: transposed(16, 24, 2, 2), (1, 3, 3, 3), 3),
    "signals": (lambda: transposed(16, 24, 4, 2, 1, rank=1), (2, 3, 31), 1),
    "normalised": (lambda: normalised(transposed(16, 24, 4, 2, 1)), (1, 3, 8, 9), 3),
    "channel by channel": (lambda: transposed(24, 24, 3, 2, 1, groups=24), (1, 3, 8, 9), 3),
    "groups": (lambda: transposed(32, 24, 3, 2, 1, groups=2), (1, 3, 8, 9), 3),
    "of the host's": (lambda: nn.Sequential(nn.ConvTranspose2d(3, 16, 4, 2, 1), nn.ReLU()), (1, 3, 8, 9), 3),
    "skipped": (Skipped, (1, 3, 14, 18), 3),
}  # fmt: skip


class Behind(nn.Module):
    """Three parts along rows or columns."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim, self.parts = dim, nn.ModuleList(nn.Conv2d(3, 20, 3, padding=1) for _ in range(3))
        self.last = nn.Conv2d(20, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        a, b, c = (torch.relu(part(x)) for part in self.parts)
        b = torch.max_pool2d(b, (2, 1) if self.dim == 2 else (1, 2))
        result: Tensor = self.last(torch.cat([a, b, c], self.dim))
        return result


class Token(nn.Module):
    """As a vision transformer begins: a token in front of patches."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.token, self.last = (
            nn.Conv2d(3, 24, 4, 4),
            nn.Parameter(torch.randn(1, 1, 24)),
            nn.Linear(24, 9),
        )

    def forward(self, x: Tensor) -> Tensor:
        rows = self.patches(x).flatten(2).transpose(1, 2)
        result: Tensor = self.last(torch.cat([self.token.expand(x.shape[0], -1, -1), rows], 1))
        return result


def interleaving(program: Any) -> list[VectorCommand]:
    commands = [emitted.command for launch in program.lists.launches for emitted in launch]
    return [c for c in commands if isinstance(c, VectorCommand) and c.interleaves]


@pytest.mark.parametrize("name", CASES)
def test_every_value_has_eager_s_bits(name: str) -> None:
    torch.manual_seed(3)
    make, size, count = CASES[name]
    program, captured = lowered(make(), torch.randn(size))
    assert left_of(program) == []
    assert len(program.lists.launches) == 1
    assert len(interleaving(program)) == count
    assert apart(program, captured) == {}


@pytest.mark.parametrize(
    ("make", "size", "count"),
    [(lambda: Behind(2), (2, 3, 6, 7), 2), (lambda: Behind(3), (2, 3, 5, 8), 2), (Token, (1, 3, 12, 20), 1)],
)
def test_parts_lie_behind_each_other(make: Any, size: tuple[int, ...], count: int) -> None:
    torch.manual_seed(6)
    program = assert_one_exact_launch(make(), torch.randn(size))
    assert len(interleaving(program)) == count


@pytest.mark.parametrize("name", ["channel by channel", "groups", "signals"])
def test_the_software_card_has_them_as_well(name: str) -> None:
    torch.manual_seed(4)
    make, size, _ = CASES[name]
    x = torch.randn(size)
    model = quantize(make().eval(), [(x,)], scales="pow2", bias="int32", progress=False)
    check(model, x)


def test_what_is_added_to_a_phase_stays_with_the_host() -> None:
    torch.manual_seed(5)
    program, captured = lowered(Added(), torch.randn(1, 3, 8, 8))
    assert [why for why in left_of(program) if "transposed" in why] == [
        "transposed convolution with a fused addition is not supported"
    ]
    assert apart(program, captured) == {}
