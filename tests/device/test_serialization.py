"""Saving, loading, copying and pickling of device tensors: bit-identical, and in the right place."""

from __future__ import annotations

import copy
import io
import pickle
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from torch import nn


def saved(value: object) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("weights_only", [True, False])
def test_load_puts_tensors_where_they_were(dtype: torch.dtype, weights_only: bool) -> None:
    tensor = (torch.randn(3, 4) * 3).to(dtype)
    loaded = torch.load(saved({"it": tensor.to("fpga"), "view": tensor.to("fpga").t()[1:]}), weights_only=weights_only)
    assert loaded["it"].device == loaded["view"].device == torch.device("fpga:0")
    assert torch.equal(loaded["it"].cpu(), tensor) and torch.equal(loaded["view"].cpu(), tensor.t()[1:])


@pytest.mark.parametrize("here, there", [("fpga", "cpu"), ("cpu", "fpga"), ("cpu", "fpga:0"), ("fpga", "fpga")])
def test_map_location(here: str, there: str) -> None:
    tensor = torch.randn(3, 4)
    loaded = torch.load(saved(tensor.to(here)), map_location=there)
    assert loaded.device.type == torch.device(there).type and torch.equal(loaded.cpu(), tensor)


def test_views_still_share_memory() -> None:
    base = torch.zeros(4, device="fpga")
    first, second = torch.load(saved([base, base[2:]]))
    second.fill_(1)
    assert first.tolist() == [0, 0, 1, 1]


def test_a_model_and_its_optimizer() -> None:
    model = nn.Linear(3, 2).to("fpga")
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3, device="fpga")).sum().backward()
    optimizer.step()
    state = torch.load(saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()}))
    other = nn.Linear(3, 2).to("fpga")
    other.load_state_dict(state["model"])
    torch.optim.Adam(other.parameters()).load_state_dict(state["optimizer"])
    assert torch.equal(other.weight, model.weight)
    host = nn.Linear(3, 2)
    host.load_state_dict(state["model"])
    assert torch.equal(host.weight, model.weight.cpu())


def test_deepcopy_and_pickle() -> None:
    tensor = torch.randn(3, 4).to("fpga")
    for made in (copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor))):
        assert made.device.type == "fpga" and made.data_ptr() != tensor.data_ptr() and torch.equal(made, tensor)
    parameter = copy.deepcopy(nn.Parameter(tensor))
    assert isinstance(parameter, nn.Parameter) and torch.equal(parameter, tensor)


def test_a_place_without_a_card() -> None:
    with pytest.raises(RuntimeError, match="on FPGA device 7 but"):
        torch.load(saved(torch.ones(2)), map_location="fpga:7")


@pytest.mark.parametrize("kind", [torch.Tensor, nn.Parameter])
def test_sending_to_a_process_is_refused(kind: type[torch.Tensor]) -> None:
    with pytest.raises(RuntimeError, match=r"a tensor on fpga:0 cannot be sent to another process.*tensor.cpu\(\)"):
        ForkingPickler.dumps(kind(torch.ones(3, device="fpga")))
    sent = ForkingPickler.loads(ForkingPickler.dumps(kind(torch.ones(3))))
    assert torch.equal(sent, torch.ones(3)) and isinstance(sent, kind)
