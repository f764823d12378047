"""Fake quantization, and 8-bit weights times a scale, are int8 products; with powers of two they have the same bits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fpga_dynamo

FINE, COARSE = 2.0**-5, 2.0**-3
SIGNED, UNSIGNED = (-128, 127), (0, 255)


def rounded(x: Tensor, scale: float = FINE, zero: int = 0, limits: tuple[int, int] = SIGNED) -> Tensor:
    return torch.fake_quantize_per_tensor_affine(x, scale, zero, *limits)


def by_channel(weight: Tensor, scale: float = 2.0**-9) -> Tensor:
    count = weight.shape[0]
    zeros = torch.zeros(count, dtype=torch.int32)
    return torch.fake_quantize_per_channel_affine(weight, torch.full((count,), scale), zeros, 0, -127, 127)


class Trained(nn.Module):
    """A convolution as quantization-aware training leaves it, unconverted."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 16, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.conv2d(rounded(x), by_channel(self.conv.weight), padding=1)
        return rounded(y.relu(), COARSE, 0, UNSIGNED)


class Stored(nn.Module):
    """A linear layer whose weight is stored in 8 bits, in the spelling `weight(w, scale)`."""

    w: Tensor
    scale: Tensor

    def __init__(
        self, weight: Callable[[Tensor, Tensor], Tensor], *, unsigned: bool = False, shape: tuple[int, ...] = (64, 1)
    ) -> None:
        super().__init__()
        low, high, dtype = (0, 256, torch.uint8) if unsigned else (-127, 128, torch.int8)
        self.register_buffer("w", torch.randint(low, high, (64, 32), dtype=dtype))
        self.register_buffer("scale", 2.0 ** torch.randint(-10, -7, shape).float())
        self.weight = weight

    def forward(self, x: Tensor) -> Tensor:
        return rounded(F.linear(rounded(x, zero=3), self.weight(self.w, self.scale)).relu(), COARSE)


def from_unsigned(w: Tensor, scale: Tensor) -> Tensor:
    return (w.to(scale.dtype) - 128) * scale


STORED: dict[str, Callable[[], nn.Module]] = {
    "by row": lambda: Stored(lambda w, scale: w.float() * scale),
    "scale first": lambda: Stored(lambda w, scale: scale * w.to(torch.float32)),
    "one scale": lambda: Stored(lambda w, scale: w.float() * scale, shape=(1,)),
    "transposed behind": lambda: Stored(lambda w, scale: (w.t().float() * scale).t(), shape=(64,)),
    "unsigned": lambda: Stored(from_unsigned, unsigned=True),
}


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def products(model: nn.Module, x: Tensor) -> list[str]:
    """How each product is computed."""
    with torch.no_grad():
        return [node.how for graph in fpga_dynamo.explain(model, x).graphs for node in graph.nodes if node.macs]


def assert_int8(model: nn.Module, x: Tensor) -> None:
    with torch.no_grad():
        assert torch.equal(torch.compile(model, backend="fpga")(x), model(x))
        explained = fpga_dynamo.explain(model, x)
    assert explained.pl_launches == 1 and explained.node_offload == 1, str(explained)
    assert all(how.startswith("int8") for how in products(model, x))


def test_fake_quantization_is_quantization() -> None:
    assert_int8(Trained(), torch.randn(2, 8, 12, 12) * 3)


@pytest.mark.parametrize("name", STORED)
def test_stored_weights(name: str) -> None:
    assert_int8(STORED[name](), torch.randn(4, 32) * 3)


def test_a_range_beyond_8_bits_stays_as_it_is() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.fake_quantize_per_tensor_affine(x, FINE, 0, -1000, 1000) * 2

    x = torch.randn(64) * 40
    assert torch.equal(torch.compile(model, backend="fpga")(x), model(x))


def test_gradients_read_the_mask() -> None:
    """In training a fake quantization passes gradients where it did not clamp."""
    x = torch.linspace(-8, 8, 65).requires_grad_()
    y = x.detach().clone().requires_grad_()
    torch.compile(lambda x: rounded(x).square(), backend="fpga")(x).sum().backward()
    rounded(y).square().sum().backward()
    assert x.grad is not None and y.grad is not None
    assert torch.equal(x.grad, y.grad) and not x.grad[0] and x.grad[20]


@pytest.mark.parametrize("shape", [(64, 32), (1, 32)], ids=["each element", "each input channel"])
def test_other_scales_of_stored_weights_give_eager_s_values(shape: tuple[int, ...]) -> None:
    model, x = Stored(lambda w, scale: w.float() * scale, shape=shape), torch.randn(4, 32)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="fpga")(x), model(x), rtol=0, atol=COARSE)


def test_weights_that_are_loaded_later_count() -> None:
    model, x = Stored(lambda w, scale: w.float() * scale), torch.randn(4, 32)
    with torch.no_grad():
        compiled = torch.compile(model, backend="fpga")
        compiled(x)
        model.load_state_dict(Stored(lambda w, scale: w).state_dict())
        assert torch.equal(compiled(x), model(x))
