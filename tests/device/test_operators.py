"""Operators of eager mode as programs of one node: where they run and why, results, the cache, threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fpga_dynamo import OptionError
from tests.device.device_kit import fpga

generator = torch.Generator().manual_seed(3)
x, y = torch.randn(64, 48, generator=generator), torch.randn(64, 48, generator=generator)
image = torch.randn(2, 3, 9, 9, generator=generator)


@pytest.fixture
def greedy() -> Iterator[None]:
    """Whatever a core can run goes to the card, from the first call on."""
    fpga.set_operator_placement("greedy")
    fpga.reset_operator_stats()
    yield
    fpga.set_operator_placement("cost")


def reasons(name: str) -> dict[str, int]:
    """Why calls of an operator ran on the host."""
    found: dict[str, int] = fpga.operator_stats()["host"].get(name, {})
    return found


OPERATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda a, b: a.relu(),
    "add": lambda a, b: a + b,
    "add with a factor": lambda a, b: torch.add(a, b, alpha=0.5),
    "number": lambda a, b: a * 2.5,
    "integer": lambda a, b: a + 3,
    "reversed": lambda a, b: 1 - a,
    "broadcast": lambda a, b: a * b[0],
    "transposed": lambda a, b: a.t().exp(),
    "part": lambda a, b: a[1:, 3:].sigmoid(),
    "product": lambda a, b: a @ b.t(),
    "same twice": lambda a, b: torch.mm(a, a.t()),
    "sum": lambda a, b: a.sum(1),
    "mean": lambda a, b: a.mean(0, keepdim=True),
    "softmax": lambda a, b: a.softmax(-1),
    "layer norm": lambda a, b: nn.functional.layer_norm(a, (48,), b[0], b[1]),
    "gelu": lambda a, b: nn.functional.gelu(a),
    "cat": lambda a, b: torch.cat([a, b], 1),
    "where": lambda a, b: torch.where(a > 0, a, b),
    "comparison": lambda a, b: a > b,
    "bfloat16": lambda a, b: a.bfloat16() * b.bfloat16(),
    "int32": lambda a, b: (a * 10).int() + 7,
    "clamp": lambda a, b: a.clamp(-0.5, 0.5),
    "convolution": lambda a, b: nn.functional.conv2d(image.to(a.device), image.to(a.device)[:, :, :3, :3], padding=1),
    "pooling": lambda a, b: nn.functional.avg_pool2d(image.to(a.device), 2),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_results_on_the_card(name: str, greedy: None) -> None:
    call = OPERATORS[name]
    expected, exact = call(x, y), call(x.double(), y.double())
    for _ in range(2):  # the second call is direct
        result = call(x.to("fpga"), y.to("fpga"))
        assert result.device.type == "fpga" and result.dtype is expected.dtype
        assert result.stride() == expected.stride()
        tolerance = 2e-2 if result.dtype is torch.bfloat16 else 1e-5
        torch.testing.assert_close(result.cpu().double(), exact.double(), rtol=tolerance, atol=tolerance)
    assert sum(fpga.operator_stats()["card"].values()) >= 2


def test_calls_with_other_arguments_have_programs_of_their_own(greedy: None) -> None:
    a = x.to("fpga")
    programs = fpga.operator_stats()["programs"]
    results = [a * 2, a * 3, a[:32] * 2, a.t() * 2, a.int() * 2]
    assert fpga.operator_stats()["programs"] == programs + 5
    expected = [x * 2, x * 3, x[:32] * 2, x.t() * 2, x.int() * 2]
    for result, reference in zip(results, expected, strict=True):
        assert torch.equal(result.cpu(), reference) and result.stride() == reference.stride()
    assert torch.equal((a * 2).cpu(), x * 2) and fpga.operator_stats()["programs"] == programs + 5


def test_the_cost_model_decides_at_the_third_call() -> None:
    """Which of the two is faster is measured after that, so that the fourth call may be on either side."""
    fpga.set_operator_placement("cost")
    fpga.reset_operator_stats()
    large, image = torch.randn(256, 256, device="fpga"), torch.randn(64, 64, device="fpga")
    for calls in range(1, 4):
        large @ large
        image.relu()
        assert fpga.operator_stats()["card"] == ({"aten::mm.out": 1} if calls == 3 else {})
    assert reasons("aten::mm.out") == {"such a call has come fewer than 3 times": 2}
    early, cost = sorted(reasons("aten::relu"), key=lambda why: "save" in why)
    assert early == "such a call has come fewer than 3 times"
    assert "of host time but cost" in cost and "options" not in cost


def test_a_slower_card_is_given_up() -> None:
    """On the emulator a small product is faster on the host; the card has five launches to show otherwise."""
    fpga.set_operator_placement("cost")
    fpga.reset_operator_stats()
    small = torch.randn(16, 16, device="fpga")
    for _ in range(20):
        result = small @ small
    torch.testing.assert_close(result.cpu(), small.cpu() @ small.cpu())
    launches, host = fpga.operator_stats()["card"].get("aten::mm.out", 0), reasons("aten::mm.out")
    assert launches + sum(host.values()) == 20
    assert launches in (0, 5, 18) and (launches != 5 or any("the host was faster: " in why for why in host))


def test_reasons_of_the_host(greedy: None) -> None:
    a = x.to("fpga")
    a.clone().add_(1)
    a.sort()
    a.bernoulli(0.5)
    a + torch.tensor(2.0)
    a.clone().relu_()
    assert reasons("aten::add.out") == {
        "the result lies in the memory of an argument": 1,
        "a tensor is not on the card": 1,
    }
    assert reasons("aten::relu_") == {"it changes an argument, or returns a part of one": 1}
    assert "it draws random numbers" in str(fpga.operator_stats()["host"])
    assert "no core computes it" in str(fpga.operator_stats()["host"])


def test_a_result_argument(greedy: None) -> None:
    a, result = x.to("fpga"), torch.empty(64, 48, device="fpga")
    address = result.data_ptr()
    for _ in range(2):
        result.zero_()
        torch.exp(a, out=result)
        assert result.data_ptr() == address
        torch.testing.assert_close(result.cpu(), x.exp())
    assert fpga.operator_stats()["card"]["aten::exp.out"] == 2
    other = torch.empty(48, 64, device="fpga").t()
    torch.exp(a, out=other)  # in other strides: by the host
    assert other.stride() == (1, 64)
    torch.testing.assert_close(other.cpu(), x.exp())
    torch.exp(a, out=a)
    torch.testing.assert_close(a.cpu(), x.exp())


def test_the_host_runs_all_if_it_is_told_so() -> None:
    fpga.set_operator_placement("host")
    try:
        fpga.reset_operator_stats()
        a = x.to("fpga")
        assert torch.equal((a @ a.t()).cpu(), x @ x.t())
        assert fpga.operator_stats() == {"card": {}, "host": {}, "programs": 0, "kinds": 0}
    finally:
        fpga.set_operator_placement("cost")
    with pytest.raises(OptionError, match="placement of operators must be one of cost, greedy, host, not 'card'"):
        fpga.set_operator_placement("card")


def test_the_kinds_used_least_are_forgotten() -> None:
    fpga.set_operator_placement("cost")
    for rows in range(1, 1100):
        torch.empty(rows, device="fpga").exp()
    stats = fpga.operator_stats()
    assert stats["kinds"] == 1024
    assert sum(reasons("aten::exp.out").values()) >= 1099


@pytest.mark.parametrize("inference", [False, True])
def test_modes_of_autograd_share_programs(inference: bool, greedy: None) -> None:
    weight = nn.Parameter(torch.randn(48, 48, generator=generator))
    there = nn.Parameter(weight.detach().to("fpga"))
    a = x.to("fpga")
    for _ in range(2):
        torch.testing.assert_close((a @ there).detach().cpu(), (x @ weight).detach())
        with torch.inference_mode() if inference else torch.no_grad():
            assert torch.allclose((a @ there).cpu(), x @ weight, atol=1e-5)
    assert fpga.operator_stats()["card"]["aten::mm.out"] == 4


def test_a_training_step(greedy: None) -> None:
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(72, 5)
    model = nn.Sequential(*layers)
    exact, there = nn.Sequential(*layers), model
    state = {name: value.clone() for name, value in model.state_dict().items()}
    exact.double()(image.double()).square().sum().backward()
    expected = [parameter.grad for parameter in exact.parameters()]
    model.zero_grad()
    there = model.float()
    there.load_state_dict(state)
    there.to("fpga")(image.to("fpga")).square().sum().backward()
    for parameter, gradient in zip(there.parameters(), expected, strict=True):
        assert parameter.grad is not None and gradient is not None
        torch.testing.assert_close(parameter.grad.cpu().double(), gradient.double(), rtol=1e-4, atol=1e-4)
    card = fpga.operator_stats()["card"]
    assert {"aten::convolution_overrideable", "aten::addmm.out", "aten::threshold_backward.grad_input"} <= card.keys()


def test_operators_of_several_threads(greedy: None) -> None:
    """Four threads with 300 operators each, of kinds that all of them use and that they change."""
    wrong: list[Any] = []

    def work(number: int) -> None:
        a = torch.full((16, 16), float(number), device="fpga")
        for i in range(60):
            size = 1 + i % 16
            b = a[:size] + i
            c = (b * 2).relu()
            d = c @ a
            if not (torch.all(d == 2 * (number + i) * number * 16) and torch.all(c - b == number + i)):
                wrong.append((number, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_fake_tensors_and_graphs_are_not_counted(greedy: None) -> None:
    compiled = torch.compile(lambda t: t.relu() + 1, backend="fpga", options={"partition": "greedy"})
    a = x.to("fpga")
    fpga.reset_operator_stats()
    for _ in range(3):
        assert torch.equal(compiled(a).cpu(), x.relu() + 1)
    assert fpga.operator_stats()["card"] == {}
