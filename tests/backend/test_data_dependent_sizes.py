"""Sizes and positions that are taken from tensors under ``capture_scalar_outputs``: only running tells them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch.nn import functional as F

from fpga_dynamo.testing.reference import assert_close_to_eager
from tests.backend.backend_kit import GREEDY, counting

Tensor = torch.Tensor
WEIGHT = torch.linspace(-1, 1, 24).view(6, 4)


@pytest.fixture(autouse=True)
def scalars_are_captured() -> Iterator[None]:
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


def rows(x: Tensor) -> Tensor:
    return torch.relu(x @ WEIGHT.to(x.dtype))


def narrow(x: Tensor, n: Tensor) -> Tensor:
    return torch.narrow(rows(x), 0, n, 3)


def narrow_between_launches(x: Tensor, n: Tensor) -> Tensor:
    return rows(torch.narrow(rows(x)[:, :2].repeat(1, 3), 0, n, 3)) * 2


def narrow_to_a_length(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
    head, length = rows(x), int(n.item())
    return head.narrow(0, 0, length), head.narrow(0, 0, length) + 1, head.sum(0)


def tensor_split(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
    return torch.tensor_split(rows(x), torch.stack([n, n + 1]))


def tensor_split_and_on(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
    return tuple(F.relu(part - 0.5) for part in torch.tensor_split(rows(x), torch.stack([n, n + 1])))


def split_with_sizes(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
    return torch.split(rows(x), torch.stack([n, x.shape[0] - n]).tolist())


def joined_again(x: Tensor, n: Tensor) -> Tensor:
    head, length = rows(x), int(n.item())
    return torch.cat([head.narrow(0, length, x.shape[0] - length), head.narrow(0, 0, length)]) + 1


def a_row_of_the_weights(x: Tensor, n: Tensor) -> Tensor:
    return torch.relu(x @ WEIGHT.to(x.dtype)[int(n.item())].unsqueeze(1).expand(4, 3)[:1].expand(6, 3))


def windows(x: Tensor, n: Tensor) -> Tensor:
    length = int(n.item())
    torch._check(length > 1)
    return F.conv1d(x.narrow(0, 0, length).t()[None].contiguous(), WEIGHT.to(x.dtype).view(2, 6, 2))


def attended(x: Tensor, n: Tensor) -> Tensor:
    length = int(n.item())
    torch._check(length > 0)
    q = x.narrow(0, 0, length)[None, None]
    return F.scaled_dot_product_attention(q, q, q)


FUNCTIONS = [
    narrow,
    narrow_between_launches,
    narrow_to_a_length,
    tensor_split,
    tensor_split_and_on,
    split_with_sizes,
    joined_again,
    a_row_of_the_weights,
    windows,
    attended,
]


def call(function: Callable[..., object], x: Tensor, n: Tensor, grad: bool) -> object:
    """The outputs and, with `grad`, the gradient of x."""
    given = x.clone().requires_grad_(grad)
    outputs = function(given, n)
    if grad:
        parts = outputs if isinstance(outputs, tuple) else (outputs,)
        sum((part * part.detach().cos()).sum() for part in parts).backward()
    return outputs, given.grad


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("dynamic", [None, True], ids=["automatic", "dynamic"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_size_from_a_tensor(function: Callable[..., object], dynamic: bool | None, grad: bool) -> None:
    compiled = torch.compile(function, backend="fpga", fullgraph=True, dynamic=dynamic, options=GREEDY)
    for length, number in ((10, 2), (10, 4), (7, 3), (12, 4)):
        x, n = torch.randn(length, 6), torch.tensor(number)
        with counting() as grown:
            mine = call(compiled, x, n, grad)
        theirs = call(function, x, n, grad)
        exact = call(function, x.double(), n, grad)
        assert_close_to_eager(mine, theirs, exact)
        assert grown["ps_fallbacks"] == 0
        if function not in (windows, attended):  # of whose results no size is known
            assert grown["pl_launches"] > 0, "what has known sizes is the card's"
