"""`fpga_dynamo.load` of a model on a card at the other end of a network."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import fpga_dynamo
from fpga_dynamo.errors import DeviceError, OptionError
from fpga_dynamo.runtime.drivers.remote.link import Link
from fpga_dynamo.testing.network import Network
from tests.card_server.card_server_kit import KINDS, Served, serving, status
from tests.deployment.deployment_kit import Encoder, SmallCnn


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("server"), kind=request.param) as running:
        yield running


class Kinds(nn.Module):
    """int64 and bool cross the network as the card's int32 and float32."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 1, n.clamp(-3, 3), x > 0, n.float() * x


def test_bits_of_a_local_card(server: Served, tmp_path: Path) -> None:
    torch.manual_seed(0)
    cases: list[tuple[nn.Module, tuple[torch.Tensor, ...], Any]] = [
        (SmallCnn().eval(), (torch.randn(1, 3, 8, 8),), None),
        (Encoder().eval(), (torch.randint(50, (2, 9)),), {"tokens": {1: Dim("length", max=64)}}),
        (Kinds().eval(), (torch.randn(4, 300), torch.randint(-9, 9, (4, 300))), None),
    ]
    for number, (model, example, shapes) in enumerate(cases):
        path = fpga_dynamo.export(model, example, tmp_path / f"{number}", dynamic_shapes=shapes)
        local, remote = fpga_dynamo.load(path), fpga_dynamo.load(path, device=server.device())
        for _ in range(2):
            torch.testing.assert_close(remote(*example), local(*example), rtol=0, atol=0)
        if shapes:
            longer = torch.randint(50, (2, 33))
            assert torch.equal(remote(longer), local(longer))


def test_a_call_is_one_request(server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = torch.randn(4, 8), torch.randint(-9, 9, (4, 8))
    path = fpga_dynamo.export(Kinds().eval(), example, tmp_path / "model")
    remote = fpga_dynamo.load(path, device=server.device())
    remote(*example)
    operations, request = [], Link.request

    def counted(self: Link, operation: str, **fields: Any) -> dict[str, Any]:
        operations.append(operation)
        return request(self, operation, **fields)

    monkeypatch.setattr(Link, "request", counted)
    for _ in range(3):
        remote(*example)
    assert operations == ["execute"] * 3


def test_a_lost_connection_is_one_error_and_the_next_call_is_right(server: Served, tmp_path: Path) -> None:
    x, state = torch.randn(1, 3, 8, 8), SmallCnn().eval().state_dict()
    path = fpga_dynamo.export(SmallCnn().eval(), (x,), tmp_path / "model")
    local = fpga_dynamo.load(path)
    with Network(server.port) as network:
        address = f"tcp://127.0.0.1:{network.port}/0?token-file={server.token_file}"
        remote = fpga_dynamo.load(path, device=address)
        for _ in range(2):
            expected = local(x)["logits"]
            for _ in range(2):
                assert torch.equal(remote(x)["logits"], expected)
                network.cut()
                with pytest.raises(DeviceError, match="was lost") as caught:
                    remote(x)
                assert "\n" not in str(caught.value)
                assert torch.equal(remote(x)["logits"], expected)
            remote.load_state_dict(state)  # stays across connections
            local.load_state_dict(state)


def test_threads(server: Served, tmp_path: Path) -> None:
    x = torch.randn(8, 1, 3, 8, 8)
    path = fpga_dynamo.export(SmallCnn().eval(), (x[0],), tmp_path / "model")
    local, remote = fpga_dynamo.load(path), fpga_dynamo.load(path, device=server.device())
    expected = [local(each)["logits"] for each in x]
    found: list[list[torch.Tensor]] = [[] for _ in expected]

    def work(number: int) -> None:
        for _ in range(5):
            found[number].append(remote(x[number])["logits"])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(expected))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for results, right in zip(found, expected, strict=True):
        assert len(results) == 5
        assert all(torch.equal(result, right) for result in results)


def idle_bytes(server: Served) -> int:
    """What lies at the server once the models of earlier tests have gone."""
    gc.collect()
    seen = [status(server)["bytes"]]
    while len(seen) < 5 or len(set(seen[-5:])) > 1:
        time.sleep(0.05)
        seen.append(status(server)["bytes"])
    return int(seen[-1])


def test_a_model_that_is_deleted_leaves_nothing_at_the_server(server: Served, tmp_path: Path) -> None:
    x = torch.randn(2, 1024)
    path = fpga_dynamo.export(nn.Linear(1024, 1024).eval(), (x,), tmp_path / "model")
    before = idle_bytes(server)
    remote = fpga_dynamo.load(path, device=server.device())
    remote(x)
    assert status(server)["bytes"] > before + (4 << 20)
    del remote
    end = time.monotonic() + 20
    while status(server)["bytes"] > before:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_mistakes_are_one_sentence(server: Served, tmp_path: Path) -> None:
    path = fpga_dynamo.export(nn.Linear(4, 3).eval(), (torch.randn(2, 4),), tmp_path / "linear")
    for device, kind, sentence in (
        ("card", OptionError, "no address of a card"),
        (f"{server.address}/7?token-file={server.token_file}", DeviceError, "has no card 7"),
        (f"tcp://127.0.0.1:1/0?token-file={server.token_file}", DeviceError, "cannot be reached"),
        (f"{server.address}/0?token-file=/none", OptionError, "token file /none cannot be read"),
    ):
        with pytest.raises(kind, match=sentence) as caught:
            fpga_dynamo.load(path, device=device)
        assert "\n" not in str(caught.value)
    with pytest.raises(fpga_dynamo.ModelFileError, match=r"model\.json' cannot be read"):
        fpga_dynamo.load(tmp_path, device=server.device())
    with pytest.raises(fpga_dynamo.ModelFileError):
        fpga_dynamo.load(tmp_path / "nothing", device=server.device())
    remote = fpga_dynamo.load(path, device=server.device())
    with pytest.raises(ValueError, match="must have shape"):
        remote(torch.randn(3, 4))
