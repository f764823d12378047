"""Strides of results where eager mode's kernels follow the layout of an image and tracing says otherwise."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fpga_dynamo.testing.reference import strides_that_matter
from tests.lowering.lowering_cases import GREEDY, Case, check

IMAGE = torch.randn(2, 6, 4, 5).to(memory_format=torch.channels_last)
VOLUME = torch.randn(2, 3, 3, 4, 5).to(memory_format=torch.channels_last_3d)
ROWS, TURNED = torch.randn(10, 1, 5).transpose(0, 1).contiguous().transpose(0, 1), torch.randn(5, 10).t()

CASES: dict[str, Case] = {
    "rolled": Case(lambda x: x.roll(1, 2), IMAGE),
    "rolled twice, then added to": Case(lambda x: torch.roll(x, (1, -2), (1, 3)) + 1, IMAGE),
    "rolled all the way round, and on": Case(lambda x: torch.roll(x, (x.shape[2], 1), (2, 3)), IMAGE),
    "rolled as one row": Case(lambda x: x.roll(3), IMAGE),
    "a rolled volume": Case(lambda x: x.roll(1, 1), VOLUME),
    "channels shuffled": Case(lambda x: F.channel_shuffle(x, 2), IMAGE),
    "a volume with reflected borders": Case(lambda x: F.pad(x, (1,) * 6, mode="reflect"), VOLUME),
    "a volume with replicated borders": Case(lambda x: F.pad(x, (1, 0, 2, 1, 1, 1), mode="replicate"), VOLUME),
    "frozen batch norm of sequences": Case(nn.BatchNorm1d(5).eval(), torch.randn(3, 4, 5).transpose(1, 2)),
    "frozen batch norm of turned images": Case(nn.BatchNorm2d(6).eval(), torch.randn(2, 6, 5, 4).transpose(2, 3)),
    "powers of a number": Case(lambda x: 2.0**x, IMAGE),
    "powers of one": Case(lambda x: torch.pow(1, x), TURNED),
    "a number everywhere": Case(lambda x: (x * 0.5).scatter(0, (x > 0).long() % 1, 1.5), IMAGE[:1]),
    "log sigmoid": Case(lambda x: F.logsigmoid(x), IMAGE),
    "both": Case(torch.logical_and, ROWS, TURNED),
    "either": Case(torch.logical_or, ROWS, TURNED),
    "one of the two": Case(torch.logical_xor, ROWS, TURNED),
}


@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    check(CASES[name])


def test_results_of_what_the_host_made() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        values, indices = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(values, indices, [2, 2]) + 1

    x = torch.randn(2, 6, 4, 4).to(memory_format=torch.channels_last)
    answer = torch.compile(model, backend="fpga", options=GREEDY)(x)
    torch.testing.assert_close(answer, model(x), check_stride=True)


@torch.library.custom_op("fpga_dynamo_test::by_columns", mutates_args=())
def by_columns(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous().t()


@by_columns.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(x.shape)


def test_what_cannot_be_a_view_of_the_tensor_that_came_is_a_copy() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return by_columns(x * 2).reshape(-1)

    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.compile(model, backend="fpga", options=GREEDY)(x), model(x))


class NormOfSequence(nn.Module):
    """A batch norm of the features of each step, between linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.norm, self.behind = nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.behind(self.norm(self.before(x).transpose(1, 2)).transpose(1, 2))


MODULES: dict[str, tuple[nn.Module, torch.Tensor]] = {
    "batch norm of sequences": (nn.BatchNorm1d(5), torch.randn(3, 4, 5).transpose(1, 2)),
    "batch norm of sequences, frozen": (nn.BatchNorm1d(5).eval(), torch.randn(3, 4, 5).transpose(1, 2)),
    "frozen batch norm between linear layers": (NormOfSequence().eval(), torch.randn(3, 4, 5)),
    "log sigmoid": (nn.LogSigmoid(), IMAGE),
    "dropout": (nn.Dropout(0.3), IMAGE),
}


@pytest.mark.parametrize("name", MODULES)
def test_gradients(name: str) -> None:
    module, given = MODULES[name]
    answers = []
    for run in (module, torch.compile(module, backend="fpga", options=GREEDY)):
        torch.manual_seed(0)
        x = given.clone().requires_grad_()
        y = run(x)
        (gradient,) = torch.autograd.grad(y, [x], [torch.ones_like(y) * 3])
        answers.append((y, gradient))
    torch.testing.assert_close(*answers)
    eager, mine = ([strides_that_matter(tensor) for tensor in answer] for answer in answers)
    assert mine == eager
