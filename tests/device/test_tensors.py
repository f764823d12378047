"""Eager mode on the device: factories, operators on the CPU's kernels, views, copies, resizes, and errors."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fpga_dynamo.device import extension
from tests.device.device_kit import fpga


def same(result: Tensor, expected: Tensor) -> bool:
    """Bit-identical values in the same strides, on the device."""
    return (
        result.device.type == "fpga"
        and result.dtype is expected.dtype
        and result.stride() == expected.stride()
        and torch.equal(result.cpu(), expected)
    )


x = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))

OPERATORS: dict[str, Callable[[Tensor], Tensor]] = {
    "structured": lambda t: t + t * 2,
    "number on the CPU": lambda t: t * torch.tensor(2.0),
    "matrix product": lambda t: t @ t.t(),
    "several results": lambda t: t.sort(dim=1)[1],
    "list of tensors": lambda t: torch.cat([t, t.exp()]),
    "list of results": lambda t: t.split(2)[1],
    "in place": lambda t: t.clone().mul_(3).relu_(),
    "into a view": lambda t: _with_zeroed_column(t.clone()),
    "transposed": lambda t: t.t().exp(),
    "mask": lambda t: t[t > 0],
    "index on the CPU": lambda t: t[torch.tensor([2, 0])],
    "sum to a number": lambda t: t.sum(),
    "reduction over a dimension": lambda t: t.mean(1, keepdim=True),
    "other dtype": lambda t: t.to(torch.float64).cumsum(0),
    "complex view": lambda t: torch.view_as_real(torch.complex(t, t)),
    "conjugate": lambda t: torch.complex(t, t).conj() * 2,
    "negative view": lambda t: torch.complex(t, t).conj().imag.clone(),
    "nothing": lambda t: t[:0].exp(),
    "where": lambda t: torch.where(t > 0, t, torch.tensor(0.0)),
    "softmax": lambda t: t.softmax(-1),
    "interpolation": lambda t: nn.functional.interpolate(t[None, None], scale_factor=2.0),
}


def _with_zeroed_column(t: Tensor) -> Tensor:
    t[:, 1] = 0
    return t


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_give_what_they_give_on_the_cpu(name: str) -> None:
    assert same(OPERATORS[name](x.to("fpga")), OPERATORS[name](x))


def test_views_share_memory_with_their_base() -> None:
    base = x.to("fpga")
    slices = base[1:, ::2], base.unfold(1, 2, 1), base.expand(2, 4, 5)
    for view in (base.t(), base.view(-1), base.view(torch.int32), *slices):
        assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    base.view(torch.int32).zero_()
    assert base.abs().sum().item() == 0


def test_a_result_argument_is_written_where_it_lies_or_grows() -> None:
    source, result = x.to("fpga"), torch.full((4, 5), torch.nan, device="fpga")
    address = result.data_ptr()
    torch.exp(source, out=result)
    assert result.data_ptr() == address and same(result, x.exp())
    grown = torch.empty(0, device="fpga"), torch.empty(0, dtype=torch.long, device="fpga")
    assert all(map(same, torch.sort(source, out=grown), x.sort()))
    assert same(torch.exp(source, out=torch.empty(0, device="fpga")), x.exp())


def test_resize_keeps_what_is_there() -> None:
    grown = x.to("fpga").resize_(40, 100)
    assert grown.shape == (40, 100) and torch.equal(grown.view(-1)[:20].cpu(), x.view(-1))


def test_set_takes_over_another_storage() -> None:
    source = x.to("fpga")
    empty: Any = torch.empty(0, device="fpga")
    for taken in (
        empty.set_(source),
        torch.empty(0, device="fpga").set_(source.untyped_storage(), 0, (4, 5), (5, 1)),
    ):
        assert taken.data_ptr() == source.data_ptr() and same(taken, x)
    assert empty.set_().numel() == 0


def test_copies_convert_between_dtypes_and_strides() -> None:
    target = torch.full((5, 4), -1, dtype=torch.int64, device="fpga")
    target.copy_(x.t() * 100)
    assert same(target, torch.empty(5, 4, dtype=torch.int64).copy_(x.t() * 100))
    assert torch.equal(x.to("fpga").t().cpu(), x.t())


def test_nothing_but_named_operators_runs_on_the_cpu() -> None:
    """Views, copies and factories are the device's own."""
    loaded = extension.start()
    fpga.set_operator_placement("host")
    loaded.count_fallbacks(True)
    try:
        loaded.take_fallbacks()
        x.to("fpga").view(-1)[2:].cpu()
        assert loaded.take_fallbacks() == {}
        x.to("fpga").exp()
        assert loaded.take_fallbacks() == {"aten::exp.out": 1}
    finally:
        loaded.count_fallbacks(False)
        fpga.set_operator_placement("cost")


def test_fallback_copies_no_argument() -> None:
    """A kernel of the CPU works on the tensor's own memory: in place means in the card's memory."""
    given = torch.zeros(1000, device="fpga")
    address = given.data_ptr()
    given.add_(1)
    assert extension.start().host_view(given).data_ptr() == given.data_ptr() == address
    assert given.sum().item() == 1000


def test_gradients_are_those_of_the_cpu() -> None:
    layers = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(256, 3)
    model = nn.Sequential(*layers)
    copy = deepcopy(model)
    images = torch.randn(2, 3, 8, 8)
    (model(images) ** 2).sum().backward()
    copy.to("fpga")
    given = images.to("fpga").requires_grad_()
    (copy(given) ** 2).sum().backward()
    assert given.grad is not None and given.grad.device.type == "fpga"
    for mine, reference in zip(copy.parameters(), model.parameters(), strict=True):
        assert mine.grad is not None
        torch.testing.assert_close(mine.grad.cpu(), reference.grad)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_and_their_gradients(kind: type[nn.LSTM | nn.GRU]) -> None:
    torch.manual_seed(2)
    layer, sequence = kind(3, 4), torch.randn(5, 2, 3)
    layer(sequence)[0].sum().backward()
    expected, gradients = layer(sequence)[0], [p.grad for p in layer.parameters()]
    layer.zero_grad()
    layer.to("fpga")
    result = layer(sequence.to("fpga"))[0]
    result.sum().backward()
    torch.testing.assert_close(result.cpu(), expected)
    for parameter, gradient in zip(layer.parameters(), gradients, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad.cpu(), gradient)


FAULTS: dict[str, tuple[Callable[[Tensor], object], str]] = {
    "mixed devices": (lambda t: t + torch.ones(4, 5), "Expected all tensors to be on the same device.*fpga:0 and cpu"),
    "mixed in a product": (lambda t: torch.mm(torch.ones(2, 4), t), "all tensors to be on the same device.*fpga:0"),
    "no such card": (lambda t: torch.ones(2, device="fpga:7"), "there is no device fpga:7: the driver finds . card"),
    "NumPy": (lambda t: t.numpy(), "can't convert fpga:0 device type tensor to numpy. Use Tensor.cpu()"),
    "DLPack": (lambda t: np.from_dlpack(t), "Unsupported device"),
    "sparse": (lambda t: t.to_sparse(), "device 'fpga' supports strided tensors, not Sparse"),
    "pinned": (lambda t: torch.empty(2, device="fpga", pin_memory=True), "pin"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_mistakes_get_one_sentence(name: str) -> None:
    action, message = FAULTS[name]
    with pytest.raises((RuntimeError, TypeError, BufferError), match=message):
        action(x.to("fpga"))


def test_inference_mode() -> None:
    """With tensors that were made in it, and with others; the host's kernels and the device's own operators."""
    layer, given = nn.Linear(5, 3), x.to("fpga")
    expected = layer(x).exp()
    layer.to("fpga")
    with torch.inference_mode():
        result = layer(given).exp()
        assert result.is_inference()
        torch.testing.assert_close(result.cpu(), expected.detach())
        result.add_(1)
        given.mul_(2)
        assert given.sum().item() == pytest.approx(2 * x.sum().item(), rel=1e-5)
    assert torch.equal(given.cpu(), x * 2)
