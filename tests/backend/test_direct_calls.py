"""Calls past AOTAutograd's wrappers and the scheduler: when they are made, and that nobody can tell by the answers."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import fpga_dynamo
from fpga_dynamo._native import direct_totals
from fpga_dynamo.frontend.backend import fpga
from fpga_dynamo.runtime.calls import binding
from fpga_dynamo.runtime.cards.card import open_card
from fpga_dynamo.runtime.task import ProcessingElement, Task
from tests.backend.backend_kit import GREEDY, Net, assert_same_answer, counting, image, memory_used, mlp, on_card


@contextlib.contextmanager
def direct_calls(wanted: int) -> Iterator[None]:
    """Asserts that the block makes so many direct calls."""
    before = direct_totals()[0]
    yield
    assert direct_totals()[0] - before == wanted


def warm(model: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    """`model` compiled and called once, so that a direct call is possible if it is possible at all."""
    compiled = on_card(model, **options)
    with torch.no_grad():
        compiled(*inputs)
    return compiled


def test_calls_after_the_first_are_direct_and_counted() -> None:
    model = Net().eval()
    compiled = warm(model, image(), weight_check="version")
    with direct_calls(3), counting() as grown:
        for _ in range(3):
            assert_same_answer(compiled, model, image())
    assert grown["pl_launches"] == 3 and grown["pl_commands"] >= 3 and grown["ps_fallbacks"] == 0
    assert grown["bytes_to_device"] == 3 * image().numel() * 4 and grown["bytes_from_device"] == 3 * 2 * 5 * 4
    fpga_dynamo.reset_stats()
    assert not any(fpga_dynamo.stats().values())


def test_each_call_has_a_result_of_its_own() -> None:
    compiled = warm(torch.relu, torch.ones(8, 40))
    with torch.no_grad(), direct_calls(2):
        first = compiled(torch.full((8, 40), 2.0))
        second = compiled(torch.full((8, 40), 3.0))
    assert torch.equal(first, torch.full((8, 40), 2.0)) and torch.equal(second, torch.full((8, 40), 3.0))


def test_results_may_be_views_of_what_the_card_made() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(x).transpose(1, 2), torch.exp(x).flatten(1)

    compiled = warm(model, torch.randn(3, 5, 7))
    with direct_calls(1):
        turned, flat = assert_same_answer(compiled, model, torch.randn(3, 5, 7))
    assert turned.stride() == (35, 1, 7) and flat.shape == (3, 35)


def test_integers_and_booleans_cross_too() -> None:
    def model(table: torch.Tensor, index: torch.Tensor, mask: torch.Tensor) -> Any:
        rows = torch.nn.functional.embedding(index, table)
        return rows * mask, rows.argmax(1), rows > 0

    table, mask = torch.randn(20, 4), torch.tensor([[True], [False], [True]])
    compiled = warm(model, table, torch.tensor([1, 2, 3]), mask)
    with direct_calls(1):
        assert_same_answer(compiled, model, table, torch.tensor([19, 0, 7]), mask)


def test_an_integer_beyond_int32_is_left_to_eager() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x.float() * 2

    compiled = warm(model, torch.arange(6))
    with direct_calls(0), counting() as grown:
        assert_same_answer(compiled, model, torch.arange(6) + (1 << 40))
    assert grown["ps_fallbacks"] == 1
    with direct_calls(1):
        assert_same_answer(compiled, model, torch.arange(6))


# --- what has to go the whole way -------------------------------------------------------------------------------------


def shifted_in_place(x: torch.Tensor) -> torch.Tensor:
    x.add_(1.0)
    return torch.relu(x) * 2


WHOLE_WAY: dict[str, Callable[[torch.Tensor], Any]] = {
    "input changed": shifted_in_place,
    "view of an input": lambda x: (x.view(-1), torch.relu(x) * 2),
    "one memory twice": lambda x: (lambda y: (y, y.view(-1)))(torch.relu(x) * 2),
    "part of a value": lambda x: (torch.relu(x) * 2)[1:],
    "as many elements, some of them twice": lambda x: (torch.relu(x) * 2).view(4, 6).unfold(1, 3, 2),
    "as many elements over less memory": lambda x: (torch.relu(x) * 2).as_strided((2, 12), (11, 1)),
    "one element as often": lambda x: (torch.relu(x) * 2).view(-1)[:1].expand(24),
    "copy in another order, of the same shape and strides in the end": lambda x: (
        (torch.relu(x) * 2).view(2, 2, -1).transpose(0, 1).reshape(x.shape)
    ),
    "constant": lambda x: (torch.relu(x) * 2, torch.ones(3)),
    "eager part": lambda x: torch.relu(x) * torch.linalg.det(x[:, :3]),
}


@pytest.mark.parametrize("name", WHOLE_WAY)
def test_what_needs_more_than_a_launch_goes_the_whole_way(name: str) -> None:
    model = WHOLE_WAY[name]
    compiled = warm(model, torch.randn(3, 8))
    with direct_calls(0):
        for _ in range(2):
            assert_same_answer(compiled, model, torch.randn(3, 8))


def test_gradients_go_the_whole_way() -> None:
    model, x = mlp(8, 16, 4), torch.randn(3, 8)
    compiled = on_card(model)
    with direct_calls(0):
        for _ in range(2):
            model.zero_grad()
            compiled(x).square().sum().backward()
    mine = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    model(x).square().sum().backward()
    torch.testing.assert_close(mine, [p.grad for p in model.parameters()])
    with direct_calls(1), torch.no_grad():
        compiled(x)
        torch.testing.assert_close(compiled(x), model(x))
    answer = compiled(x)
    assert answer.requires_grad and answer.grad_fn is not None, "after direct calls too"


def test_an_input_that_begins_to_need_a_gradient_gets_one() -> None:
    compiled = on_card(lambda x: torch.relu(x) * 3)
    x = torch.randn(4, 4)
    with direct_calls(1):
        compiled(x)
        assert not compiled(x).requires_grad
    y = x.clone().requires_grad_()
    compiled(y).sum().backward()
    assert y.grad is not None and torch.equal(y.grad, 3.0 * (x > 0))


def test_autocast_goes_the_whole_way() -> None:
    model, x = mlp(8, 16, 4).eval(), torch.randn(3, 8)
    compiled = warm(model, x)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16), direct_calls(0):
        for _ in range(2):
            answer = compiled(x)
            assert answer.dtype is torch.bfloat16
            torch.testing.assert_close(answer, model(x), rtol=0.02, atol=0.02)


def test_inference_mode_gives_inference_tensors() -> None:
    model, x = mlp(8, 16, 4).eval(), torch.randn(3, 8)
    compiled = on_card(model)
    with torch.inference_mode(), direct_calls(1):
        compiled(x)
        answer = compiled(x)
        torch.testing.assert_close(answer, model(x))
    assert answer.is_inference()
    with torch.no_grad(), direct_calls(1):
        compiled(x)
        assert not compiled(x).is_inference()


@pytest.mark.parametrize("options", [{"verify": True}, {"policy": "simple"}], ids=str)
def test_options_that_want_to_see_each_task_are_heard(options: dict[str, Any]) -> None:
    compiled = warm(torch.relu, torch.randn(8, 40), **options)
    with direct_calls(0):
        assert_same_answer(compiled, torch.relu, torch.randn(8, 40))


def test_traces_and_the_profiler_see_every_task() -> None:
    compiled, x = warm(torch.relu, torch.randn(8, 40)), torch.randn(8, 40)
    with torch.no_grad(), direct_calls(2):
        compiled(x)
        with fpga_dynamo.trace() as trace:
            compiled(x)
        with torch.profiler.profile() as profile:
            compiled(x)
        compiled(x)
    assert len(trace.tasks) == 1
    assert any(event.name.startswith("fpga_dynamo::") for event in profile.events())


def test_an_input_of_other_strides_than_were_bound_goes_the_whole_way() -> None:
    kept: list[Callable[..., Any]] = []

    def backend(gm: Any, inputs: Any) -> Any:
        fpga: Any = torch._dynamo.lookup_backend("fpga")
        kept.append(fpga(gm, inputs, options={"partition": "greedy"}))
        return kept[0]

    with torch.no_grad():
        torch.compile(lambda x: torch.relu(x) - 1, backend=backend)(torch.randn(6, 6))
        turned, wide = torch.randn(6, 6).t(), torch.randn(6, 12)[:, ::2]
        with direct_calls(0):
            for x in (turned, wide):
                torch.testing.assert_close(kept[0](x)[0], torch.relu(x) - 1)
        with direct_calls(1):
            torch.testing.assert_close(kept[0](wide.contiguous())[0], torch.relu(wide) - 1)


# --- parameters -------------------------------------------------------------------------------------------------------


def through_data(layer: nn.Linear) -> None:
    layer.weight.data.mul_(-2.0)


def rebound_data(layer: nn.Linear) -> None:
    layer.weight.data = torch.randn_like(layer.weight)


def in_place(layer: nn.Linear) -> None:
    layer.weight[0].add_(5.0)


def replaced(layer: nn.Linear) -> None:
    layer.weight = nn.Parameter(torch.randn_like(layer.weight))


def loaded(layer: nn.Linear) -> None:
    layer.load_state_dict({"weight": torch.randn(4, 8), "bias": torch.randn(4)}, assign=True)


def refreshed(layer: nn.Linear) -> None:
    layer.weight.data[1, 3] = 100.0
    fpga_dynamo.refresh_weights()


@pytest.mark.parametrize("change", [through_data, rebound_data, in_place, replaced, loaded, refreshed])
def test_changed_parameters_are_seen_between_direct_calls(change: Callable[[nn.Linear], None]) -> None:
    layer, x = nn.Linear(8, 4), torch.randn(3, 8)
    compiled = warm(layer, x)
    for _ in range(2):
        with direct_calls(1):
            assert_same_answer(compiled, layer, x)
        with torch.no_grad():
            change(layer)
        assert_same_answer(compiled, layer, x)


def test_layers_that_share_code_are_all_called_directly() -> None:
    layers = [nn.Linear(8, 8) for _ in range(4)]
    compiled = [on_card(layer) for layer in layers]
    x = torch.randn(3, 8)
    with torch.no_grad():
        for call in compiled:
            call(x)
        with direct_calls(8):
            for _ in range(2):
                for call, layer in zip(compiled, layers, strict=True):
                    torch.testing.assert_close(call(x), layer(x))


def test_parameters_that_had_to_make_room_are_packed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "MOST_BINDINGS", 3)
    layers = [nn.Linear(64, 64) for _ in range(5)]
    compiled = [on_card(layer) for layer in layers]
    x = torch.randn(3, 64)

    def call(i: int) -> None:
        torch.testing.assert_close(compiled[i](x), layers[i](x))

    with torch.no_grad():
        for i in (0, 1, 2, 3, 4, 2, 3, 4):  # the region has its final size, and these three are bound
            call(i)
        with direct_calls(3):
            for i in (2, 3, 4):
                call(i)
        before = memory_used()
        with fpga_dynamo.trace():
            call(2)  # the oldest, though it was bound last
        for i in (0, 1):  # whose weights go where those of 2 were
            call(i)
        with direct_calls(0):
            call(2)
    assert memory_used() == before


@pytest.mark.parametrize("way", ["direct", "whole"])
def test_what_dynamo_is_given_is_copied_as_a_function_is(way: str) -> None:
    copies: list[bool] = []

    def backend(module: Any, inputs: Any) -> Any:
        given = fpga(module, inputs, options=GREEDY)
        copies.append(copy.deepcopy(given) is given)
        return given

    def model(x: torch.Tensor) -> Any:
        y = torch.relu(x)
        return y if way == "direct" else (y, y.view(-1))

    torch.compile(model, backend=backend)(torch.randn(4, 4))
    assert copies == [True]


def test_nothing_stays_on_the_card_when_the_model_goes() -> None:
    torch._dynamo.reset()
    before = memory_used()
    model = Net().eval()
    compiled = warm(model, image())
    with torch.no_grad(), direct_calls(2):
        compiled(image())
        compiled(image())
    assert memory_used() > before
    del model, compiled
    assert memory_used() == before


# --- together with others ---------------------------------------------------------------------------------------------


def test_direct_and_whole_calls_of_many_threads_are_all_right() -> None:
    plain, parts = mlp(64, 256, 256, 8).eval(), lambda x: torch.relu(x) * torch.linalg.det(x[:3, :3])
    x = torch.randn(32, 64)
    calls = [(warm(plain, x), plain), (warm(parts, x), parts)]
    wrong: list[str] = []

    def work(compiled: Callable[..., Any], model: Callable[..., Any], seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for _ in range(50):
                given = torch.randn(32, 64, generator=generator)
                try:
                    torch.testing.assert_close(compiled(given), model(given), rtol=1e-4, atol=1e-4)
                except Exception as error:
                    wrong.append(str(error))

    threads = [threading.Thread(target=work, args=(*calls[i % 2], i)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    scheduler = open_card(fpga_dynamo.Options()).scheduler("adaptive")
    assert scheduler.bypass.call is None and not scheduler._dispatcher.busy and not scheduler._dispatcher.ready
    with direct_calls(1), torch.no_grad():
        calls[0][0](x)


def test_the_policy_learns_what_direct_calls_take() -> None:
    compiled, x = warm(torch.relu, torch.randn(8, 40)), torch.randn(8, 40)
    policy = open_card(fpga_dynamo.Options()).scheduler("adaptive").policy
    seen: list[float] = []
    observe = policy.observe

    def watched(task: Task, pe: ProcessingElement, seconds: float) -> None:
        seen.append(seconds)
        observe(task, pe, seconds)

    policy.observe = watched  # type: ignore[method-assign]
    try:
        with torch.no_grad():
            with direct_calls(12):
                for _ in range(12):
                    compiled(x)
            assert not seen
            with fpga_dynamo.trace():
                compiled(x)
    finally:
        del policy.observe
    assert len(seen) == 8 + 1 and all(0 < seconds < 10 for seconds in seen)
