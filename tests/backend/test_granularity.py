"""`granularity`: layers and operators as tasks that a compute unit or the host runs, with the same answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import nn

import fpga_dynamo
from fpga_dynamo.frontend.backend import collect_programs
from fpga_dynamo.ir.program import Program
from fpga_dynamo.runtime.scheduling.policies import Policy, register_policy
from fpga_dynamo.runtime.scheduling.policies.base import _registry
from fpga_dynamo.runtime.task import ProcessingElement, ReadyTask


class _OneSide(Policy):
    """Everything that can be there on one side; the rest where it can be."""

    kind = ""

    def assign(
        self, ready: Sequence[ReadyTask], pes: Sequence[ProcessingElement], now: float, available: Any
    ) -> list[tuple[ReadyTask, ProcessingElement]]:
        idle = [pe for pe in pes if available[pe] <= now]
        assignments = []
        for item in ready:
            able = [pe for pe in self.supporting(item.task, pes) if pe in idle]
            able.sort(key=lambda pe: pe.kind != self.kind)
            wanted = {pe.kind for pe in self.supporting(item.task, pes)}
            if able and (able[0].kind == self.kind or self.kind not in wanted):
                idle.remove(able[0])
                assignments.append((item, able[0]))
        return assignments


class AllOnTheCard(_OneSide):
    name = "all_on_the_card"
    kind = "PL"


class AllOnTheHost(_OneSide):
    name = "all_on_the_host"
    kind = "PS"


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    """Both policies by their names, while this file's tests run."""
    for policy in (AllOnTheCard, AllOnTheHost):
        register_policy(policy)
    yield
    for policy in (AllOnTheCard, AllOnTheHost):
        del _registry[policy.name]


class Block(nn.Module):
    """A residual block and a head, with an operator (a sort) that no core has."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        y = torch.relu(self.second(y) + y)
        return self.head(y.mean((2, 3))).sort(-1).values


X = torch.randn(3, 4, 10, 11, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(2)
    return Block().eval()


def run(model: nn.Module, x: torch.Tensor = X, **options: Any) -> tuple[torch.Tensor, list[Program], Counter[str]]:
    """The result, the programs, and how many tasks ran on which kind of unit in a second call."""
    torch._dynamo.reset()
    with torch.no_grad(), collect_programs() as programs:
        compiled = torch.compile(model, backend="fpga", dynamic=False, options=options)
        compiled(x)
        with fpga_dynamo.trace() as trace:
            result = compiled(x)
    kinds = {pe.name: pe.kind for program in programs for pe in fpga_dynamo_pes(program, options)}
    return result, programs, Counter(kinds[task.pe] for task in trace.tasks)


def fpga_dynamo_pes(program: Program, options: dict[str, Any]) -> Sequence[ProcessingElement]:
    from fpga_dynamo.frontend.backend import executors_of

    (executor,) = executors_of([program])
    hosts = [ProcessingElement(f"ps{i}", "PS", None, i) for i in range(256)]
    return [*executor.card.pes, *hosts]


@pytest.mark.parametrize("granularity", ["layer", "op"])
@pytest.mark.parametrize("policy", ["all_on_the_card", "all_on_the_host", "random", "adaptive", "eft", "etf", "met"])
def test_any_policy_gives_eagers_answer(model: nn.Module, granularity: str, policy: str) -> None:
    result, (program,), kinds = run(model, granularity=granularity, policy=policy)
    with torch.no_grad():
        torch.testing.assert_close(result, model(X), rtol=1e-4, atol=1e-5)
    cards = len(program.card_tasks)
    assert cards >= 3
    assert sum(kinds.values()) == len(program.tasks)
    if policy == "all_on_the_card":
        assert kinds["PL"] == cards
    if policy == "all_on_the_host":
        assert kinds["PL"] == 0


def test_layers_are_launches_of_their_own(model: nn.Module) -> None:
    _, (whole,), _ = run(model, partition="greedy")
    _, (layers,), _ = run(model, granularity="layer")
    _, (operators,), _ = run(model, granularity="op")
    assert len(whole.card_tasks) == 1
    assert len(whole.card_tasks) < len(layers.card_tasks) <= len(operators.card_tasks)
    commands = [sum(len(task.commands) for task in program.card_tasks) for program in (whole, layers)]
    assert commands[0] <= commands[1]


def test_a_model_of_one_layer_has_both_ways(model: nn.Module) -> None:
    linear, x = nn.Linear(16, 5).eval(), torch.randn(4, 16)
    for policy, kind in (("all_on_the_card", "PL"), ("all_on_the_host", "PS")):
        result, _, kinds = run(linear, x, granularity="layer", policy=policy)
        assert kinds == {kind: 1}
        with torch.no_grad():
            torch.testing.assert_close(result, linear(x), rtol=1e-5, atol=1e-6)


def test_verify_looks_at_what_the_card_ran(model: nn.Module) -> None:
    result, _, _ = run(model, granularity="layer", policy="random", verify=True)
    with torch.no_grad():
        torch.testing.assert_close(result, model(X), rtol=1e-4, atol=1e-5)


def test_training_by_layers(model: nn.Module) -> None:
    def gradients(forward: Any) -> list[torch.Tensor]:
        model.zero_grad()
        forward(X).square().sum().backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    wanted = gradients(model)
    torch._dynamo.reset()
    options: dict[str, Any] = {"granularity": "layer", "policy": "random"}
    got = gradients(torch.compile(model, backend="fpga", dynamic=False, options=options))
    for mine, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


def test_parameters_may_change_between_calls(model: nn.Module) -> None:
    linear, x = nn.Linear(16, 5).eval(), torch.randn(4, 16)
    torch._dynamo.reset()
    compiled = torch.compile(linear, backend="fpga", options={"granularity": "layer", "policy": "all_on_the_card"})
    with torch.no_grad():
        compiled(x)
        linear.weight.mul_(2)
        torch.testing.assert_close(compiled(x), linear(x), rtol=1e-5, atol=1e-6)


def test_sizes_that_change_from_call_to_call(model: nn.Module) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        model, backend="fpga", dynamic=True, options={"granularity": "layer", "policy": "all_on_the_card"}
    )
    for batch in (2, 5, 3):
        x = torch.randn(batch, 4, 10, 11)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


def test_another_granularity_is_an_error() -> None:
    with pytest.raises(Exception, match="option 'granularity' must be one of launch, layer, op, not 'node'"):
        torch.compile(nn.Linear(2, 2), backend="fpga", options={"granularity": "node"})(torch.randn(1, 2))
