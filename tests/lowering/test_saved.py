"""Images that a forward graph saves for its backward graph: their layout, and what must not show it."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from fpga_dynamo.frontend.backend import collect_programs
from fpga_dynamo.ir.program import Program

ON_CARD: dict[str, Any] = {"partition": "greedy"}


def _trained(model: nn.Module, x: torch.Tensor) -> tuple[list[Program], torch.Tensor, torch.Tensor]:
    """The programs of a training step, its result and eager mode's, from the same random stream."""
    reference = copy.deepcopy(model)
    torch._dynamo.reset()
    with collect_programs() as programs:
        torch.manual_seed(1)
        found = torch.compile(model, backend="fpga", options=ON_CARD)(x)
        found.square().sum().backward()
    torch.manual_seed(1)
    expected = reference(x)
    expected.square().sum().backward()
    for own, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(own.grad, theirs.grad, rtol=2e-3, atol=2e-4)
        assert own.grad is not None and theirs.grad is not None and own.grad.stride() == theirs.grad.stride()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert found.stride() == expected.stride()
    return programs, found, expected


def _is_channels_last(strides: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return torch.empty_strided(shape, strides).is_contiguous(memory_format=torch.channels_last)


def _image(channels: int = 3) -> torch.Tensor:
    return torch.randn(2, channels, 12, 10)


def test_saved_images_stay_as_the_cores_have_them() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 16, 3), nn.ReLU()
    )
    programs, *_ = _trained(model, _image())
    forward, backward = programs
    saved = {slot.shape: slot for task in forward.card_tasks for slot in task.outputs if slot.shape == (2, 32, 12, 10)}
    assert saved and all(_is_channels_last(slot.strides, slot.shape) for slot in saved.values())
    read = [slot for task in backward.card_tasks for slot in task.inputs if slot.shape == (2, 32, 12, 10)]
    assert read and all(_is_channels_last(slot.strides, slot.shape) for slot in read)
    moved = [c for task in forward.card_tasks for c in task.commands if c.opcode == "move" and "relu" not in c.nodes]
    assert len(moved) <= 2  # the input, and the result for the user


def test_a_saved_image_that_is_a_result_too_has_eagers_strides() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inner = self.first(x).relu()
            self.kept = inner
            return self.second(inner)

    model = Both()
    _trained(model, _image())
    assert model.kept.is_contiguous()


def test_the_random_stream_of_dropout_does_not_see_the_layout() -> None:
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.5), nn.Conv2d(16, 16, 3))
    _trained(model, _image())
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Dropout(0.5), nn.Conv2d(16, 16, 3))
    _trained(model, _image())


def test_eager_ops_on_saved_images_have_eagers_strides() -> None:
    class Sorted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 16, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.first(x).relu().sort(dim=3).values

    _trained(Sorted(), _image())


def test_a_pooled_image_that_is_the_result_has_eagers_strides() -> None:
    _trained(nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.MaxPool2d(1)), _image())


def test_a_pooled_image_that_is_viewed_is_laid_out_as_traced() -> None:
    _trained(nn.Sequential(nn.Conv2d(3, 8, 3), nn.MaxPool2d(2), nn.InstanceNorm2d(8), nn.Linear(4, 5)), _image())


def test_eager_in_the_place_of_a_launch_gets_saved_images_as_traced() -> None:
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(1), nn.Conv2d(16, 4, 3), nn.ReLU())
    x = _image().index_fill_(-1, torch.tensor([0]), torch.nan)  # the launch of the gradients falls back to eager mode
    gradients = []
    for call in (model, torch.compile(model, backend="fpga", options=ON_CARD)):
        model.zero_grad()
        call(x).sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(gradients[1], gradients[0], equal_nan=True, rtol=1e-4, atol=1e-4)


def test_a_gradient_lies_as_in_eager_whatever_lay_otherwise_between() -> None:
    """The greatest element is found again, in the backward graph, in an image that was saved channels-last."""

    mask = torch.tensor([True, False, True]).reshape(3, 1, 1, 1).expand(3, 2, 1, 1)

    def greatest(x: torch.Tensor) -> torch.Tensor:
        return torch.masked.amax(x, mask=mask)

    compiled = torch.compile(greatest, backend="fpga", options={"partition": "greedy"})
    x = torch.linspace(-2, 2, 12).reshape(3, 2, 1, 2).requires_grad_()
    mine, theirs = (torch.autograd.grad(called(x), x)[0] for called in (compiled, greatest))  # x.grad lies as x does
    torch.testing.assert_close(mine, theirs, check_stride=True)
