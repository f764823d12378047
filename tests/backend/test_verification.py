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
