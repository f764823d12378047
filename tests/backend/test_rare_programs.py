"""Programs of a kind that few write: each once gave another answer than eager mode's, or none."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd import forward_ad

from fpga_dynamo import NotLoweredError
from tests.backend.backend_kit import GREEDY, counting, on_card

Tensor = torch.Tensor


def test_backward_of_a_batch_norm_in_eval_under_autocast() -> None:
    """It saves empty tensors, of another dtype than tracing predicts, and its backward asks for theirs."""
    model, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval(), torch.randn(2, 3, 6, 6)
    twin = copy.deepcopy(model)
    for called in (on_card(model), twin):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            answer = called(x)
        answer.float().square().mean().backward()
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=0.05, atol=0.05)


def test_nested_tensors() -> None:
    """Each has a ragged size of its own, a symbol for which no number can be written in."""
    layer = nn.Linear(4, 4)
    compiled = on_card(lambda x: torch.relu(layer(x)) * 2)
    for length in (3, 5, 1):
        x = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(length, 4)], layout=torch.jagged)
        with torch.no_grad():
            answer = compiled(x)
            torch.testing.assert_close(answer.values(), (torch.relu(layer(x)) * 2).values())


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.rest = nn.Linear(5, 5), nn.Sequential(nn.Linear(5, 5), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return self.rest(torch.relu(self.first(x)))


def _formula(x: Tensor) -> Tensor:
    return torch.relu(x) * 2 + x.sin()


def _with_a_graph_break(x: Tensor) -> Tensor:
    y = torch.relu(x)
    torch._dynamo.graph_break()
    return y * x


def _of_an_args(args: Tensor) -> Tensor:
    for _ in range(2):
        args = torch.relu(args) + 1
    return args


@pytest.mark.parametrize("dual_first", [False, True])
@pytest.mark.parametrize("model", [_formula, _Block().eval(), nn.Linear(5, 3), _with_a_graph_break, _of_an_args])
def test_tangents_of_forward_mode_are_eager_s(model: Any, dual_first: bool) -> None:
    """Whether the code is called with or without tangents first; calls without tangents run on the card."""
    compiled, x, tangent = on_card(model), torch.randn(2, 5), torch.randn(2, 5)

    def launches() -> float:
        with counting() as grown:
            torch.testing.assert_close(compiled(x), model(x))
        return grown["pl_launches"]

    if not dual_first:
        launches()
    for _ in range(2):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, tangent)
            mine, theirs = (forward_ad.unpack_dual(called(dual)) for called in (compiled, model))
            torch.testing.assert_close(mine.primal, theirs.primal)
            torch.testing.assert_close(mine.tangent, theirs.tangent)
        assert launches() == (2 if model is _with_a_graph_break else 1)


def test_strict_refuses_dual_tensors_and_nothing_after_them() -> None:
    """Before PyTorch 2.14 the backend sees the graph; since then Dynamo skips the frame."""
    x, refusals = torch.randn(2, 5), (NotLoweredError, BackendCompilerFailed)
    compiled = on_card(_formula, strict=True)
    for _ in range(2):
        with forward_ad.dual_level(), pytest.raises(refusals, match="falls back to eager mode"):
            compiled(forward_ad.make_dual(x, x))
        torch.testing.assert_close(compiled(x), _formula(x))


def test_an_input_that_is_given_other_memory() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.data = y
        return torch.relu(x) * 2

    compiled = on_card(function)
    for _ in range(2):
        x, y = torch.randn(4), torch.randn(4)
        torch.testing.assert_close(compiled(x, y), torch.relu(y) * 2)
        assert x.data_ptr() == y.data_ptr()


def _fill_first(x: Tensor) -> Tensor:
    x[0].fill_(0.25)
    return torch.relu(x) * 2


def _scale_first_window(x: Tensor) -> Tensor:
    windows = x.unfold(0, 2, 1)
    windows[0, 0].mul_(3)
    return torch.relu(windows) * 2


def _fill_behind_idle_dropout(x: Tensor) -> Tensor:
    y = torch.nn.functional.dropout(x, training=False)
    y[..., 0].fill_(0.25)
    return y


@pytest.mark.parametrize(
    "function", [_fill_first, _scale_first_window, _fill_behind_idle_dropout], ids=["input", "windows", "dropout"]
)
@pytest.mark.parametrize(
    "given",
    [lambda: torch.ones(1).expand(3), lambda: torch.arange(1.0, 5.0).unfold(0, 3, 1), lambda: torch.ones(3, 2)],
    ids=["expanded", "windows", "plain"],
)
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
def test_what_is_written_to_elements_that_share_memory(
    function: Callable[[Tensor], Tensor], given: Callable[[], Tensor], dynamic: bool
) -> None:
    compiled = torch.compile(function, backend="fpga", options=GREEDY, dynamic=dynamic)
    for _ in range(2):
        mine, theirs = given(), given()
        torch.testing.assert_close(compiled(mine), function(theirs))
        torch.testing.assert_close(mine, theirs)


def test_a_view_of_an_input_that_shares_memory_with_another_and_is_changed() -> None:
    """AOTAutograd takes both for views of one tensor, and would make the output from that one."""

    def function(x: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        row.relu_()
        return row.unfold(0, 1, 1), x + 2

    compiled = torch.compile(function, backend="fpga", options=GREEDY)
    for number in (-1.5, 2.5):
        mine, theirs = torch.tensor(number), torch.tensor(number)
        made, wanted = compiled(mine, mine.unsqueeze(0)), function(theirs, theirs.unsqueeze(0))
        assert made[0].untyped_storage().data_ptr() == mine.untyped_storage().data_ptr()
        for tensor, other in zip((*made, mine), (*wanted, theirs), strict=True):
            torch.testing.assert_close(tensor, other, rtol=0, atol=0)


def test_a_whole_graph_in_eager_is_an_error_if_that_is_asked_for() -> None:
    with pytest.raises(BackendCompilerFailed, match=r"NotLoweredError.*overlap in memory"):
        on_card(_fill_first, strict=True)(torch.ones(1).expand(3))


def test_an_error_of_eager_s_for_what_shares_memory() -> None:
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        on_card(lambda x: x.add_(1) * 2)(torch.ones(1).expand(3))


def test_an_input_whose_memory_is_given_back_after_its_last_use() -> None:
    """No edge of the graph says that the launch reads it before."""

    def function(x: Tensor) -> Tensor:
        y = torch.relu(x) * 2
        x.untyped_storage().resize_(0)
        return y

    compiled = on_card(function)
    for _ in range(3):
        x = torch.randn(400)
        expected = torch.relu(x) * 2
        torch.testing.assert_close(compiled(x), expected)
        assert x.untyped_storage().nbytes() == 0


def test_a_call_on_fake_tensors_of_what_has_run_on_real_ones() -> None:
    """They have no data: what reads some dies."""
    compiled, x = on_card(lambda x: torch.relu(x) * 2), torch.randn(3, 4)
    for _ in range(3):
        compiled(x)
    with FakeTensorMode() as mode:
        answer = compiled(mode.from_tensor(x))
    assert isinstance(answer, FakeTensor) and answer.shape == x.shape
    torch.testing.assert_close(compiled(x), torch.relu(x) * 2)


def test_scalars_are_asked_for_a_dimension() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return x.nanmean(0), x.flip(-1), x.var(0, correction=0), x.softmax(0), x.flip(())

    torch.testing.assert_close(on_card(function)(torch.tensor(3.0)), function(torch.tensor(3.0)))


def _view_of_parameter_changed(weight: Tensor) -> Tensor:
    with torch.no_grad():
        view = weight.view(-1)
        view.mul_(0.5)
        return view


def _activation_over_a_saved_result(weight: Tensor) -> Tensor:
    y = weight.sigmoid()
    torch.nn.functional.leaky_relu(y, 0.1, inplace=True)
    return y


def _beyond_the_view(weight: Tensor) -> Tensor:
    return weight.detach()[0].as_strided((4,), (1,), storage_offset=2).add_(1)


def _branch_that_is_its_operand(weight: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.cond(weight.sum() > 0, lambda x: x, lambda x: x + 1, (weight * 2,))


def _inference_inside(weight: Tensor) -> Tensor:
    with torch.inference_mode():
        return weight.view(-1).view(3, 2) * 2


@pytest.mark.parametrize(
    "function",
    [
        _view_of_parameter_changed,
        _activation_over_a_saved_result,
        _beyond_the_view,
        _branch_that_is_its_operand,
        _inference_inside,
    ],
)
def test_what_aotautograd_refuses_is_no_internal_error(function: Callable[[Tensor], Tensor]) -> None:
    """aot_eager raises for these; eager mode runs them. The reason is AOTAutograd's, so nothing asks for a report."""
    mine, theirs = (nn.Parameter(torch.arange(1.0, 7).view(2, 3)) for _ in range(2))
    with torch.inference_mode(False), warnings.catch_warnings():  # Dynamo leaves an inference mode on after an error
        warnings.simplefilter("error")
        torch.testing.assert_close(on_card(function)(mine), function(theirs), rtol=0, atol=0)
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
        torch._dynamo.reset()
        with pytest.raises(BackendCompilerFailed, match=r"NotLoweredError.*AOTAutograd cannot trace it"):
            on_card(function, strict=True)(mine)
