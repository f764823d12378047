"""Reports on modules: hooks, state_dict, copies, export, inference mode, autocast, randomness, the profiler, errors."""

from __future__ import annotations

import copy
import io
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.reports.case import Kind, Trial, gradients, raised

Tensor = torch.Tensor

hooks = Kind("hooks")
state = Kind("state and copies")
modes = Kind("inference mode, export, profiler")
autocast = Kind("autocast and dtypes")
rng = Kind("randomness")
errors = Kind("errors that eager mode raises")


def small(trial: Trial) -> nn.Sequential:
    return trial.module(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)))


@hooks("pytorch#117758", "forward hooks that are registered after the first call")
def hook_after_compiling(trial: Trial) -> Any:
    model, seen = small(trial), []
    compiled, x = trial.compile(model), trial.randn(3, 6)
    compiled(x)

    def hook(module: nn.Module, args: Any, out: Tensor) -> None:
        seen.append(out.sum().detach())

    handles = [layer.register_forward_hook(hook) for layer in model if isinstance(layer, nn.Linear)]
    y = compiled(x)
    for handle in handles:
        handle.remove()
    compiled(x)
    return y, seen


def _doubled(gradients: Any) -> tuple[Tensor, ...]:
    return tuple(gradient * 2 for gradient in gradients)


@hooks("pytorch#115750", "a full backward hook that is registered after the first call")
def backward_hook_after_compiling(trial: Trial) -> Any:
    layer = trial.module(nn.Linear(3, 3, bias=False))
    compiled = trial.compile(lambda x: layer(x) * 2)
    compiled(trial.randn(2, 3, grad=True))
    layer.register_full_backward_hook(lambda module, given, wanted: _doubled(given))
    x = trial.randn(2, 3, grad=True)
    compiled(x).sum().backward()
    return gradients(x)


@hooks("pytorch#117266", "a full backward pre-hook")
def backward_pre_hook(trial: Trial) -> Any:
    layer = trial.module(nn.Linear(3, 3, bias=False))
    layer.register_full_backward_pre_hook(lambda module, wanted: _doubled(wanted))
    x = trial.randn(2, 3, grad=True)
    trial.compile(lambda x: layer(x) * 2)(x).sum().backward()
    return gradients(x, layer.weight)


@hooks("pytorch#83617", "register_multi_grad_hook on two parameters of a compiled model")
def hook_on_several(trial: Trial) -> Any:
    model, seen = small(trial), []
    wanted: list[Any] = [model[0].weight, model[2].weight]
    torch.autograd.graph.register_multi_grad_hook(wanted, lambda grads: seen.append([g.clone() for g in grads]))
    trial.compile(model)(trial.randn(3, 6)).square().sum().backward()
    return seen


@state("pytorch#149894", "the state_dict of a model compiled in place has the model's names and loads again")
def names_of_state(trial: Trial) -> Any:
    model, other, x = small(trial), small(trial), trial.randn(2, 6)
    if trial.backend != "eager":
        options = {"partition": "greedy"} if trial.backend == "fpga" else None
        model.compile(backend=trial.backend, options=options)
    before = model(x)
    names = list(model.state_dict())
    model.load_state_dict(other.state_dict())
    return before, names, model(x), other(x)


@state("pytorch#128121", "a deep copy of a compiled model is compiled again and trained")
def copy_compiled_again(trial: Trial) -> Any:
    model, x = small(trial), trial.randn(3, 6)
    compiled = trial.compile(model)
    compiled(x).sum().backward()
    second = trial.compile(copy.deepcopy(compiled))
    second.zero_grad()
    y = second(x)
    y.square().sum().backward()
    return y, gradients(*second.parameters())


@state("pytorch#101107", "a model that is compiled in place is pickled after a call")
def pickled(trial: Trial) -> Any:
    model, x = small(trial), trial.randn(2, 6)
    if trial.backend != "eager":
        model.compile(backend=trial.backend)
    y = model(x)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return y, torch.load(file, weights_only=False)(x)


@state("pytorch#114967", "a buffer that a model writes element by element keeps its values")
def buffer_written(trial: Trial) -> Any:
    class Model(nn.Module):
        cache: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(1, 2, dtype=trial.dtype))

        def forward(self, x: Tensor) -> Tensor:
            self.cache[0, 1] += x.sum()
            return x * self.cache[0, 1]

    model = Model()
    compiled = trial.compile(model)
    return [compiled(trial.randn(3, 5)) for _ in range(3)], model.state_dict()["cache"]


@state("pytorch#105188", "parameters that load_state_dict(assign=True) replaces are used at the next call")
def parameters_replaced(trial: Trial) -> Any:
    model, x = small(trial), trial.randn(2, 6)
    compiled = trial.compile(model)
    with torch.no_grad():
        before = compiled(x)
        model.load_state_dict({name: value * 2 for name, value in model.state_dict().items()}, assign=True)
        return before, compiled(x)


@modes("pytorch#150926", "a module that contains a compiled one is exported")
def exported(trial: Trial) -> Any:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = small(trial)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) + 1

    model, x = Outer(), trial.randn(2, 6)
    if trial.backend != "eager":
        model.inner.compile(backend=trial.backend)
    y = model(x)
    return y, raised(lambda: torch.export.export(model, (x,)).module()(x))


@modes("pytorch#93042", "a model called under inference_mode, then with gradients")
def inference_then_training(trial: Trial) -> Any:
    model, x = small(trial), trial.randn(3, 6)
    compiled = trial.compile(model)
    with torch.inference_mode():
        y = compiled(x)
        is_inference = y.is_inference()
    compiled(x).sum().backward()
    return y, is_inference, gradients(*model.parameters())


@modes("pytorch#101151", "inputs that were made under inference_mode are used and changed")
def inference_inputs(trial: Trial) -> Any:
    def step(x: Tensor, y: Tensor) -> Tensor:
        x.add_(y)
        return x.view(-1).relu() * 2

    with torch.inference_mode():
        x, y = trial.randn(3, 4), trial.randn(3, 4)
        return trial.compile(step)(x, y), x


@modes("pytorch#180823", "inference_mode as a decorator inside the compiled function, with views")
def inference_inside(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        with torch.inference_mode():
            y = x.view(2, -1).transpose(0, 1)
            return y * 2 + 1

    return raised(trial.compile(step), trial.randn(4, 3))


@modes("pytorch#98124", "a compiled model under the profiler and record_function")
def under_profiler(trial: Trial) -> Any:
    model = small(trial)

    def step(x: Tensor) -> Tensor:
        with torch.profiler.record_function("step"):
            return model(x)

    compiled = trial.compile(step)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        y = [compiled(trial.randn(2, 6)) for _ in range(2)]
    return y, len(profile.events()) > 0


@modes("pytorch#123640", "profiling starts between two calls and ends before a third")
def profiler_between_calls(trial: Trial) -> Any:
    compiled, x = trial.compile(small(trial)), trial.randn(2, 6)
    with torch.no_grad():
        first = compiled(x)
        with torch.profiler.profile(record_shapes=True, profile_memory=True):
            second = compiled(x)
        return first, second, compiled(x)


@autocast("pytorch#194329", "backward of a weight-normed layer under autocast, sizes dynamic", exact=False)
def weight_norm_under_autocast(trial: Trial) -> Any:
    normed = nn.utils.parametrizations.weight_norm(trial.module(nn.Linear(9, 2)))
    last = trial.module(nn.Linear(2, 1))

    def step(x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return last(normed(x)).float().sum()

    compiled = trial.compile(step, dynamic=True)
    for n in (2, 3):
        compiled(torch.ones(n, 9)).backward()
    return [p.grad.dtype for p in normed.parameters() if p.grad is not None], gradients(last.bias)


@autocast("pytorch#124901", "a bfloat16 block first without, then with autocast", exact=False)
def with_and_without_autocast(trial: Trial) -> Any:
    layer = trial.module(nn.Linear(8, 8)).bfloat16()

    def step(x: Tensor, mask: Tensor) -> Tensor:
        y = layer(x).view(2, 3, 2, 4).transpose(1, 2)
        return F.scaled_dot_product_attention(y, y, y, attn_mask=mask)

    x, mask, compiled = torch.ones(2, 3, 8).bfloat16(), torch.zeros(3, 3).bfloat16(), trial.compile(step)
    with torch.no_grad():
        first = compiled(x, mask)
        with torch.autocast("cpu", torch.bfloat16):
            return first, compiled(x, mask)


@autocast("pytorch#138015", "default dtype bfloat16 while compiling", exact=False)
def default_dtype(trial: Trial) -> Any:
    torch.set_default_dtype(torch.bfloat16)
    try:
        return trial.compile(lambda x: (torch.ones(3) * x, torch.full((2,), 1.5), torch.arange(3.0)))(torch.ones(3))
    finally:
        torch.set_default_dtype(torch.float32)


@autocast("pytorch#131154", "an autograd.Function with custom_fwd and custom_bwd under autocast", exact=False)
def custom_forward_under_autocast(trial: Trial) -> Any:
    class Square(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x @ x

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 2

    x = torch.eye(4).mul(0.5).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = trial.compile(lambda x: Square.apply(x * x) @ x)(x)
        y.sum().backward()
    return y, gradients(x)


@autocast("pytorch#171282", "binary_cross_entropy_with_logits of bfloat16 with a float32 weight", exact=False)
def mixed_cross_entropy(trial: Trial) -> Any:
    def step(x: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(x, target, weight)

    y = trial.compile(step)(torch.zeros(4, 6).bfloat16(), torch.ones(4, 6).bfloat16(), torch.ones(6))
    return y, y.dtype


@rng("pytorch#118735", "random numbers after manual_seed, and how far the generator moved")
def random_numbers(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        return torch.relu(x) + torch.rand(3) * torch.randn(3) + torch.randint(0, 9, (3,))

    compiled, found = trial.compile(step), []
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        found.append(compiled(torch.ones(3)))
    return found, torch.get_rng_state()


@rng("pytorch#192635", "independent dropouts of an encoder and a decoder keep their order")
def order_of_dropouts(trial: Trial) -> Any:
    def step(encoder: Tensor, decoder: Tensor) -> Tensor:
        large = F.dropout(encoder, 0.3).relu().square().mean()
        small = F.dropout(decoder, 0.6)
        return small * large

    encoder, decoder = (torch.ones(shape, dtype=trial.dtype, requires_grad=True) for shape in ((40, 9), (3, 4)))
    torch.manual_seed(4)
    y = trial.compile(step)(encoder, decoder)
    y.sum().backward()
    return y, gradients(encoder, decoder)


@rng("pytorch#158643", "dropout and in-place ReLU in training")
def dropout_and_relu(trial: Trial) -> Any:
    model = trial.module(nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(8, 4)))
    compiled = trial.compile(model)
    torch.manual_seed(7)
    y = [compiled(trial.randn(3, 6)) for _ in range(2)]
    (y[0] + y[1]).sum().backward()
    return y, gradients(*model.parameters())


@rng("pytorch#190717", "a dropout's gradient has the mask of its forward pass")
def gradient_mask(trial: Trial) -> Any:
    x = torch.ones(50, dtype=trial.dtype, requires_grad=True)
    y = trial.compile(lambda x: F.dropout(x * 3, 0.5).tanh())(x)
    y.sum().backward()
    assert x.grad is not None
    return y, bool(((y == 0) == (x.grad == 0)).all()), gradients(x)


@errors("pytorch#183769", "select with an index that is out of range")
def select_out_of_range(trial: Trial) -> Any:
    return raised(trial.compile(lambda x: torch.select(x.unsqueeze(1), 1, 1) + 1), trial.randn(3, 4))


@errors("pytorch#185885", "index_add with a negative index", sample=True)
def index_add_negative(trial: Trial) -> Any:
    def step(x: Tensor, index: Tensor, rows: Tensor) -> Tensor:
        return torch.index_add(x, 0, index, rows).clamp_max(1)

    return raised(trial.compile(step), torch.zeros(4, 3, dtype=trial.dtype), torch.tensor([0, -1]), trial.randn(2, 3))


@errors("pytorch#121251", "index_select, gather and take_along_dim with an index that is out of range")
def index_out_of_range(trial: Trial) -> Any:
    x = trial.randn(2, 2)
    return [
        raised(trial.compile(step), x, torch.tensor([2]))
        for step in (
            lambda x, i: torch.index_select(x, 0, i) * 2,
            lambda x, i: torch.gather(x, 0, i[None].expand(1, 2)) * 2,
            lambda x, i: x[i] * 2,
            lambda x, i: torch.take(x, i + 5) * 2,
        )
    ]


@errors("pytorch#183608", "embedding with a negative index")
def embedding_negative(trial: Trial) -> Any:
    return raised(trial.compile(F.embedding), torch.tensor([2, -2, 4]), trial.randn(5, 2))


@errors("pytorch#137213", "aminmax into results of another dtype")
def aminmax_into_other_dtype(trial: Trial) -> Any:
    def step(x: Tensor) -> Any:
        out = torch.empty(10, dtype=torch.float16), torch.empty(10, dtype=torch.float16)
        return tuple(torch.aminmax(x, dim=-1, out=out))

    return raised(trial.compile(step), trial.randn(10, 10))


@errors("pytorch#141865", "a float32 Linear is given float16", exact=False)
def linear_with_half(trial: Trial) -> Any:
    model = trial.module(nn.Linear(2, 2))
    with torch.no_grad():
        return raised(trial.compile(model), torch.ones(1, 2, dtype=torch.float16))


@errors("pytorch#177630", "matmul of float16 and float32 with three dimensions", exact=False)
def matmul_of_mixed(trial: Trial) -> Any:
    return raised(trial.compile(torch.matmul), torch.ones(2, 3, 4, dtype=torch.float16), torch.ones(2, 4, 5))


@errors("pytorch#111952", "an index beyond a tensor, computed inside")
def computed_index_out_of_range(trial: Trial) -> Any:
    return raised(trial.compile(lambda x: x[torch.tensor([1]) + 1] * 2), trial.randn(2))
