"""Matrix products with their addends, activations and views; operands in any order and from anywhere."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.lowering.lowering_cases import GREEDY, Call, Case, check

ONE = {"gemm": 1}


def _numbers(x: torch.Tensor, *size: int) -> torch.Tensor:
    """The squared norms of rows, as products of one element each, whose rows lie apart."""
    return (x.unsqueeze(1) @ x.unsqueeze(2)).view(size)


class ResidualLinear(nn.Module):
    """activation(linear(x) + x), or x + linear(x), over any number of batch dimensions."""

    def __init__(self, features: int, activation: nn.Module, *, linear_first: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.activation = activation
        self.linear_first = linear_first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        return self.activation(y + x if self.linear_first else x + y)


LINEAR = {
    **{
        f"{i} to {o} features": Case(nn.Linear(i, o), (3, i), commands=ONE)
        for i, o in ((1, 1), (1, 17), (3, 10), (10, 3), (17, 58), (58, 80), (64, 1), (300, 130))
    },
    "one row": Case(nn.Linear(20, 30), (1, 20), commands=ONE),
    "a vector": Case(nn.Linear(20, 30), (20,), commands=ONE),
    "no bias": Case(nn.Linear(17, 33, bias=False), (5, 17), commands=ONE),
    "three dimensions": Case(nn.Linear(17, 33), (2, 3, 17), commands=ONE),
    "four dimensions": Case(nn.Linear(10, 20), (2, 3, 4, 10), commands=ONE),
    "three dimensions with ReLU": Case(nn.Sequential(nn.Linear(17, 33), nn.ReLU()), (2, 5, 17), commands=ONE),
    "three dimensions, GELU, residual": Case(
        ResidualLinear(18, nn.GELU(), linear_first=True), (2, 5, 18), commands=ONE
    ),
    "residual first": Case(ResidualLinear(17, nn.SiLU(), linear_first=False), (2, 4, 17), commands=ONE),
    "residual of padded rows": Case(
        nn.Sequential(nn.Linear(17, 18), ResidualLinear(18, nn.ReLU(), linear_first=True)),
        (3, 17),
        commands={"gemm": 2},
    ),
    "a multi-layer perceptron": Case(
        nn.Sequential(nn.Linear(58, 40), nn.ReLU(), nn.Linear(40, 40), nn.Hardswish(), nn.Linear(40, 10)),
        (7, 58),
        commands={"gemm": 3},
    ),
    "the transpose of the input": Case(
        Call(lambda x, w: F.linear(x.t(), w), w=torch.randn(20, 9)), (9, 6), commands=ONE
    ),
    "rows out of a slice": Case(Call(lambda x, w: x[:, 3:] @ w, w=torch.randn(9, 20)), (4, 12), commands=ONE),
    "every second column": Case(Call(lambda x, w: x[:, ::2] @ w, w=torch.randn(9, 20)), (4, 18), commands=ONE),
    "an expanded row": Case(Call(lambda x, w: x.expand(5, 9) @ w, w=torch.randn(9, 20)), (1, 9), commands=ONE),
    "a weight that a batch repeats": Case(
        Call(
            lambda x, w, b: torch.bmm(x.transpose(0, 1), w.t().expand(5, 9, 20)) + b,
            w=torch.randn(20, 9),
            b=torch.randn(20),
        ),
        (3, 5, 9),
        commands=ONE,
    ),
    "behind a flatten": Case(
        nn.Sequential(nn.Conv2d(3, 18, 3), nn.ReLU(), nn.Flatten(), nn.Linear(18 * 4 * 4, 10)), (2, 3, 6, 6)
    ),
    "in front of an image": Case(
        nn.Sequential(nn.Linear(10, 3 * 4 * 4), nn.Unflatten(1, (3, 4, 4)), nn.Conv2d(3, 16, 3)), (2, 10)
    ),
}

PRODUCTS = {
    "two inputs": Case(lambda a, b: a @ b, (7, 20), (20, 33), commands=ONE),
    "the left transposed": Case(lambda a, b: a.t() @ b, (20, 7), (20, 33), commands=ONE),
    "the right transposed": Case(lambda a, b: a @ b.t(), (7, 20), (33, 20), commands=ONE),
    "both transposed": Case(lambda a, b: a.t() @ b.t(), (20, 7), (33, 20), commands=ONE),
    "short rows": Case(lambda a, b: a @ b, (3, 5), (5, 10), commands=ONE),
    "an inner dimension of 1": Case(lambda a, b: a @ b, (6, 1), (1, 20), commands=ONE),
    "a row by a column": Case(lambda a, b: a @ b, (1, 40), (40, 1), commands=ONE),
    "a Gram matrix": Case(lambda a: a @ a.t(), (9, 17), commands=ONE),
    "of what other products gave": Case(
        Call(lambda x, v, w: (x @ v) @ (x @ w).t(), v=torch.randn(9, 20), w=torch.randn(9, 20)),
        (5, 9),
        commands={"gemm": 3},
    ),
    "a batch": Case(torch.bmm, (3, 5, 17), (3, 17, 20), commands=ONE),
    "a batch, right transposed": Case(lambda a, b: a @ b.transpose(1, 2), (3, 5, 17), (3, 20, 17), commands=ONE),
    "a batch, left transposed": Case(lambda a, b: a.transpose(1, 2) @ b, (2, 17, 5), (2, 17, 20), commands=ONE),
    "a batch by one matrix": Case(lambda a, b: a @ b, (3, 5, 17), (17, 20), commands=ONE),
    "one matrix by a batch": Case(lambda a, b: a @ b, (5, 17), (3, 17, 20), commands=ONE),
    "a batch by a parameter": Case(
        Call(lambda a, w: torch.bmm(a, w), w=torch.randn(3, 17, 20)), (3, 5, 17), commands=ONE
    ),
    "two batch dimensions": Case(lambda a, b: a @ b, (2, 3, 5, 9), (2, 3, 9, 20), commands=ONE),
    "a batch with an epilogue": Case(
        lambda a, b, c: F.relu(a @ b + c), (2, 5, 9), (2, 9, 20), (2, 5, 20), commands=ONE
    ),
    "a matrix by a vector": Case(lambda a, b: a @ b, (7, 20), (20,), commands=ONE),
    "a parameter by a vector": Case(Call(lambda a, w: w @ a, w=torch.randn(17, 20)), (20,), commands=ONE),
    "a vector by a vector": Case(torch.dot, (300,), (300,)),
    "a bilinear layer": Case(nn.Bilinear(8, 17, 5), (6, 8), (6, 17), commands={"gemm": 2, "pointwise": 1}),
    "a batch by a matrix that a copy puts in order": Case(
        lambda a, b: a @ _numbers(b, 4, 8).t().expand(2, 8, 4), (2, 5, 8), (32, 7), commands={"gemm": 2}
    ),
    "heads by a matrix that a copy puts in order": Case(
        lambda a, b: a @ _numbers(b, 1, 1, 4, 8).transpose(2, 3), (2, 3, 5, 8), (32, 7), commands={"gemm": 2}
    ),
    "a sum over three letters": Case(lambda a, b: torch.einsum("bij,bkj->ik", a, b), (3, 5, 17), (3, 4, 17)),
}

ADDENDS = {
    "a bias that is an input": Case(torch.addmm, (20,), (5, 9), (9, 20), commands=ONE),
    "a matrix": Case(torch.addmm, (5, 20), (5, 9), (9, 20), commands=ONE),
    "a column": Case(torch.addmm, (5, 1), (5, 9), (9, 20), commands=ONE),
    "one number": Case(torch.addmm, (1, 1), (5, 9), (9, 20), commands=ONE),
    "a matrix that is a parameter": Case(
        Call(lambda a, b, c: torch.addmm(c, a, b), c=torch.randn(5, 20)), (5, 9), (9, 20), commands=ONE
    ),
    "a bias that is a parameter": Case(
        Call(lambda a, b, c: torch.addmm(c, a, b), c=torch.randn(20)), (5, 9), (9, 20), commands=ONE
    ),
    "beta of 0 ignores NaN": Case(
        lambda c, a, b: torch.addmm(c, a, b, beta=0), torch.full((5, 20), torch.nan), (5, 9), (9, 20), commands=ONE
    ),
    "alpha": Case(lambda c, a, b: torch.addmm(c, a, b, alpha=0.5), (5, 20), (5, 9), (9, 20), commands=ONE),
    "alpha, a bias and an activation": Case(
        Call(lambda a, b, c: torch.sigmoid(torch.addmm(c, a, b, alpha=-2)), c=torch.randn(20)),
        (5, 9),
        (9, 20),
        commands=ONE,
    ),
    "beta of 2 stays on the PS": Case(
        lambda c, a, b: torch.addmm(c, a, b, beta=2).relu(),
        (5, 20),
        (5, 9),
        (9, 20),
        offload=1 / 2,
        why="beta=2 is not supported",
    ),
    "an addend and a residual": Case(lambda c, a, b, d: torch.addmm(c, a, b) + d, (5, 20), (5, 9), (9, 20), (5, 20)),
    "a row and a residual": Case(lambda c, a, b, d: d + torch.addmm(c, a, b), (20,), (5, 9), (9, 20), (5, 20)),
    "a column and a residual": Case(lambda c, a, b, d: d + torch.addmm(c, a, b), (5, 1), (5, 9), (9, 20), (5, 20)),
    "a batch with a matrix": Case(torch.baddbmm, (1, 5, 20), (3, 5, 9), (3, 9, 20), commands=ONE),
    "a batch with a batch": Case(torch.baddbmm, (3, 5, 20), (3, 5, 9), (3, 9, 20), commands=ONE),
    "a row in a sum of its own": Case(
        Call(lambda a, w, row: (a @ w + row).relu(), w=torch.randn(9, 20), row=torch.randn(20)), (2, 5, 9), commands=ONE
    ),
    "scale, row and residual": Case(
        Call(lambda a, c, w, row: a @ w / 4 + row + c, w=torch.randn(9, 20), row=torch.randn(20)),
        (5, 9),
        (5, 20),
        commands=ONE,
    ),
    "a row that is an input": Case(lambda a, b, row: a @ b + row, (5, 9), (9, 20), (20,)),
    "a scale that is a tensor": Case(lambda a, b, scale: a @ b * scale, (5, 9), (9, 20), ()),
    "used twice": Case(lambda a, b: (lambda y: (y, y.relu()))(a @ b), (5, 9), (9, 20)),
}


@pytest.mark.parametrize("case", LINEAR.values(), ids=LINEAR)
def test_a_linear_layer_is_one_command(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", PRODUCTS.values(), ids=PRODUCTS)
def test_products_of_activations_need_no_transposition(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", ADDENDS.values(), ids=ADDENDS)
def test_addends_are_scaled_and_broadcast_as_in_eager(case: Case) -> None:
    check(case)


class Head(nn.Module):
    """A convolution, and a linear layer on its flattened image."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 3)
        self.linear = nn.Linear(channels * 4 * 5, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(F.relu(self.conv(x)).flatten(1))


@pytest.mark.parametrize(("channels", "batch"), [(16, 1), (32, 3)])
def test_a_flattened_image_is_put_in_order_by_the_weights(channels: int, batch: int) -> None:
    report = check(Case(Head(channels), (batch, 3, 6, 7))).graphs[0]
    assert report.layout_changes == 0, f"{report}"


@pytest.mark.parametrize(("channels", "batch"), [(1, 2), (20, 1), (20, 3)])
def test_a_flattened_image_of_padded_pixels_is_copied(channels: int, batch: int) -> None:
    check(Case(Head(channels), (batch, 3, 6, 7)))


def test_an_image_that_is_flattened_for_two_layers() -> None:
    def both(x: torch.Tensor, w: torch.Tensor, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        flat = F.conv2d(x, w).flatten(1)
        return flat @ p + flat.tanh() @ q

    weights = {"w": torch.randn(16, 3, 3, 3), "p": torch.randn(320, 16), "q": torch.randn(320, 16)}
    check(Case(Call(both, **weights), (2, 3, 6, 7)))


def test_changed_weights_behind_a_flattened_image() -> None:
    torch._dynamo.reset()
    model, x = Head(16).eval(), torch.randn(2, 3, 6, 7)
    compiled = torch.compile(model, backend="fpga", options=GREEDY)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
        model.linear.weight.normal_()
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
