"""Views, aliases and identities: free on the card, and outputs that share memory exactly where eager mode's do."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fpga_dynamo
from tests.lowering.lowering_cases import GREEDY, Call, Case, check

CHANNELS_LAST = torch.randn(2, 18, 4, 6).to(memory_format=torch.channels_last)

VIEWS = {
    "view": Case(lambda x: x.view(6, 20).relu(), (2, 3, 20)),
    "a view of padded rows": Case(Call(lambda x, w: (x @ w).view(3, 2, 9).relu(), w=torch.randn(5, 18)), (3, 5)),
    "padded rows seen as one": Case(Call(lambda x, w: (x @ w).view(-1).relu(), w=torch.randn(5, 18)), (3, 5)),
    "a reshape that copies": Case(lambda x: x.t().reshape(-1) * 2, (4, 17)),
    "a flattened image": Case(lambda x: (x * 2).flatten(1).relu(), CHANNELS_LAST),
    "permute": Case(lambda x: x.permute(0, 2, 3, 1) * 2, (2, 10, 4, 5)),
    "permute there and back": Case(lambda x: (x.permute(0, 2, 3, 1) * 2).permute(0, 3, 1, 2) + 1, (2, 10, 4, 5)),
    "transpose": Case(lambda x: x.transpose(-1, 1).exp(), (2, 3, 5, 4)),
    "mT": Case(lambda x: x.mT + 1, (3, 4, 17)),
    "expand": Case(lambda x: x.expand(-1, 4, 17) + 1, (3, 1, 17)),
    "squeeze": Case(lambda x: x.squeeze() + 1, (3, 1, 17, 1)),
    "squeeze one": Case(lambda x: x.squeeze(1) + 1, (3, 1, 17)),
    "squeeze some": Case(lambda x: x.squeeze((0, 2)) + 1, (1, 3, 1, 17)),
    "unsqueeze": Case(lambda x: x.unsqueeze(-1).unsqueeze(0) * 2, (3, 17)),
    "select": Case(lambda x: x[1] + x[:, -1].sum(), (3, 17)),
    "slice": Case(lambda x: x[1:-1, 2:9:3] + 1, (5, 17)),
    "a slice beyond the end": Case(lambda x: x[:, 3:100] + 1, (5, 17)),
    "split": Case(lambda x: [part * 2 for part in x.split(5, 1)], (3, 17)),
    "split into sizes": Case(lambda x: [part * 2 for part in x.split([2, 15], 1)], (3, 17)),
    "chunk": Case(lambda x: (lambda a, b: a * torch.sigmoid(b))(*x.chunk(2, 1)), CHANNELS_LAST),
    "unbind": Case(lambda x: sum(x.unbind(1)), (3, 4, 17)),
    "a diagonal": Case(lambda x: (x * 2).diagonal() + 1, (5, 5)),
    "an unfolding": Case(lambda x: (x * 2).unfold(1, 3, 2) + 1, (2, 9)),
    "pixel shuffle by views": Case(
        Call(
            lambda x, w: F.conv2d(x, w).view(2, 5, 2, 2, 3, 3).permute(0, 1, 4, 2, 5, 3).reshape(2, 5, 6, 6).relu(),
            w=torch.randn(20, 3, 3, 3),
        ),
        (2, 3, 5, 5),
    ),
    "clone": Case(lambda x: x.clone() * 2, (3, 17)),
    "contiguous": Case(lambda x: (x * 2).t().contiguous() + 1, (3, 17)),
    "to another memory format": Case(lambda x: (x * 2).to(memory_format=torch.channels_last), (2, 10, 4, 5)),
    "back to rows": Case(lambda x: (x * 2).contiguous(), CHANNELS_LAST),
}

OUTPUTS = {
    "a view of a result": Case(lambda x: (x * 2).t(), (3, 17)),
    "a slice of a result": Case(lambda x: (x * 2)[1:, ::2], (3, 17)),
    "an expanded result": Case(lambda x: (x * 2).expand(4, 3, 17), (3, 17)),
    "a result and a view of it": Case(lambda x: (lambda y: (y, y.view(-1), y[0]))(x * 2), (3, 17)),
    "the same result twice": Case(lambda x: (lambda y: (y, y))(x * 2), (3, 17)),
    "an input": Case(lambda x: (x, x * 2), (3, 17)),
    "a view of an input": Case(lambda x: (x.t(), x + 1), (3, 17)),
    "an input and nothing else": Case(lambda x: x, (3, 17), offload=0.0, launches=0, why="never"),
    "a view and nothing else": Case(lambda x: x[1:], (3, 17), offload=0.0, launches=0, why="never"),
    "a parameter": Case(Call(lambda x, w: (w, x + w), w=torch.randn(17)), (3, 17)),
    "a function of a parameter": Case(
        Call(lambda x, w: (x + w, w * 2), w=torch.randn(17)),
        (3, 17),
        offload=1 / 2,
        why="a constant: made in eager mode",
    ),
    "a constant": Case(lambda x: (x + 1, torch.ones(3)), (3, 17), offload=1 / 2, why="a constant: made in eager mode"),
    "nothing but Python": Case(lambda x: (x * 2, 3, None, "text", {"a": x + 1}), (3, 17)),
    "two results that need another layout": Case(
        Call(lambda x, w: (F.conv2d(x, w), F.conv2d(x, w).relu()), w=torch.randn(10, 3, 1, 1)), (2, 3, 4, 4)
    ),
    "parts of a split": Case(lambda x: (x * 2).split(5, 1), (3, 17)),
}

IN_PLACE = {
    "an input": Case(lambda x: x.mul_(2), (3, 17)),
    "an input, and something else returned": Case(lambda x: (x.add_(1), x * 2)[1], (3, 17)),
    "a slice of an input": Case(lambda x: x[:, 2:5].zero_() + 1, (3, 17)),
    "a slice by assignment": Case(lambda x, y: x.__setitem__((slice(None), slice(1, 4)), y) or x * 2, (3, 17), (3, 3)),
    "a row of a result": Case(lambda x: (lambda y: (y[0].fill_(3.0), y)[1])(x * 2), (3, 17)),
    "a result": Case(nn.Sequential(nn.Conv2d(3, 17, 3), nn.ReLU(inplace=True)), (2, 3, 5, 5)),
    "a sum into a residual": Case(lambda x: (lambda y: y.add_(x).relu_())(x * 2), (3, 17)),
    "through a view": Case(lambda x: (lambda y: (y.view(-1).mul_(2), y)[1])(x + 1), (3, 17)),
    "an input that is not contiguous": Case(lambda x: x.mul_(2), torch.randn(6, 20)[::2, 3:12]),
    "a copy into an input": Case(lambda x, y: x.copy_(y) + 1, (3, 17), (17,)),
    "two names of one tensor": Case(lambda x: (lambda y: (x.add_(1), y * 2)[1])(x.t()), (3, 17)),
    "masked": Case(lambda x: x.masked_fill_(x < 0, 0.5), (3, 17)),
    "clamped": Case(lambda x: x.clamp_(0, 1), CHANNELS_LAST),
}


@pytest.mark.parametrize("case", VIEWS.values(), ids=VIEWS)
def test_a_view_costs_no_node_on_the_ps(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", OUTPUTS.values(), ids=OUTPUTS)
def test_results_share_memory_as_in_eager(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", IN_PLACE.values(), ids=IN_PLACE)
def test_writing_in_place_reaches_whom_it_reaches_in_eager(case: Case) -> None:
    check(case)


def test_a_buffer_that_the_model_writes_keeps_what_was_written() -> None:
    class Counter(nn.Module):
        total: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(17))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total += x.sum(0)
            return x + self.total

    eager, model = Counter(), Counter()
    compiled = torch.compile(model, backend="fpga", options=GREEDY)
    for i in range(3):
        x = torch.full((3, 17), float(i + 1))
        torch.testing.assert_close(compiled(x), eager(x))
    torch.testing.assert_close(model.total, eager.total)


def test_views_alone_launch_nothing() -> None:
    fpga_dynamo.reset_stats()
    x = torch.randn(3, 4)
    y = torch.compile(lambda x: (x.t(), x[1:], x.view(-1)), backend="fpga", options=GREEDY)(x)
    assert [tensor.untyped_storage().data_ptr() for tensor in y] == [x.untyped_storage().data_ptr()] * 3
    assert fpga_dynamo.stats()["pl_launches"] == 0
