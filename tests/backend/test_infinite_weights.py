"""Weights that are infinite or NaN, of which the zeros around an image would make NaN where eager has none."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fpga_dynamo.testing.cache import empty_program_cache
from tests.backend.backend_kit import counting, on_card

MODELS = {
    "padding": (nn.Conv2d(4, 6, 3, padding=1), (4, 5, 6)),
    "no padding": (nn.Conv2d(4, 6, 3), (4, 5, 6)),
    "depthwise": (nn.Conv2d(4, 4, 3, padding=1, groups=4), (4, 5, 6)),
    "groups": (nn.Conv2d(4, 6, 3, padding=1, groups=2), (4, 5, 6)),
    "one tap, padded": (nn.Conv2d(4, 6, 1, padding=1), (4, 5, 6)),
    "one tap with a stride": (nn.Conv2d(4, 6, 1, stride=2), (4, 5, 6)),
    "a sequence": (nn.Conv1d(4, 6, 3, padding=1), (4, 9)),
    "a volume": (nn.Conv3d(2, 3, (3, 1, 1), padding=(1, 0, 0)), (2, 4, 3, 3)),
    "transposed": (nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1), (4, 5, 6)),
    "a batch norm behind it": (nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6)).eval(), (4, 5, 6)),
}


def weight_of(model: nn.Module) -> nn.Parameter:
    return next(model.parameters())


@pytest.mark.parametrize("number", [torch.inf, torch.nan], ids=str)
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_infinite_or_nan_is_so_where_it_is_in_eager(name: str, batch: int, number: float) -> None:
    torch.manual_seed(0)
    model, shape = MODELS[name]
    before = weight_of(model).detach().clone()
    x = torch.randn(batch, *shape)
    try:
        with torch.no_grad():
            weight_of(model).flatten()[1] = number
        mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        answer, expected = on_card(model)(mine), model(theirs)
        torch.testing.assert_close(answer, expected, equal_nan=True)
        gradients = torch.autograd.grad(answer[answer.isfinite()].sum(), mine)
        torch.testing.assert_close(
            gradients, torch.autograd.grad(expected[expected.isfinite()].sum(), theirs), equal_nan=True
        )
    finally:
        with torch.no_grad():
            weight_of(model).copy_(before)


def test_the_card_takes_the_launch_back_once_weights_are_finite() -> None:
    model, shape = MODELS["padding"]
    compiled, x = on_card(model), torch.randn(2, *shape)
    before = weight_of(model).detach().clone()
    with torch.no_grad():
        for fallbacks, number in ((0, 1.0), (1, torch.inf), (0, 2.0)):
            weight_of(model)[0, 0, 0, 0] = number
            with counting() as grown:
                torch.testing.assert_close(compiled(x), model(x), equal_nan=True, rtol=1e-4, atol=1e-5)
            assert grown["ps_fallbacks"] == fallbacks and grown["graphs_compiled"] == (number == 1.0)
        weight_of(model).copy_(before)


@pytest.mark.parametrize("tile", [2, 4])
def test_winograd_s_method_spreads_no_weight(tile: int) -> None:
    torch.manual_seed(0)
    model = nn.Conv2d(8, 8, 3, padding=1)
    with torch.no_grad():
        weight_of(model)[3, 2, 1, 1] = torch.inf
        x = torch.randn(2, 8, 9, 9)
        with empty_program_cache():
            torch.testing.assert_close(on_card(model, winograd=tile)(x), model(x), equal_nan=True)


def test_a_product_of_pixels_stays_on_the_card() -> None:
    torch.manual_seed(0)
    model, x = nn.Conv2d(4, 6, 1), torch.randn(2, 4, 5, 6)
    with torch.no_grad():
        weight_of(model)[3, 2] = -torch.inf
        with counting() as grown:
            torch.testing.assert_close(on_card(model)(x), model(x), equal_nan=True, rtol=1e-4, atol=1e-5)
    assert grown["ps_fallbacks"] == 0
