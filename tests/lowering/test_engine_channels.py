"""Channels in another order on an int8 engine: parts within a block, shuffles and splits, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fpga_dynamo.codegen.engine import reorder
from fpga_dynamo.codegen.engine.command import MacCommand
from tests.lowering.engine_kit import apart, computing, left_of, lowered


def shuffled(x: Tensor, groups: int) -> Tensor:
    n, c, h, w = x.shape
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).contiguous().view(n, c, h, w)


class _Joined(nn.Module):
    """Convolutions of the input side by side, and one behind them."""

    def __init__(self, *channels: int, groups: int = 1) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Conv2d(8, n, 1) for n in channels)
        self.first, self.last, self.groups = nn.Conv2d(3, 8, 3), nn.Conv2d(sum(channels), 20, 1), groups

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        joined = torch.cat([torch.relu(part(x)) for part in self.parts], 1)
        return self.last(shuffled(joined, self.groups) if self.groups > 1 else joined)


class _Groups(nn.Module):
    """A shuffle between two convolutions of groups, without a concatenation."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.up, self.groups = nn.Conv2d(3, channels, 3, padding=1), groups
        self.a, self.b = (nn.Conv2d(channels, channels, 1, groups=groups) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.b(shuffled(torch.relu(self.a(torch.relu(self.up(x)))), self.groups))


class _Units(nn.Module):
    """As ShuffleNet V2 has them: a half goes on as it is, the other through a convolution; joined and shuffled."""

    def __init__(self, channels: int, sizes: tuple[int, ...] | None = None) -> None:
        super().__init__()
        self.up, self.down, self.sizes = nn.Conv2d(3, channels, 3, 2), nn.Conv2d(channels, 12, 1), sizes
        sides = [channels // 2] * 3 if sizes is None else [sizes[-1]] * 3
        self.sides = nn.ModuleList(nn.Conv2d(n, n, 3, padding=1, groups=n) for n in sides)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.up(x))
        for side in self.sides:
            parts = x.chunk(2, 1) if self.sizes is None else x.split(self.sizes, 1)
            x = torch.cat([*parts[:-1], torch.relu(side(parts[-1]))], 1)
            x = shuffled(x, 2)
        return self.down(x)


class _Shown(nn.Module):
    """The results of the graph: a concatenation, and a part of a value that is shuffled and split."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 10, 1), nn.Conv2d(3, 30, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        joined = torch.cat([torch.relu(self.a(x)), torch.relu(self.b(x))], 1)
        return (joined * 1.0, *shuffled(joined, 4).split((7, 33), 1))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "two parts": (lambda: _Joined(29, 29), (1, 3, 8, 9)),
    "three parts": (lambda: _Joined(16, 5, 40), (1, 3, 6, 7)),
    "two images": (lambda: _Joined(7, 30), (2, 3, 6, 5)),
    "joined and shuffled": (lambda: _Joined(20, 28, groups=3), (1, 3, 8, 8)),
    "whole blocks, shuffled": (lambda: _Joined(16, 32, groups=2), (1, 3, 7, 8)),
    "more channels than a set holds": (lambda: _Joined(300, 330), (1, 3, 5, 6)),
    "groups": (lambda: _Groups(48, 3), (1, 3, 7, 7)),
    "groups within a block": (lambda: _Groups(40, 4), (1, 3, 6, 9)),
    "units": (lambda: _Units(58), (1, 3, 15, 15)),
    "units of blocks": (lambda: _Units(64), (1, 3, 15, 15)),
    "units of unequal parts": (lambda: _Units(50, (5, 20, 25)), (1, 3, 13, 13)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_one_launch_with_eager_s_bits(name: str) -> None:
    torch.manual_seed(1)
    model, size = NETWORKS[name]
    program, captured = lowered(model(), torch.randn(size))
    assert left_of(program) == []
    assert len(program.lists.launches) == 1
    assert "channels_int8" in program.taken.values()
    assert apart(program, captured) == {}


def test_results_are_parts_of_what_is_shuffled() -> None:
    torch.manual_seed(1)
    program, captured = lowered(_Shown(), torch.randn(1, 3, 6, 5))
    assert apart(program, captured) == {}


def test_whole_blocks_are_written_to_their_place() -> None:
    torch.manual_seed(1)
    program, _ = lowered(_Joined(16, 32, 8), torch.randn(1, 3, 6, 7))
    assert "channels_int8" not in program.taken.values()
    commands = [e.command for launch in program.lists.launches for e in computing(launch)]
    assert len([c for c in commands if isinstance(c, MacCommand)]) == len(commands) == 5


@pytest.mark.parametrize("name", ["two parts", "groups", "units"])
def test_a_wrong_order_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[[tuple[Any, ...]], Tensor] = reorder.pack_selection

    def turned(params: tuple[Any, ...]) -> Tensor:
        command, sizes, order, channels = params
        return right((command, sizes, (*order[1:2], *order[:1], *order[2:]), channels))

    monkeypatch.setattr(reorder, "pack_selection", turned)
    torch.manual_seed(1)
    model, size = NETWORKS[name]
    program, captured = lowered(model(), torch.randn(size))
    assert apart(program, captured) != {}
