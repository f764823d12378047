"""Reports on torch.func (vmap, grad, jvp, jacrev) and on higher-order operators (cond, while_loop, scan, map)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.reports.case import Kind, Trial, gradients, raised

Tensor = torch.Tensor

functorch = Kind("torch.func")
control = Kind("control flow")


@functorch("pytorch#154036", "vmap of a compiled jacrev with has_aux: shapes")
def vmap_of_compiled_jacrev(trial: Trial) -> Any:
    def jacobian(x: Tensor) -> Any:
        return torch.func.jacrev(lambda t: (t.sin(), t), has_aux=True)(x)[0]

    x = trial.randn(7)
    return torch.vmap(jacobian)(x), raised(lambda: trial.compile(torch.vmap(jacobian))(x))


@functorch("pytorch#151196", "vmap of jacfwd of a network with respect to time")
def vmap_of_jacfwd(trial: Trial) -> Any:
    layer = trial.module(nn.Linear(4, 4))

    def step(t: Tensor, x: Tensor) -> Tensor:
        def one(t: Tensor, x: Tensor) -> Tensor:
            return torch.tanh(layer(x) * t.sin())

        return torch.vmap(torch.func.jacfwd(one))(t, x)

    return trial.compile(step)(trial.randn(3), trial.randn(3, 4))


@functorch("pytorch#183015", "vmap of a Hessian, by jacfwd and by jacrev outside")
def vmap_of_hessian(trial: Trial) -> Any:
    def energy(x: Tensor) -> Tensor:
        return (x.sin() * x.square()).sum()

    x = trial.randn(2, 3)
    forward = raised(lambda: trial.compile(lambda x: torch.vmap(torch.func.hessian(energy))(x))(x))
    reverse = trial.compile(lambda x: torch.vmap(torch.func.jacrev(torch.func.jacrev(energy)))(x))(x)
    return forward, reverse


@functorch("pytorch#138422", "vmap over autograd.grad of a compiled function's result")
def vmap_over_gradient(trial: Trial) -> Any:
    x = trial.randn(4, grad=True)
    y = trial.compile(lambda x: x.square().sin())(x)
    return raised(lambda: torch.vmap(lambda v: torch.autograd.grad(y, x, v)[0])(torch.eye(4, dtype=trial.dtype)))


@functorch("pytorch#176077", "vmap of a compiled jvp")
def vmap_of_compiled_jvp(trial: Trial) -> Any:
    x = trial.randn(4)

    def tangent(t: Tensor) -> Tensor:
        return torch.func.jvp(lambda v: v.sin() * v, (x,), (t,))[1]

    return raised(lambda: torch.vmap(trial.compile(tangent))(trial.randn(3, 4)))


@functorch("pytorch#136662", "torch.func.grad of a function that adds to one column twice in place")
def gradient_of_in_place_sums(trial: Trial) -> Any:
    def energy(x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        y[:, 0] += x[:, 2].abs()
        y[:, 0] += x[:, 2].abs()
        return y.sum()

    return trial.compile(lambda x: torch.func.grad(energy)(x))(trial.randn(2, 3))


@functorch("torch-mlir#1464", "torch.func.grad with two argnums of a regression loss, several updates")
def regression_by_functional_gradient(trial: Trial) -> Any:
    def loss(w: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return (x @ w + b - y).square().mean()

    step = trial.compile(lambda w, b, x, y: torch.func.grad(loss, argnums=(0, 1))(w, b, x, y))
    x, w, b = trial.randn(20, 3), torch.zeros(3, dtype=trial.dtype), torch.zeros((), dtype=trial.dtype)
    y = x @ trial.floats([1.0, -2.0, 3.0]) + 0.5
    for _ in range(3):
        dw, db = step(w, b, x, y)
        w, b = w - 0.1 * dw, b - 0.1 * db
    return w, b


@functorch("pytorch#181115", "torch.func.grad of average pooling and gelu, sizes dynamic")
def gradient_of_pooling_dynamic(trial: Trial) -> Any:
    layer = trial.module(nn.Linear(3, 11))

    def energy(x: Tensor) -> Tensor:
        return F.gelu(F.avg_pool2d(F.avg_pool2d(layer(x), 2), 2), approximate="tanh").sum()

    compiled = trial.compile(lambda x: torch.func.grad(energy)(x), dynamic=True)
    return compiled(trial.randn(2, 4, 9, 3)), compiled(trial.randn(3, 4, 8, 3))


@functorch("functorch#847", "vmap of jacrev of a norm")
def vmap_of_norm(trial: Trial) -> Any:
    def norm(x: Tensor) -> Tensor:
        return torch.linalg.norm(x, dim=0, keepdim=True)

    return trial.compile(lambda x: torch.vmap(torch.func.jacrev(norm))(x))(trial.randn(5, 3))


@control("pytorch#166525", "while_loop with a Python number in its state")
def loop_over_number(trial: Trial) -> Any:
    def step(a: Tensor, b: Tensor) -> Any:
        return torch.while_loop(
            lambda i, x, y: i < 3, lambda i, x, y: (i + 1, x + a, y * b), (0, torch.zeros_like(a), torch.ones_like(b))
        )

    return raised(trial.compile(step), trial.randn(2, 2), trial.randn(2, 2))


@control("pytorch#183017", "gradients through while_loop")
def gradient_through_loop(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        return torch.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 0.9 + 0.1), (torch.tensor(0), x))[1].sum()

    x = trial.randn(4, 6, grad=True)
    return raised(lambda: (trial.compile(step)(x).backward(), gradients(x))[1])


@control("pytorch#183018", "map over rows with an activation")
def map_over_rows(trial: Trial) -> Any:
    from torch._higher_order_ops import map as map_rows

    def row(x: Tensor, *_: Any) -> Tensor:
        return F.gelu(x) * 2

    return trial.compile(lambda x: map_rows(row, x).sum(0))(trial.randn(4, 6))


@control("pytorch#146213", "while_loop that runs no turn, its inputs changed afterwards")
def loop_without_turn(trial: Trial) -> Any:
    def step(c: Tensor, a: Tensor) -> Any:
        view = torch.sin(a.view(-1, 1))
        _, out = torch.while_loop(lambda c, v: v.sum().clip(0, 1) < 0, lambda c, v: (c - 1, v + 1), (c, view))
        return out.sin_(), view.cos_()

    return raised(trial.compile(step), torch.tensor(0), trial.randn(1, 1))


@control("pytorch#190908", "while_loop with a matrix inverse inside")
def loop_with_inverse(trial: Trial) -> Any:
    weight = trial.randn(4, 4) * 0.1

    def step(x: Tensor) -> Any:
        def body(i: Tensor, x: Tensor, y: Tensor) -> Any:
            return i + 1, x + 1, x @ torch.linalg.inv(torch.eye(4, dtype=x.dtype) + weight)

        return torch.while_loop(lambda i, x, y: i < 2, body, (torch.tensor(0), x, torch.zeros_like(x)))[1:]

    with torch.no_grad():
        return trial.compile(step)(trial.randn(4, 4))


@control("pytorch#137943", "associative_scan from the end along dimension 1")
def reverse_scan(trial: Trial) -> Any:
    from torch._higher_order_ops.associative_scan import associative_scan

    def step(x: Tensor) -> Tensor:
        return associative_scan(lambda a, b: a + b, x, dim=1, reverse=True, combine_mode="generic")

    return trial.compile(step)(trial.randn(2, 9))


@control("pytorch#181584", "associative_scan over two dimensions, sizes dynamic")
def dynamic_scan(trial: Trial) -> Any:
    from torch._higher_order_ops.associative_scan import associative_scan

    compiled = trial.compile(
        lambda x: associative_scan(lambda a, b: a * b, x, dim=0, combine_mode="generic"), dynamic=True
    )
    return [compiled(trial.randn(n, 5)) for n in (4, 7)]


@control("pytorch#141259", "cond whose branches differ in whether their results need gradients")
def condition_with_gradient(trial: Trial) -> Any:
    def step(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: torch.zeros_like(x), (x,))

    compiled, found = trial.compile(step), []
    for sign in (1, -1):
        x = (trial.randn(4).abs() * sign).requires_grad_()
        found.append(raised(lambda x=x: (compiled(x).sum().backward(), gradients(x))[1]))
    return found


@control("pytorch#153832", "cond with a branch that returns its operand")
def condition_with_identity(trial: Trial) -> Any:
    compiled = trial.compile(lambda x: torch.cond(x.sum() > 0, lambda x: x, lambda x: x + 1, (x,)))
    with torch.no_grad():
        return [raised(compiled, trial.randn(4).abs() * sign) for sign in (1, -1)]
