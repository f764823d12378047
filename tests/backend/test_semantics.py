"""What a compiled model must not change: mutation, aliasing, strides, structure, modes, hooks, copies, processes."""

from __future__ import annotations

import copy
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch
from backend_kit import Net, assert_same_answer, counting, image, mlp, on_card, run_python
from torch import nn

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
    model, x = nn.Conv2d(3, 8, 3).eval().to(memory_format=torch.channels_last), channels_last(torch.randn(2, 3, 8, 8))
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
        model[0].weight.mul_(2)
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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.complex64])
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


Pair = namedtuple("Pair", ["left", "right"])


class Structured(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.layer = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Any:
        y = self.layer(x)
        return {
            "dict": {"hidden": y, "more": {"sum": y.sum(), "number": 3}},
            "tuple": (y, (torch.relu(y), None), "text"),
            "list": [y, [y + 1]],
            "namedtuple": Pair(y, -y),
            "one-tuple": (y,),
            "none": None,
        }[self.kind]


@pytest.mark.parametrize("kind", ["dict", "tuple", "list", "namedtuple", "one-tuple", "none"])
def test_results_keep_their_structure(kind: str) -> None:
    model = Structured(kind).eval()
    assert_same_answer(on_card(model), model, torch.randn(3, 6))


def test_arguments_by_keyword_and_in_structures() -> None:
    def function(pair: dict[str, Tensor], *more: Tensor, scale: float = 1.0) -> Tensor:
        return pair["a"] * scale + pair["b"] + sum(more)

    compiled = on_card(function)
    a, b, c = (torch.randn(3, 4) for _ in range(3))
    for more in ((), (c,), (c, a)):
        torch.testing.assert_close(
            compiled({"a": a, "b": b}, *more, scale=2.0), function({"a": a, "b": b}, *more, scale=2.0)
        )


def test_a_graph_break() -> None:
    def function(x: Tensor) -> Tensor:
        y = torch.relu(x) * 2
        torch._dynamo.graph_break()
        return torch.tanh(y) + x

    with counting() as grown:
        assert_same_answer(on_card(function), function, torch.randn(3, 4))
    assert grown["pl_launches"] == 2


def test_control_flow_on_data() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.relu(x) + 1 if x.sum() > 0 else torch.tanh(x) - 1

    compiled, x = on_card(function), torch.randn(3, 4).abs()
    for given in (x, -x, x):
        assert_same_answer(compiled, function, given)


def test_a_deep_copy_has_weights_of_its_own() -> None:
    model, x = Net().eval(), image()
    compiled = on_card(model)
    with torch.no_grad():
        before = compiled(x)
        twin = copy.deepcopy(compiled)
        torch.testing.assert_close(twin(x), before)
        model.conv.weight.mul_(3)
        torch.testing.assert_close(twin(x), before)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
        twin._orig_mod.head.bias.add_(1)
        torch.testing.assert_close(twin(x), before + 1, rtol=1e-4, atol=1e-4)


def test_module_compile_in_place() -> None:
    model, x = Net().eval(), image()
    with torch.no_grad():
        expected = model(x)
        model.compile(backend="fpga", options={"partition": "greedy"})
        with counting() as grown:
            torch.testing.assert_close(model(x), expected, rtol=1e-4, atol=1e-5)
    assert grown["pl_launches"] == 1


def test_hooks_run() -> None:
    model, seen = mlp(6, 8, 4).eval(), []

    def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        seen.append(type(module).__name__)
        return output * 2

    handle = model[0].register_forward_hook(hook)
    model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    compiled = on_card(model)
    assert_same_answer(compiled, model, torch.randn(3, 6))
    handle.remove()
    assert_same_answer(compiled, model, torch.randn(3, 6))


def test_gradient_hooks_run() -> None:
    model, seen = mlp(6, 8, 4), []
    model[0].weight.register_hook(lambda grad: seen.append(grad.shape))
    x = torch.randn(3, 6, requires_grad=True)
    on_card(model)(x).sum().backward()
    assert seen == [torch.Size((8, 6))] and x.grad is not None


def test_functional_call_with_other_parameters() -> None:
    model, x = mlp(6, 8, 4).eval(), torch.randn(3, 6)
    compiled = on_card(lambda state, x: torch.func.functional_call(model, state, (x,)))
    for _ in range(3):
        state = {name: torch.randn_like(parameter) for name, parameter in model.named_parameters()}
        with torch.no_grad():
            torch.testing.assert_close(
                compiled(state, x), torch.func.functional_call(model, state, (x,)), rtol=1e-4, atol=1e-4
            )


def test_gradients_by_torch_func() -> None:
    model, x = mlp(6, 8, 4), torch.randn(3, 6)
    state = dict(model.named_parameters())

    def loss(state: Any, x: Tensor) -> Tensor:
        return torch.func.functional_call(model, state, (x,)).square().sum()

    mine = on_card(lambda state, x: torch.func.grad(loss)(state, x))(state, x)
    theirs = torch.func.grad(loss)(state, x)
    for name, gradient in theirs.items():
        torch.testing.assert_close(mine[name], gradient, rtol=1e-4, atol=1e-4)


def test_vmap() -> None:
    weight, x = torch.randn(5, 4), torch.randn(3, 5)
    function = torch.func.vmap(lambda row: torch.relu(row @ weight))
    torch.testing.assert_close(on_card(lambda x: function(x))(x), function(x), rtol=1e-4, atol=1e-5)


def test_graphs_that_compute_nothing() -> None:
    assert_same_answer(on_card(lambda x: x), lambda x: x, torch.randn(3))
    assert_same_answer(on_card(lambda x: (x.t(), x.view(-1))), lambda x: (x.t(), x.view(-1)), torch.randn(3, 4))
    assert on_card(lambda: None)() is None


def test_graphs_without_tensor_inputs() -> None:
    for function in (
        lambda: torch.arange(12.0).view(3, 4).relu() * 2,
        lambda: torch.ones(3) + torch.tensor([1.0, 2.0, 3.0]),
        lambda: (torch.zeros(2, 2), torch.full((2,), 3.5).exp()),
    ):
        assert_same_answer(on_card(function), function)
    weights = nn.Parameter(torch.randn(4, 4))
    function = lambda: torch.relu(weights @ weights)  # noqa: E731
    with torch.no_grad():
        torch.testing.assert_close(on_card(function)(), function(), rtol=1e-4, atol=1e-5)


def test_random_numbers_are_eager_s() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.relu(x + torch.rand_like(x)) * torch.randn(x.shape[1])

    compiled, x = on_card(function), torch.randn(4, 5)
    torch.manual_seed(5)
    mine = [compiled(x), compiled(x)]
    torch.manual_seed(5)
    for answer in mine:
        torch.testing.assert_close(answer, function(x), rtol=1e-4, atol=1e-5)


def test_an_error_of_the_user_s_code_is_the_user_s() -> None:
    compiled = on_card(lambda x, y: x @ y + 1)
    with pytest.raises(Exception, match=r"(?s)same reduction dim|shapes cannot be multiplied"):
        compiled(torch.randn(2, 3), torch.randn(4, 5))
    torch.testing.assert_close(compiled(torch.ones(2, 3), torch.ones(3, 5)), torch.full((2, 5), 4.0))


FORK = """
import os, sys, time, torch, warnings
from torch import nn
torch.manual_seed(0)
model, x = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval(), torch.randn(3, 8)
torch.set_num_threads(1)
compiled = torch.compile(model, backend="fpga", options={"partition": "greedy"})
with torch.no_grad():
    expected = model(x)
    torch.testing.assert_close(compiled(x), expected)
    child = os.fork()
    if child == 0:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                answer = compiled(x)
            torch.testing.assert_close(answer, expected)
            sentence = "right answer; " + "; ".join(str(w.message) for w in caught)
        except Exception as error:
            sentence = f"{type(error).__name__}: {error}"
        print("child:", sentence, flush=True)
        os._exit(0)
    deadline = time.monotonic() + 60
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
            sys.exit("the child hangs")
        time.sleep(0.01)
    torch.testing.assert_close(compiled(x), expected)
    print("parent: right answer")
"""


def test_a_child_process_says_what_is_wrong_and_the_parent_goes_on() -> None:
    done = run_python(FORK)
    assert done.returncode == 0, done.stderr
    child, parent = done.stdout.strip().splitlines()
    assert child.startswith("child: right answer") or "forked" in child, child
    if "; " in child.removeprefix("child: right answer; "):
        assert "forked" in child
    assert parent == "parent: right answer"
