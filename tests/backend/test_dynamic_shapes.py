"""Sizes that change from call to call: Dynamo's automatic dynamic shapes, mark_dynamic, and sizes that data decides."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fpga_dynamo.frontend.backend import collect_programs
from fpga_dynamo.ir.program import Program
from fpga_dynamo.ir.sizes.size import SizeError
from fpga_dynamo.runtime.calls.bind import Binder
from fpga_dynamo.runtime.calls.dynamic import BOUND_SIZES
from fpga_dynamo.tools.explain import report
from fpga_dynamo.tools.explain_text import Explanation
from tests.backend.backend_kit import Net, assert_same_answer, counting, memory_used, mlp, on_card


class Residual(nn.Module):
    """A residual network in small: 3x3 and 1x1 convolutions, batch norm, pooling, addition, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.left = nn.Sequential(nn.Conv2d(16, 32, 3, 2, padding=1), nn.BatchNorm2d(32))
        self.right = nn.Conv2d(16, 32, 1, 2)
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.stem(x))
        x = torch.relu(self.left(x) + self.right(x))
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


def programs(model: nn.Module, x: torch.Tensor, *, dynamic: bool) -> list[Program]:
    """What one call of `model` is compiled to; `dynamic`: for all batches and square images."""
    torch._dynamo.reset()
    with torch.no_grad(), collect_programs() as made:
        torch.compile(model, backend="fpga", options={"partition": "greedy"}, dynamic=dynamic)(x)
    return made


def in_no_grad(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with gradients off in whatever thread calls it."""

    def call(*args: Any) -> Any:
        with torch.no_grad():
            return function(*args)

    return call


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


@pytest.mark.parametrize("marked", [False, True], ids=["automatic", "marked"])
def test_one_program_for_all_batches(marked: bool) -> None:
    model = Residual().eval()
    compiled = on_card(model)
    with counting() as grown:
        for n in (2, 3, 4, 5, 8) if marked else (1, 2, 3, 4, 5, 8):
            x = torch.randn(n, 3, 8, 8)
            if marked:
                torch._dynamo.mark_dynamic(x, 0)
            with torch.compiler.set_stance("default" if n < 3 else "fail_on_recompile"):
                assert_same_answer(compiled, model, x)
    assert grown["graphs_compiled"] == (1 if marked else 2)
    assert grown["ps_nodes"] == grown["ps_fallbacks"] == 0


def test_one_program_for_all_lengths_of_a_sequence() -> None:
    model = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True).eval()
    compiled = on_card(model)
    with counting() as grown:
        for length in (7, 16, 5, 33, 64, 2):
            x = torch.randn(2, length, 32)
            torch._dynamo.mark_dynamic(x, 1)
            with torch.compiler.set_stance("default" if length == 7 else "fail_on_recompile"):
                assert_same_answer(compiled, model, x)
    assert grown["graphs_compiled"] == 1 and grown["ps_fallbacks"] == 0


def test_one_program_for_all_sizes_of_an_image() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 1), nn.AdaptiveAvgPool2d(3)
    ).eval()
    compiled = on_card(model)
    with counting() as grown:
        for height, width in ((17, 24), (20, 13), (48, 33), (17, 24)):
            x = torch.randn(2, 3, height, width)
            torch._dynamo.mark_dynamic(x, 2)
            torch._dynamo.mark_dynamic(x, 3)
            assert_same_answer(compiled, model, x)
    assert grown["graphs_compiled"] == 1 and grown["ps_nodes"] == grown["ps_fallbacks"] == 0


def test_a_bound_program_has_the_words_of_one_that_is_lowered_for_the_size() -> None:
    model = Residual().eval()
    (dynamic,) = programs(model, torch.randn(4, 3, 8, 8), dynamic=True)
    binder = Binder(dynamic)
    for n in (2, 5, 8, 64):
        (static,) = programs(model, torch.randn(n, 3, 8, 8), dynamic=False)
        assert binder.failed_guard((n, 8)) is None
        (mine,), (theirs,) = binder.bind((n, 8)).forms, [task.form for task in static.card_tasks]
        np.testing.assert_array_equal(mine.code.words, theirs.code.words)
        places = [[(s.shape, s.strides, s.place, s.numel) for s in f.inputs + f.outputs] for f in (mine, theirs)]
        assert places[0] == places[1]
        assert (mine.beats, mine.output_end, mine.input_end) == (theirs.beats, theirs.output_end, theirs.input_end)


def test_a_guard_that_fails_makes_a_second_variant() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).sum(0)

    compiled = on_card(function)
    with counting() as grown, collect_programs() as made:
        for length in (8, 40, 9, 41):
            x = torch.randn(3, 5, length)
            torch._dynamo.mark_dynamic(x, 2)
            assert_same_answer(compiled, function, x)
    assert grown["graphs_compiled"] == len(made) == 2, "short rows lie dense, long ones padded"
    reported = report(made[1])
    assert list(reported.sizes.values()) == [40] and made[0].name in reported.occasion
    assert reported.occasion in str(Explanation((reported,)))


def test_threads_with_different_sizes_at_once() -> None:
    model = Residual().eval()
    compiled = on_card(model)
    images = [torch.randn(n, 3, 8, 8) for n in (2, 3, 4, 5, 6, 7) * 4]
    with torch.no_grad():
        for x in images[:2]:
            compiled(x)
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(in_no_grad(compiled), images))
    for x, result in zip(images, results, strict=True):
        torch.testing.assert_close(result, model(x), rtol=1e-4, atol=1e-5)


def test_more_sizes_than_are_kept_bound() -> None:
    model = mlp(16, 32, 8).eval()
    compiled = on_card(model)
    used = []
    with counting() as grown, torch.no_grad():
        for sizes in ((2 * BOUND_SIZES, *range(2, BOUND_SIZES + 1)), range(BOUND_SIZES + 1, 2 * BOUND_SIZES)):
            for n in sizes:
                x = torch.randn(n, 16)
                torch._dynamo.mark_dynamic(x, 0)
                torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
            used.append(memory_used())
    assert grown["graphs_compiled"] == 1
    assert used[0] == used[1], "command lists of sizes that are let go of are, too"


def test_what_sizes_cannot_say_is_lowered_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise SizeError("nothing to be said")

    monkeypatch.setattr("fpga_dynamo.runtime.calls.dynamic.sized_graph", refuse)
    model = mlp(16, 32, 8).eval()
    compiled = on_card(model)
    with collect_programs() as made:
        for n in (2, 3, 4, 3):
            assert_same_answer(compiled, model, torch.randn(n, 16))
    assert [program.occasion for program in made] == ["", *["lowered for these sizes only: nothing to be said"] * 2]


def test_tensors_of_no_dimension_beside_sizes_that_change() -> None:
    def function(x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(x) * scale
        return y, y.mean()

    compiled = on_card(function)
    for n in (2, 3, 9):
        assert_same_answer(compiled, function, torch.randn(n, 5), torch.tensor(1.5))


def test_a_number_that_is_a_size_and_is_returned() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, int, torch.Tensor]:
        return torch.relu(x), x.shape[0] * 2, torch.ones(x.shape[0], 3) + x[:, :3]

    compiled = on_card(function)
    for n in (2, 3, 9):
        x = torch.randn(n, 5)
        torch.testing.assert_close(compiled(x), function(x))


def test_a_size_that_a_guard_has_made_a_constant(caplog: pytest.LogCaptureFixture) -> None:
    def pooled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # by a window as wide as the batch
        pool = nn.functional.max_pool2d(x.permute(3, 1, 2, 0), 2, 1, ceil_mode=True)
        return torch.minimum(x[:, 1], x.new_ones(()))[:, 2].argmin(-1), pool

    compiled = torch.compile(pooled, backend="fpga", options={"partition": "greedy"})
    for batch in (3, 2):
        assert_same_answer(compiled, pooled, torch.randn(batch, 3, 4, 4))
    assert "is lowered for each set of sizes" not in caplog.text


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


def test_distinct_values_of_which_only_the_first_result_is_wanted() -> None:
    """The others are empty, and how many distinct values there are is known by running alone."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.unique((torch.relu(x) * 3).int()) + 1

    compiled = on_card(function)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), torch.no_grad():
        for n in (5, 6, 7):
            x = torch.randn(n, 4)
            assert torch.equal(compiled(x), function(x))


def test_an_empty_batch() -> None:
    model = mlp(16, 32, 8).eval()
    compiled = on_card(model)
    with torch.no_grad():
        for n in (2, 0, 3, 0):
            x = torch.randn(n, 16)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
