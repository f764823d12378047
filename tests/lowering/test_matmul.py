"""Matrix products with their addends, activations and views; operands in any order and from anywhere."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from lowering_cases import GREEDY, Call, Case, check
from torch import nn

ONE = {"gemm": 1}


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


def attention(x: torch.Tensor, qkv: torch.Tensor) -> torch.Tensor:
    batch, tokens, width = x.shape
    q, k, v = (x @ qkv).view(batch, tokens, 3, 2, width // 2).permute(2, 0, 3, 1, 4).unbind(0)
    weights = torch.softmax(q @ k.transpose(-2, -1) / (width // 2) ** 0.5, dim=-1)
    return (weights @ v).transpose(1, 2).reshape(batch, tokens, width)


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
    "a matrix by a vector": Case(lambda a, b: a @ b, (7, 20), (20,), offload=0.0, launches=0, why="aten.mv"),
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
        why="scaled by 2",
    ),
    "an addend and a residual": Case(lambda c, a, b, d: torch.addmm(c, a, b) + d, (5, 20), (5, 9), (9, 20), (5, 20)),
    "a row and a residual": Case(lambda c, a, b, d: d + torch.addmm(c, a, b), (20,), (5, 9), (9, 20), (5, 20)),
    "a column and a residual": Case(lambda c, a, b, d: d + torch.addmm(c, a, b), (5, 1), (5, 9), (9, 20), (5, 20)),
    "a batch with a matrix": Case(torch.baddbmm, (1, 5, 20), (3, 5, 9), (3, 9, 20), commands=ONE),
    "a batch with a batch": Case(torch.baddbmm, (3, 5, 20), (3, 5, 9), (3, 9, 20), commands=ONE),
    "used twice": Case(lambda a, b: (lambda y: (y, y.relu()))(a @ b), (5, 9), (9, 20)),
}

WHOLE = {
    "self-attention": Case(Call(attention, qkv=torch.randn(16, 48)), (2, 5, 16)),
    "self-attention of odd sizes": Case(Call(attention, qkv=torch.randn(10, 30)), (3, 7, 10)),
    "scaled_dot_product_attention": Case(F.scaled_dot_product_attention, (2, 2, 5, 8), (2, 2, 5, 8), (2, 2, 5, 8)),
    "scaled_dot_product_attention with a bias": Case(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        (1, 2, 5, 8),
        (1, 2, 6, 8),
        (1, 2, 6, 8),
        (5, 6),
    ),
    "scaled_dot_product_attention with a masked row": Case(
        F.scaled_dot_product_attention,
        (1, 2, 3, 8),
        (1, 2, 4, 8),
        (1, 2, 4, 8),
        torch.tensor([[0.0] * 4, [-torch.inf] * 4, [0, -torch.inf, 0, -torch.inf]]),
    ),
    "scaled_dot_product_attention with a mask of bool": Case(
        F.scaled_dot_product_attention, (1, 2, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8), torch.ones(3, 3).tril().bool()
    ),
    "scaled_dot_product_attention of three dimensions": Case(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        (2, 5, 8),
        (2, 6, 8),
        (2, 6, 8),
        torch.tensor([-torch.inf] * 6 + [0.0] * 24).view(5, 6),
    ),
    "causal attention": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (2, 3, 6, 8),
        (2, 3, 6, 8),
        (2, 3, 6, 8),
    ),
    "attention over heads that were split by a view": Case(
        lambda q, k, v: F.scaled_dot_product_attention(*(t.view(2, 5, 3, 8).transpose(1, 2) for t in (q, k, v))),
        (2, 5, 24),
        (2, 5, 24),
        (2, 5, 24),
    ),
    "attention with fewer keys than queries": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True, scale=0.3),
        (2, 6, 5, 8),
        (2, 3, 4, 8),
        (2, 3, 4, 8),
    ),
    "PyTorch's fused transformer layer stays on the PS": Case(
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True),
        (2, 5, 16),
        offload=0.0,
        launches=0,
        why="no pattern takes aten._transformer_encoder_layer_fwd",
    ),
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


@pytest.mark.parametrize("case", WHOLE.values(), ids=WHOLE)
def test_attention_is_one_launch(case: Case) -> None:
    check(case)


def test_attention_gives_eager_gradients() -> None:
    inputs = [torch.randn(2, 3, rows, 8, generator=torch.Generator().manual_seed(rows)) for rows in (5, 7, 7)]
    gradients = []
    attention_of = F.scaled_dot_product_attention
    for function in (attention_of, torch.compile(attention_of, backend="fpga", options=GREEDY)):
        leaves = [tensor.clone().requires_grad_() for tensor in inputs]
        function(*leaves).square().sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)
