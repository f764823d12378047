"""`fpga-dynamo serve --ray` on two nodes of a Ray cluster, both on this machine; `make ray` installs Ray."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import fpga_dynamo
from fpga_dynamo.tools import cli
from tests.ray_kit import Cluster, two_nodes
from tests.serving.serving_kit import Server, serving
from tests.serving.test_serving_load import Load, rows

pytestmark = pytest.mark.slow
__all__ = ["rows"]  # a fixture


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with two_nodes() as made:
        yield made


def _until(holds: Callable[[], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def test_two_nodes_of_which_one_is_killed_under_load(rows: Path, cluster: Cluster) -> None:
    with serving(rows, "--replicas", "2", "--ray", cluster.address, log=True) as server:
        assert server.ready(2) and not server.replicas(), "both are actors"
        x = torch.randn(4, 16)
        assert torch.equal(torch.from_numpy(server.infer("rows", "input", x.numpy())[1][0]), fpga_dynamo.load(rows)(x))
        load = Load(server, fpga_dynamo.load(rows))
        with load.running():
            load.wait(50)
            cluster.kill_second()
            load.wait(50)
            _until(lambda: _restarts(server) >= 1 and server.ready(2), 120, "the replica does not come back")
            load.wait(50)
        assert not load.wrong
        assert set(load.statuses) <= {200, 503}


def _restarts(server: Server) -> int:
    text = server.request("GET", "/metrics")[2].decode()
    (line,) = (line for line in text.splitlines() if line.startswith("fpga_dynamo_replica_restarts_total "))
    return int(float(line.split()[1]))


def test_a_model_that_cannot_be_opened(cluster: Cluster, rows: Path, tmp_path: Path, capfd: Any) -> None:
    for file in rows.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "weights.bin").write_bytes(b"")
    assert cli.main(["serve", str(tmp_path), "--port", "0", "--ray", cluster.address]) == 2
    assert "it is truncated" in capfd.readouterr().err


def test_an_address_without_a_cluster(rows: Path, capfd: Any) -> None:
    for address in ("127.0.0.1:1", "nowhere:port", "127.0.0.1:99999"):
        assert cli.main(["serve", str(rows), "--port", "0", "--ray", address]) == 2
        error = " ".join(capfd.readouterr().err.split())
        assert f"--ray '{address}'" in error and "ray start --head" in error
