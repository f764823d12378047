"""``torch.fpga``, ``torch.accelerator``, streams, events, random numbers and autocast."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from fpga_dynamo import OptionError
from tests.device.device_kit import fpga


def test_the_device_is_the_accelerator() -> None:
    assert fpga.is_available() and fpga.is_initialized()
    assert fpga.device_count() == torch.accelerator.device_count() >= 1
    assert torch.accelerator.current_accelerator() == torch.device("fpga")
    assert fpga.current_device() == 0 == torch.accelerator.current_device_index()
    fpga.synchronize()
    torch.accelerator.synchronize()


def test_methods_of_tensors_modules_and_storages() -> None:
    tensor: Any = torch.ones(2)
    tensor = tensor.fpga()
    assert tensor.is_fpga and tensor.device == torch.device("fpga:0")
    layer: Any = nn.Linear(2, 2)
    assert layer.fpga().weight.is_fpga
    storage: Any = torch.ones(2).untyped_storage()
    assert torch.ones(2).device.type != "fpga" and storage.fpga().device == torch.device("fpga:0")


def test_device_as_a_context() -> None:
    with fpga.device("fpga:0"), torch.device("fpga"):
        assert torch.ones(2).device.type == "fpga"
    with fpga.device(None):
        assert fpga.current_device() == 0
    with pytest.raises(RuntimeError, match="there is no device fpga:9"):
        fpga.set_device(9)
    with pytest.raises(ValueError, match="expected a device of type 'fpga', got cpu"):
        fpga.set_device("cpu")


def test_streams_and_events() -> None:
    stream, default = fpga.Stream(), fpga.default_stream()
    begin, end = fpga.Event(enable_timing=True), fpga.Event(enable_timing=True)
    assert fpga.current_stream() == default != stream
    with stream:
        assert fpga.current_stream() == stream
        begin.record()
        (torch.ones(64, 64, device="fpga") @ torch.ones(64, 64, device="fpga")).sum()
        end.record()
    assert fpga.current_stream() == default
    stream.synchronize()
    stream.wait_event(end)
    assert end.query() and stream.query() and begin.elapsed_time(end) > 0


@pytest.mark.parametrize("draw", ["rand", "randn", "bernoulli", "randperm", "dropout"])
def test_random_numbers_are_those_of_the_cpu(draw: str) -> None:
    def numbers(device: str) -> torch.Tensor:
        torch.manual_seed(7)
        if draw == "randperm":
            return torch.randperm(50, device=device)
        if draw == "bernoulli":
            return torch.full((50,), 0.4, device=device).bernoulli()
        if draw == "dropout":
            return nn.functional.dropout(torch.ones(50, device=device), 0.3)
        made: torch.Tensor = getattr(torch, draw)(50, device=device)
        return made

    assert torch.equal(numbers("fpga").cpu(), numbers("cpu"))


def test_the_two_generators_are_independent() -> None:
    fpga.manual_seed_all(3)
    state, host = fpga.get_rng_state(), torch.get_rng_state()
    first = [torch.rand(3, device="fpga"), nn.functional.dropout(torch.ones(30, device="fpga"))]
    assert torch.equal(torch.get_rng_state(), host)
    fpga.set_rng_state(state)
    again = [torch.rand(3, device="fpga"), nn.functional.dropout(torch.ones(30, device="fpga"))]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert fpga.initial_seed() == 3


def test_a_generator_of_ones_own() -> None:
    mine = torch.Generator(device="fpga").manual_seed(5)
    copy = mine.clone_state()
    expected = torch.rand(4, generator=torch.Generator().manual_seed(5))
    assert torch.equal(torch.rand(4, device="fpga", generator=mine).cpu(), expected)
    assert torch.equal(torch.rand(4, device="fpga", generator=copy).cpu(), expected)


def test_fork_rng_restores_the_state() -> None:
    torch.manual_seed(1)
    with torch.random.fork_rng(device_type="fpga"):
        torch.rand(5, device="fpga")
    assert torch.equal(torch.rand(5, device="fpga").cpu(), torch.rand(5, generator=torch.Generator().manual_seed(1)))


def test_autocast_computes_in_bfloat16() -> None:
    layer, x = nn.Linear(5, 3).to("fpga"), torch.randn(4, 5, device="fpga")
    with torch.autocast("fpga"):
        y = layer(x)
        assert y.dtype is torch.bfloat16
        assert y.softmax(-1).dtype is torch.float32
        assert torch.cat([y, x[:, :3]]).dtype is torch.float32
    with torch.autocast("cpu"):
        assert layer(x).dtype is torch.float32


def test_options_are_checked_and_fixed_after_the_first_use() -> None:
    with pytest.raises(OptionError, match="device 'fpga' has no option 'policy'"):
        fpga.set_options({"policy": "eft"})
    with pytest.raises(OptionError, match="cannot change after its first use"):
        fpga.set_options({"driver": "pyxrt"})
