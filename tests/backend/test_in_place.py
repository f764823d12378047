"""Large tensors are read and written where they lie in the host's memory, where the cores can do that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from backend_kit import counting, mlp, on_card
from torch import Tensor, nn

from fpga_dynamo import Options
from fpga_dynamo.runtime.card import open_card

CALLS = 3


def moved(compiled: Callable[..., Any], expected: Callable[..., Any], *inputs: Tensor) -> tuple[int, int]:
    """Bytes to and from the card in the last of some calls, all of which give the right answer in one launch each."""
    device = open_card(Options()).device
    with torch.no_grad():
        wanted = expected(*inputs)
        for _ in range(CALLS):
            torch.full_like(inputs[0], float("nan"))  # what the results may be allocated from
            before = device.counters()
            with counting() as grown:
                torch.testing.assert_close(compiled(*inputs), wanted, rtol=1e-4, atol=1e-5)
            assert grown["pl_launches"] == 1
    after = device.counters()
    return tuple(after[name] - before[name] for name in ("bytes_to_device", "bytes_from_device"))  # type: ignore[return-value]


def chain(x: Tensor) -> Tensor:
    return torch.tanh(x * 2 + 1).abs() - x


@pytest.mark.parametrize("shape", [(64, 128), (3, 17, 16, 16)])
def test_a_chain_of_element_wise_operators_copies_nothing(shape: tuple[int, ...]) -> None:
    assert moved(on_card(chain), chain, torch.randn(shape)) == (0, 0)


def test_one_tensor_several_times_and_two_results() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x * y + x, torch.relu(y) - x

    assert moved(on_card(function), function, torch.randn(64, 128), torch.randn(64, 128)) == (0, 0)


def test_weights_stay_where_they_are() -> None:
    """Their offsets, into a region of their own, are such as the inputs have in the arena."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.shift = nn.Parameter(torch.randn(64, 128)), nn.Parameter(torch.randn(128))

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x * self.scale + self.shift)

    model = Scaled()
    assert moved(on_card(model), model, torch.randn(64, 128)) == (0, 0)


def test_what_is_not_whole_vectors_is_copied() -> None:
    compiled, x, size = on_card(chain), torch.randn(70, 117), 70 * 117 * 4
    assert moved(compiled, chain, x) == (size, size)


def test_an_input_off_the_memory_s_grid_is_copied() -> None:
    compiled, memory = on_card(chain), torch.randn(64 * 128 + 1)
    aligned, shifted = memory[:-1].view(64, 128), memory[1:].view(64, 128)
    assert moved(compiled, chain, aligned) == (0, 0)
    assert moved(compiled, chain, shifted) == (64 * 128 * 4, 0)


def test_what_only_other_cores_touch_is_copied() -> None:
    model, x = mlp(128, 128).eval(), torch.randn(64, 128)
    assert moved(on_card(model), model, x) == (x.nbytes, x.nbytes)
