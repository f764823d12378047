"""What a compiled model must not change about tensors: mutation, aliasing, strides, types, modes of autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.backend.backend_kit import assert_same_answer, counting, mlp, on_card

Tensor = torch.Tensor


def add_in_place(x: Tensor) -> Tensor:
    x.add_(1.0)
    return torch.relu(x) * 2


def write_a_slice(x: Tensor) -> Tensor:
    x[:, 1] = torch.tanh(x[:, 0])
    return x.sum(1)


def return_what_was_changed(x: Tensor) -> Tensor:
    return x.mul_(2.0)


def change_through_a_view(x: Tensor) -> Tensor:
    x.t()[2].exp_()
    return x + 1


def change_one_return_other(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    y.copy_(torch.relu(x))
    return x, y.t()


def resize_none_of_it(x: Tensor) -> Tensor:
    y = x.clone()
    y.sub_(3.0)
    return y.relu_()


MUTATIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "adds in place": (add_in_place, 1),
    "writes a slice": (write_a_slice, 1),
    "returns what it changed": (return_what_was_changed, 1),
    "changes through a view": (change_through_a_view, 1),
    "changes one and returns both": (change_one_return_other, 2),
    "changes a copy only": (resize_none_of_it, 1),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_inputs_are_changed_as_in_eager(name: str) -> None:
    function, inputs = MUTATIONS[name]
    compiled = on_card(function)
    for _ in range(2):
        assert_same_answer(compiled, function, *(torch.randn(4, 4) for _ in range(inputs)))


def two_views(x: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.relu(x) + 1
    return y[:2], y.t()


def twice(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = torch.tanh(x) * 2
    return y, y, x


ALIASES: dict[str, Callable[..., Any]] = {
    "the input": lambda x: (x, torch.relu(x)),
    "a view of the input": lambda x: (x.t(), x[1:], torch.relu(x)),
    "views of each other": two_views,
    "a value and its view": lambda x: (lambda y: (y, y.view(-1)))(torch.relu(x) * 3),
    "one value twice": twice,
    "the input, reshaped and detached": lambda x: (x.reshape(2, -1), x.detach()),
    "parts of a computed value, one of them empty": lambda x: torch.relu(x).split([1, 3, 0]),
    "a slice of a computed value": lambda x: (x @ x.t())[1:3, ::2],
}


@pytest.mark.parametrize("name", ALIASES)
def test_outputs_share_memory_as_in_eager(name: str) -> None:
    assert_same_answer(on_card(ALIASES[name]), ALIASES[name], torch.randn(4, 4))


def test_outputs_of_two_calls_do_not_share_memory() -> None:
    compiled, x = on_card(lambda x: torch.relu(x) + 1), torch.randn(4, 4)
    first = compiled(x)
    before = first.clone()
    second = compiled(-x)
    assert first.data_ptr() != second.data_ptr() and torch.equal(first, before)
    first.zero_()
    torch.testing.assert_close(compiled(x), before)


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "contiguous": lambda: torch.randn(2, 3, 8, 6),
    "channels last": lambda: channels_last(torch.randn(2, 3, 8, 6)),
    "expanded over the batch": lambda: torch.randn(1, 3, 8, 6).expand(2, 3, 8, 6),
    "expanded over channels": lambda: torch.randn(2, 1, 8, 6).expand(2, 3, 8, 6),
    "transposed": lambda: torch.randn(2, 3, 6, 8).transpose(2, 3),
    "every second column": lambda: torch.randn(2, 3, 8, 12)[..., ::2],
    "a part with an offset": lambda: torch.randn(5, 4, 10, 9)[2:4, 1:, 1:9, 2:8],
    "flipped dimensions": lambda: torch.randn(6, 8, 3, 2).permute(3, 2, 1, 0),
}

LAYOUT_MODELS: dict[str, Callable[[], Any]] = {
    "convolution": lambda: nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)).eval(),
    "element-wise": lambda: lambda x: torch.relu(x) * 2 + x,
    "sum": lambda: lambda x: (x.sum((2, 3)), x.mean(1, keepdim=True)),
    "softmax and a copy": lambda: lambda x: (torch.softmax(x, 1), torch.cat((x, x), 2)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("model", LAYOUT_MODELS)
def test_any_strides_in_and_eager_s_strides_out(model: str, layout: str) -> None:
    made = LAYOUT_MODELS[model]()
    with counting() as grown:
        assert_same_answer(on_card(made), made, LAYOUTS[layout]())
    assert grown["pl_launches"] == 1 and grown["ps_fallbacks"] == 0


def test_one_code_with_inputs_of_changing_strides() -> None:
    model = LAYOUT_MODELS["convolution"]()
    compiled = on_card(model)
    for make in (*LAYOUTS.values(), *LAYOUTS.values()):
        x = make()
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


def test_an_output_in_channels_last_stays_so() -> None:
    model, x = nn.Conv2d(3, 8, 3).eval(), channels_last(torch.randn(2, 3, 8, 8))
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    answer = assert_same_answer(on_card(model), model, x)
    assert answer.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -0.0, 1e-42, 3e38])
def test_unusual_numbers_pass_as_in_eager(value: float) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return torch.relu(x), x + x, torch.max(x, -x), x.sum(0), torch.cat((x, x))

    x = torch.randn(3, 5)
    x[1, 2] = value
    assert_same_answer(on_card(function), function, x)


def test_no_grad_inference_mode_and_grad_mode_each_get_their_own() -> None:
    model, x = mlp(8, 16, 4).eval(), torch.randn(3, 8)
    compiled = on_card(model)
    with torch.no_grad():
        answer = compiled(x)
    assert not answer.requires_grad and not answer.is_inference()
    with torch.inference_mode():
        answer = compiled(x)
        assert answer.is_inference()
        torch.testing.assert_close(answer, model(x), rtol=1e-4, atol=1e-5)
    answer = compiled(x)
    assert answer.requires_grad and answer.grad_fn is not None
    torch.testing.assert_close(answer, model(x), rtol=1e-4, atol=1e-5)


def test_a_model_made_in_inference_mode() -> None:
    with torch.inference_mode():
        model, x = mlp(8, 16, 4).eval(), torch.randn(3, 8)
        compiled = on_card(model)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
        next(model.parameters()).mul_(2)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("inside", [False, True], ids=["around", "inside"])
def test_autocast_gives_eager_s_types(inside: bool) -> None:
    model, x = mlp(8, 16, 4).eval(), torch.randn(3, 8)

    def function(x: Tensor) -> Tensor:
        if inside:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return model(x)
        return model(x)

    compiled = on_card(function)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=not inside):
        answer, expected = compiled(x), function(x)
    assert answer.dtype is expected.dtype is torch.bfloat16
    torch.testing.assert_close(answer, expected, rtol=0.02, atol=0.02)
    with torch.no_grad():
        assert on_card(model)(x).dtype is torch.float32


@pytest.mark.parametrize("wanted", [False, True])
def test_an_lstm_within_autocast_gives_eager_s_types(wanted: bool) -> None:
    """PyTorch's decomposition of the layer of an input with gradients gives float32."""
    model, x = nn.LSTM(8, 8).eval(), torch.randn(4, 2, 8, requires_grad=wanted)

    def function(x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)[0]

    with torch.no_grad():
        try:
            expected = function(x)
        except RuntimeError as error:
            pytest.skip(f"eager mode's oneDNN has no bfloat16 LSTM on this CPU: {error}")
        answer = on_card(function)(x)
    assert answer.dtype is expected.dtype is torch.bfloat16
    torch.testing.assert_close(answer, expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
def test_types_that_the_card_does_not_compute_in_are_eager_s(dtype: torch.dtype) -> None:
    x = torch.randn(4, 6).to(dtype)
    with counting() as grown:
        answer = on_card(lambda x: (x * 2 + 1, x.t()))(x)
    assert torch.equal(answer[0], x * 2 + 1) and answer[0].dtype is dtype
    assert grown["pl_launches"] == 0


def test_numbers_without_dimensions_and_numbers_of_python() -> None:
    def function(x: Tensor, scale: Tensor, shift: float, power: int, flag: bool) -> Any:
        y = (x * scale + shift) ** power
        return (y if flag else -y), y.sum(), scale * 2, shift + power

    compiled = on_card(function)
    for shift, power, flag in ((0.5, 2, True), (1.5, 3, False), (-2.0, 2, True)):
        assert_same_answer(compiled, function, torch.randn(3, 5), torch.tensor(1.5), shift, power, flag)


def test_empty_tensors() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return torch.relu(x), torch.cat((x, y)) + 1, x.sum()

    assert_same_answer(on_card(function), function, torch.randn(0, 4), torch.randn(3, 4))


def test_tensors_of_several_megabytes_cross_whole() -> None:
    x, one = torch.randn(1101, 1024), torch.eye(1024)
    found = torch.compile(torch.mm, backend="fpga", options={"partition": "greedy"})(x, one)
    assert torch.equal(found, x)
