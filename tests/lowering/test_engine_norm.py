"""Batch norms in front of convolutions on the hardware engine, beside eager's float32 between two roundings."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fpga_dynamo.lowering.ops.quantised.engine_norm import pack_norm
from tests.lowering.engine_kit import apart, lowered
from tests.lowering.test_engine_lowering import left_of
from tests.marks import EXTENDED


def norm(channels: int, *, exact: bool) -> nn.BatchNorm2d:
    """Statistics and parameters at random, some factors negative; or such that eager's float32 makes no error."""
    found = nn.BatchNorm2d(channels, eps=0.0 if exact else 1e-5)
    assert found.running_var is not None and found.running_mean is not None
    if exact:
        found.running_var.fill_(0.25)
        nn.init.constant_(found.weight, -0.5)
        found.bias.data = torch.randint(-8, 8, (channels,)) / 16
    else:
        nn.init.uniform_(found.running_var, 0.1, 3.0)
        nn.init.normal_(found.running_mean)
        nn.init.normal_(found.weight)
        nn.init.normal_(found.bias)
    return found


class Dense(nn.Module):
    """Two layers of a DenseNet: each normalises all that the ones before have made."""

    def __init__(self, *, exact: bool = False, last: nn.Module | None = None) -> None:
        super().__init__()
        self.image = nn.Conv2d(3, 32, 3, padding=1)
        self.norms = nn.ModuleList([norm(32, exact=exact), norm(48, exact=exact)])
        self.layers = nn.ModuleList([nn.Conv2d(32, 16, 1), nn.Conv2d(48, 16, 3, padding=1)])
        self.last = last if last is not None else nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        made = [self.image(x)]
        for number, layer in zip(self.norms, self.layers, strict=True):
            made.append(layer(self.last(number(torch.cat(made, 1)))))
        return made[-1]


# Most of their time is convert_pt2e's, which looks for batch norms of training where a graph has any.
@pytest.mark.parametrize(
    "last",
    [nn.ReLU(), pytest.param(nn.ReLU6(), marks=EXTENDED), pytest.param(nn.Identity(), marks=EXTENDED)],
    ids=["ReLU", "ReLU6", "Identity"],
)
def test_what_float32_holds_has_eager_s_bits(last: nn.Module) -> None:
    torch.manual_seed(1)
    program, captured = lowered(Dense(exact=True, last=last), torch.randn(2, 3, 9, 11))
    assert left_of(program) == [] and len(program.lists.launches) == 1
    assert list(program.taken.values()).count("batch_norm_int8") > 0
    assert apart(program, captured) == {}


@pytest.mark.parametrize("scales", [pytest.param(scales, marks=EXTENDED) for scales in ("pow2", "float")])
def test_norms_of_any_statistics_have_eager_s_bits(scales: str) -> None:
    torch.manual_seed(2)
    program, captured = lowered(Dense(), torch.randn(1, 3, 65, 97), scales=scales)
    assert left_of(program) == [] and len(program.lists.launches) == 1
    found = apart(program, captured)
    norms = {node.name for node, pattern in program.taken.items() if pattern == "batch_norm_int8"}
    assert norms and not norms & set(found)
    # Convolutions of other scales are within a step.
    assert scales == "float" or not found
    assert all(most <= 1 for _, _, most in found.values()) and sum(count for count, _, _ in found.values()) <= 3


def apart_from_eager(source: float, result: float, residual: float) -> Tensor:
    """By how many steps the card's integers are not eager's, of all and 4,096 channels of random statistics."""
    torch.manual_seed(3)
    count, zero = 4096, 5
    module = norm(count, exact=False).eval()
    x = torch.arange(-128, 128, dtype=torch.float32)
    with torch.no_grad():
        image = ((x - zero) * source).view(1, 1, 8, 32).expand(2, count, 8, 32).contiguous()
        wanted = torch.round(module(image)[0].view(count, 256) * torch.tensor(1 / result)).clamp(-128, 127)
        constants = (source, zero, 133, result, residual, module.eps, count)
        mean, variance = module.running_mean, module.running_var
        assert mean is not None and variance is not None
        words = pack_norm(constants, module.weight, module.bias, mean, variance)
    offset, scale, bias = words.view(-1, 3, 16).transpose(0, 1).reshape(3, -1, 1).double()
    factors = torch.floor(scale / 32) * 2.0 ** -(22 + 4 * torch.remainder(scale, 8))
    made = torch.round((x.double() + offset) * factors + bias * 2.0**-22).clamp(-128, 127)
    return (made - wanted).abs()


@pytest.mark.parametrize(
    ("source", "result"), [(0.037, 0.021), (0.037, 0.05), (0.011, 0.04), (2.0**-5, 2.0**-5), (2.0**-7, 2.0**-4)]
)
def test_the_arithmetic_is_the_norm_s(source: float, result: float) -> None:
    assert not apart_from_eager(source, result, 0.0).any()


def test_without_a_bias_that_is_chosen_for_them_some_integers_are_a_step_away() -> None:
    """As where another map is added before the rounding: 20 of a million at most."""
    found = apart_from_eager(0.037, 0.021, 1e-30)
    assert found.max() == 1 and (found != 0).sum() <= 20e-6 * found.numel()
