"""Models on a card at the other end of a network: results, weights that are sent once, lost connections."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fpga_dynamo
from fpga_dynamo.device_address import parse
from fpga_dynamo.errors import DeviceError, OptionError
from fpga_dynamo.runtime.cards.card import opened_cards
from fpga_dynamo.runtime.drivers.remote.link import Link
from fpga_dynamo.runtime.observe.counters import stats
from fpga_dynamo.testing.network import Network
from tests.backend.backend_kit import on_card
from tests.card_server.card_server_kit import KINDS, Served, serving, status
from tests.driver.xrt_kit import ROOT


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("server"), kind=request.param) as running:
        yield running


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def through(network: Network, server: Served) -> str:
    return f"tcp://127.0.0.1:{network.port}/0?token-file={server.token_file}"


def convolutions() -> Any:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 256, 64)]
    return nn.Sequential(*layers).eval()


IMAGE = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_results_are_those_of_a_local_card(server: Served) -> None:
    model = convolutions()
    expected = on_card(model, strict=True)(IMAGE)
    torch._dynamo.reset()
    before = stats()["pl_launches"]
    compiled = on_card(model, strict=True, device=server.device())
    for _ in range(3):
        assert torch.equal(compiled(IMAGE), expected)
    assert stats()["pl_launches"] == before + 3


def test_training_and_dynamic_sizes(server: Served) -> None:
    results = []
    for options in ({}, {"device": server.device()}):
        torch._dynamo.reset()
        torch.manual_seed(2)
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
        compiled = torch.compile(
            model, backend="fpga", dynamic=True, options={"partition": "greedy", "strict": True, **options}
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for rows in (3, 5, 9):
            optimizer.zero_grad()
            compiled(torch.arange(rows * 8.0).reshape(rows, 8) / 50).square().sum().backward()
            optimizer.step()
        results.append([parameter.detach().clone() for parameter in model.parameters()])
    assert all(map(torch.equal, *results))


@torch.no_grad()
def test_a_call_is_one_request(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = on_card(convolutions(), strict=True, device=server.device())
    compiled(IMAGE)
    operations, request = [], Link.request

    def counted(self: Link, operation: str, **fields: Any) -> dict[str, Any]:
        operations.append(operation)
        return request(self, operation, **fields)

    time.sleep(1)  # until the server knows what an earlier test has dropped
    monkeypatch.setattr(Link, "request", counted)
    for _ in range(5):
        compiled(IMAGE)
    assert operations == ["execute"] * 5


@torch.no_grad()
def test_weights_are_sent_once(server: Served) -> None:
    model = convolutions()
    model[4].weight.mul_(3)  # of no other test
    size = 4 * 64 * 32 * 256
    with Network(server.port) as network:
        device = through(network, server)
        on_card(model, strict=True, device=device)(IMAGE)
        first = network.sent
        assert first > size
        torch._dynamo.reset()
        on_card(model, strict=True, device=device)(IMAGE)  # a second compilation
        network.cut()
        torch._dynamo.reset()
        again = on_card(model, device=device)
        with warnings.catch_warnings():  # a launch may be the first to meet the lost connection
            warnings.simplefilter("ignore", RuntimeWarning)
            again(IMAGE)
        assert torch.equal(again(IMAGE), on_card(model, strict=True)(IMAGE))  # another connection
        assert network.sent - first < size / 4


@torch.no_grad()
def test_a_lost_connection_is_one_error_and_the_next_call_is_right(server: Served) -> None:
    model = convolutions()
    expected = on_card(model, strict=True)(IMAGE)
    torch._dynamo.reset()
    with Network(server.port) as network:
        compiled = on_card(model, strict=True, device=through(network, server))
        for _ in range(3):
            assert torch.equal(compiled(IMAGE), expected)
            network.cut()
            with pytest.raises(
                DeviceError, match=rf"card server 127\.0\.0\.1:{network.port} was lost \(.*\)"
            ) as caught:
                compiled(IMAGE)
            assert str(caught.value).count("\n") == 0
            assert torch.equal(compiled(IMAGE), expected)
        model[0].weight.mul_(2)
        assert torch.equal(compiled(IMAGE), on_card(model, strict=True)(IMAGE))


@torch.no_grad()
def test_without_strict_a_lost_connection_falls_back_to_eager_mode(server: Served) -> None:
    model = convolutions()
    with Network(server.port) as network:
        compiled = on_card(model, device=through(network, server))
        expected = compiled(IMAGE)
        network.cut()
        with pytest.warns(RuntimeWarning, match="a launch failed, and its segment ran in eager mode instead"):
            torch.testing.assert_close(compiled(IMAGE), expected)
        before = stats()["pl_launches"]
        assert torch.equal(compiled(IMAGE), expected)
        assert stats()["pl_launches"] == before + 1


@torch.no_grad()
def test_a_server_that_is_started_again_is_used_again(tmp_path: Path) -> None:
    model = convolutions()
    with serving(tmp_path) as first:
        port = first.port
        compiled = on_card(model, strict=True, device=first.device())
        expected = compiled(IMAGE)
        first.kill()
        with pytest.raises(DeviceError, match="was lost"):
            compiled(IMAGE)
        with pytest.raises(DeviceError, match=f"127.0.0.1:{port}"):
            compiled(IMAGE)
    with serving(tmp_path, port=port):
        assert torch.equal(compiled(IMAGE), expected)
        del compiled


@torch.no_grad()
def test_threads_and_several_models_at_once(server: Served) -> None:
    model, other = convolutions(), nn.Sequential(nn.Linear(64, 32), nn.Tanh()).eval()
    compiled, second = (on_card(m, strict=True, device=server.device()) for m in (model, other))
    rows = torch.randn(4, 64)
    expected, wanted = compiled(IMAGE), second(rows)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with torch.no_grad():
                for _ in range(10):
                    assert torch.equal(compiled(IMAGE), expected)
                    assert torch.equal(second(rows), wanted)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures and not any(thread.is_alive() for thread in threads)


CLIENT = """
import sys, torch
from torch import nn
torch.manual_seed(int(sys.argv[2]))
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8)).eval()
options = {"partition": "greedy", "strict": True}
rows = torch.randn(16, 64)
with torch.no_grad():
    expected = torch.compile(model, backend="fpga", options=options)(rows)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="fpga", options={**options, "device": sys.argv[1]})
    for _ in range(50):
        assert torch.equal(compiled(rows), expected)
print("right", flush=True)
sys.stdin.readline()
"""


def test_two_clients_at_once(server: Served) -> None:
    clients = [
        subprocess.Popen(
            [sys.executable, "-c", CLIENT, server.device(), str(seed)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )
        for seed in (0, 1)
    ]  # fmt: skip
    for client in clients:
        assert client.stdout is not None and client.stdout.readline() == "right\n"
    before = status(server)
    assert before["clients"] >= 3
    clients[0].kill()
    clients[0].wait()
    assert clients[1].communicate("\n", timeout=60)[0] == "" and clients[1].returncode == 0


@torch.no_grad()
def test_a_model_that_is_deleted_leaves_nothing_on_the_card(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        model = convolutions()
        compiled = on_card(model, strict=True, device=server.device())
        compiled(IMAGE)
        before = status(server)["bytes"]
        assert before > 1 << 21
        del model, compiled
        torch._dynamo.reset()
        gc.collect()
        (card,) = (card for card in opened_cards() if card.key == (parse(server.device()).driver, 0))
        card.weights.collect()
        end = time.monotonic() + 20
        while status(server)["bytes"] > before - (1 << 21):
            assert time.monotonic() < end
            time.sleep(0.05)


@torch.no_grad()
def test_the_server_offers_its_own_xclbin(tmp_path: Path) -> None:
    import xclbin_build

    own = xclbin_build.cached("split", "emu")
    with serving(tmp_path, "--xclbin", str(own), "--only-own-xclbin") as server:
        explained = fpga_dynamo.explain(
            convolutions(), IMAGE, options={"partition": "greedy", "device": server.device()}
        )
        assert "conv" in str(explained)
        compiled = on_card(convolutions(), strict=True, device=server.device())
        assert torch.equal(compiled(IMAGE), on_card(convolutions(), strict=True, xclbin=str(own))(IMAGE))
        torch._dynamo.reset()
        refused = on_card(convolutions(), strict=True, device=server.device(), recipe="single")
        with pytest.raises(Exception, match="loads no xclbin but its own"):
            refused(IMAGE)


@pytest.mark.parametrize(
    ("device", "sentence"),
    [
        ("card", "must be the index of a card or an address"),
        ("tcp://host/0", "no address of a card"),
        ("tcp://host:99999/0", "no address of a card"),
        ("tcp://host:1/x", "no address of a card"),
        ("http://host:1/0", "no address of a card"),
        ("tcp://host:1/0?token=a", "no address of a card"),
        ("tcp://user@host:1/0", "no address of a card"),
        ("tcp://host:1/-1", "not the index of a card"),
        ("tcp://[::1:1/0", "no address of a card"),
    ],
)
def test_an_address_that_is_none_is_an_error_of_the_option(device: str, sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        fpga_dynamo.Options.parse({"device": device})


def test_a_driver_beside_an_address_is_refused() -> None:
    given: dict[str, Any] = {"device": "tcp://[::1]:5/0", "driver": "xrt"}
    with pytest.raises(OptionError, match="'driver' has no effect with a card server"):
        fpga_dynamo.Options.parse(given)


def test_plain_kernels_in_eager_mode_and_in_a_graph(server: Served) -> None:
    source = ROOT / "examples/plain_kernel/vadd.cpp"
    add = fpga_dynamo.kernel(source, outputs={"out": "like a"}, sizes={"count": "a.numel()"}, device=server.device())
    a, b = torch.arange(1000.0), torch.full((1000,), 0.5)
    assert torch.equal(add(a, b), a + b)

    def scaled(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.tanh(add(a, b)) * 2

    expected = on_card(scaled, strict=True)(a, b)
    torch._dynamo.reset()
    with Network(server.port) as network:
        compiled = on_card(scaled, strict=True, device=through(network, server))
        assert torch.equal(compiled(a, b), expected)
        network.cut()
        with pytest.raises(DeviceError, match="was lost"):
            compiled(a, b)
        assert torch.equal(compiled(a, b), expected)
