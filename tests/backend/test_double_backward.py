"""Second derivatives through compiled graphs: eager mode's numbers or an error that says why, never other numbers."""

from __future__ import annotations

import copy
import gc
import re
import weakref
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from torch import autograd, nn
from torch.utils.checkpoint import checkpoint

from fpga_dynamo.errors import FpgaError
from fpga_dynamo.testing.reference import assert_close_to_eager
from tests.backend.backend_kit import counting, on_card

Run = Callable[..., torch.Tensor]


class Broken(nn.Module):
    """Two graphs, with Python between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(x))
        torch._dynamo.graph_break()
        return self.second(hidden * hidden)


class Pieces(nn.Module):
    """Results that are views of one tensor, which autograd sees as views of a result that the user does not get."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = torch.tanh(self.first(x))
        return hidden[:, :4], hidden[:, 4:], x.view(-1)


def smooth() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "MLP": smooth,
    "two graphs": Broken,
    "batch norm": lambda: nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Softplus(), nn.Linear(8, 1)),
    "dropout": lambda: nn.Sequential(nn.Linear(3, 32), nn.Dropout(0.5), nn.Tanh(), nn.Linear(32, 1)),
}


def penalty(run: Run, model: nn.Module, x: torch.Tensor) -> Any:
    """The gradient penalty of WGAN-GP, beside a loss that does not need second derivatives."""
    y = run(x)
    (slope,) = autograd.grad(y.sum(), x, create_graph=True)
    return autograd.grad((slope.norm(dim=1) - 1).pow(2).mean() + y.mean(), list(model.parameters()))


def curvature(run: Run, model: nn.Module, x: torch.Tensor) -> Any:
    """u_xx of a network that solves a differential equation, in a loss."""
    y = run(x)
    (slope,) = autograd.grad(y.sum(), x, create_graph=True)
    (bend,) = autograd.grad(slope[:, 0].sum(), x, create_graph=True)
    loss = bend[:, 0].square().mean() + y.mean()
    return autograd.grad(loss, list(model.parameters()))


def of_parameters(run: Run, model: nn.Module, x: torch.Tensor) -> Any:
    parameters = list(model.parameters())
    first = autograd.grad(run(x).square().sum(), parameters, create_graph=True)
    loss = torch.stack([grad.square().sum() for grad in first]).sum()
    return autograd.grad(loss, [x, *parameters], allow_unused=True)


def backward(run: Run, model: nn.Module, x: torch.Tensor) -> Any:
    run(x).square().sum().backward(create_graph=True)
    assert x.grad is not None
    found = autograd.grad(x.grad.square().sum(), list(model.parameters()), allow_unused=True)
    model.zero_grad()
    return found


def hessian(run: Run, model: nn.Module, x: torch.Tensor) -> Any:
    return autograd.functional.hessian(lambda at: run(at).square().sum(), x)


def checkpointed(run: Run, model: nn.Module, x: torch.Tensor) -> Any:
    return penalty(lambda at: checkpoint(run, at, use_reentrant=False), model, x)


USES = [penalty, curvature, of_parameters, backward, hessian, checkpointed]


def numbers(use: Any, run: Run, model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    torch.manual_seed(11)
    found = use(run, model, x.clone().requires_grad_())
    return [f.detach() for f in (found if isinstance(found, tuple) else (found,)) if f is not None and f.any()]


@pytest.mark.parametrize("name", MODELS)
def test_second_derivatives_are_eager_s(name: str) -> None:
    model = MODELS[name]()
    exact, compiled, x = copy.deepcopy(model).double(), on_card(model), torch.randn(5, 3)
    for use in USES:
        try:
            theirs = numbers(use, model, model, x)
        except RuntimeError as error:  # since PyTorch 2.15 of third derivatives of a batch norm
            assert use is curvature and name == "batch norm"
            with pytest.raises(RuntimeError, match=re.escape(str(error))):
                numbers(use, compiled, model, x)
            continue
        mine = numbers(use, compiled, model, x)
        if name == "dropout":  # in float64 other elements are dropped
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
        else:
            assert_close_to_eager(mine, theirs, numbers(use, exact, exact, x.double()), factor=8.0)


def test_a_penalty_on_the_slopes_of_one_layer() -> None:
    model, x = nn.Linear(3, 1), torch.randn(5, 3)
    mine, theirs = (numbers(penalty, run, model, x) for run in (on_card(model), model))
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


ACTIVATIONS = [nn.Tanh, nn.Softplus, nn.SiLU, nn.GELU, nn.Sigmoid, nn.ELU]


@st.composite
def networks(draw: st.DrawFn) -> tuple[nn.Module, tuple[int, ...]]:
    """A small perceptron or convolutional network, and the shape of its input."""
    torch.manual_seed(draw(st.integers(0, 99)))
    layers: list[nn.Module] = []
    if draw(st.booleans()):
        channels, size = draw(st.integers(1, 3)), draw(st.integers(3, 6))
        shape: tuple[int, ...] = (draw(st.integers(1, 3)), channels, size, size)
        for _ in range(draw(st.integers(1, 2))):
            after = draw(st.integers(1, 4))
            layers += [nn.Conv2d(channels, after, 3, padding=1, bias=draw(st.booleans())), draw(acts())]
            channels = after
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 2)]
    else:
        width = draw(st.integers(1, 6))
        shape = (draw(st.integers(1, 4)), width)
        for _ in range(draw(st.integers(0, 2))):
            after = draw(st.integers(1, 8))
            norm = [nn.LayerNorm(after)] if after > 1 and draw(st.booleans()) else []
            layers += [nn.Linear(width, after, bias=draw(st.booleans())), *norm, draw(acts())]
            width = after
        layers.append(nn.Linear(width, 1))
    return nn.Sequential(*layers), shape


def acts() -> st.SearchStrategy[nn.Module]:
    return st.sampled_from(ACTIVATIONS).map(lambda make: make())


def sobolev(run: Run, model: nn.Module, x: torch.Tensor) -> Any:
    """Gradients of a loss of values and slopes, with respect to inputs and parameters."""
    parameters = [x, *model.parameters()]
    y = run(x)
    (slope,) = autograd.grad(y.square().sum(), x, create_graph=True)
    return autograd.grad(slope.square().sum() + y.mean(), parameters, allow_unused=True, materialize_grads=True)


@hypothesis.settings(max_examples=12, deadline=None, derandomize=True)
@hypothesis.given(networks())
def test_second_derivatives_of_random_networks(drawn: tuple[nn.Module, tuple[int, ...]]) -> None:
    model, shape = drawn
    torch._dynamo.reset()
    exact, x = copy.deepcopy(model).double(), torch.randn(shape)
    compiled = on_card(model)
    mine, theirs, truth = (
        sobolev(run, owner, at.clone().requires_grad_())
        for run, owner, at in ((compiled, model, x), (model, model, x), (exact, exact, x.double()))
    )
    assert_close_to_eager(mine, theirs, truth, factor=16.0)


def test_results_that_are_views() -> None:
    model, x = Pieces(), torch.randn(5, 3)

    def use(run: Any, at: torch.Tensor) -> Any:
        left, right, flat = run(at)
        loss = (left * right).sum() + flat.square().sum() * left.sum()
        (slope,) = autograd.grad(loss, at, create_graph=True)
        return autograd.grad(slope.square().sum() + loss, [at, *model.parameters()])

    mine, theirs = (use(run, x.clone().requires_grad_()) for run in (on_card(model), model))
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_an_input_that_another_input_was_made_of() -> None:
    def pair(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a * b).sin()

    def use(run: Any, x: torch.Tensor) -> Any:
        (slope,) = autograd.grad(run(x, x.exp()).sum(), x, create_graph=True)
        return autograd.grad(slope.square().sum(), x)

    x = torch.randn(4, 3)
    mine, theirs = (use(run, x.clone().requires_grad_()) for run in (on_card(pair), pair))
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_several_sizes() -> None:
    model = smooth()
    compiled = torch.compile(model, backend="fpga", dynamic=True)
    for batch in (4, 7):  # the second one is of the same graph
        x = torch.randn(batch, 3)
        torch.testing.assert_close(
            numbers(penalty, compiled, model, x), numbers(penalty, model, model, x), rtol=1e-4, atol=1e-5
        )


@pytest.mark.filterwarnings("ignore:.*create_graph.*")
@pytest.mark.parametrize("around", [True, False], ids=["around the call", "within the graph"])
def test_autocast_is_that_of_the_call(around: bool) -> None:
    model, x = smooth(), torch.randn(5, 3)

    def within(at: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(at)

    compiled = on_card(model if around else within)

    def call(at: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=around):
            return compiled(at).float()

    mine, theirs = (numbers(penalty, run, model, x) for run in (call, lambda at: within(at).float()))
    torch.testing.assert_close(mine, theirs, rtol=0.1, atol=0.05)
    assert not torch.equal(theirs[0], numbers(penalty, model, model, x)[0])


def test_a_parameter_that_was_changed_after_the_call_is_refused() -> None:
    model, x = smooth(), torch.randn(5, 3, requires_grad=True)
    y = on_card(model)(x)
    with torch.no_grad():
        model[2].bias.add_(1)  # type: ignore[index]
    (slope,) = autograd.grad(y.sum(), x, create_graph=True)
    with pytest.raises(FpgaError, match="changed in place after the call"):
        autograd.grad(slope.sum() + y.mean(), list(model.parameters()))


def test_a_value_that_the_graph_overwrites_is_refused() -> None:
    def powers(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        state.mul_(2)
        return (x * state).sin()

    x, state = torch.randn(5, 3, requires_grad=True), torch.ones(3)
    y = on_card(powers)(x, state)
    (slope,) = autograd.grad(y.sum(), x, create_graph=True)
    torch.testing.assert_close(slope, (x * 2).cos() * 2)
    with pytest.raises(FpgaError, match="changes an input in place"):
        autograd.grad(slope.sum() + y.mean(), x)
    assert torch.equal(state, torch.full((3,), 2.0)), "the second run changes nothing"


def test_a_backward_function_of_its_own_is_refused() -> None:
    class Cube(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 3 * ctx.saved_tensors[0] ** 2

    x = torch.randn(5, 3, requires_grad=True)
    y = on_card(lambda at: Cube.apply(at.sin()))(x)
    (slope,) = autograd.grad(y.sum(), x, create_graph=True)
    with pytest.raises(FpgaError, match="a custom backward"):
        autograd.grad(slope.sum() + y.mean(), x)


@pytest.mark.parametrize("results", [True, False])
def test_a_change_of_an_input_with_gradients_is_refused(results: bool) -> None:
    def change(x: torch.Tensor) -> torch.Tensor | None:
        x.sin_()
        return x * 2 if results else None

    x = torch.randn(5, 3, requires_grad=True)
    changed = x * 3
    on_card(change)(changed)
    (slope,) = autograd.grad(changed.square().sum(), x, create_graph=True)
    with pytest.raises(FpgaError, match="changes an input in place"):
        autograd.grad(slope.sum() + changed.mean(), x)


@pytest.mark.parametrize("dynamic", [True, False])
def test_two_backward_passes_over_one_graph(dynamic: bool) -> None:
    model, x = smooth(), torch.randn(5, 3)
    compiled = torch.compile(model, backend="fpga", dynamic=dynamic)

    def twice(run: Run, model: nn.Module, x: torch.Tensor) -> Any:
        loss = run(x).square().sum()
        return (*autograd.grad(loss, x, retain_graph=True), *autograd.grad(loss, list(model.parameters())))

    torch.testing.assert_close(
        numbers(twice, compiled, model, x), numbers(twice, model, model, x), rtol=1e-4, atol=1e-5
    )


def test_batch_norm_s_statistics_change_once() -> None:
    model, x = MODELS["batch norm"](), torch.randn(5, 3)
    eager = copy.deepcopy(model)
    for run, owner in ((on_card(model), model), (eager, eager)):
        numbers(penalty, run, owner, x)
    torch.testing.assert_close(dict(model.named_buffers()), dict(eager.named_buffers()))


def test_an_ordinary_backward_pass_lets_go_of_the_inputs() -> None:
    model = smooth()
    kept = torch.randn(5, 3, requires_grad=True)
    between = kept * 1
    seen = weakref.ref(between)
    loss = on_card(model)(between).sum()
    del between
    loss.backward()
    gc.collect()
    assert seen() is None, "as eager mode does, while the loss lives"


def test_two_calls_of_a_batch_norm() -> None:
    """Each call changes the running statistics, and no gradient depends on them."""
    model, x = MODELS["batch norm"](), torch.randn(5, 3)

    def both(run: Run, model: nn.Module, x: torch.Tensor) -> Any:
        loss = run(x).sum() + run(x * 0.5).square().sum()
        (slope,) = autograd.grad(loss, x, create_graph=True)
        return autograd.grad(slope.square().sum() + loss, [x, *model.parameters()])

    torch.testing.assert_close(
        numbers(both, on_card(model), model, x), numbers(both, model, model, x), rtol=1e-3, atol=1e-3
    )


def test_gradients_for_several_tangents_at_once() -> None:
    """vmap runs over the backward pass, whose tensors have no memory then; later passes are launches again."""
    model, x = smooth(), torch.randn(5, 3, requires_grad=True)
    compiled, tangents = on_card(model), torch.eye(5)[..., None]
    found, wanted = (autograd.grad(run(x), x, tangents, is_grads_batched=True)[0] for run in (compiled, model))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    y = compiled(x)
    with counting() as grown:
        autograd.grad(y.sum(), x)
    assert grown["pl_launches"] > 0
