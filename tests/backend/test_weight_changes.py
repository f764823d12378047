"""A parameter may change in every way that PyTorch allows: the next call knows, and nothing is packed in vain."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable

import pytest
import torch
from torch import nn

import fpga_dynamo
from tests.backend.backend_kit import (
    Net,
    assert_same_answer,
    counting,
    image,
    memory_used,
    mlp,
    on_card,
    weights_nbytes,
)


def step(model: Net) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(image()).square().mean().backward()
    optimizer.step()
    model.zero_grad()


def fresh_state(model: Net) -> dict[str, torch.Tensor]:
    return copy.deepcopy(Net().state_dict())


def in_place(model: Net) -> None:
    with torch.no_grad():
        model.conv.weight.add_(0.25)


def one_element_in_place(model: Net) -> None:
    with torch.no_grad():
        model.conv.weight[3, 1, 2, 0] = 9.0


def through_data(model: Net) -> None:
    model.conv.weight.data.mul_(0.5)


def new_data(model: Net) -> None:
    model.head.weight.data = torch.randn(5, 8)


def new_parameter(model: Net) -> None:
    model.head.weight = nn.Parameter(torch.randn(5, 8))


def swapped(model: Net) -> None:
    torch.utils.swap_tensors(model.conv.weight, nn.Parameter(torch.randn_like(model.conv.weight)))


def swapped_by_a_conversion(model: Net) -> None:
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.bfloat16().float()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def statistics_in_place(model: Net) -> None:
    model.norm.running_mean.add_(1.0)  # type: ignore[union-attr]


def statistics_rebound(model: Net) -> None:
    model.norm.running_var = torch.full((8,), 3.0)


CHANGES: dict[str, Callable[[Net], object]] = {
    "in place": in_place,
    "one element in place": one_element_in_place,
    "optimizer step": step,
    "load_state_dict": lambda model: model.load_state_dict(fresh_state(model)),
    "load_state_dict(assign=True)": lambda model: model.load_state_dict(fresh_state(model), assign=True),
    "data.mul_": through_data,
    "data = new": new_data,
    "another Parameter": new_parameter,
    "swap_tensors": swapped,
    "a conversion that swaps": swapped_by_a_conversion,
    "numpy, all elements": lambda model: model.head.bias.detach().numpy().__iadd__(1.0),
    "batch norm's statistics": statistics_in_place,
    "batch norm's statistics rebound": statistics_rebound,
    "a module replaced": lambda model: setattr(model, "head", nn.Linear(8, 5)),
    "copy_ from a module": lambda model: nn.utils.vector_to_parameters(
        torch.randn(sum(p.numel() for p in model.parameters())), model.parameters()
    ),
}
BEHIND_THE_COUNTER = {"data.mul_", "numpy, all elements"}


@pytest.mark.parametrize("weight_check", ["version", "sampled", "full"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_in_the_next_answer(change: str, weight_check: str) -> None:
    if weight_check == "version" and change in BEHIND_THE_COUNTER:
        pytest.skip("what nothing counts; see below")
    model, x = Net().eval(), image()
    compiled = on_card(model, weight_check=weight_check)
    before = assert_same_answer(compiled, model, x)
    CHANGES[change](model)
    with counting() as grown:
        after = assert_same_answer(compiled, model, x)
    assert not torch.equal(before, after), "the change has to be one that shows"
    assert grown["weights_packed"] >= 1 and grown["pl_launches"] == 1 and grown["ps_nodes"] == 0


@pytest.mark.parametrize("change", sorted(BEHIND_THE_COUNTER))
def test_version_check_needs_to_be_told_of_what_nothing_counts(change: str) -> None:
    model, x = Net().eval(), image()
    compiled = on_card(model, weight_check="version")
    with torch.no_grad():
        before = compiled(x)
        CHANGES[change](model)
        assert torch.equal(compiled(x), before), "documented: versions alone do not show it"
        fpga_dynamo.refresh_weights()
    assert_same_answer(compiled, model, x)


def write_one_element(model: Net) -> None:
    """An element that `sampled` does not look at, through NumPy."""
    model.conv.weight.detach().numpy()[5, 1, 1, 2] += 7.0


def test_full_check_sees_a_single_element() -> None:
    model, x = Net().eval(), image()
    compiled = on_card(model, weight_check="full")
    assert_same_answer(compiled, model, x)
    write_one_element(model)
    assert_same_answer(compiled, model, x)


@pytest.mark.parametrize("weight_check", ["version", "sampled"])
def test_refresh_weights_has_a_single_element_seen(weight_check: str) -> None:
    model, x = Net().eval(), image()
    compiled = on_card(model, weight_check=weight_check)
    with torch.no_grad():
        before = compiled(x)
        write_one_element(model)
        missed = torch.equal(compiled(x), before)
    assert missed, "documented: a sample may miss it, and this one does"
    fpga_dynamo.refresh_weights()
    assert_same_answer(compiled, model, x)
    with counting() as grown:
        assert_same_answer(compiled, model, x)
    assert grown["weights_packed"] == 0, "once is enough"


def test_nothing_is_packed_when_nothing_has_changed() -> None:
    model = Net().eval()
    compiled = on_card(model)
    assert_same_answer(compiled, model, image())
    with counting() as grown:
        for _ in range(3):
            assert_same_answer(compiled, model, image())
    assert grown["weights_packed"] == 0 and grown["pl_launches"] == 3


def test_a_parameter_that_is_changed_in_place_is_packed_alone() -> None:
    model = mlp(16, 32, 32, 8).eval()
    compiled = on_card(model)
    assert_same_answer(compiled, model, torch.randn(4, 16))
    with torch.no_grad():
        model[2].weight.mul_(2)  # type: ignore[operator]
    with counting() as grown:
        assert_same_answer(compiled, model, torch.randn(4, 16))
    assert grown["weights_packed"] == 1


def test_a_parameter_that_is_replaced_is_packed_alone() -> None:
    model = mlp(16, 32, 32, 8).eval()
    compiled = on_card(model)
    assert_same_answer(compiled, model, torch.randn(4, 16))
    packed = weights_nbytes()
    model[2].weight = nn.Parameter(torch.randn(32, 32))
    with counting() as grown:
        assert_same_answer(compiled, model, torch.randn(4, 16))
    assert grown["weights_packed"] == 1
    assert weights_nbytes() == packed, "what the old one held is given back"


def test_changes_between_many_calls_are_all_seen() -> None:
    model, x = Net().eval(), image()
    compiled = on_card(model)
    for change in CHANGES.values():
        change(model)
        assert_same_answer(compiled, model, x)


def test_two_models_that_share_weights_hold_one_packed_copy() -> None:
    shared = nn.Linear(64, 64)
    before = weights_nbytes()
    one, other = nn.Sequential(shared, nn.ReLU()).eval(), nn.Sequential(shared, nn.Tanh()).eval()
    first, second = on_card(one), on_card(other)
    assert_same_answer(first, one, torch.randn(4, 64))
    packed = weights_nbytes()
    assert packed >= before + 4 * 64 * 65
    with counting() as grown:
        assert_same_answer(second, other, torch.randn(4, 64))
    assert weights_nbytes() == packed and grown["weights_packed"] == 0
    with torch.no_grad():
        shared.weight.add_(1)
    with counting() as grown:
        assert_same_answer(first, one, torch.randn(4, 64))
        assert_same_answer(second, other, torch.randn(4, 64))
    assert grown["weights_packed"] == 1


def test_one_code_with_two_sets_of_weights_packs_each_once() -> None:
    one, other, x = Net().eval(), Net().eval(), image()
    forward = on_card(lambda net, x: net(x))  # Dynamo keeps one graph and passes it either's parameters
    with torch.no_grad():
        forward(one, x), forward(other, x)
        with counting() as grown:
            answers = [forward(net, x) for _ in range(4) for net in (one, other)]
        assert grown["graphs_compiled"] == 0 and grown["weights_packed"] == 0 and grown["pl_launches"] == 8
        for i, net in enumerate((one, other)):
            torch.testing.assert_close(answers[i], net(x))
    assert not torch.allclose(answers[0], answers[1])


def use(model: nn.Module, x: torch.Tensor, *, train: bool = False) -> None:
    """One call (and one backward pass) of a compiled model that nobody keeps."""
    compiled = on_card(model)
    if train:
        compiled(x).square().mean().backward()
    else:
        with torch.no_grad():
            compiled(x)


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_a_deleted_model_leaves_nothing_on_the_card(train: bool) -> None:
    before = memory_used()
    model = Net().train(train)
    compiled = on_card(model)
    answer = compiled(image())
    if train:
        answer.square().mean().backward()
    del answer
    assert memory_used() > before
    del compiled, model
    assert memory_used() == before


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_deleting_one_model_leaves_the_others_alone(train: bool) -> None:
    before = memory_used()
    models = [Net(width=8 + 8 * i).train(train) for i in range(3)]
    compiled = [on_card(model) for model in models]
    x = image()
    for run in compiled:
        run(x).sum().backward()
    del compiled[1], models[1], run
    gc.collect()
    for run, model in zip(compiled, models, strict=True):
        with counting() as grown:
            answer = run(x)
        assert grown["weights_packed"] == 0 and grown["graphs_compiled"] == 0
        torch.testing.assert_close(answer, model(x), rtol=1e-4, atol=1e-5)
    del compiled, models, run, model, answer
    assert memory_used() == before


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_thirty_models_that_come_and_go_need_the_memory_of_one(train: bool) -> None:
    before, peaks = memory_used(), []
    for _ in range(30):
        use(Net().train(train), image(), train=train)
        peaks.append(fpga_dynamo.devices()[0].memory_used)
    assert memory_used() == before
    assert max(peaks[20:]) <= max(peaks[:10]), "it does not grow"
