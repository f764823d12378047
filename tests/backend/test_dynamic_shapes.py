"""Sizes that change from call to call: Dynamo's automatic dynamic shapes, mark_dynamic, and sizes that data decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from backend_kit import Net, assert_same_answer, counting, mlp, on_card
from torch import nn


class Sequence(nn.Module):
    """Attention over a sequence of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.mix(x).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        mixed = torch.softmax(q @ k.transpose(-1, -2) / (width // 2) ** 0.5, -1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width)) + x


MODELS: dict[str, tuple[Callable[[], nn.Module], list[tuple[int, ...]]]] = {
    "batch of an MLP": (lambda: mlp(16, 32, 8), [(n, 16) for n in (2, 3, 7, 2, 16, 5)]),
    "batch of a CNN": (Net, [(n, 3, 8, 8) for n in (2, 3, 5, 2, 1)]),
    "image size": (Net, [(2, 3, n, m) for n, m in ((8, 8), (9, 12), (16, 7), (9, 12))]),
    "sequence length": (Sequence, [(2, n, 16) for n in (4, 9, 17, 4, 1)]),
    "batch and sequence": (Sequence, [(b, n, 16) for b, n in ((2, 4), (3, 7), (5, 4), (3, 8))]),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dynamic", [None, True, False], ids=["automatic", "dynamic", "static"])
def test_sizes_that_change(name: str, dynamic: bool | None) -> None:
    make, shapes = MODELS[name]
    model = make().eval()
    compiled = torch.compile(model, backend="fpga", options={"partition": "greedy"}, dynamic=dynamic)
    for shape in shapes:
        with counting() as grown:
            assert_same_answer(compiled, model, torch.randn(shape))
        assert grown["pl_launches"] >= 1 and grown["ps_nodes"] == grown["ps_fallbacks"] == 0


def test_dynamo_traces_once_for_all_sizes_and_the_backend_lowers_for_each() -> None:
    model = mlp(16, 32, 8).eval()
    compiled = on_card(model)
    traced = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with counting() as grown:
        for n in (2, 3, 4, 5, 3, 4):
            assert_same_answer(compiled, model, torch.randn(n, 16))
    assert grown["graphs_compiled"] == 4
    traced = torch._dynamo.utils.counters["stats"]["unique_graphs"] - traced
    assert traced == 2, "one for the first size, one for all others"


def test_weights_are_packed_once_for_all_sizes() -> None:
    model = mlp(16, 32, 8).eval()
    compiled = on_card(model)
    assert_same_answer(compiled, model, torch.randn(2, 16))
    with counting() as grown:
        for n in (3, 4, 5, 6):
            assert_same_answer(compiled, model, torch.randn(n, 16))
    assert grown["weights_packed"] == 0


def test_a_dimension_that_is_marked_dynamic() -> None:
    model = mlp(16, 32, 8).eval()
    compiled = on_card(model)
    traced = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with torch.no_grad():
        for n in (4, 6, 9):
            x = torch.randn(n, 16)
            torch._dynamo.mark_dynamic(x, 0)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == traced + 1


def test_training_with_sizes_that_change() -> None:
    model = mlp(16, 32, 8)
    compiled = on_card(model)
    for n in (2, 3, 5, 2):
        x = torch.randn(n, 16)
        compiled(x).square().sum().backward()
        mine = model[0].weight.grad.clone()  # type: ignore[union-attr, operator]
        model.zero_grad()
        model(x).square().sum().backward()
        torch.testing.assert_close(mine, model[0].weight.grad, rtol=1e-4, atol=1e-4)
        model.zero_grad()


def test_a_number_that_changes() -> None:
    compiled = on_card(lambda x, scale, n: (x * scale).repeat(n, 1))
    for scale, n in ((1.5, 2), (2.5, 3), (-0.5, 4)):
        x = torch.randn(3, 5)
        torch.testing.assert_close(compiled(x, scale, n), (x * scale).repeat(n, 1))


@pytest.mark.parametrize("capture", [False, True], ids=["graph break", "captured"])
def test_sizes_that_data_decides_are_left_to_eager(capture: bool) -> None:
    layer = nn.Linear(8, 8).eval()

    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(layer(x))
        return y[y.sum(1) > 1.5] * 2 + 1

    compiled = on_card(function)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=capture), torch.no_grad():
        for n in (6, 9, 12, 6):
            x = torch.randn(n, 8)
            torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-5)


def test_nonzero_in_the_middle_of_a_graph() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        where = torch.nonzero(x.relu() > 0.5)
        return where, torch.tanh(x) * 2

    compiled = on_card(function)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), torch.no_grad():
        for n in (5, 6, 7):
            x = torch.randn(n, 4)
            for mine, theirs in zip(compiled(x), function(x), strict=True):
                torch.testing.assert_close(mine, theirs)


def test_an_empty_batch() -> None:
    model = mlp(16, 32, 8).eval()
    compiled = on_card(model)
    with torch.no_grad():
        for n in (2, 0, 3, 0):
            x = torch.randn(n, 16)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
