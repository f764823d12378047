"""Many threads, one card: right answers whoever calls what when, and two models side by side on two compute units."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn

import fpga_dynamo
from fpga_dynamo.runtime.observe.trace import TaskEvent
from tests.backend.backend_kit import Net, counting, image, mlp, on_card

THREADS = 8
ROUNDS = 200  # until something that can overlap does, on a machine busy with other things


def together(functions: list[Callable[[], Any]]) -> list[Any]:
    """What the functions return, each run in a thread of its own and all begun at once."""
    barrier = threading.Barrier(len(functions))

    def run(function: Callable[[], Any]) -> Any:
        barrier.wait(60)
        with torch.no_grad():
            return function()

    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result(120) for future in [pool.submit(run, function) for function in functions]]


def assert_close(answer: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(answer, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("policy", ["adaptive", "eft", "heft_rt", "simple", "random"])
def test_one_model_from_eight_threads(policy: str) -> None:
    model, calls = Net().eval(), 10
    compiled = on_card(model, policy=policy)
    inputs = [[image() for _ in range(calls)] for _ in range(THREADS)]
    with torch.no_grad():
        compiled(inputs[0][0])
        expected = [[model(x) for x in row] for row in inputs]
    with counting() as grown:
        answers = together([lambda row=row: [compiled(x) for x in row] for row in inputs])  # type: ignore[misc]
    for mine, theirs in zip(answers, expected, strict=True):
        for answer, value in zip(mine, theirs, strict=True):
            assert_close(answer, value)
    assert grown["pl_launches"] == THREADS * calls
    assert grown["ps_fallbacks"] == 0 and grown["weights_packed"] == 0


def overlap(events: list[TaskEvent]) -> float:
    """Seconds during which two events of different PEs ran at once."""
    return sum(
        max(0.0, min(a.stop, b.stop) - max(a.start, b.start))
        for i, a in enumerate(events)
        for b in events[i + 1 :]
        if a.pe != b.pe
    )


def test_two_models_overlap_on_two_compute_units() -> None:
    models = [mlp(256, 512, 512, 256).eval(), mlp(256, 384, 640, 256).eval()]
    compiled = [on_card(model, strict=True) for model in models]
    x = torch.randn(256, 256)
    with torch.no_grad():
        for run in compiled:
            run(x)
    for _ in range(ROUNDS):
        with fpga_dynamo.trace() as trace:
            answers = together([lambda run=run: [run(x) for _ in range(10)][-1] for run in compiled])  # type: ignore[misc]
        with torch.no_grad():
            for answer, model in zip(answers, models, strict=True):
                assert_close(answer, model(x))
        if overlap(trace.tasks) > 0:
            break
    else:
        pytest.fail("the models never ran at once")
    units = {event.pe for event in trace.tasks}
    assert len(units) == 2 and all(unit.startswith("sequencer") for unit in units), units
    assert len({event.program for event in trace.tasks}) == 2
    for unit in units:
        spans = sorted((event.start, event.stop) for event in trace.tasks if event.pe == unit)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans)), "a unit runs one thing at a time"


def test_two_models_alternate_on_one_compute_unit_too() -> None:
    models = [mlp(16, 24, 8).eval(), Net().eval()]
    inputs = [torch.randn(4, 16), image()]
    compiled = [on_card(model, recipe="single", device=4) for model in models]
    pairs = list(zip(compiled, inputs, strict=True))
    with fpga_dynamo.trace() as trace:
        answers = together([lambda run=run, x=x: [run(x) for _ in range(10)] for run, x in pairs])  # type: ignore[misc]
    with torch.no_grad():
        for answer, model, x in zip(answers, models, inputs, strict=True):
            for one in answer:
                assert_close(one, model(x))
    assert {event.pe for event in trace.tasks} == {"sequencer_1"}


def test_first_calls_of_one_model_at_once() -> None:
    model = Net().eval()
    compiled = on_card(model)
    inputs = [image() for _ in range(THREADS)]
    with counting() as grown:
        answers = together([lambda x=x: compiled(x) for x in inputs])  # type: ignore[misc]
    with torch.no_grad():
        for answer, x in zip(answers, inputs, strict=True):
            assert_close(answer, model(x))
    assert grown["ps_fallbacks"] == 0


def test_first_calls_of_many_models_at_once() -> None:
    models = [mlp(8, 8 + 4 * i, 4).eval() for i in range(4)] + [Net(4 + 4 * i).eval() for i in range(4)]
    inputs = [torch.randn(3, 8)] * 4 + [image()] * 4
    compiled = [on_card(model) for model in models]
    pairs = list(zip(compiled, inputs, strict=True))
    answers = together([lambda run=run, x=x: run(x) for run, x in pairs])  # type: ignore[misc]
    with torch.no_grad():
        for answer, model, x in zip(answers, models, inputs, strict=True):
            assert_close(answer, model(x))


@pytest.mark.parametrize("change", ["in place", "another Parameter"])
def test_weights_that_change_between_rounds_of_threads(change: str) -> None:
    model = Net().eval()
    compiled = on_card(model)
    x = image()
    for _ in range(6):
        with torch.no_grad():
            if change == "in place":
                model.conv.weight.mul_(1.3)
                model.head.weight.add_(0.1)
            else:
                model.conv.weight = nn.Parameter(torch.randn_like(model.conv.weight))
            expected = model(x)
        for answer in together([lambda: compiled(x)] * THREADS):
            assert_close(answer, expected)


def test_each_thread_with_weights_of_its_own() -> None:
    nets = [Net().eval() for _ in range(THREADS)]
    forward = on_card(lambda net, x: net(x))
    x = image()
    with torch.no_grad():
        forward(nets[0], x)

    def work(net: Net) -> bool:
        good = True
        for _ in range(5):
            net.head.weight.add_(0.1)
            good &= torch.allclose(forward(net, x), net(x), rtol=1e-4, atol=1e-5)
        return good

    assert together([lambda net=net: work(net) for net in nets]) == [True] * THREADS  # type: ignore[misc]


def test_models_that_come_and_go_in_threads_do_not_disturb_each_other() -> None:
    steady, x = Net(12).eval(), image()
    compiled = on_card(steady)
    with torch.no_grad():
        expected = steady(x)
        compiled(x)

    def passing() -> bool:
        good = True
        for _ in range(4):
            model = Net().eval()
            good &= torch.allclose(on_card(model)(x), model(x), rtol=1e-4, atol=1e-5)
        return good

    def staying() -> bool:
        return all(torch.allclose(compiled(x), expected, rtol=1e-4, atol=1e-5) for _ in range(40))

    assert all(together([passing, passing, staying, staying]))


def test_independent_branches_of_one_call_overlap() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left = mlp(128, 256, 128)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.left(x) + torch.atan(x.sin()).sort(1).values

    model, x = Branches().eval(), torch.randn(512, 128)
    compiled = on_card(model)
    with torch.no_grad():
        compiled(x)
        expected = model(x)
        for _ in range(ROUNDS):
            with fpga_dynamo.trace() as trace:
                assert_close(compiled(x), expected)
            assert {event.pe[:2] for event in trace.tasks} == {"ps", "se"}
            if overlap(trace.tasks) > 0:
                break
        else:
            pytest.fail("the branches never ran at once")


def test_threads_that_train_models_of_their_own() -> None:
    def train(seed: int) -> list[torch.Tensor]:
        with torch.enable_grad():
            model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
            generator = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.normal_(generator=generator)
            x = torch.randn(5, 8, generator=generator)
            on_card(model)(x).square().mean().backward()
            mine = [p.grad.clone() for p in model.parameters()]  # type: ignore[union-attr]
            model.zero_grad()
            model(x).square().mean().backward()
            return [a - p.grad for a, p in zip(mine, model.parameters(), strict=True)]  # type: ignore[operator]

    for differences in together([lambda seed=seed: train(seed) for seed in range(4)]):  # type: ignore[misc]
        assert all(difference.abs().max() < 1e-4 for difference in differences)
