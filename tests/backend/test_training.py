"""Training: gradients as near to float64 as eager mode's, batch norm's statistics, dropout's random numbers, SGD."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from fpga_dynamo.frontend.backend import collect_programs
from fpga_dynamo.testing.reference import assert_close_to_eager
from fpga_dynamo.tools.explain import report
from tests.backend.backend_kit import counting, mlp, on_card


def cnn() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 12, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 10),
    )  # fmt: skip


def normed() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 10))


def shared() -> nn.Sequential:
    layer = nn.Linear(16, 16)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Linear(16, 10))


MODELS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "CNN": (cnn, (4, 3, 12, 12)),
    "CNN in eval mode": (lambda: cnn().eval(), (4, 3, 12, 12)),
    "MLP": (lambda: mlp(20, 32, 24, 10), (6, 20)),
    "layer norm and GELU": (normed, (5, 16)),
    "shared weights": (shared, (5, 16)),
}  # fmt: skip


def gradients(run: Any, model: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
    """Output, loss and all gradients of one backward pass, the input's among them."""
    x = x.clone().requires_grad_()
    output = run(x)
    loss = nn.functional.cross_entropy(output, labels)
    loss.backward()
    named = {name: parameter.grad for name, parameter in model.named_parameters()}
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    return {"output": output.detach(), "loss": loss.detach(), "input": x.grad, **named, **buffers}


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_as_near_to_float64_as_eager_s(name: str) -> None:
    make, shape = MODELS[name]
    model = make()
    x, labels = torch.randn(shape), torch.randint(0, 10, shape[:1])
    eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    with counting() as grown:
        mine = gradients(on_card(model), model, x, labels)
    assert grown["graphs_compiled"] == 2 and grown["pl_launches"] >= 2, "forward and backward are on the card"
    theirs, truth = gradients(eager, eager, x, labels), gradients(exact, exact, x.double(), labels)
    assert list(mine) == list(theirs)
    assert_close_to_eager(mine, theirs, truth, factor=8.0)


def test_batch_norm_in_train_mode_updates_its_statistics() -> None:
    model = cnn()
    eager = copy.deepcopy(model)
    compiled = on_card(model)
    for _ in range(3):
        x = torch.randn(4, 3, 12, 12)
        compiled(x), eager(x)
    for name, buffer in model.named_buffers():
        torch.testing.assert_close(buffer, dict(eager.named_buffers())[name], rtol=1e-4, atol=1e-5)
    assert int(model[1].num_batches_tracked) == 3  # type: ignore[arg-type]
    model.eval(), eager.eval()
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), eager(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_follows_eager_s_random_numbers(p: float) -> None:
    model = nn.Sequential(nn.Linear(16, 64), nn.Dropout(p), nn.ReLU(), nn.Linear(64, 32), nn.Dropout(p))
    compiled, x = on_card(model), torch.randn(8, 16)
    torch.manual_seed(7)
    first, second = compiled(x), compiled(x)
    state = torch.get_rng_state()
    torch.manual_seed(7)
    assert torch.equal(first == 0, model(x) == 0), "the same elements are dropped"
    expected = model(x)
    torch.testing.assert_close(second, expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(torch.get_rng_state(), state), "and the stream stands where eager leaves it"
    assert not torch.equal(first, second)
    assert bool((second == 0).any())


def test_dropout_s_gradient_is_that_of_the_elements_kept() -> None:
    model = nn.Sequential(nn.Linear(16, 64), nn.Dropout(0.5), nn.Linear(64, 8))
    eager, x = copy.deepcopy(model), torch.randn(8, 16)
    for seed, (run, owner) in enumerate(((on_card(model), model), (eager, eager))):
        torch.manual_seed(3)
        run(x).square().sum().backward()
        assert seed < 2 and owner[0].weight.grad is not None
    for mine, theirs in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make, shape", [(cnn, (8, 3, 12, 12)), (lambda: mlp(20, 32, 10), (8, 20))], ids=["CNN", "MLP"])
def test_steps_of_sgd_follow_eager(make: Any, shape: tuple[int, ...]) -> None:
    model = make()
    eager = copy.deepcopy(model)
    compiled = on_card(model)
    batches = [(torch.randn(shape), torch.randint(0, 10, shape[:1])) for _ in range(5)]
    losses: list[list[float]] = []
    for run, owner in ((compiled, model), (eager, eager)):
        optimizer = torch.optim.SGD(owner.parameters(), lr=0.05, momentum=0.9)
        losses.append([])
        for x, labels in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(run(x), labels)
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][0] != losses[0][-1]
    for mine, theirs in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


def test_training_on_the_card_learns() -> None:
    x = torch.randn(64, 8)
    labels = (x[:, 0] * x[:, 1] > 0).long()
    model = mlp(8, 32, 2)
    compiled, optimizer = on_card(model), torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(compiled(x), labels)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        assert (compiled(x).argmax(1) == labels).float().mean() > 0.95


def test_frozen_parameters_get_no_gradient_and_the_others_get_eager_s() -> None:
    model = mlp(12, 16, 10)
    model[0].requires_grad_(False)
    eager, x = copy.deepcopy(model), torch.randn(4, 12)
    on_card(model)(x).square().sum().backward()
    eager(x).square().sum().backward()
    assert model[0].weight.grad is None
    torch.testing.assert_close(model[2].weight.grad, eager[2].weight.grad, rtol=1e-4, atol=1e-5)


def test_gradients_accumulate_over_calls() -> None:
    model = mlp(12, 16, 10)
    eager, compiled = copy.deepcopy(model), on_card(model)
    for _ in range(2):
        x = torch.randn(4, 12)
        compiled(x).square().sum().backward()
        eager(x).square().sum().backward()
    torch.testing.assert_close(model[0].weight.grad, eager[0].weight.grad, rtol=1e-4, atol=1e-4)


def test_activation_checkpointing() -> None:
    block, x = mlp(12, 32, 12), torch.randn(4, 12)
    eager = copy.deepcopy(block)

    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) + x

    on_card(forward)(x).square().sum().backward()
    (eager(x) + x).square().sum().backward()
    for mine, theirs in zip(block.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
def test_a_batch_norm_under_activation_checkpointing(dynamic: bool) -> None:
    """It is computed again from statistics that have changed since."""
    block = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())
    eager, exact = copy.deepcopy(block), copy.deepcopy(block).double()
    x, labels = torch.randn(4, 3, 6, 6), torch.tensor([0, 1, 2, 3])

    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False).mean((2, 3))

    compiled = torch.compile(forward, backend="fpga", dynamic=dynamic, options={"partition": "greedy"})
    assert_close_to_eager(
        gradients(compiled, block, x, labels),
        gradients(lambda x: eager(x).mean((2, 3)), eager, x, labels),
        gradients(lambda x: exact(x).mean((2, 3)), exact, x.double(), labels),
    )


def encoder() -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, activation="gelu")


def test_a_transformer_block_s_gradients_are_on_the_card_and_as_near_to_float64_as_eager_s() -> None:
    model, x = encoder(), torch.randn(2, 5, 16)
    eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    with collect_programs() as programs:
        on_card(model)(x).square().mean().backward()
    eager(x).square().mean().backward()
    exact(x.double()).square().mean().backward()
    mine, theirs, true = ([p.grad for p in m.parameters()] for m in (model, eager, exact))
    assert_close_to_eager(mine, theirs, true)
    macs = [node for program in programs for node in report(program).nodes if node.macs]
    assert len(programs) == 2 and all(node.place == "PL" for node in macs), "every product, forward and backward"


def test_twenty_steps_of_sgd_follow_eager() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, 5)
    )
    eager, compiled = copy.deepcopy(model), on_card(model)
    optimizers = [torch.optim.SGD(owner.parameters(), 0.05, momentum=0.9) for owner in (model, eager)]
    for _ in range(20):
        x, labels = torch.randn(6, 3, 6, 6), torch.randint(0, 5, (6,))
        losses = []
        for run, optimizer in zip((compiled, eager), optimizers, strict=True):
            optimizer.zero_grad()
            losses.append(nn.functional.cross_entropy(run(x), labels))
            losses[-1].backward()
            optimizer.step()
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-3, atol=1e-4)
    for mine, theirs in zip(model.state_dict().values(), eager.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-2, atol=1e-3)
