"""Gradients of single layers: on the card, and as near to float64 as eager mode's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fpga_dynamo.frontend.backend import collect_programs
from fpga_dynamo.lowering.ops.convolution.gradient import GradientAxis
from fpga_dynamo.testing.reference import assert_close_to_eager
from tests.lowering.lowering_cases import GREEDY


def gradients(run: Callable[..., Any], module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """Output, gradients of input and parameters, buffers."""
    x = x.clone().requires_grad_()
    y = run(x)
    y.backward(torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape))
    parameters = [parameter.grad for parameter in module.parameters()]
    return [y.detach(), x.grad, *parameters, *(buffer.clone() for buffer in module.buffers())]


def check(module: nn.Module, x: torch.Tensor, *ops: str) -> None:
    """Holds all gradients against float64 and looks that the card runs `ops` of the backward graph."""
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    eager, exact = copy.deepcopy(module), copy.deepcopy(module).double()
    with collect_programs() as programs:
        mine = gradients(torch.compile(module, backend="fpga", options={"partition": "greedy"}), module, x)
    assert_close_to_eager(mine, gradients(eager, eager, x), gradients(exact, exact, x.double()))
    taken = {str(n.target) for p in programs for t in p.card_tasks for n in t.nodes}
    assert {f"aten.{op}.default" for op in ops} <= taken


CONVOLUTIONS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "taps of a row side by side": (nn.Conv2d(5, 7, 3, padding=1), (2, 5, 8, 9)),
    "stride 2": (nn.Conv2d(3, 18, 7, stride=2, padding=3, bias=False), (2, 3, 12, 13)),
    "one pixel": (nn.Conv2d(16, 32, 1), (2, 16, 5, 6)),
    "an image of one pixel": (nn.Conv2d(3, 2, 1, bias=False), (3, 3, 1, 1)),
    "every other pixel": (nn.Conv2d(16, 32, 1, stride=2), (2, 16, 5, 6)),
    "stride and dilation without a common factor": (
        nn.Conv2d(8, 9, (3, 5), dilation=(2, 3), stride=(3, 2), padding=(1, 4)), (2, 8, 15, 19)
    ),
    "groups": (nn.Conv2d(8, 12, 3, groups=2, padding=2, stride=2), (2, 8, 7, 6)),
    "depthwise": (nn.Conv2d(20, 20, 3, groups=20, padding=1, stride=2), (2, 20, 9, 8)),
    "one dimension": (nn.Conv1d(6, 10, 5, stride=2, padding=2), (3, 6, 17)),
    "transposed": (nn.ConvTranspose2d(6, 10, 3, stride=2, padding=1, output_padding=1), (2, 6, 5, 6)),
    "more padding than kernel": (nn.Conv2d(5, 7, 1, padding=1), (2, 5, 4, 4)),
    "gaps between windows": (nn.Conv2d(5, 7, 2, stride=3), (2, 5, 10, 11)),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_gradient_of_a_convolution(name: str) -> None:
    module, size = CONVOLUTIONS[name]
    check(copy.deepcopy(module), torch.randn(size), "convolution_backward")


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
@pytest.mark.parametrize("padding", [0, 1])
def test_an_infinity_in_image_or_gradient_reaches_the_taps_that_it_reaches_in_eager(
    number: float, padding: int
) -> None:
    layer, spoilt = nn.Conv2d(2, 3, (2, 3), padding=padding, bias=False), torch.randn(2, 2, 5, 6)
    spoilt[1, 0, -1, -1] = number
    compiled = torch.compile(layer, backend="fpga", options={"partition": "greedy"})
    for x, scale in ((spoilt, 1.0), (spoilt.nan_to_num(0, 0, 0), number), (spoilt.nan_to_num(0, 0, 0), 1.0)):
        found = []
        for run in (layer, compiled):
            layer.zero_grad()
            y = run(x)
            y.backward(torch.ones_like(y).index_put((torch.tensor(1),) * 4, torch.tensor(scale)))
            found.append(layer.weight.grad)
        torch.testing.assert_close(found[1], found[0], equal_nan=True)


def test_an_infinity_in_a_gradient_that_its_launch_adds_to_another_reaches_what_it_reaches_in_eager() -> None:
    weight = torch.randn(3, 2, 3, 3)
    spoilt = torch.randn(2, 2, 5, 6).index_fill_(3, torch.tensor(0), torch.inf)

    def loss(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, weight, padding=1).sum() + F.conv2d(x.cos(), weight, padding=1).sum() + weight.sin().sum()

    gradients = []
    for run in (torch.compile(loss, backend="fpga", options={"partition": "greedy"}), loss):
        leaf = weight.clone().requires_grad_()
        run(leaf, spoilt).backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients, equal_nan=True)


def test_gradient_of_a_transposed_convolution_padded_by_more_than_its_stride() -> None:
    check(nn.ConvTranspose2d(4, 3, 2, stride=(3, 2), padding=1, output_padding=2, dilation=3), torch.randn(1, 4, 4, 4))


def test_gradient_of_a_convolution_where_pixels_lie_side_by_side_already() -> None:
    x = torch.randn(2, 16, 5, 6).to(memory_format=torch.channels_last)
    layer = nn.Conv2d(16, 32, 1)
    layer.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    check(layer, x, "convolution_backward")


def test_pixels_of_each_phase_of_a_stride() -> None:
    axis = GradientAxis(size=9, out=5, kernel=3, stride=2, padding=1, dilation=1, joined=False)
    assert axis.phases == {0: [(0, 0), (2, 1)], 1: [(1, 0)]}
    assert axis.windows == axis.places == 6
    assert axis.pixels(0) == (1, 4, 1, 2)
    assert axis.pixels(1) == (0, 5, 0, 2)


NORMS: dict[str, tuple[nn.Module, tuple[int, ...], str]] = {
    "batch": (nn.BatchNorm2d(10), (3, 10, 5, 7), "native_batch_norm_backward"),
    "batch of rows": (nn.BatchNorm1d(10), (6, 10), "native_batch_norm_backward"),
    "batch in eval mode": (nn.BatchNorm2d(10).eval(), (3, 10, 5, 7), "native_batch_norm_backward"),
    "layer": (nn.LayerNorm(12), (4, 5, 12), "native_layer_norm_backward"),
    "layer without scale": (nn.LayerNorm((5, 12), elementwise_affine=False), (4, 5, 12), "native_layer_norm_backward"),
    "group": (nn.GroupNorm(2, 12), (3, 12, 4, 5), "native_group_norm_backward"),
    "instance": (nn.InstanceNorm2d(6, affine=True), (3, 6, 4, 5), "native_batch_norm_backward"),
}


@pytest.mark.parametrize("name", NORMS)
def test_gradient_of_a_norm(name: str) -> None:
    module, size, op = NORMS[name]
    check(copy.deepcopy(module), torch.randn(size), op)


def test_batch_norm_of_images_with_channels_innermost() -> None:
    x = torch.randn(3, 32, 5, 7).to(memory_format=torch.channels_last)
    check(nn.BatchNorm2d(32), x, "_native_batch_norm_legit_functional", "native_batch_norm_backward")


def test_rows_of_equal_values_are_as_far_from_their_mean_as_eager_says() -> None:
    """A mean that is off by a rounding would be multiplied by 1 / sqrt(eps), 316."""
    x = torch.randn(64, 1).expand(64, 3).contiguous().requires_grad_()
    y = torch.compile(nn.LayerNorm(3), backend="fpga", options={"partition": "greedy"})(x)
    assert y.grad_fn is not None and not y.any()


class Functional(nn.Module):
    def __init__(self, formula: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.formula = formula

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.formula(x)


ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu_backward": F.gelu,
    "gelu_backward of tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu_backward": F.silu,
    "hardswish_backward": F.hardswish,
    "hardsigmoid_backward": F.hardsigmoid,
    "hardtanh_backward": F.relu6,
    "elu_backward": F.selu,
    "elu_backward in place": lambda x: F.elu_(x * 1),
    "softplus_backward": lambda x: F.softplus(x, beta=2, threshold=3),
    "leaky_relu_backward": F.leaky_relu,
    "sigmoid_backward": F.sigmoid,
    "tanh_backward": F.tanh,
    "threshold_backward": F.relu,
    "_softmax_backward_data": lambda x: F.softmax(x, -1),
    "_softmax_backward_data of columns": lambda x: F.softmax(x, 0),
    "_log_softmax_backward_data": lambda x: F.log_softmax(x, -1),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradient_of_an_activation(name: str) -> None:
    x = torch.cat([torch.randn(3, 20), torch.tensor([[-3.0, 0.0, 3.0, 6.0, -20.0, 20.0, 1.5, -1.5, 0.5, -0.5] * 2])])
    check(Functional(ACTIVATIONS[name]), x, name.partition(" ")[0])


@pytest.mark.parametrize("causal", [False, True])
def test_gradient_of_attention(causal: bool) -> None:
    def attend(x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in x.chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    check(Functional(attend), torch.randn(2, 5, 48), "bmm", "exp")


@pytest.mark.parametrize("causal", [False, True])
def test_gradient_of_attention_of_16_bits(causal: bool) -> None:
    """Beside float64 it is no further off than twice what eager is, and no part of it is left to the host."""
    torch.manual_seed(0)
    inputs = [torch.randn(2, 3, 21, 16, dtype=torch.bfloat16) for _ in range(3)]

    def gradients(attend: Callable[..., torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
        given = [x.detach().to(dtype, copy=True).requires_grad_() for x in inputs]
        attend(*given, is_causal=causal).square().sum().backward()
        return torch.cat([x.grad.double().flatten() for x in given])  # type: ignore[union-attr]

    attend = F.scaled_dot_product_attention
    with collect_programs() as programs:
        found = gradients(torch.compile(attend, backend="fpga", options={**GREEDY, "strict": True}), torch.bfloat16)
    exact, eager = gradients(attend, torch.float64), gradients(attend, torch.bfloat16)
    assert (found - exact).norm() <= 2 * (eager - exact).norm()
    assert [len(program.card_tasks) for program in programs] == [1, 1]


def test_gradient_of_attention_that_masks_a_whole_row() -> None:
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    mask[2] = False
    x = torch.randn(2, 2, 5, 8)
    check(Functional(lambda t: F.scaled_dot_product_attention(t, t * 2, t + 1, attn_mask=mask)), x, "bmm")


def test_gradient_of_attention_with_shared_heads() -> None:
    def attend(x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x[:, :2], x[:, 2:], enable_gqa=True)

    check(Functional(attend), torch.randn(2, 4, 5, 8), "bmm")


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_gradient_of_the_squared_error(reduction: str) -> None:
    target = torch.randn(6, 10)
    check(Functional(lambda x: F.mse_loss(x, target.to(x.dtype), reduction=reduction)), torch.randn(6, 10))


PARTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a slice of channels": lambda x: x[:, 1:4] * 2,
    "rows from the end": lambda x: x[:, :, -3:-1] + 1,
    "more than there is": lambda x: x[:, :, :, 2:100] * 2,
    "one channel": lambda x: x[:, -2] * 2,
    "one of three": lambda x: x.unflatten(1, (3, 2)).unbind(1)[2] * x.unflatten(1, (3, 2))[:, 0],
}


@pytest.mark.parametrize("name", PARTS)
def test_gradient_of_a_part(name: str) -> None:
    x = torch.randn(2, 6, 5, 4)
    check(Functional(PARTS[name]), x, "constant_pad_nd")
    check(Functional(PARTS[name]), x.to(memory_format=torch.channels_last), "constant_pad_nd")


def test_gradient_of_every_second_row() -> None:
    check(Functional(lambda x: x[:, :, ::2] * 2), torch.randn(2, 6, 5, 4))
