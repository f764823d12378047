"""Reports on tensor subclasses, nested tensors and custom operators."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_map_only

from tests.reports.case import Kind, Trial, gradients, raised

Tensor = torch.Tensor

subclasses = Kind("tensor subclasses")
nested = Kind("nested tensors")
custom = Kind("custom operators")


class Wrapped(torch.Tensor):
    """A tensor that holds another, and does to that what is done to it."""

    held: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Wrapped:
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype,
            layout=inner.layout, device=inner.device, requires_grad=inner.requires_grad,
        )  # fmt: skip
        made.held = inner
        return made

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["held"], None

    @staticmethod
    def __tensor_unflatten__(tensors: dict[str, Tensor], meta: None, size: Any, stride: Any) -> Wrapped:
        return Wrapped(tensors["held"])

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        from torch.utils._python_dispatch import return_and_correct_aliasing

        def opened(tree: Any) -> Any:
            return tree_map_only(Wrapped, lambda t: t.held, tree)

        result = function(*opened(args), **opened(kwargs or {}))
        return return_and_correct_aliasing(function, args, kwargs or {}, tree_map_only(torch.Tensor, Wrapped, result))


def opened(value: Any) -> Any:
    return value.held if isinstance(value, Wrapped) else value


@subclasses("pytorch#107239", "arithmetic on a wrapper subclass, with its type kept", sample=True)
def arithmetic_of_wrapped(trial: Trial) -> Any:
    y = trial.compile(lambda x, w: torch.relu(x @ w) * 2)(Wrapped(trial.randn(3, 4)), Wrapped(trial.randn(4, 5)))
    return type(y).__name__, opened(y)


@subclasses("pytorch#114415", "two wrappers around views of one tensor, one of them changed")
def wrapped_views_of_one(trial: Trial) -> Any:
    def step(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return x + y

    base = trial.randn(4)
    return raised(lambda: opened(trial.compile(step)(Wrapped(base.view(4)), Wrapped(base.view(4)))))


@subclasses("pytorch#114975", "a wrapper is transposed in place")
def wrapped_transposed_in_place(trial: Trial) -> Any:
    def step() -> Any:
        x = Wrapped(trial.randn(2, 3))
        y = trial.compile(lambda x: x.t_() * 2)(x)
        return opened(y), tuple(x.shape)

    return raised(step)


class Counting(torch.Tensor):
    """A tensor whose additions count double."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(function, types, args, kwargs or {})
        return result * 2 if function in (torch.add, torch.Tensor.add) else result


@subclasses("pytorch#176679", "__torch_function__ that changes what add returns")
def changed_function(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        return torch.add(x, 1).relu()

    x = trial.randn(5).as_subclass(Counting)
    return raised(lambda: trial.compile(step)(x).as_subclass(torch.Tensor))


@subclasses("pytorch#122589", "as_subclass inside a compiled function")
def subclass_inside(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        return torch.add(x.as_subclass(Counting), 1).as_subclass(torch.Tensor) * 3

    return raised(trial.compile(step), trial.randn(5))


class Plain(torch.Tensor):
    pass


@subclasses("pytorch#183261", "a subclass is constructed inside a compiled function")
def constructed_inside(trial: Trial) -> Any:
    return raised(lambda: trial.compile(lambda x: torch.abs(Plain(x)) + 1)(trial.randn(4)).as_subclass(torch.Tensor))


@subclasses("pytorch#127996", "gradients of parameters that are wrappers")
def gradient_of_wrapped(trial: Trial) -> Any:
    weight = torch.nn.Parameter(Wrapped(trial.randn(4, 3)))
    trial.compile(lambda x: (x @ weight).tanh())(Wrapped(trial.randn(2, 4))).sum().backward()
    return opened(weight.grad)


def jagged(trial: Trial, *lengths: int, width: int = 4, grad: bool = False) -> Tensor:
    parts = [trial.randn(n, width) for n in lengths]
    return torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=grad)


@nested("pytorch#182217", "layer_norm of a jagged tensor made inside, with gradients")
def norm_of_jagged(trial: Trial) -> Any:
    def step(values: Tensor, offsets: Tensor) -> Tensor:
        return F.layer_norm(torch.nested.nested_tensor_from_jagged(values, offsets), [4]).values().square().sum()

    values = trial.randn(10, 4, grad=True)
    return raised(lambda: (trial.compile(step)(values, torch.tensor([0, 5, 10])).backward(), gradients(values))[1])


@nested("pytorch#132618", "a jagged tensor taken apart, scaled and summed")
def unbound_jagged(trial: Trial) -> Any:
    def step(x: Tensor, w: Tensor) -> Tensor:
        return torch.stack([(part * w[i]).sum() for i, part in enumerate(x.unbind())]).sum()

    return raised(trial.compile(step), jagged(trial, 5, 3), trial.floats([10.0, 100.0]))


@nested("pytorch#155421", "attention over a jagged tensor, with gradients")
def attention_over_jagged(trial: Trial) -> Any:
    layer = trial.module(torch.nn.Linear(4, 4))

    def step(x: Tensor) -> Tensor:
        y = layer(x).unflatten(-1, [1, 4]).transpose(1, 2)
        return F.scaled_dot_product_attention(y, y, y)

    def run() -> Any:
        trial.compile(step)(jagged(trial, 5, 3)).values().sum().backward()
        return gradients(*layer.parameters())

    return raised(run)


@nested("pytorch#125560", "a jagged tensor is made inside from two tensors")
def jagged_made_inside(trial: Trial) -> Any:
    def step(a: Tensor, b: Tensor) -> Tensor:
        x = torch.nested.as_nested_tensor([a, b], layout=torch.jagged)
        return torch.relu((x + 1) * 2).values()

    return raised(trial.compile(step), trial.randn(3, 4), trial.randn(2, 4))


@nested("pytorch#124216", "clamp of jagged tensors with gaps, given by offsets and lengths")
def jagged_with_gaps(trial: Trial) -> Any:
    x = torch.nested.nested_tensor_from_jagged(trial.randn(10), torch.arange(0, 11, 2), lengths=torch.ones(5).long())
    return raised(lambda: trial.compile(lambda x: x.clamp(0.1, 0.5))(x).values())


@nested("pytorch#132695", "gradient of a jagged tensor times one number for each sequence")
def scaled_jagged(trial: Trial) -> Any:
    def run() -> Any:
        weight = trial.randn(2, 1, 1, grad=True)
        trial.compile(lambda x, w: x * w)(jagged(trial, 5, 3), weight).values().sum().backward()
        return gradients(weight)

    return raised(run)


@torch.library.custom_op("fpga_dynamo_reports::reverse_into", mutates_args=("target",))
def reverse_into(source: Tensor, target: Tensor) -> None:
    for i in range(source.shape[0]):
        target[-1 - i] = source[i]


@torch.library.custom_op("fpga_dynamo_reports::add_to_both", mutates_args=("a", "b"))
def add_to_both(a: Tensor, b: Tensor) -> None:
    a.add_(1)
    b.add_(2)


@torch.library.custom_op("fpga_dynamo_reports::sum_into", mutates_args=("out",))
def sum_into(a: Tensor, b: Tensor, out: Tensor) -> None:
    out.copy_(a + b + 2)


@torch.library.custom_op("fpga_dynamo_reports::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return x * 2


@twice.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


twice.register_autograd(lambda ctx, grad: 7 * grad)


@torch.library.custom_op("fpga_dynamo_reports::copies", mutates_args=())
def copies(q: Tensor, k: Tensor) -> list[Tensor]:
    return [q.clone(), k.clone(), (q * k).sum(-1)]


@copies.register_fake
def _(q: Tensor, k: Tensor) -> list[Tensor]:
    return [torch.empty_like(q), torch.empty_like(k), q.new_empty(q.shape[:-1])]


@custom("pytorch#198031", "an operator reads a clone of the tensor that it writes")
def clone_of_written(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        reverse_into(x.clone(), x)
        return x * 2

    x = trial.randn(8)
    return trial.compile(step)(x), x


@custom("pytorch#153389", "operators that write rows of one tensor and a result", sample=True)
def rows_written(trial: Trial) -> Any:
    def step(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        add_to_both(a, b)
        sum_into(a[0], b[0], out)
        return out

    x, out = trial.randn(2, 3, 3), torch.zeros(3, dtype=trial.dtype)
    return trial.compile(step)(x[0], x[1], out), x, out


@custom("pytorch#127821", "work behind an operator sees what it wrote")
def work_behind_writing(trial: Trial) -> Any:
    def step(x: Tensor, y: Tensor) -> Tensor:
        total = torch.ones_like(x)
        sum_into(x, y, total)
        return (total * total).sum()

    return trial.compile(step)(trial.randn(6), trial.randn(6))


@custom("pytorch#144344", "an operator's own backward between compiled work")
def backward_of_operator(trial: Trial) -> Any:
    x = trial.randn(5, grad=True)
    trial.compile(lambda x: (twice(x.sin()) * 3).sum())(x).backward()
    return gradients(x)


@custom("pytorch#120950", "results of an operator are saved for an autograd.Function's backward")
def operator_s_results_saved(trial: Trial) -> Any:
    class Saved(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: Tensor, k: Tensor) -> Tensor:
            first, second, out = copies(q, k)
            ctx.save_for_backward(first, second)
            return out

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            first, second = ctx.saved_tensors
            return grad[..., None] * second, grad[..., None] * first

    q, k = trial.randn(3, 4, grad=True), trial.randn(3, 4, grad=True)
    trial.compile(lambda q, k: Saved.apply(q * 2, k).square().sum())(q, k).backward()
    return gradients(q, k)
