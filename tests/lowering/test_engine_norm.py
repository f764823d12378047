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
def test_any_statistics_are_within_a_step(scales: str) -> None:
    torch.manual_seed(2)
    program, captured = lowered(Dense(), torch.randn(1, 3, 65, 97), scales=scales)
    assert left_of(program) == [] and len(program.lists.launches) == 1
    found = apart(program, captured)
    assert all(most <= 1 for _, _, most in found.values())
    assert sum(count for count, _, _ in found.values()) <= 3


def test_the_arithmetic_is_the_norm_s() -> None:
    """Of all integers, by scales and statistics at random: a step from eager's in 20 of a million at most."""
    torch.manual_seed(3)
    count, source, result, zero = 4096, 0.037, 0.021, 5
    module = norm(count, exact=False).eval()
    x = torch.arange(-128, 128, dtype=torch.float32)
    with torch.no_grad():
        real = module(((x - zero) * source).view(-1, 1, 1, 1).expand(-1, count, 1, 1).contiguous())[:, :, 0, 0]
        wanted = torch.round(torch.relu(real) * torch.tensor(1 / result)).clamp(0, 127)
        constants = (source, zero, 133, result, 0.0, module.eps, count)
        mean, variance = module.running_mean, module.running_var
        assert mean is not None and variance is not None
        words = pack_norm(constants, module.weight, module.bias, mean, variance)
    offset, scale, bias = words.view(-1, 3, 16).transpose(0, 1).reshape(3, -1).double()
    factors = torch.floor(scale / 32) * 2.0 ** -(22 + 4 * torch.remainder(scale, 8))
    made = torch.round((x[:, None].double() + offset) * factors + bias * 2.0**-22).clamp(0, 127)
    difference = (made - wanted).abs()
    assert difference.max() <= 1
    assert (difference != 0).sum() <= 20e-6 * made.numel()
    assert 0.2 < (made > 0).double().mean() < 0.8


def test_a_norm_that_is_not_rounded_behind_is_the_host_s() -> None:
    torch.manual_seed(4)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.MaxPool2d(2), norm(16, exact=False))
    program, _ = lowered(model, torch.randn(1, 3, 9, 9))
    assert "batch_norm_int8" not in program.taken.values()
