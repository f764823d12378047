"""Servers under load: a replica that is killed, and the end by SIGTERM."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import fpga_dynamo
from tests.marks import EXTENDED
from tests.serving.serving_kit import Server, serving

pytest.importorskip("starlette")
pytestmark = [*EXTENDED]


class Load:
    """Threads that ask for rows, each with another content, and compare the answers."""

    def __init__(self, server: Server, expected: fpga_dynamo.LoadedModel) -> None:
        self._server, self._expected = server, expected
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(seed,)) for seed in range(6)]
        self.statuses: list[int] = []
        self.wrong: list[np.ndarray] = []

    def _ask(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        while not self._stop.is_set():
            array = draw.standard_normal((2, 16), np.float32)
            try:
                status, results = self._server.infer("rows", "input", array)
            except OSError:  # no connection is accepted any more
                return
            self.statuses.append(status)
            if status == 503:
                time.sleep(0.5)
                continue
            right = self._expected(torch.from_numpy(array)).numpy()
            if not np.allclose(results[0], right, rtol=1e-5, atol=1e-6):
                self.wrong.append(array)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()

    def wait(self, more: int) -> None:
        """Until so many more requests are answered."""
        wanted, end = len(self.statuses) + more, time.monotonic() + 60
        while len(self.statuses) < wanted:
            assert time.monotonic() < end, "no answers any more"
            time.sleep(0.01)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).eval()
    shapes = ({0: Dim("rows", min=2, max=100)},)
    folder = tmp_path_factory.mktemp("models") / "rows"
    return fpga_dynamo.export(model, (torch.randn(8, 16),), folder, dynamic_shapes=shapes)


@pytest.mark.parametrize("replicas", [1, 2])
def test_killed_replicas(rows: Path, replicas: int) -> None:
    """The rest serve, the replica comes back, and no answer is wrong. Of two replicas the other one repeats a call."""
    with serving(rows, "--replicas", str(replicas), "--max-batch", "8") as server:
        load = Load(server, fpga_dynamo.load(rows))
        with load.running():
            load.wait(50)
            for _ in range(3):
                before = server.replicas()
                os.kill(before[0], signal.SIGKILL)
                end = time.monotonic() + 60
                while before[0] in server.replicas() or not server.ready(replicas):
                    assert time.monotonic() < end, "the replica does not come back"
                    time.sleep(0.05)
                load.wait(50)
        assert not load.wrong
        assert set(load.statuses) <= ({200} if replicas == 2 else {200, 503})
        assert "fpga_dynamo_replica_restarts_total 3.0" in server.request("GET", "/metrics")[2].decode()


def test_full_queue(rows: Path) -> None:
    words = ("--host", "127.0.0.1", "--devices", "0", "--timeout", "30", "--max-waiting", "1")
    with serving(rows, *words) as server:
        load = Load(server, fpga_dynamo.load(rows))
        with load.running():
            load.wait(50)
        assert set(load.statuses) == {200, 503} and not load.wrong


def test_sigterm_finishes_requests_under_way(rows: Path) -> None:
    with serving(rows, "--replicas", "2") as server:
        load = Load(server, fpga_dynamo.load(rows))
        with load.running():
            load.wait(50)
            replicas = server.replicas()
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(60) == 0
        assert set(load.statuses) == {200} and not load.wrong
        assert len(replicas) == 2 and not any(Path(f"/proc/{pid}").exists() for pid in replicas)
