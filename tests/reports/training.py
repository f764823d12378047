"""Reports on gradients, autograd.Function, checkpointing and optimizers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.reports.case import Kind, Trial, gradients, raised

Tensor = torch.Tensor

report = Kind("gradients and training")


@report("pytorch#183602", "gradient of diagonal_scatter", sample=True)
def diagonal_scatter(trial: Trial) -> Any:
    x, source = trial.randn(5, 5, grad=True), trial.randn(5, grad=True)
    (trial.compile(lambda x, s: torch.diagonal_scatter(x, s, 0) * 2)(x, source)).sum().backward()
    return gradients(x, source)


@report("pytorch#180771", "gradient of slice_scatter")
def slice_scatter(trial: Trial) -> Any:
    x, y = trial.randn(5, grad=True), trial.randn(2, grad=True)
    trial.compile(lambda x, y: torch.slice_scatter(x, y, start=0, end=2).sum())(x, y).backward()
    return gradients(x, y)


@report("pytorch#168358", "gradient of index_reduce with amax into minus infinity")
def index_reduce(trial: Trial) -> Any:
    def step(x: Tensor, index: Tensor) -> Tensor:
        start = torch.full((2,), float("-inf"), dtype=x.dtype)
        return start.index_reduce(0, index, x, "amax", include_self=False)

    x = trial.randn(5, grad=True)
    y = trial.compile(step)(x, torch.tensor([0, 0, 1, 1, 0]))
    y.sum().backward()
    return y, gradients(x)


@report("pytorch#178080", "gradient of a parameter that broadcasts behind a normalising division")
def broadcast_parameter(trial: Trial) -> Any:
    first, last = (trial.module(nn.Conv2d(a, b, 1, bias=False)) for a, b in ((4, 13), (13, 1)))
    weight = nn.Parameter(trial.randn(1, 13, 1, 1))

    def step(x: Tensor) -> Tensor:
        y = F.softplus(first(x))
        return last(y / y.sum(1, keepdim=True) * weight)

    trial.compile(step)(trial.randn(3, 4, 6, 6)).sum().backward()
    return gradients(weight, first.weight, last.weight)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return a * b + a + b

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        a, b = ctx.saved_tensors
        return grad * (b + 1), grad * (a + 1)


@report("pytorch#183604", "one tensor as both arguments of an autograd.Function")
def function_of_one_tensor(trial: Trial) -> Any:
    x = trial.randn(5, grad=True)
    trial.compile(lambda x: Product.apply(x, x).sum())(x).backward()
    return gradients(x)


class Accumulate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        total = torch.zeros_like(a)
        total += a
        total += b * 2
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad, grad * 2


@report("pytorch#180642", "in-place additions inside an autograd.Function")
def function_with_in_place(trial: Trial) -> Any:
    a, b = trial.randn(4, grad=True), trial.randn(4, grad=True)
    trial.compile(lambda a, b: Accumulate.apply(a, b).square().sum())(a, b).backward()
    return gradients(a, b)


class ScaleInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        ctx.save_for_backward(factor)
        return x.mul_(factor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (factor,) = ctx.saved_tensors
        return grad * factor, None


@report("pytorch#184113", "an autograd.Function that marks its input as changed")
def function_that_marks_dirty(trial: Trial) -> Any:
    weight = trial.randn(4, grad=True)

    def step(w: Tensor, factor: Tensor) -> Tensor:
        x = w * 2
        y = ScaleInPlace.apply(x, factor)
        return (y * x).sum()

    y = trial.compile(step)(weight, trial.randn(4))
    y.backward()
    return y, gradients(weight)


class SineWithoutGradient(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.sin(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return torch.zeros_like(grad)


@report("pytorch#193279", "torch.func.grad of an autograd.Function with a backward of its own")
def functional_gradient_of_function(trial: Trial) -> Any:
    x = trial.randn(4)
    return trial.compile(lambda x: torch.func.grad(lambda t: SineWithoutGradient.apply(t).sum())(x))(x)


@report("pytorch#104943", "in-place leaky_relu of a value that its producer's backward needs")
def in_place_activation_error(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        y = x.sigmoid()
        F.leaky_relu(y, 0.1, inplace=True)
        return y.sum()

    x = trial.randn(4, grad=True)
    return raised(lambda: trial.compile(step)(x).backward())


@report("pytorch#184101", "gradient of abs of a transposed complex tensor", exact=False)
def complex_absolute(trial: Trial) -> Any:
    x = torch.randn(4, 8, dtype=torch.complex64, requires_grad=True)
    trial.compile(lambda x: x.T.abs().sum())(x).backward()
    return torch.view_as_real(x.grad) if x.grad is not None else None


@report("pytorch#91468", "a hook on an intermediate value and its retained gradient")
def hook_on_intermediate(trial: Trial) -> Any:
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * x
        y.register_hook(lambda grad: 3 * grad)
        return y * x, y

    x = trial.randn(3, grad=True)
    z, y = trial.compile(step)(x)
    y.retain_grad()
    z.sum().backward()
    return gradients(x, y)


@report("pytorch#116221", "saved_tensors_hooks that change what is saved")
def saved_tensors_hooks(trial: Trial) -> Any:
    a, b = trial.randn(3, grad=True), trial.randn(3, grad=True)
    compiled = trial.compile(lambda a, b: a * b)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 2):
        y = compiled(a, b)
    y.sum().backward()
    return gradients(a, b)


@report("pytorch#193693", "rows chosen by nonzero, their sum's gradient and a contiguous transpose")
def rows_by_nonzero(trial: Trial) -> Any:
    def step(x: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        rows = x[torch.nonzero(keep).squeeze(1)]
        return rows.square().sum(), rows.t().contiguous()

    x = trial.randn(6, 8, grad=True)
    loss, other = trial.compile(step)(x, torch.tensor([1, 0, 1, 1, 0, 1]))
    loss.backward()
    return loss, other, gradients(x)


@report("pytorch#190758", "dropout with a memory budget: the backward uses the forward's mask")
def dropout_with_memory_budget(trial: Trial) -> Any:
    def step(x: Tensor, w: Tensor) -> Tensor:
        return F.dropout((x @ w).relu().sin(), 0.5).cos() @ w

    x, weight = torch.ones(8, 6, dtype=trial.dtype), trial.randn(6, 6, grad=True)
    with torch._functorch.config.patch(activation_memory_budget=0.3):
        torch.manual_seed(3)
        trial.compile(step)(x, weight).sum().backward()
    return gradients(weight)


@report("pytorch#121966", "checkpoint around a compiled function with dropout")
def checkpoint_around(trial: Trial) -> Any:
    compiled = trial.compile(lambda x: F.dropout(x * 5, 0.5))
    x = torch.ones(20, 7, dtype=trial.dtype, requires_grad=True)
    out = checkpoint(compiled, x, use_reentrant=False)
    out.sum().backward()
    return out, gradients(x)


@report("pytorch#97436", "checkpoint inside a compiled model")
def checkpoint_inside(trial: Trial) -> Any:
    layers = [trial.module(nn.Linear(6, 6)) for _ in range(2)]

    def step(x: Tensor) -> Tensor:
        for layer in layers:
            x = checkpoint(lambda t, layer=layer: F.gelu(layer(t)), x, use_reentrant=False)
        return x

    x = trial.randn(3, 6, grad=True)
    trial.compile(step)(x).square().sum().backward()
    return gradients(x, *(parameter for layer in layers for parameter in layer.parameters()))


@report("pytorch#198119", "gradient of avg_pool with ceil_mode at the border")
def gradient_of_avg_pool(trial: Trial) -> Any:
    found = []
    for step in (lambda x: F.avg_pool1d(x, 3, 2, ceil_mode=True), lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)):
        x = trial.randn(2, 6, 8, grad=True)
        trial.compile(step)(x).square().sum().backward()
        found += gradients(x)
    return found


@report("pytorch#100794", "gradients of a convolution behind which an interpolation shrinks")
def gradient_behind_interpolation(trial: Trial) -> Any:
    layer, x = trial.module(nn.Conv2d(1, 2, 3)), trial.randn(1, 1, 6, 6, grad=True)
    sizes: list[list[Tensor | None]] = []
    for mode in ("nearest", "bilinear", "bicubic"):
        layer.zero_grad()
        trial.compile(lambda x, mode=mode: F.interpolate(layer(x), size=[2, 2], mode=mode))(x).sum().backward()
        sizes.append(gradients(*layer.parameters()))
    return sizes


@report("iree-turbine#954", "gradient of relu behind a convolution with a very negative bias", exact=False)
def dead_convolution(trial: Trial) -> Any:
    def step(x: Tensor, w: Tensor, b: Tensor, scale: Tensor) -> Tensor:
        return F.relu(F.conv2d(x, w, b)) * scale

    x, w = (torch.ones(shape, dtype=torch.bfloat16, requires_grad=True) for shape in ((2, 3, 8, 8), (2, 3, 1, 1)))
    b = torch.tensor([-2.5, -3.5], dtype=torch.bfloat16, requires_grad=True)
    trial.compile(step)(x, w, b, torch.full((2, 2, 8, 8), 0.2, dtype=torch.bfloat16)).sum().backward()
    return gradients(x, w, b)


@report("pytorch#185517", "margin_ranking_loss in bfloat16 at its corner", exact=False)
def ranking_loss_at_corner(trial: Trial) -> Any:
    x = torch.tensor([1.703125, 1.703125], dtype=torch.bfloat16, requires_grad=True)
    y = torch.zeros(2, dtype=torch.bfloat16, requires_grad=True)
    loss = trial.compile(lambda x, y, t: F.margin_ranking_loss(x, y, t, margin=1.7))(x, y, torch.ones_like(x))
    loss.backward()
    return loss, gradients(x, y)


@report("pytorch#130467", "a compiled optimizer step with a learning rate that a scheduler changes")
def scheduled_optimizer(trial: Trial) -> Any:
    model = trial.module(nn.Linear(4, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.1, dtype=trial.dtype))
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=5)

    def step() -> None:
        optimizer.step()
        scheduler.step()

    compiled = trial.compile(step)
    for _ in range(4):
        optimizer.zero_grad()
        model(trial.randn(5, 4)).square().sum().backward()
        compiled()
    return list(model.parameters())


@report("pytorch#163093", "a plateau scheduler stepped in the same compiled function as its optimizer")
def plateau_scheduler(trial: Trial) -> Any:
    model = trial.module(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)

    def step(metric: float) -> None:
        optimizer.step()
        scheduler.step(metric)

    compiled = trial.compile(step)
    for metric in (1.0, 0.9, 0.9, 0.9, 0.9, 0.8):
        optimizer.zero_grad()
        model(torch.ones(2, 1, dtype=trial.dtype)).square().sum().backward()
        compiled(metric)
    return list(model.parameters()), optimizer.param_groups[0]["lr"]


@report("pytorch#194504", "BatchNorm1d with momentum=None: running averages over all batches")
def cumulative_batch_norm(trial: Trial) -> Any:
    norm = trial.module(nn.BatchNorm1d(4, momentum=None))
    compiled = trial.compile(norm)
    out = [compiled(trial.randn(6, 4) * 3 + 1) for _ in range(3)]
    return out, norm.running_mean, norm.running_var, norm.num_batches_tracked
