"""Batch norms in front of convolutions on the hardware engine, beside eager mode's float32 between two roundings."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers quantized_decomposed)

from fpga_dynamo.frontend.capture import capture
from fpga_dynamo.lowering.ops.engine.int8.norm import NormParameters, pack_norm
from fpga_dynamo.tools.estimate.program import lower_for_engine
from tests.lowering.engine_kit import apart, left_of, little, lowered
from tests.marks import EXTENDED

decomposed = torch.ops.quantized_decomposed


def norm(channels: int, *, exact: bool) -> nn.BatchNorm2d:
    """Statistics and parameters at random, some factors negative; or such that eager mode's float32 makes no error."""
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


def rounded(x: Tensor, scale: float) -> Tensor:
    integers = decomposed.quantize_per_tensor(x, scale, 0, -128, 127, torch.int8)
    return decomposed.dequantize_per_tensor(integers, scale, 0, -128, 127, torch.int8)


class Written(nn.Module):
    """A layer, a norm and a layer, with each rounding written down."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = norm(32, exact=True).eval()
        self.register_buffer("first", torch.randint(-99, 99, (32, 3, 3, 3), dtype=torch.int8))
        self.register_buffer("second", torch.randint(-99, 99, (16, 32, 1, 1), dtype=torch.int8))

    def layer(self, x: Tensor, weight: Tensor, padding: int) -> Tensor:
        real = decomposed.dequantize_per_tensor(weight, 2.0**-8, 0, -127, 127, torch.int8)
        return rounded(nn.functional.conv2d(x, real, padding=padding), 2.0**-4)

    def forward(self, x: Tensor) -> Tensor:
        made = self.layer(rounded(x, 2.0**-5), self.get_buffer("first"), 1)
        return self.layer(rounded(torch.relu(self.norm(made)), 2.0**-4), self.get_buffer("second"), 0)


def test_a_norm_between_two_roundings_has_eager_s_bits() -> None:
    torch.manual_seed(1)
    captured = capture(Written().eval(), (torch.randn(2, 3, 9, 11),))
    program = lower_for_engine(captured.module, little(), captured.static)
    assert left_of(program) == [] and len(program.lists.launches) == 1
    assert "batch_norm_int8" in program.taken.values()
    assert apart(program, captured) == {}


# Most of their time is convert_pt2e's, which looks for batch norms of training where a graph has any.
@pytest.mark.parametrize(
    "last", [pytest.param(last(), marks=EXTENDED) for last in (nn.ReLU, nn.ReLU6, nn.Identity)], ids=str
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
    """By how many steps the card's integers are not eager mode's, of all and 4,096 channels of random statistics."""
    torch.manual_seed(3)
    count, zero = 4096, 5
    module = norm(count, exact=False).eval()
    x = torch.arange(-128, 128, dtype=torch.float32)
    with torch.no_grad():
        image = ((x - zero) * source).view(1, 1, 8, 32).expand(2, count, 8, 32).contiguous()
        wanted = torch.round(module(image)[0].view(count, 256) * torch.tensor(1 / result)).clamp(-128, 127)
        constants = NormParameters(source, zero, 133, result, residual, module.eps, count)
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
