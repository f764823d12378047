"""Reports on tensors that are changed in place, and on those that share memory with them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.reports.case import Kind, Trial, gradients, raised

Tensor = torch.Tensor

report = Kind("in-place and aliasing")


@report("pytorch#183894", "position of the minimum of a transposed view of a changed input", sample=True)
def argmin_behind_sin(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        x.sin_()
        return x.t().argmin()

    x = trial.randn(5, 7)
    return trial.compile(step)(x), x


@report("pytorch#94777", "a result that is computed from an input before it is changed")
def value_before_change(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        before = x.log()
        x.log_().relu_()
        return before

    x = trial.randn(6).abs() + 0.5
    return trial.compile(step)(x), x


@report("pytorch#138908", "rows that an index names are added to themselves, sizes dynamic")
def indexed_rows_doubled(trial: Trial) -> Any:
    def step(index: Tensor, table: Tensor) -> None:
        index = index + 10
        table[index] += table[index]

    index, table = torch.full((1, 2), -10), trial.randn(3, 16)
    trial.compile(step, dynamic=True)(index, table)
    return table


@report("pytorch#93259", "an input gets a dimension in place")
def unsqueeze_input(trial: Trial) -> Any:
    x = trial.randn(3)
    return trial.compile(lambda x: x.unsqueeze_(0) * 2)(x), x, tuple(x.shape)


@report("pytorch#198270", "index_put_, then the flipped tensor is added in place")
def put_then_add_flipped(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        x.index_put_((torch.arange(x.size(0)),), x * 2)
        x.add_(x.flip(0))
        return x

    x = trial.randn(4, 8)
    return trial.compile(step)(x), x


@report("pytorch#198033", "_foreach_add_ of a tensor and its own flip")
def foreach_add_flipped(trial: Trial) -> Any:
    def step(x: Tensor, y: Tensor) -> Tensor:
        torch._foreach_add_([x, y], [x.flip(0), y.roll(1)])
        return x

    x, y = trial.randn(8, 8), trial.randn(5)
    return trial.compile(step)(x, y), x, y


@report("pytorch#122457", "two view_as_real of complex intermediate values")
def views_as_real(trial: Trial) -> Any:
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.view_as_complex(x + 1)
        return torch.view_as_real(z) + 1, torch.view_as_real(z + 1)

    return trial.compile(step)(trial.randn(4, 2))


@report("pytorch#113793", "a view of a parameter is updated under no_grad and returned")
def update_view_of_parameter(trial: Trial) -> Any:
    parameter = nn.Parameter(trial.randn(4, 3))

    def step() -> Tensor:
        with torch.no_grad():
            view = parameter.view(-1)
            view.mul_(0.5).add_(1)
            return view

    view = trial.compile(step)()
    return view, parameter, view.data_ptr() == parameter.data_ptr()


@report("pytorch#125999", "a slice with an odd row length gets log-sum-exp copied into it", sample=True)
def copy_into_slice(trial: Trial) -> Any:
    def step(a: Tensor, b: Tensor) -> None:
        top, bottom = torch.maximum(a, b), torch.minimum(a, b)
        a.copy_(top + torch.log(1 + torch.exp(bottom - top)))

    a, b = trial.randn(1, 4, 2, 33), trial.randn(1, 4, 33)
    trial.compile(step)(a[..., 1, :], b)
    return a


@report("pytorch#100224", "elements that a mask selects are scaled in place, and all are returned")
def scale_masked(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        x[x > 0] *= 0.5
        return x

    x = trial.randn(1, 3, 2, 2)
    return trial.compile(step)(x), x


@report("pytorch#104505", "as_strided of a diagonal, changed in place")
def as_strided_of_diagonal(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        x.diagonal().as_strided((2,), (1,), 0).add_(1)
        return x

    x = trial.randn(2, 4)
    return trial.compile(step)(x), x


@report("pytorch#140171", "as_strided reaches beyond a view into its base and writes there")
def as_strided_beyond_view(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        return x.as_strided((10,), (1,), storage_offset=5).add_(1)

    base = torch.arange(20)
    return raised(trial.compile(step), base[:10]), base


@report("pytorch#135441", "assignment to all elements counts as a change for autograd")
def change_is_counted(trial: Trial) -> Any:
    def fill(x: Tensor) -> None:
        x[...] = 0

    x = trial.randn(4)
    before = x._version
    trial.compile(fill)(x)
    counted = x._version > before
    weight = trial.randn(4, grad=True)
    y = (weight * x).sum()
    trial.compile(fill)(x)
    return counted, raised(y.backward)


@report("xla#5179", "a transposed input multiplied in place is returned, and the input follows")
def multiply_transposed(trial: Trial) -> Any:
    x = trial.randn(2, 3)
    y = trial.compile(lambda x: x.t().mul_(3))(x)
    return y, x, tuple(y.stride()), y.data_ptr() == x.data_ptr()


@report("pytorch#111417", "strides of a transposed intermediate value that was changed in place")
def strides_of_changed_view(trial: Trial) -> Any:
    y = trial.compile(lambda x: (x + 1).t().mul_(2))(trial.randn(2, 3))
    return y, tuple(y.stride())


@report("xla#5309", "a tensor attribute that is no buffer is changed by index_copy_")
def attribute_changed(trial: Trial) -> Any:
    class Cache(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = torch.zeros(3, 3, dtype=trial.dtype)

        def forward(self, index: Tensor, rows: Tensor, x: Tensor) -> Tensor:
            self.held.index_copy_(0, index, rows)
            return x + self.held

    model = Cache()
    compiled = trial.compile(model)
    out = [compiled(torch.tensor([i, 2]), trial.randn(2, 3), trial.randn(3, 3)) for i in range(2)]
    return out, model.held


@report("pytorch#115774", "a cache attribute is changed, then replaced by another tensor, then changed again")
def attribute_replaced(trial: Trial) -> Any:
    class Cache(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = torch.zeros(2, dtype=trial.dtype)

        def forward(self, x: Tensor, at: Tensor) -> Tensor:
            self.held[at] = x * 2
            return self.held.clone()

    model = Cache()
    compiled = trial.compile(model)
    first = compiled(trial.floats([2.0]), torch.tensor([0]))
    model.held = torch.zeros(2, dtype=trial.dtype)
    return first, compiled(trial.floats([1.0]), torch.tensor([1])), model.held


@report("pytorch#93824", "reciprocal_ of an intermediate value that is used before and after")
def reciprocal_in_place(trial: Trial) -> Any:
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        z = y + 1
        y.reciprocal_()
        return z, y

    return trial.compile(step)(trial.randn(5))


@report("pytorch#139789", "a graph for separate inputs is called with inputs that overlap")
def overlapping_after_separate(trial: Trial) -> Any:
    def step(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return x + y

    compiled = trial.compile(step)
    separate = compiled(trial.randn(4), trial.randn(4))
    base = trial.randn(8)
    return separate, compiled(base[:4], base[2:6]), base


@report("pytorch#164701", "a delay line: old rows are read from a state, then the state is written")
def delay_line(trial: Trial) -> Any:
    def step(state: Tensor, x: Tensor) -> Tensor:
        whole = torch.cat([state, x], dim=1)
        state.copy_(whole[:, -2:])
        return whole[:, :-2] * 0.5 + x

    state, compiled = torch.zeros(3, 2, 4, dtype=trial.dtype), trial.compile(step)
    return [compiled(state, trial.randn(3, 5, 4)) for _ in range(3)], state


@report("pytorch#128035", "an input that is no leaf and needs a gradient is multiplied in place")
def gradient_of_changed_input(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        x.mul_(3)
        return x.sin()

    leaf = trial.randn(5, grad=True)
    x = leaf * 1
    (trial.compile(step)(x) + x).sum().backward()
    return gradients(leaf), x


@report("pytorch#183575", "lerp_ of optimizer moments that are read afterwards")
def lerp_of_moments(trial: Trial) -> Any:
    def step(weight: Tensor, x: Tensor, moment: Tensor, other: Tensor) -> None:
        gradient = x.t() @ x @ weight
        moment.lerp_(gradient, 0.05)
        weight.add_(moment, alpha=-0.01)
        other.lerp_(gradient.square(), 0.1)
        weight.addcdiv_(moment, other.sqrt() + 1, value=-0.1)

    tensors = trial.randn(6, 6), trial.randn(9, 6), trial.randn(6, 6), trial.randn(6, 6).abs()
    compiled = trial.compile(step)
    for _ in range(2):
        compiled(*tensors)
    return tensors
