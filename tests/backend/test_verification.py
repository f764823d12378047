"""``verify=True`` asks for no more than rounding allows, and for no less."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fpga_dynamo import VerificationError
from fpga_dynamo.runtime.calls import launch
from fpga_dynamo.runtime.calls.transfer import from_slot
from tests.backend.backend_kit import on_card


def norm(x: Tensor, query: Tensor) -> Tensor:
    return F.layer_norm(x * 1.0, x.shape[-1:]) * query.mean()


def norm_beside_attention(x: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    """A mask of zeros is traced as a constant of float32: the graph as it is does not run in float64."""
    return F.layer_norm(x * 1.0, x.shape[-1:]), F.scaled_dot_product_attention(query, query, query)


def centred(width: int) -> Tensor:
    """Rows whose mean is nothing but rounding, as of a layer norm of what another has just centred."""
    whole = torch.randint(-127, 128, (5, width)).float()
    whole[:, -1] -= whole.sum(1)
    return (whole * 0.0137).requires_grad_()


FUNCTIONS = [norm, norm_beside_attention]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("width", [64, 100, 2048])
def test_a_saved_mean_that_is_all_rounding(function: Callable[..., object], width: int) -> None:
    compiled = on_card(function, verify=True)
    for _ in range(10):
        compiled(centred(width), torch.randn(1, 2, 8, 16, requires_grad=True))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("wrong", [1e-4, float("nan")])
def test_a_saved_mean_that_is_wrong(
    function: Callable[..., object], wrong: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a hundred-thousandth of the numbers that it is the mean of."""

    def off(raw: Tensor, slot: object) -> Tensor:
        value = from_slot(raw, slot)  # type: ignore[arg-type]
        is_mean = value.shape == (5, 1) and float(value.abs().max()) < 1e-2
        return value + wrong if is_mean else value

    monkeypatch.setattr(launch, "from_slot", off)
    with pytest.raises(VerificationError, match=r"native_layer_norm|getitem"):
        on_card(function, verify=True)(centred(64), torch.randn(1, 2, 8, 16, requires_grad=True))


NAN, INF = float("nan"), float("inf")
SPECIAL = torch.tensor([[NAN, 1.0, INF, -INF], [2.0, NAN, -INF, 0.5]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_nan_and_infinities_of_both_are_equal(dtype: torch.dtype) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        pairs = torch.view_as_complex(x.float().view(4, 2))
        return x * 2, x.softmax(1), torch.cat([x, -x]), x.amax(1), x @ x.T, pairs * 1j

    compiled = on_card(function, verify=True)
    for _ in range(2):
        compiled(SPECIAL.to(dtype))


@pytest.mark.parametrize("place", [(0, 1), (0, 2), (0, 3), (0, 0)])
@pytest.mark.parametrize("wrong", [NAN, INF, -INF, 5.0])
def test_nan_and_infinities_of_one_are_a_difference(
    place: tuple[int, int], wrong: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a number where eager mode has an infinity, or the infinity of the other sign."""

    def off(raw: Tensor, slot: object) -> Tensor:
        value = from_slot(raw, slot).clone()  # type: ignore[arg-type]
        value[place] = wrong
        return value

    monkeypatch.setattr(launch, "from_slot", off)
    compiled = on_card(lambda x: x * 2, verify=True)
    right = float(SPECIAL[place]) * 2
    if right == wrong or (right != right and wrong != wrong):
        compiled(SPECIAL)
        return
    with pytest.raises(VerificationError, match=r"aten\.mul.*(NaN|infinite|error)"):
        compiled(SPECIAL)


def test_nan_that_rounding_decides() -> None:
    """A logarithm of 1 minus the squares of a vector of length 1: a small number of either sign."""
    compiled = on_card(lambda x: torch.log(1 - F.normalize(x, dim=1).square().sum(1)), verify=True)
    compiled(torch.randn(256, 64))
