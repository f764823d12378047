"""torch.compile(backend="fpga") on device tensors: launches read and write the device's own memory."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fpga_dynamo
from fpga_dynamo.device import extension

GREEDY: dict[str, Any] = {"partition": "greedy"}
STRICT: dict[str, Any] = {"partition": "greedy", "strict": True}


def reference(model: nn.Module, x: Tensor) -> Tensor:
    """Eager mode in float64, on the CPU."""
    result: Tensor = copy.deepcopy(model).cpu().double()(x.cpu().double())
    return result


@pytest.fixture
def cnn() -> nn.Module:
    torch.manual_seed(1)
    layers = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(256, 10)).eval()


@torch.no_grad()
def test_inference_stays_on_the_device(cnn: nn.Module) -> None:
    cnn.to("fpga")
    x = torch.randn(1, 3, 8, 8, device="fpga")
    compiled = torch.compile(cnn, backend="fpga", options=STRICT)
    loaded = extension.start()
    for _ in range(3):
        compiled(x)
    fpga_dynamo.reset_stats()
    loaded.count_fallbacks(True)
    loaded.take_fallbacks()
    result = compiled(x)
    fallbacks = loaded.take_fallbacks()
    loaded.count_fallbacks(False)
    assert result.device == torch.device("fpga:0") and fallbacks == {}
    assert fpga_dynamo.stats()["pl_launches"] == 1 and fpga_dynamo.stats()["ps_nodes"] == 0
    torch.testing.assert_close(result.cpu().double(), reference(cnn, x), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_results_of_host_and_device_tensors_are_bit_identical(cnn: nn.Module) -> None:
    x = torch.randn(2, 3, 8, 8)
    host = torch.compile(cnn, backend="fpga", options=STRICT)(x)
    device = torch.compile(copy.deepcopy(cnn).to("fpga"), backend="fpga", options=STRICT)(x.to("fpga"))
    assert torch.equal(device.cpu(), host)


@torch.no_grad()
def test_changed_weights_are_packed_again(cnn: nn.Module) -> None:
    cnn.to("fpga")
    x = torch.randn(1, 3, 8, 8, device="fpga")
    compiled = torch.compile(cnn, backend="fpga", options=STRICT)
    before = compiled(x)
    for parameter in cnn.parameters():
        parameter.mul_(1.5)
    after = compiled(x)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after.cpu().double(), reference(cnn, x), rtol=1e-4, atol=1e-5)


def test_a_training_step() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    exact = copy.deepcopy(model).double()
    x = torch.randn(4, 1, 8, 8)
    exact(x.double()).square().sum().backward()
    fpga_dynamo.reset_stats()
    torch.compile(model.to("fpga"), backend="fpga", options=GREEDY)(x.to("fpga")).square().sum().backward()
    assert fpga_dynamo.stats()["pl_launches"] == 2
    for mine, other in zip(model.parameters(), exact.parameters(), strict=True):
        assert mine.grad is not None and mine.grad.device.type == "fpga"
        torch.testing.assert_close(mine.grad.cpu().double(), other.grad, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_dynamic_sizes() -> None:
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16)).to("fpga").eval()
    compiled = torch.compile(model, backend="fpga", dynamic=True, options=STRICT)
    for rows in (3, 7, 20):
        x = torch.randn(rows, 16, device="fpga")
        result = compiled(x)
        assert result.device.type == "fpga"
        torch.testing.assert_close(result.cpu().double(), reference(model, x), rtol=1e-4, atol=1e-5)


def test_a_graph_that_moves_its_input() -> None:
    @torch.compile(backend="fpga", options=GREEDY)
    def moved(x: Tensor) -> Tensor:
        return (x.to("fpga") * 2).relu() @ torch.ones(4, 4, device="fpga")

    result = moved(torch.ones(4, 4))
    assert result.device.type == "fpga" and torch.equal(result.cpu(), torch.full((4, 4), 8.0))


def test_mixed_devices_are_refused_in_the_words_of_pytorch() -> None:
    compiled = torch.compile(torch.matmul, backend="fpga")
    with pytest.raises(Exception, match="device"):
        compiled(torch.ones(4, 4, device="fpga"), torch.ones(4, 4))


@torch.no_grad()
def test_autocast_inside_and_outside() -> None:
    model = nn.Linear(16, 16).to("fpga")
    x = torch.randn(4, 16, device="fpga")
    compiled = torch.compile(model, backend="fpga", options=GREEDY)
    with torch.autocast("fpga"):
        result = compiled(x)
        expected = model(x)
    assert result.device.type == "fpga" and result.dtype is torch.bfloat16
    torch.testing.assert_close(result.float().cpu(), expected.float().cpu(), rtol=2e-2, atol=2e-2)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.int64, torch.float16, torch.bfloat16])
def test_other_dtypes(dtype: torch.dtype) -> None:
    x = (torch.arange(12).view(3, 4) % 3).to(dtype)
    compiled = torch.compile(lambda t: torch.where(t > 0, t, t[:1]).t().contiguous(), backend="fpga", options=GREEDY)
    assert torch.equal(compiled(x.to("fpga")).cpu(), torch.where(x > 0, x, x[:1]).t())
